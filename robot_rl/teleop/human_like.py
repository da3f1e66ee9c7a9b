"""An operator for simulated arms who works as a person does: late, with pauses, and with a hand
that has mass.

The scripted operator (`teleop/scripted.py`) knows the way and never hesitates. This one steers by
the same eye, and what reaches the arm is what a person makes of it: the hand begins late, rests now
and then, goes on when it should have stopped, trembles, lets go before it says success, and
corrects late and for too long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_rl import interfaces
from robot_rl.interfaces import Given
from robot_rl.teleop import scripted
from robot_rl.types import ArmState, Array, OperatorCommand, TeleopEvent, TeleopMapping


@dataclass(frozen=True)
class HumanHabits:
    """How this person works. Pairs are the least and the most of what is drawn anew each time."""

    begins_s: tuple[float, float] = (1.0, 2.0)
    """From the start of an episode to the first motion [s]."""
    rests: float = 0.03
    """Chance of a rest, in a step."""
    rests_s: tuple[float, float] = (0.3, 1.0)
    """How long the hand is then off the device [s]."""
    momentum: float = 0.35
    """Share of the last motion that goes on in the next, so that the hand overshoots."""
    tremor: float = 0.012
    """Of the device's range, on every axis."""
    speaks_s: tuple[float, float] = (0.3, 0.5)
    """From success to the word for it [s]; the hand has let go at once."""
    labels_s: tuple[float, float] = (0.3, 1.2)
    """The same where it shows what success looks like, and the hand is busy [s]."""
    pulls_back: float = 0.5
    """Chance that the hand has drawn the tool back first."""
    pulls_back_s: float = 0.15
    """For how long it did [s]."""


SLOW_TO_ACT = scripted.OperatorHabits(patience_steps=20, segment_steps=(16, 40))
"""It takes over 0.8 s later than the scripted operator, and lets go after twice as long."""


Options = HumanHabits


class Teleop(interfaces.Teleop):
    """The scripted operator's eye behind a person's hand; time is the arm's."""

    name = "the human-like operator"
    is_person = False
    feel = TeleopMapping(release_s=0.3)

    def __init__(self, options: HumanHabits, given: Given):
        """Raises DeviceError without a simulated arm."""
        self._eye = scripted.Teleop(SLOW_TO_ACT, given)
        self.all_arms = self._eye.all_arms
        # who shows outcomes has begun already, and does not let go when it is done
        self._late, self._collects = given.mode == "demonstrate", given.mode == "collect"
        self._habits = options
        self._rng = np.random.default_rng([given.seed, 1])
        self.reports = 0
        self.begin_episode()

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back: the hand is off the device."""
        self._motions = dict[str, Array]()
        self._rests_until: float | None = None
        self._done_t: float | None = None
        self._labels_t: float | None = None
        return self._eye.begin_episode()

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent | dict[str, TeleopEvent]:
        """What the hands do now, and the word when it comes."""
        t, said = arms[0].t, self._eye.read(arms)
        self.reports += 1
        events = self._work(t, said if isinstance(said, dict) else {"": said})
        return events if self.all_arms else events[""]

    def _work(self, t: float, said: dict[str, TeleopEvent]) -> dict[str, TeleopEvent]:
        """What becomes of what the eye says of each arm: they rest, and are done, all together."""
        if self._collects:
            said = {name: self._label_late(t, event) for name, event in said.items()}
        outcome = next(event.outcome for event in said.values())
        if self._rests_until is None:
            self._rests_until = t + self._between(self._habits.begins_s) * self._late
        if outcome == OperatorCommand.SUCCESS and not self._collects and self._done_t is None:
            self._finish(t)
        if self._done_t is not None:
            return dict.fromkeys(said, self._let_go(t))
        if t < self._rests_until or not any(event.active for event in said.values()):
            self._motions.clear()
            still = TeleopEvent(False, np.zeros(6), "tool", outcome=outcome)
            return dict.fromkeys(said, still)
        if self._rng.random() < self._habits.rests:
            self._rests_until = t + self._between(self._habits.rests_s)
        return {name: self._follow(name, event) for name, event in said.items()}

    def _follow(self, name: str, wanted: TeleopEvent) -> TeleopEvent:
        """The next motion of the hand at an arm: some of the last one, the rest as wanted, and a
        tremor.
        """
        share, tremor = self._habits.momentum, self._rng.normal(0.0, self._habits.tremor, 6)
        last = self._motions.get(name, np.zeros(6))
        motion = np.clip(share * last + (1.0 - share) * wanted.twist + tremor, -1.0, 1.0)
        self._motions[name] = motion
        return replace(wanted, twist=motion)

    def _label_late(self, t: float, event: TeleopEvent) -> TeleopEvent:
        """The eye's word on what is to be seen, as late as a busy person says it."""
        if event.outcome != OperatorCommand.SUCCESS:
            return event
        if self._labels_t is None:
            self._labels_t = t + self._between(self._habits.labels_s)
        return event if t >= self._labels_t else replace(event, outcome=OperatorCommand.NONE)

    def _finish(self, t: float) -> None:
        """It is done: let go, perhaps after a pull, and speak later."""
        self._done_t = t
        self._speaks_t = t + self._between(self._habits.speaks_s)
        self._pulls_until = t + self._habits.pulls_back_s * (
            self._rng.random() < self._habits.pulls_back
        )

    def _let_go(self, t: float) -> TeleopEvent:
        pulls = t < self._pulls_until
        twist = np.array([0.0, 0.0, -0.5 * pulls, 0.0, 0.0, 0.0])
        word = OperatorCommand.SUCCESS if t >= self._speaks_t else OperatorCommand.NONE
        return TeleopEvent(pulls, twist, "tool", outcome=word)

    def _between(self, ends: tuple[float, float]) -> float:
        return float(self._rng.uniform(*ends))
