"""The simulated Franka Hand, in real time: what `franka.py` is to a real one, without a wire
between.

Where fingers move in the arm's own world (`Scene.fingers`), a run asks the arm for them instead
(`controllers/hand.py`), on both clocks; this is the hand of a scene without.
"""

import time
from dataclasses import dataclass

from robot_rl import interfaces
from robot_rl.interfaces import Given
from robot_rl.sim.hand import MAX_WIDTH, Hand, HandOutcome
from robot_rl.types import DeviceError, GripperReading

STEP_S = 0.005


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file."""

    object_width_m: float | None = None
    """How wide what is between the fingers is [m]; None: there is nothing."""


class Gripper(interfaces.Gripper):
    """A hand that moves in real time."""

    simulated = True

    def __init__(self, options: Options, given: Given):
        self._name = given.name
        self._hand = Hand(options.object_width_m)

    def read(self) -> GripperReading:
        hand = self._hand
        return GripperReading(hand.width, MAX_WIDTH, hand.grasped)

    def home(self) -> None:
        self._hand.home()
        self._finish("homing")

    def move(self, width_m: float, speed: float) -> bool:
        self._hand.move(width_m, speed)
        return self._finish(f"a move to {1e3 * width_m:.0f} mm")

    def grasp(self, width_m: float, speed: float, force_n: float, tolerance_m: float) -> bool:
        self._hand.grasp(width_m, tolerance_m, tolerance_m, speed)
        return self._finish(f"a grasp of {1e3 * width_m:.0f} mm")

    def stop(self) -> None:
        self._hand.stop()

    def close(self) -> None:
        self._hand.stop()

    def _finish(self, what: str) -> bool:
        while self._hand.outcome is None:
            time.sleep(STEP_S)
            self._hand.step(STEP_S)
        if self._hand.outcome in (HandOutcome.FAIL, HandOutcome.ABORTED):
            raise DeviceError(f"gripper '{self._name}': {what} failed")
        return self._hand.outcome == HandOutcome.SUCCESS
