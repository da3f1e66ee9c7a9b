"""An arm that was found outside its limits and acknowledged comes back in at a crawl, and goes no
further out.
"""

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.kinematics import body_clearance
from robot_rl.controllers.neighbours import FAULT_M, distance_to_neighbours
from robot_rl.controllers.tick_values import Bounds
from robot_rl.interfaces import ArmReading
from robot_rl.types import Array

CRAWL = (0.02, 0.1)
"""[m/s], [rad/s]: an arm that was found outside its limits comes back in no faster."""

EXCURSION_M, EXCURSION_RAD = 0.005, 0.02
"""How much further out it may be measured on its way in than it was: it swings, and a sensor has
noise.
"""


class Excursion:
    """The slack of the `bounds` in force, which is as far out as the arm was found, and shrinks on
    its way in.
    """

    def __init__(self, bounds: Bounds):
        self.bounds = bounds
        self.under_way = False

    def begin(self, reading: ArmReading) -> None:
        """What is outside now may be, and no further."""
        out, joints = self._outside(reading)
        self.under_way = max(out.max(), joints.max()) > 0.0
        self.bounds.slack[:] = np.where(out > 0.0, out + EXCURSION_M, 0.0)
        self.bounds.joint_slack[:] = np.where(joints > 0.0, joints + EXCURSION_RAD, 0.0)

    def watch(self, reading: ArmReading) -> None:
        """On its way in: what it has come nearer is not given back."""
        out, joints = self._outside(reading)
        slack, joint_slack = self.bounds.slack, self.bounds.joint_slack
        slack[:] = np.minimum(slack, np.maximum(out, 0.0) + EXCURSION_M)
        joint_slack[:] = np.minimum(joint_slack, np.maximum(joints, 0.0) + EXCURSION_RAD)
        # by what it may swing, else it is a fault again at once
        if out.max() < -EXCURSION_M and joints.max() < -EXCURSION_RAD:
            slack[:], joint_slack[:], self.under_way = 0.0, 0.0, False

    def _outside(self, r: ArmReading) -> tuple[Array, Array]:
        """How far beyond its limits the arm is `(4,)`, as `Bounds.slack` [m], and its joints `(n,)`
        [rad].
        """
        b = self.bounds
        workspace = safety.outside_workspace(r.pose, b.workspace) - b.margin
        clearance, _ = body_clearance(r.q, b.chain, b.capsules, b.room, b.keep_out)
        apart = distance_to_neighbours(r.q, b)
        joints = np.maximum(b.joints[safety.JOINT_LOW] - r.q, r.q - b.joints[safety.JOINT_HIGH])
        return np.array([
            workspace,
            safety.too_deep(r.pose, b.keep_out, b.margin),
            -clearance,
            -np.inf if np.isnan(apart) else FAULT_M - apart,
        ]), joints
