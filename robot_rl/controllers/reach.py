"""Can an arm reach what its workspace allows? Inverse kinematics at the corners of the box, on the
edge of the cone.

A target is clipped to the workspace, so whatever lies in it may be asked for. Where a corner is out
of reach the arm stands still at a joint's brake or in a stretched posture, and the target runs
ahead on its leash. This is asked when a file is checked, once, in plain numpy: a fraction of a
second.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from robot_rl import geometry
from robot_rl.controllers.kinematics import chain_of, frames_of
from robot_rl.types import ArmFacts, ArmLimits, Array

STEPS = 60
"""Of the iteration, before a pose counts as out of reach."""

LONGEST_STEP = 0.25
"""[rad] of any joint: further away the Jacobian is another one."""

DAMPING = 0.2
"""Of the pseudo-inverse, as a share of the error that is left: steps near a singular posture stay
finite, and the last ones are exact."""

LEAST_DAMPING = 1e-4

PULL = 0.1
PULLED_STEPS = 20
"""Of the way home, per step of the first ones, in the null space: of the postures that reach a
pose, one near home is wanted. Damped, that pull leaks into the error, so that it ends."""

REACHED = (0.0005, 0.002)
"""[m], [rad]: an arm's own tolerance at the end of a reset, and less."""

WAYPOINTS = 4
"""On the way out from home: an arm gets anywhere by going there."""

AXES = tuple(
    axis
    for axis in itertools.product((-1.0, 0.0, 1.0), repeat=3)
    if any(axis) and axis.count(0.0) in (0, 2)
)
"""Axes to turn about: along the axes and the diagonals of the box of orientations, either way: 14."""


LONGEST_TURN = 0.4
"""[rad] between two orientations on the way to the edge of the cone; two are looked at in any case."""


def turns_of(limits: ArmLimits) -> list[Array]:
    """Rotation vectors [rad] from the middle orientation to the edge of what is allowed: 14."""
    if not limits.workspace_turn:
        return [limits.workspace_angle * np.array(axis) / math.hypot(*axis) for axis in AXES]
    ends = (-limits.workspace_turn, 0.0, limits.workspace_turn)
    about_z = [np.array([0.0, 0.0, turn]) for turn in ends]
    tilts = [limits.workspace_angle * np.array(axis) for axis in AXES if math.hypot(*axis) == 1.0]
    return [about_z[0], about_z[2]] + [
        geometry.quat_to_rotvec(
            geometry.quat_multiply(geometry.quat_from_rotvec(tilt), geometry.quat_from_rotvec(turn))
        )
        for tilt, turn in itertools.product((tilt for tilt in tilts if not tilt[2]), about_z)
    ]


@dataclass(frozen=True)
class OutOfReach:
    """A corner of the workspace, the turn away from its middle orientation [rad], and how near the
    arm gets.
    """

    corner: tuple[float, float, float]
    turn: tuple[float, float, float]
    missed_m: float
    missed_rad: float
    joint: int

    def __str__(self) -> str:
        corner = ", ".join(f"{x:g}" for x in self.corner)
        turn = math.hypot(*self.turn)
        if turn:
            about = ", ".join(f"{x / turn:.1f}" for x in self.turn)
            tilted = f" turned by {turn:.2f} rad about ({about})"
        else:
            tilted = " with the tool as in workspace_quat"
        end = f", joint {self.joint + 1} at the end of its range" if self.joint >= 0 else ""
        return (
            f"({corner}){tilted}: {1e3 * self.missed_m:.0f} mm, {self.missed_rad:.2f} rad away{end}"
        )


def forward(facts: ArmFacts, q: Array, pose_flange_tool: Array) -> tuple[Array, Array]:
    """The tool `(4, 4)` in the base, and its Jacobian `(6, n)` in base axes, for joint angles `q
    (n,)` [rad].
    """
    frames = frames_of(np.asarray(q, float), chain_of(facts, len(q)))
    joints, tool = frames[:-1], np.eye(4)
    R, p = frames[-1, :, :3], frames[-1, :, 3]
    tool[:3, :3] = R @ geometry.quat_to_matrix(pose_flange_tool[3:])
    tool[:3, 3] = p + R @ pose_flange_tool[:3]
    axes, origins = joints[:, :, 2], joints[:, :, 3]
    return tool, np.vstack([np.cross(axes, tool[:3, 3] - origins).T, axes.T])


def error_of(tool: Array, goal: Array) -> Array:
    """From a pose `(4, 4)` to a goal `(7,)`: [m] and a rotation vector [rad], base axes."""
    at = np.concatenate([
        tool[:3, 3],
        geometry.quat_from_matrix(np.ascontiguousarray(tool[:3, :3])),
    ])
    error: Array = geometry.pose_error(at, goal)
    return error


class Reach:
    """What an arm of these `facts` reaches within its `limits`, starting from `home`, with a tool
    on its flange.

    A joint may be used up to `joint_margin` before the ends of its range: there its brakes set in.
    """

    def __init__(self, facts: ArmFacts, limits: ArmLimits, home: Array, pose_flange_tool: Array):
        self._facts, self._limits = facts, limits
        self._home, self._tool = np.array(home, float), np.asarray(pose_flange_tool, float)
        low = np.maximum(limits.joint_low, facts.joint_low) + limits.joint_margin
        high = np.minimum(limits.joint_high, facts.joint_high) - limits.joint_margin
        self._low, self._high = low, high

    def unreachable(self) -> list[OutOfReach]:
        """Which corners of the workspace, in its middle orientation and on the edge of its cone,
        are out of reach.
        """
        return list(self._unreachable(self._limits))

    def widest_angle(self) -> float:
        """The largest `workspace_angle` [rad], to 0.01, with which every corner is reached;
        negative: there is none.
        """
        least, most = -0.01, self._limits.workspace_angle
        while most - least > 0.01:
            angle = 0.5 * (least + most)
            if (
                next(
                    self._unreachable(replace(self._limits, workspace_angle=max(angle, 0.0))), None
                )
                is None
            ):
                least = angle
            else:
                most = angle
        return math.floor(100.0 * least + 1e-9) / 100.0

    def _unreachable(self, limits: ArmLimits) -> Iterator[OutOfReach]:
        middle = np.array(limits.workspace_quat)
        start, _ = forward(self._facts, self._home, self._tool)
        for corner in itertools.product(
            *zip(limits.workspace_low, limits.workspace_high, strict=True)
        ):
            q = self._home
            for share in np.linspace(0.0, 1.0, WAYPOINTS + 1)[1:]:
                goal = np.concatenate([
                    start[:3, 3] + share * (np.array(corner) - start[:3, 3]),
                    middle,
                ])
                q = self.solve(goal, q)
            yield from self._missed(corner, np.zeros(3), goal, q)
            for turn in turns_of(limits):
                turned, here = goal, q
                steps = max(2, math.ceil(math.hypot(*turn) / LONGEST_TURN))
                for share in np.linspace(0.0, 1.0, steps + 1)[1:]:
                    turned = geometry.pose_move(goal, np.concatenate([np.zeros(3), share * turn]))
                    here = self.solve(turned, here)
                yield from self._missed(corner, turn, turned, here)

    def _missed(
        self, corner: tuple[float, ...], turn: Array, goal: Array, q: Array
    ) -> Iterator[OutOfReach]:
        tool, _ = forward(self._facts, q, self._tool)
        error = error_of(tool, goal)
        away, turned = float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:]))
        if away > REACHED[0] or turned > REACHED[1]:
            room = np.minimum(q - self._low, self._high - q)
            joint = int(room.argmin()) if room.min() < 1e-6 else -1
            x, y, z = corner
            yield OutOfReach(
                (x, y, z), (float(turn[0]), float(turn[1]), float(turn[2])), away, turned, joint
            )

    def solve(self, goal: Array, q: Array) -> Array:
        """Joint angles `(n,)` that bring the tool to `goal (7,)`, or as near as they get, from the
        posture `q` on.

        Damped least squares over the joints that are free; one that would leave its range stays at
        its end, and the others take over what it does not do.
        """
        for count in range(STEPS):
            tool, jacobian = forward(self._facts, q, self._tool)
            error = error_of(tool, goal)
            if (
                np.linalg.norm(error[:3]) < 0.5 * REACHED[0]
                and np.linalg.norm(error[3:]) < 0.5 * REACHED[1]
            ):
                break
            q = q + self._step(jacobian, error, q, PULL if count < PULLED_STEPS else 0.0)
        return q

    def _step(self, jacobian: Array, error: Array, q: Array, pull: float) -> Array:
        damping = DAMPING * min(float(np.linalg.norm(error)), 0.5) + LEAST_DAMPING
        step, free = np.zeros(len(q)), np.ones(len(q), bool)
        for _ in range(len(q)):
            rest = error - jacobian[:, ~free] @ step[~free]
            J = jacobian[:, free]
            inverse = np.linalg.solve(J @ J.T + damping**2 * np.eye(6), np.column_stack([J, rest]))
            home = pull * (self._home - q)[free]
            wanted = J.T @ inverse[:, -1] + home - J.T @ (inverse[:, :-1] @ home)
            step[free] = wanted * min(1.0, LONGEST_STEP / max(np.abs(wanted).max(), 1e-12))
            beyond = free & ((q + step < self._low) | (q + step > self._high))
            if not beyond.any():
                break
            step[beyond] = np.clip(q + step, self._low, self._high)[beyond] - q[beyond]
            free &= ~beyond
            if not free.any():
                break
        return step
