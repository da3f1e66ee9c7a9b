"""In simulation the truth judges an evaluation; the task's own judge looks on and is counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robot_rl import config, interfaces
from robot_rl.config.judge import TRUTH
from robot_rl.dataset.rates import Accuracy
from robot_rl.env import robot
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.types import ArmState, Observation, OperatorCommand, RewardResult, Use

SHOWN = ("probability", "doubtful", "strangeness")
"""What is told of a judge."""
PATIENCE = 10
"""For so many steps after the truth's success the judge may still fire, before it has missed it."""


@dataclass(frozen=True)
class Judged:
    """An episode in the truth's eyes and the judge's: at which step each first saw success, if any
    did. `waited`: the judge had its time after the truth's success.
    """

    true_at: int | None
    fired_at: int | None
    waited: bool


class TruthBeside(interfaces.Reward):
    """The simulator's truth, as the judge of an environment; `judge` sees every step beside it.

    The truth's success ends the episode as soon as the judge has fired as well, at the latest after
    `PATIENCE` steps or at the time limit of `max_steps`. A judge that fires earlier ends nothing,
    and is not asked again; one that says "over, and no success" ends the episode. The operator is
    locked out: neither hears their word.
    """

    def __init__(self, truth: interfaces.Reward, judge: interfaces.Reward, max_steps: int):
        self._truth, self._judge, self._max_steps = truth, judge, max_steps
        self._steps = 0
        self._true_at: int | None = None
        self._fired_at: int | None = None

    @property
    def judged(self) -> Judged:
        """What the episode has come to so far."""
        waited = self._true_at is not None and self._is_through()
        return Judged(self._true_at, self._fired_at, waited)

    def begin_episode(self) -> None:
        """Both forget the last episode."""
        self._truth.begin_episode()
        self._judge.begin_episode()
        self._steps, self._true_at, self._fired_at = 0, None, None

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """1 at the end of an episode that truly succeeded."""
        self._steps += 1
        given_up = False
        if self._fired_at is None:
            said = robot.evaluate(self._judge, observation, arms, OperatorCommand.NONE)
            self._fired_at = self._steps if said.success else None
            given_up = said.terminated and not said.success
        for name in SHOWN:
            setattr(self, name, getattr(self._judge, name, None))

        # the truth is taken down once: what a policy does with a solved task is not judged
        if self._true_at is None:
            true = robot.evaluate(self._truth, observation, arms, outcome).success
            self._true_at = self._steps if true else None
        if self._true_at is None:
            return RewardResult(0.0, given_up)
        done = self._is_through() or given_up
        return RewardResult(float(done), done, done)

    def _is_through(self) -> bool:
        assert self._true_at is not None
        waited = self._steps - self._true_at >= PATIENCE or self._steps >= self._max_steps
        return self._fired_at is not None or waited


def let_truth_judge(env: RobotEnv) -> None:
    """Put the truth beside the task's judge, if there is a truth, and the judge is another one.

    A person who judges is the truth, and so is every judge of an arm that stands in no scene.
    """
    task = env.task
    if (
        env.world is None
        or task.scene is None
        or task.reward == Use(TRUTH)
        or env.reward.needs_operator
    ):
        return
    truth = config.make("rewards", Use(TRUTH), Given(world=env.world, task=task))
    env.reward = TruthBeside(truth, env.reward, task.max_steps)


def accuracy(episodes: Iterable[Judged]) -> Accuracy:
    """How often the judge was right. A success after which it had no time to fire (a fault) says
    nothing.
    """
    counted = list(episodes)
    failures = [each for each in counted if each.true_at is None]
    successes = [each for each in counted if each.true_at is not None and each.waited]
    return Accuracy(
        failures=len(failures),
        fires=sum(each.fired_at is not None for each in failures),
        successes=len(successes),
        misses=sum(each.fired_at is None for each in successes),
    )
