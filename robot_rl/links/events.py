"""What an operator says, on its way to the actor's loop: one queue, whichever side it comes from."""

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

from robot_rl.types import DataError, OperatorCommand

MOST = 100  # that wait to be taken; a person does not send more

EventSource = Literal["device", "console"]


@dataclass(frozen=True)
class Moment:
    """One step of an episode, and when it was seen [s, time of day]."""

    episode: int
    index: int
    t_wall: float


@dataclass(frozen=True)
class OperatorEvent:
    """The operator said `command` at `t` [s, monotonic], at their device or in the console.

    `episode` was going on then; None between two episodes. With a `moment` it is the answer to a
    question about that one, whatever goes on.
    """

    command: OperatorCommand
    t: float
    source: EventSource
    episode: int | None
    moment: Moment | None = None


class EventQueue:
    """Any thread puts events in. The actor's loop alone takes them, once a step and between two
    episodes.

    ```
    queue.episode = 7                         # the loop, as an episode begins; None when it is over
    queue.put(OperatorCommand.UNDO, "console")        # device or console
    for event in queue.take(): ...            # the loop
    ```
    """

    def __init__(self) -> None:
        self.episode: int | None = None
        self._events: deque[OperatorEvent] = deque()
        self._lock = threading.Lock()

    def put(
        self, command: OperatorCommand, source: EventSource, moment: Moment | None = None
    ) -> None:
        """Add an event. DataError if `MOST` wait and it comes from the console; a stop still fits
        in once.
        """
        event = OperatorEvent(command, time.monotonic(), source, self.episode, moment)
        with self._lock:
            if source == "console" and len(self._events) >= MOST:
                if command != OperatorCommand.STOP:
                    raise DataError(
                        f"the actor has {MOST} commands to obey; say it again in a moment"
                    )
                if any(each.command == OperatorCommand.STOP for each in self._events):
                    return
            self._events.append(event)

    def take(self) -> list[OperatorEvent]:
        """What was said since the last time, oldest first."""
        with self._lock:
            taken = list(self._events)
            self._events.clear()
        return taken
