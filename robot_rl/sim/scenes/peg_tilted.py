"""`peg_insert`'s scene with an operator who puts the peg in tilted, a corner first.

A corner finds a hole that an upright peg does not, as far aside and as much turned: the walls put
the peg in line where it was seen a little wrong (the tilt strategy of Chhatpar and Branicky,
"Search strategies for peg-in-hole assemblies with position uncertainty", IROS 2001).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_move, pose_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.sim.scenes import peg_insert
from robot_rl.sim.scenes.peg_insert import PEG_HALF_WIDTH
from robot_rl.types import Array, ConfigError

TILTS = Range(0.12, 0.5, "rad")
"""Less, and the corner is not deep enough below the rest of the peg."""

# [m]
CORNER_IN = 0.0025  # from the hole's corner: an error of sight is less
CORNER_DEEP = 0.0015  # below the rim, where the peg's other corners are still above it
HOVER = 0.003  # above the rim
PUSHED = 0.003  # the target beyond the middle, towards that corner: 6 N on each wall at 2000 N/m
SUNK = 0.005  # the target below the rim while the peg is set upright
PRESSED = 0.002  # the last target below the floor
ENTERED = 0.0005  # below the rim, where it is no touch of the rim

DIAGONAL = np.array([1.0, -1.0, 0.0]) / math.sqrt(2.0)
"""The axis that the peg is tilted about, seen from the tip: its corner at (+, +) comes lowest."""
CORNER = np.array([PEG_HALF_WIDTH, PEG_HALF_WIDTH, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Options(peg_insert.Options):
    """The options of a task. Raises ConfigError for what cannot be."""

    tilt_rad: float = 0.18
    """How far the peg is tilted [rad]. With the socket's yaw it stays within `workspace_angle`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not TILTS.low <= self.tilt_rad <= TILTS.high:
            raise ConfigError(f"tilt_rad {TILTS.complaint(self.tilt_rad)}")


class Scene(peg_insert.Scene):
    """The same scene, and a way in."""

    def __init__(self, options: Options, given: Given):
        super().__init__(options, given)
        self.tilt_rad = options.tilt_rad

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Above and tilted, a corner in, that corner against the walls, upright there, down."""
        goal = self._goal_base_tip(data)
        tip = pose_multiply(pose_inverse(goal), pose_of(data.site("tip")))
        corner_in = self._is_in(pose_multiply(tip, CORNER)[:3] - CORNER[:3])
        low = math.sqrt(2.0) * PEG_HALF_WIDTH * math.sin(self.tilt_rad)  # below the tip's middle
        # so far from the targets beyond them the walls stop the corner
        stopped = math.sqrt(2.0) * (PUSHED - self.socket.clearance_m)

        def at(aside: float, below_rim: float, tilt_rad: float = 0.0) -> Array:
            down = below_rim - self.socket.depth_m
            pose: Array = pose_move(goal, np.array([aside, aside, down, *(tilt_rad * DIAGONAL)]))
            return pose

        over, into = at(-CORNER_IN, -low - HOVER, self.tilt_rad), CORNER_DEEP - low
        return (
            Phase("above", over, near_m=0.0015, near_rad=0.05, unsteady=0.2),
            Phase("a corner in", at(-CORNER_IN, into, self.tilt_rad),
                  near_m=0.001, pace=0.6, unsteady=0.1),
            Phase("against the walls", at(PUSHED, into, self.tilt_rad),
                  near_m=stopped + 0.002, near_rad=0.1, steps=2,
                  pace=0.6, unsteady=0.1, ready=corner_in),
            Phase("upright", at(PUSHED, SUNK),
                  near_m=stopped + 0.003, pace=0.8, unsteady=0.1, ready=corner_in),
            Phase("in", at(0.0, self.socket.depth_m + PRESSED),
                  unsteady=0.1, ready=self._is_in(tip[:3])),
        )  # fmt: skip

    def _is_in(self, moved: Array) -> bool:
        """Whether a point of the peg that has `moved (3,)` from where it is when the peg stands on
        the hole's floor is below the rim, and no further than the walls.
        """
        deep = moved[2] + self.socket.depth_m > ENTERED
        return bool(deep and (moved[:2] <= self.socket.clearance_m + ENTERED).all())
