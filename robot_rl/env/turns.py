"""The ways of a task that undoes itself take turns: which is next, and when a person has to come.

After a success the other way is next, after a failure the same once more (the bin relocation of
SERL, arXiv:2401.16013, where one task's success begins the other). Nothing is laid out in between.
"""

from collections.abc import Sequence

import numpy as np

from robot_rl import config, interfaces
from robot_rl.config import Hardware, Task
from robot_rl.interfaces import Given, Reward, World
from robot_rl.types import (
    DIRECTION,
    ArmState,
    Array,
    Observation,
    OperatorCommand,
    RewardResult,
    Use,
)


class Turns:
    """Says of each episode which way it goes. A task without a way back only goes there, laid out
    anew each time.

    ```
    anew = turns.begin()            # at the reset; `backward` holds from here on
    turns.end_episode(success=True, cut=False)
    ```
    `asks` is what a person has to see to before the next episode, "" if nothing; it then goes
    there, from the beginning: too many failures in a row, or something that a simulation shows to
    lie out of the arm's reach. So it is before the first one, since nobody knows how the bench was
    left.
    """

    def __init__(self, task: Task, hardware: Hardware, world: World | None):
        self._back, self._world = task.backward, world
        self._halves = task.half(False), task.half(True)
        limits = hardware.arms[0].limits
        self._low, self._high = (
            np.array(corner[:2]) for corner in (limits.workspace_low, limits.workspace_high)
        )
        self._were_inside = np.zeros(0, bool)
        self.begin_anew()

    @property
    def half(self) -> Task:
        """The task as it is the way that the episode goes."""
        return self._halves[1 if self.backward else 0]

    @property
    def keeps_grip(self) -> bool:
        """Whether hands stay as they are when the episode begins."""
        return self.backward and self._back is not None and self._back.keeps_grip

    def begin_anew(self, why: str = "") -> None:
        """The next episode goes there, when a person, or the simulation, has laid everything out for
        it.
        """
        said = [why, self._back.manual_reset] if self._back else []
        self.asks = ": ".join(filter(None, said))
        self._anew, self.backward, self._failures = True, False, 0

    def begin(self) -> bool:
        """An episode begins: whether everything is laid out anew for it."""
        anew, self.asks, self._anew = self._anew, "", self._back is None
        return anew

    def see_layout(self) -> None:
        """The simulation has laid everything out: what lies in the arm's reach now should stay
        there.
        """
        self._were_inside = self._inside()

    def end_episode(self, *, success: bool, cut: bool) -> None:
        """An episode was a success or a failure; one that was `cut` short is neither."""
        if self._back is None:
            return
        if success:
            self.backward, self._failures = not self.backward, 0
        elif not cut:
            self._failures += 1
        if self._lies_outside():
            self.begin_anew("something has left the reach of the arm")
        elif self._failures >= self._back.failures_at_most:
            self.begin_anew(
                f"{self._failures} episodes in a row have failed to {self.half.description}"
            )

    def observe(self) -> dict[str, Array]:
        """The way that the episode goes, for the policy; nothing of a task that goes one way."""
        if self._back is None:
            return {}
        return {DIRECTION: np.array([-1.0 if self.backward else 1.0], np.float32)}

    def open_judge(self, judge: Use | None) -> Reward:
        """The judge of the task, or of both its ways; `judge` stands in for the task's own."""

        def one(half: Task) -> Reward:
            given = Given(world=self._world, task=half)
            made: Reward = config.make("rewards", judge or half.reward, given)
            return made

        there, back = self._halves
        return BothWays(one(there), one(back), self) if self._back else one(there)

    def _inside(self) -> Array:
        """Which of the simulation's objects lie in the arm's workspace, `(n,)` bool."""
        places = self._world.latest.objects[:, :2] if self._world else np.zeros((0, 2))
        return np.asarray(((places >= self._low) & (places <= self._high)).all(axis=1))

    def _lies_outside(self) -> bool:
        """Whether an object has left the workspace since everything was laid out."""
        return self._world is not None and bool((self._were_inside & ~self._inside()).any())


class BothWays(interfaces.Reward):
    """The judge of the way that the episode goes. What is learnt while it judges is the judge's of
    the way there.
    """

    def __init__(self, there: Reward, back: Reward, turns: Turns):
        self._judges, self._turns = (there, back), turns
        self.needs_operator = there.needs_operator or back.needs_operator
        self.metrics = getattr(there, "metrics", None)

    def _now(self) -> Reward:
        return self._judges[1 if self._turns.backward else 0]

    @property
    def probability(self) -> float | None:  # type: ignore[override]
        """Of success, as the judge of this way says."""
        return self._now().probability

    @property
    def doubtful(self) -> bool:  # type: ignore[override]
        """Whether that judge cannot tell."""
        return self._now().doubtful

    @property
    def strangeness(self) -> float | None:  # type: ignore[override]
        """How far what it saw lies from what it learnt from."""
        return self._now().strangeness

    @property
    def version(self) -> int:  # type: ignore[override]
        """Of the judge of the way there."""
        return self._judges[0].version

    def load(self, version: int) -> None:
        """Go on with that version of the judge of the way there."""
        self._judges[0].load(version)

    def begin_episode(self) -> None:
        """Both forget the last episode."""
        for judge in self._judges:
            judge.begin_episode()

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """The word of the judge of this way."""
        return self._now().judge(observation, arms, outcome)
