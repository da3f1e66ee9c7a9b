"""An arm over an empty table: to try devices, limits and controllers without a task."""

from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.interfaces import Given
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array


@dataclass(frozen=True)
class Options:
    """Of a hardware file with several arms, where there is no task."""

    stands: tuple[tuple[float, float, float, float, float, float, float], ...] = ()
    """The pose of each arm's base in the first one's [m, xyzw]; none: one arm."""
    arms: tuple[str, ...] = ()
    """Their names: the camera on the wrist of "left" is called wrist_left."""


class Scene(interfaces.Scene):
    """A table, a camera on each wrist and one in front. Nothing moves but the arms, and nothing
    counts as a success.
    """

    def __init__(self, options: Options, given: Given):
        if options.stands:
            self.stands = options.stands
        self._wrists = [f"wrist_{arm}" for arm in options.arms] or ["wrist"]

    def add_to(
        self, spec: mujoco.MjSpec, hand: mujoco.MjsBody | tuple[mujoco.MjsBody, ...]
    ) -> None:
        """Add table, light and cameras to a model that holds the arms."""
        add_stage(spec)
        hands = hand if isinstance(hand, tuple) else (hand,)
        for body, name in zip(hands, self._wrists, strict=True):
            add_camera(
                body,
                name,
                at=(0.07, 0.0, 0.045),
                look_at=(0.0, 0.0, 0.14),
                up=(0.0, 0.0, -1.0),
                fovy=62.0,
            )
        several = len(hands) > 1  # another arm may stand where one is seen from in front
        add_camera(
            spec.worldbody,
            "front",
            at=(0.5, -1.2, 0.8) if several else (1.2, 0.3, 0.6),
            look_at=(0.5 if several else 0.4, 0.0, 0.2),
            up=(0.0, 0.0, 1.0),
            fovy=45.0,
        )

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Nowhere: the tool as it is."""
        site = data.site("tool")
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, site.xmat)
        return np.array([*site.xpos, *quat[1:], quat[0]])

    def success(self, data: mujoco.MjData) -> bool:
        return False
