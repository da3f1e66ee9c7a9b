"""An arm that somebody guides by hand, measured: `robot-rl pose` writes down where it was, as a task
file and a hardware file say it.
"""

from dataclasses import replace

import numpy as np

from robot_rl.config import ArmConfig, Hardware, Task
from robot_rl.config.limits import quat_angle
from robot_rl.controllers.setup import open_in_company
from robot_rl.tools.arm_check import tool_of
from robot_rl.types import Array

SAME_RAD = 0.002
"""Orientations that are nearer to each other are one."""
TURN_MARGIN_RAD = 0.1
"""By how much the cone of orientations is wider than the tool was turned."""


class PoseWatcher:
    """Measures an arm that somebody guides by hand: its pose now, and the box that its tool has
    been in.
    """

    def __init__(self, arm: ArmConfig, task: Task | None, hardware: Hardware | None = None):
        """`hardware` is the arm's bench, whose other arms may stand in its world."""
        tool, bench = tool_of(arm, task), hardware or Hardware("", (arm,))
        self._arm = open_in_company(
            replace(arm, pose_flange_tcp=tuple(tool), load=None), bench, task
        )
        try:
            self._arm.set_tool(tool)
        except BaseException:
            self._arm.close()
            raise
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)
        self._quats: list[list[float]] = []  # the orientations that differ
        self._limits = arm.limits
        self._q: Array = np.array(arm.home)

    def look(self) -> Array:
        """The pose `(7,)` of the tool in the base, now."""
        reading = self._arm.read()
        pose: Array = reading.pose.copy()
        self._q = reading.q.copy()
        self._arm.rest()  # nothing is answered here: the next look measures anew
        self._low, self._high = np.minimum(self._low, pose[:3]), np.maximum(self._high, pose[:3])
        quat: list[float] = pose[3:].tolist()
        if not self._quats or quat_angle(self._quats[-1], quat) > SAME_RAD:
            self._quats.append(quat)
        return pose

    @property
    def box(self) -> tuple[Array, Array]:
        """Where the tool has been: the lowest and the highest x, y, z [m]."""
        return self._low, self._high

    def lines(self, pose: Array, margin_m: float) -> str:
        """What a task file says of a start at `pose` and a workspace of where the tool has been,
        and a margin.

        And of a goal at `pose`, and the posture of the last look, as a hardware file's `home`.
        """
        low, high = self._low - margin_m, self._high + margin_m
        quat: list[float] = pose[3:].tolist()
        turned = max(quat_angle(other, quat) for other in self._quats)
        room = (
            self._limits.workspace_angle - quat_angle(self._limits.workspace_quat, quat) - SAME_RAD
        )
        angle = max(turned, min(turned + TURN_MARGIN_RAD, room))
        return (
            "# start: where the tool stood at the end; half-widths of the range about it, in m and"
            " rad: choose them\n"
            f"start=(StartPose(pose_base_tool={_numbers(pose)},\n"
            "                 translation=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0)),),\n"
            "# limits: where the tool has been, and how far it was turned away from the start, with"
            " a margin\n"
            f'limits={{"workspace_low": {_numbers(low)}, "workspace_high": {_numbers(high)},\n'
            f'        "workspace_quat": {_numbers(pose[3:])}, "workspace_angle": {angle:.4f}}},\n'
            "# if the task is done where the tool stood at the end:\n"
            f'# reward=Use("pose", {{"goals": ({_numbers(pose)},), "translation_m": 0.002,'
            ' "rotation_rad": 0.05}),\n'
            "# hardware file, where `max_drift` of a task leads back to: home:"
            f" [{_numbers(self._q)[1:-1]}]"
        )

    def close(self) -> None:
        self._arm.close()


def _numbers(values: Array) -> str:
    return "(" + ", ".join(f"{value:.5f}" for value in values + 0.0) + ")"
