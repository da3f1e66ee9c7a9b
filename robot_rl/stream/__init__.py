"""The steps link: every record of an actor reaches the learner's log exactly once and in order,
over every crash.

A record is a step or a mark; its identity is (actor, epoch, seq), and each actor process draws its
epoch anew. The actor writes a record to its spool (`stream/spool.py`), then sends it. The learner
takes only the next seq of an epoch, appends it to its log, and then acknowledges: acknowledged
means persisted. After a second without progress the actor asks, over a new socket, where the
learner's log ends, and goes on from there. What an earlier process of the actor left in the spool
goes first. So either side may be killed at any moment and started again, in any order.

    send()       in the control loop: checks the step and hands it over
    sender_thread.py  spool, then network; what is to be delivered, and how far that is
    protocol.py  the messages
    receiver.py  the learner's side
"""

from robot_rl.stream.receiver import Received, StepReceiver
from robot_rl.stream.sender import StepSender

__all__ = ["Received", "StepReceiver", "StepSender"]
