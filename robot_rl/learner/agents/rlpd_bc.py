"""RLPD that begins as a copy of the demonstrations and is held to what operators and the guide do:
for the first minutes of a run, for few demonstrations, for a policy that is to be as good greedily.

The same equations with other values. Before the first step the policy is fitted to the
demonstrations, the BC term has ten times the weight and stays, and the noise is a tenth: where a
copy is nearly right, RLPD's own noise of 0.2 of the action's range is what keeps a peg out of a
hole. How it compares: docs/algorithms.md.
"""

from dataclasses import dataclass

from robot_rl.learner.agents import rlpd


@dataclass(frozen=True)
class Config(rlpd.Config):
    """RLPD's options; the defaults of these are other ones, by which most tasks go (docs/tasks.md).

    Attributes:
        discount: 5 s of horizon at 10 Hz: with HIL-SERL's 0.97 the first step of 100 is worth 5 % of
            success, which is a critic's error (docs/long_tasks.md).
        n_step: the only reward there is comes down a long way in a third of the updates.
        initial_temperature: the entropy's share of what the policy is after, at the start.
        target_entropy_per_action: the least noise that the temperature sees to: a std of 0.03 of the
            range. With -3, 0.012, `peg_insert_hard` from state fell from 92 to 65 % alone as the noise
            went (docs/algorithms.md).
        log_std_max: of the policy's noise in each state: 0.05 of the range.
        bc_weight: of the BC term at the start.
        bc_decay_steps: the environment step at which it has gone linearly to zero: in no run. With
            RLPD's 5,000 the share of `peg_insert` done alone fell from 90 to 45 % when it had gone,
            with 30,000 that of `peg_insert_hard` from 93 to 70 % at half of it (docs/algorithms.md).
        bc_initial_updates: regression on the demonstrations before the first environment step.
        toggle_penalty: less than what a step later costs, 2 % of the value: with 0.02 an open hand
            stayed above what it was to take hold of.
    """

    discount: float = 0.98
    n_step: int = 3
    initial_temperature: float = 5e-4
    target_entropy_per_action: float = -2.0
    log_std_max: float = -3.0
    bc_weight: float = 20.0
    bc_decay_steps: int = 1_000_000
    bc_initial_updates: int = 20_000
    toggle_penalty: float = 0.005


class Agent(rlpd.Agent):
    """RLPD's agent."""

    config: Config
