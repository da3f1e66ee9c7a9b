"""An operator's hand on no device at all, for tests: it says what the test tells it to."""

from collections.abc import Iterable, Sequence

import numpy as np

from robot_rl.interfaces import Teleop
from robot_rl.types import ArmState, Fault, OperatorCommand, TeleopEvent, TeleopMapping

DOWN = np.array([0.5, 0.0, 0.07, 1.0, 0.0, 0.0, 0.0])


def arm_at(t: float, pose=DOWN) -> ArmState:
    """An arm that stands still at a pose, at a time [s]."""
    return ArmState(
        0, t, np.zeros(7), np.zeros(7), pose, np.zeros(6), np.zeros(6), pose, False, Fault.NONE
    )


def still(twist: float = 1.0, **said) -> TeleopEvent:
    """The clutch closed, every axis deflected alike, in the tool's frame."""
    return TeleopEvent(True, np.full(6, twist), "tool", **said)


OPEN = TeleopEvent(False, np.zeros(6))


class Hand(Teleop):
    """Says one thing after another, then nothing. `earlier` is what it has said before each
    episode.
    """

    name = "hand"

    def __init__(self, says: Iterable[TeleopEvent] = (), feel: TeleopMapping | None = None):
        self.feel = feel or TeleopMapping()
        self.reports = 0
        self.earlier: list[OperatorCommand] = []
        self.closed = False
        self._says = iter(says)

    def take_words(self) -> Sequence[OperatorCommand]:
        earlier, self.earlier = self.earlier, []
        return earlier

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        self.reports += 1
        return next(self._says, OPEN)

    def close(self) -> None:
        self.closed = True
