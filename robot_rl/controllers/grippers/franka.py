"""The Franka Hand, through Franka's own pylibfranka. Each call blocks until the hand is through,
and holds the GIL.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pylibfranka

from robot_rl import interfaces
from robot_rl.interfaces import Given
from robot_rl.types import DeviceError, GripperReading


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file."""

    ip: str
    """Network address of the robot's control unit."""


class Gripper(interfaces.Gripper):
    """The hand at a robot's address."""

    def __init__(self, options: Options, given: Given):
        self._name, self._ip = given.name, options.ip
        self._gripper: Any = self._call("connecting", lambda: pylibfranka.Gripper(options.ip))

    def read(self) -> GripperReading:
        state = self._call("reading", lambda: self._gripper.read_once())
        return GripperReading(state.width, state.max_width, state.is_grasped)

    def home(self) -> None:
        if not self._call("homing", lambda: self._gripper.homing()):
            raise DeviceError(
                f"gripper '{self._name}': homing failed; is something between its fingers?"
            )

    def move(self, width_m: float, speed: float) -> bool:
        return bool(
            self._call(
                f"a move to {1e3 * width_m:.0f} mm", lambda: self._gripper.move(width_m, speed)
            )
        )

    def grasp(self, width_m: float, speed: float, force_n: float, tolerance_m: float) -> bool:
        what = f"a grasp of {1e3 * width_m:.0f} mm"
        return bool(
            self._call(
                what, lambda: self._gripper.grasp(width_m, speed, force_n, tolerance_m, tolerance_m)
            )
        )

    def stop(self) -> None:
        self._call("stopping", lambda: self._gripper.stop())

    def close(self) -> None:
        self._gripper = None

    def _call(self, what: str, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except pylibfranka.NetworkException as error:
            raise DeviceError(
                f"gripper '{self._name}': no connection to a Franka Hand at {self._ip}: {error}. Is"
                " FCI activated and the hand mounted in Desk, and no other program connected"
                " to it?"
            ) from error
        except (RuntimeError, pylibfranka.FrankaException) as error:
            raise DeviceError(
                f"gripper '{self._name}': {what} failed: {error}. Look at the hand, then home it: a"
                " hand that has lost power does not know its width"
            ) from error
