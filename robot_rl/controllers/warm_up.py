"""Compile, or load, the control law before an arm is opened: seconds on a new machine, which no arm
would wait for.
"""

import numpy as np

from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.outline import capsules_from
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.tick_values import TICK_S
from robot_rl.geometry import pose_delta, pose_inverse, pose_move, pose_multiply
from robot_rl.interfaces import Arm, ArmReading
from robot_rl.types import ArmFacts, ArmLimits, Array, Capsule, Compliance, Fault


class _Still(Arm):
    """An arm that stands still and does nothing, to compile the law with."""

    def __init__(self, joints: int):
        self.joints = joints
        one = (1.0,) * joints
        rod = Capsule("rod", joints, (0.0, 0.0, 0.0), (0.0, 0.0, 0.1), 0.01)
        low = tuple(-x for x in one)
        self.facts = ArmFacts(
            low, one, one, one, 1.0, 1.0, 1.0, one, one, ((0.1, 0.1, 0.1),) * joints, 0.1, (rod,)
        )
        self._reading = ArmReading(joints)
        self._reading.pose[6] = 1.0

    def set_tool(self, pose_flange_tool: Array) -> None: ...

    def read(self) -> ArmReading:
        return self._reading

    def write(self, tau: Array) -> None: ...

    def close(self) -> None: ...


def warm_up(joints: int) -> None:
    """Have everything compiled that the loop of an arm with so many joints calls, and what whoever
    commands it reckons with.
    """
    far, much = (1.0,) * joints, 100.0
    limits = ArmLimits(
        (-1.0,) * 3, (1.0,) * 3, (0.0, 0.0, 0.0, 1.0), 1.0, 1.0, 1.0, 1.0, much, (much,) * joints, (much,) * joints,
        much, much, much, much, much, 0.1, much, tuple(-x for x in far), far, 0.1, 0.1, 1.0,
    )  # fmt: skip
    pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    loop = ArmLoop(_Still(joints), ArmSetup(pose, Compliance(), limits, 0.1, 0.1))
    loop.expect_neighbours(["far"])[:] = capsules_from(pose, loop.outline()[:1] + 10.0)
    loop.command(pose, 1.0)
    loop.tick(0.0)
    loop.move_joints(np.zeros(joints), 0.1, 1.0)
    loop.tick(TICK_S)
    loop.tare()
    loop.command(np.full(7, np.nan), 1.0)  # a fault
    loop.explain()
    loop.fault = Fault.NEIGHBOUR
    loop.explain()
    loop.acknowledge()
    loop.excursion.watch(_Still(joints).read())
    loop.state()
    # whoever commands it, in the middle of an episode
    pose_delta(pose_move(pose, np.zeros(6)), pose)
    pose_multiply(pose, pose_inverse(pose))
