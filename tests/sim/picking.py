"""A simulated hand that picks things up, in this process: what the tests of such scenes share."""

from typing import Any

import mujoco
import numpy as np

from robot_rl import config, geometry
from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.interfaces import Given
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.teleop.waypoints import Options, Teleop
from robot_rl.types import ArmTarget, Array, Fault, WorldState

HARDWARE = config.load_hardware("sim_hand")
(ARM,) = HARDWARE.arms
TOGGLE_STEPS = 6


class Bench:
    """An arm with a hand in a task's scene, the operator's hand on it, without an environment."""

    def __init__(self, name: str):
        task = self.task = config.load_task(name)
        config.check_fit(task, HARDWARE)
        tool = geometry.pose_multiply(np.array(ARM.pose_flange_tcp), np.array(task.pose_tcp_tool))
        self.setup = ArmSetup(
            tool, task.compliance, ARM.limits, task.leash_translation, task.leash_rotation
        )
        self.driver = open_driver(ARM, task.scene)
        self.arm = LockstepArm(self.driver, self.setup)
        given = Given(task=task, world=self, mode="demonstrate", seed=3)  # type: ignore[arg-type]
        self.operator = Teleop(Options(), given)
        self.scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)

    @property
    def latest(self) -> WorldState:
        """What the operator sees."""
        return self.arm.world()

    def begin(self, seed: int) -> None:
        """A new episode, at the arm's home, with an open hand."""
        self.arm.reset(seed)
        self.state = self.arm.configure(self.setup)
        self.choice, self.wait = 1.0, 0
        self.driver.fingers.move(0.08, 0.1)
        self.operator.begin_episode()

    def step(self, twist: Array, gripper: float = 0.0) -> None:
        """One control step: a move of the target, and what is said to the fingers."""
        self.wait -= 1
        if gripper not in (0.0, self.choice) and self.wait <= 0:
            self.choice, self.wait = gripper, TOGGLE_STEPS
            if gripper > 0:
                self.driver.fingers.move(0.08, 0.1)
            else:
                self.driver.fingers.grasp(0.04, 0.04, 0.04, 0.1, 40.0)
        target = geometry.pose_move(self.state.target_base_tcp, twist * self.scale)
        self.state = self.arm.command(ArmTarget(target, 0.1))
        assert self.state.fault == Fault.NONE

    def play(self, steps: int = 0) -> bool:
        """Let the operator go on; whether it succeeds before the task's time, or `steps`, are up."""
        for _ in range(steps or self.task.max_steps):
            event = self.operator.read([self.state])
            self.step(event.twist, event.gripper)
            if self.latest.success:
                return True
        return False

    def wait_for(self, steps: int, gripper: float = 0.0) -> None:
        """Let time pass."""
        for _ in range(steps):
            self.step(np.zeros(6), gripper)


class Still:
    """A task's scene without an arm's law: for putting things where they cannot get by themselves."""

    def __init__(self, name: str):
        self.scene: Any = find_scene(config.load_task(name).scene)
        self.model = build_model(self.scene)
        self.data = mujoco.MjData(self.model)
        self.data.qpos[self.model.joint("joint1").qposadr[0] :][:7] = ARM.home
        mujoco.mj_forward(self.model, self.data)

    def success_with(self, body: str, pose: Array, *, velocity: Array | None = None, width=0.08):
        """Whether it is a success with a body at a pose `(7,)`, the fingers `width` apart [m]."""
        for finger in ("finger_left", "finger_right"):
            self.data.joint(finger).qpos[0] = width / 2
        self.data.joint(body).qpos = pose[[0, 1, 2, 6, 3, 4, 5]]
        self.data.joint(body).qvel = np.zeros(6) if velocity is None else velocity
        mujoco.mj_forward(self.model, self.data)
        return self.scene.success(self.data)
