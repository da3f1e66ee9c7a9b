"""What all processes of a run go by: `RunSettings`, and what its numbers may be."""

from dataclasses import dataclass

import numpy as np

from robot_rl.config import ObsKind
from robot_rl.machine.clock import ClockKind
from robot_rl.types import ConfigError

MOST_SEEDS = 1 << 32
EVAL_SEED = 1_000_000  # beside the run's own: start poses and scenes that no training draws
MOST_STEPS = 10**9
LONGEST_DELAY_S = 0.5


@dataclass(frozen=True)
class RunSettings:
    """What actor, learner and evaluation of one run share.

    `steps` are the control steps of the whole run, outcomes, demonstrations and wandering included:
    robot time; 0: no others. Half of them are the policy's own however many were shown
    (`own_steps`). In lockstep the weights change every `block_steps` steps. `id` is drawn when
    the run is created, and stands in the heads of its files and greetings, so that no run takes
    another's steps; runs made before there was one have none. The addresses are where the processes
    listen; `arm_addresses`, if given, stand in for those of the hardware file, and so does
    `teleop`, the name of an operator's device; `judge` is a reward in the place of the task's own,
    `outcomes` how many positives and negatives a learned one is trained on, if there is none yet.
    `remote_actor`: the robot is on another machine than
    the learner. `eval_episodes` are those of the evaluation at the end. What is seen is `delay` [s]
    old at least, in simulation.
    """

    task: str
    hardware: str
    obs: ObsKind = "pixels"
    clock: ClockKind = "lockstep"
    seed: int = 0
    steps: int = 8_000
    demos: int = 20
    wander_steps: int = 0
    block_steps: int = 50
    id: str = ""
    arm_addresses: tuple[str, ...] = ()
    steps_address: str = "local://steps"
    weights_address: str = "local://weights"
    calls_address: str = "local://calls"
    learner_status_address: str = "local://learner-status"
    actor_status_address: str = "local://actor-status"
    desk_address: str = "local://desk"
    remote_actor: bool = False
    teleop: str = ""
    judge: str = ""
    outcomes: tuple[int, int] = (200, 1_000)
    eval_episodes: int = 100
    delay: float = 0.0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        wholes = {"steps": 0, "demos": 0, "wander_steps": 0, "block_steps": 1, "eval_episodes": 0}
        for name, least in wholes.items():
            if not least <= getattr(self, name) <= MOST_STEPS:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!s:.40}; it must be a whole number from {least}"
                    f" to {MOST_STEPS}"
                )
        check_delay(self.delay, self.clock)

    def own_steps(self, shown: int) -> int:
        """The policy's own of a run in which so many steps were `shown`: what these leave, but half
        of all at least. A person shows slowly, and is not to pay for it with a policy that has had
        no time to learn.
        """
        return max(self.steps - shown, self.steps // 2)


def check_delay(delay: float, clock: ClockKind) -> None:
    """Raise ConfigError for a delay [s] that cannot be simulated."""
    if not 0.0 <= delay <= LONGEST_DELAY_S:
        raise ConfigError(f"delay is {delay} s; allowed: 0 to {LONGEST_DELAY_S:g}")
    if delay and clock != "lockstep":
        raise ConfigError(
            "delay is for simulations in lockstep: on the real clock what is seen is as old as it is"
        )


def check_seed(seed: int) -> None:
    """Raise ConfigError for a seed that a generator does not take, or an arm's message cannot
    carry.
    """
    if not 0 <= seed < MOST_SEEDS:
        raise ConfigError(
            f"seed is {seed!s:.40}; it must be a whole number from 0 to {MOST_SEEDS - 1}"
        )


def evaluation_seed(train_seed: int) -> int:
    """The seed of the evaluations of a run that was trained with `train_seed`: others for each, so
    that several runs are not judged on the same scenes.
    """
    return int(np.random.SeedSequence((EVAL_SEED, train_seed)).generate_state(1)[0])
