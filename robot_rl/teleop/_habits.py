"""What simulated operators that see the truth have in common: habits, and the words they say."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import interfaces
from robot_rl.config.judge import LEARNED
from robot_rl.interfaces import Given
from robot_rl.types import DeviceError, OperatorCommand

HOLDS_STEPS = 10  # in place, for a learned judge to say success, before the operator says it
TO_THE_END = 1_000  # steps: more than an episode has
COLLECTING_PACE = 0.85  # the least: what is shown matters, and not the way to it


@dataclass(frozen=True)
class OperatorHabits:
    """How this operator works."""

    slowest_pace: float = 0.6
    """The least share of full speed that is drawn for an episode."""
    unsteadiness: float = 0.12
    """Of the hand: standard deviation of the noise on each axis, as a share of full deflection."""
    patience_steps: int = 12
    """So many control steps without progress are watched before a correction."""
    progress_m: float = 0.002
    """Nearer to the goal by so much [m] is progress."""
    far_m: float = 0.07
    """An arm further aside of the goal [m], and further than any episode starts, is on its way out."""
    segment_steps: tuple[int, int] = (8, 20)
    """The least and the most control steps of a correction."""
    finishes: float = 0.5
    """Share of the corrections that go on until a hand has taken hold or let go, or to the end. All
    in which fingers are moved do."""


class Watch:
    """The operator's eye on one stretch of autonomous motion: is it getting anywhere?"""

    def __init__(self, habits: OperatorHabits):
        self._habits = habits
        self._best = np.inf
        self._idle_steps = 0

    def is_worried(self, distance: float, leaves: bool, waits: int = 0) -> bool:
        """Look at how far it is to the goal [m], and whether the arm is on its way out of there;
        true if so, or if it is stuck. Where fingers have to close first it `waits` so many steps.
        """
        if distance < self._best - self._habits.progress_m:
            self._best, self._idle_steps = distance, 0
        else:
            self._idle_steps += 1
        return leaves or self._idle_steps > self._habits.patience_steps + waits


class SeeingOperator(interfaces.Teleop):
    """A simulated operator's clutch and words, to derive from.

    In mode "demonstrate" the clutch is always closed. In mode "correct" the operator watches: it
    takes over when the arm makes no progress for `patience_steps` or leaves the neighbourhood of
    the goal, drives for a segment, and lets go again; in a share `finishes` of the segments, and
    where it moves fingers, it carries the task through, or its part up to where a hand has taken
    hold or let go. In mode "collect" every other episode is a success, and the others are near
    misses, which FAILURE ends. Where the judge is learned, the operator holds the tool in place and
    leaves the word to it for `HOLDS_STEPS`, but where it is to learn from that word; what the judge
    has falsely taken for a success is denied.
    """

    is_person = False

    def __init__(self, habits: OperatorHabits, given: Given):
        """Raises DeviceError without a simulated arm."""
        task, world = given.task, given.world
        if task is None or world is None:
            raise DeviceError(
                "teleop 'scripted' needs a simulated arm: it steers by the simulator's truth"
            )
        self._world, self._mode, self._habits = world, given.mode, habits
        self._rng = np.random.default_rng(given.seed)
        self._scale = task.action_scale
        self._watch = Watch(habits)
        self._pace = 1.0
        self._steps_left = self._done_steps = 0
        waits = task.reward.name == LEARNED and given.mode != "collect"
        self._silent_steps = HOLDS_STEPS if waits else 0
        self._words: list[OperatorCommand] = []
        self.reports = 0

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back and choose a pace for this episode."""
        slowest = COLLECTING_PACE if self._mode == "collect" else self._habits.slowest_pace
        self._pace = self._rng.uniform(slowest, 1.0)
        self._steps_left = self._done_steps = 0
        self._watch = Watch(self._habits)
        return self.take_words()

    def end_episode(self, success: bool) -> None:
        """A judge that has taken something else for a success is denied it."""
        if success and not self._world.latest.success and self._mode != "collect":
            self._words.append(OperatorCommand.DENY)

    def take_words(self) -> Sequence[OperatorCommand]:
        """What there was to say of the last episode."""
        said, self._words = self._words, []
        return said

    def _word(self) -> OperatorCommand:
        """SUCCESS, when it is time to say it."""
        self._done_steps = self._done_steps + 1 if self._world.latest.success else 0
        said = self._done_steps > self._silent_steps
        return OperatorCommand.SUCCESS if said else OperatorCommand.NONE

    def _corrects(self, distance: float, leaves: bool, waits: int = 0) -> bool:
        """Whether the operator's hand is on the device in this step of mode "correct"."""
        if self._steps_left > 0:
            self._steps_left -= 1
            if self._steps_left == 0:
                self._watch = Watch(self._habits)
        elif self._watch.is_worried(distance, leaves, waits):
            low, high = self._habits.segment_steps
            finishes = self._rng.random() < self._habits.finishes
            self._steps_left = TO_THE_END if finishes else int(self._rng.integers(low, high + 1))
        return self._steps_left > 0

    def _see_through(self) -> None:
        """This correction goes on until it is handed back."""
        self._steps_left = TO_THE_END

    def _hand_back(self) -> None:
        """What the correction was for is done: the policy goes on with the next step."""
        self._steps_left = min(self._steps_left, 1)
