"""HG-DAgger: behaviour cloning that goes on while the policy acts and an operator corrects it
(arXiv 1810.02890).

The human gates: takes over when the policy is about to fail, and gives back. What was done
meanwhile joins the demonstrations, and the policy is fitted to all of them (ibid., alg. 1; its risk
metric for the use without a human is left out). As in HIL-SERL's train_hgdagger.py the fit goes on
from the weights that there are, by the same schedule as RLPD's updates, instead of from new ones
after each round.
"""

from typing import ClassVar

from robot_rl.learner.agents import bc
from robot_rl.learner.agents.bc import Config as Config


class Agent(bc.Agent):
    """The agent of behaviour cloning, on a run with steps of its own. Batches hold corrections and
    demonstrations.
    """

    offline: ClassVar[bool] = False
