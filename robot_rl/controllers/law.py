"""What an arm is driven with: the gains of a task on their way to those that were asked for, and
how fast it may go.
"""

import math
from typing import NamedTuple

import numpy as np

from robot_rl.machine.compiled import njit
from robot_rl.types import ArmFacts, ArmLimits, Array, Compliance

TARE_FILTER_S = 0.05

SPRINT, SPARE_S = 2.0, 0.03
"""For a moment the reference goes so many times as fast as its limit: it catches up with what it has
not used of that in the last so many seconds. A filter that is to be at a target in time sets out
faster than it arrives; on average over a command's period nothing is faster than the limit.
"""

BRAKE_TIME_S = 0.01
"""Time constant of the brake [s]."""

STIFFNESS_PER_TORQUE, DAMPING_PER_TORQUE = 7.0, 0.6
"""[1/rad], [s/rad]: what a joint is held with, by its largest torque, for an arm that says nothing
of it.
"""


class Law(NamedTuple):
    """What the arm is driven with.

    `gains (5, 6)` are on their way to `gains_goal`, and so is `nullspace (2,)` [Nm/rad], now and
    soon; `blend` is the share that they take over per tick, `filter` the reference filter's,
    `tare_gain` that of the tare. A tick `dt` [s] moves the reference by `step` [m] and `angle`
    [rad] at most, on average. `joint_gains (2, n)` hold the joints, `posture (n,)` [rad] is what the elbow is
    pulled to. With `follows` the arm's own controller follows the reference.
    """

    dt: float
    tare_gain: float
    gains: Array
    gains_goal: Array
    nullspace: Array
    joint_gains: Array
    posture: Array
    follows: bool
    filter: float = 1.0
    blend: float = 1.0
    step: float = 0.0
    angle: float = 0.0

    def tuned(self, c: Compliance) -> "Law":
        """The law on its way to another compliance, within a few `gain_time_s`."""
        self.gains_goal[:] = (
            c.stiffness,
            c.damping,
            c.error_clip,
            c.error_clip_minus or c.error_clip,
            c.integral,
        )
        self.nullspace[1] = c.nullspace_stiffness
        if c.posture:
            self.posture[:] = c.posture
        return self._replace(
            filter=share_per_tick(c.filter_time_s, self.dt),
            blend=share_per_tick(c.gain_time_s, self.dt),
        )

    def settle(self) -> None:
        """The compliance in force is the one that was asked for, at once: for a hold, which has
        gains of its own.
        """
        self.gains[:] = self.gains_goal
        self.nullspace[0] = self.nullspace[1]

    def at_speed(self, speed: float, rotation_speed: float) -> "Law":
        """The law whose reference moves at most so fast [m/s], [rad/s]."""
        return self._replace(step=float(speed * self.dt), angle=float(rotation_speed * self.dt))

    def reach(self, period_s: float) -> Array:
        """How far ahead of the reference a target may be `(2,)` [m, rad], if the next one comes
        after `period_s`: so far that the filter makes its speed of it until then.
        """
        ticks = period_s / self.dt
        return np.array([self.step, self.angle]) * ticks / (1.0 - (1.0 - self.filter) ** ticks)


@njit
def blend_into(law: Law) -> None:
    """A tick of the gains on their way."""
    for r in range(law.gains.shape[0]):
        for i in range(6):
            law.gains[r, i] += law.blend * (law.gains_goal[r, i] - law.gains[r, i])
    law.nullspace[0] += law.blend * (law.nullspace[1] - law.nullspace[0])


def new_law(joints: int, dt: float, follows: bool) -> Law:
    """The buffers of a law that no task has tuned yet."""
    return Law(
        dt=dt,
        tare_gain=share_per_tick(TARE_FILTER_S, dt),
        gains=np.zeros((5, 6)),
        gains_goal=np.zeros((5, 6)),
        nullspace=np.zeros(2),
        joint_gains=np.zeros((2, joints)),
        posture=np.zeros(joints),
        follows=follows,
    )


def share_per_tick(time_constant_s: float, dt: float) -> float:
    """What a first-order filter takes over per tick."""
    return 1.0 - math.exp(-dt / time_constant_s) if time_constant_s > 0.0 else 1.0


def joint_gains_of(limits: ArmLimits, facts: ArmFacts | None) -> Array:
    """`joint_gains (2, n)`: what holds this arm, whatever a task asks for."""
    stiffness = (facts and facts.joint_stiffness) or STIFFNESS_PER_TORQUE * np.array(
        limits.max_torque
    )
    damping = np.array(
        (facts and facts.joint_damping) or DAMPING_PER_TORQUE * np.array(limits.max_torque)
    )
    return np.array([stiffness, damping])
