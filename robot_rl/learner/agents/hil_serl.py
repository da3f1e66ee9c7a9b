"""HIL-SERL's agent (arXiv 2410.21845) with the values of its release, to measure against: no term of
imitation, two critics and a gripper that a DQN of its own moves.

What belongs to it and is no agent's: `--learner.encoder resnet10` with its published weights, and
twenty demonstrations; and none of a task's own `learner.agent` options. What differs: observations
are normalised, layers end in ReLU and the policy's have no LayerNorm (there tanh and LayerNorm),
critics learn from what was executed, their ensemble has no layer in common, a gripper does not
count in the target entropy, and the ratio of updates to steps is kept (`--learner.schedule`); the
release's depends on the machine's speed.
"""

from dataclasses import dataclass

from robot_rl.learner.agents import rlpd


@dataclass(frozen=True)
class Config(rlpd.Config):
    """RLPD's options with the values of `launcher.py`, `sac.py` and `sac_hybrid_single.py` there.

    Attributes:
        critics: two, and the target is the lesser one.
        target_entropy_per_action: half of that of SAC's paper.
        average_rate: the newest policy is the one that is used.
        bc_weight: demonstrations and corrections are in the batches, and imitated nowhere.
        hand: a DQN of the gripper alone.
    """

    critics: int = 2
    target_entropy_per_action: float = -0.5
    average_rate: float = 1.0
    bc_weight: float = 0.0
    hand: str = "separate"


class Agent(rlpd.Agent):
    """RLPD's agent."""

    config: Config
