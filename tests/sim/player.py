"""A task's simulated arm in lockstep and the operator who plays its phases, in this process."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Task, tighten
from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.interfaces import Given
from robot_rl.teleop.scripted import OperatorHabits, Teleop
from robot_rl.types import ArmState, ArmTarget, Array, Fault, OperatorCommand, Use, WorldState

Mode = Literal["demonstrate", "correct", "collect"]
HARDWARE = config.load_hardware("sim_panda").arms[0]
HAND = config.load_hardware("sim_hand").arms[0]
TOGGLE_STEPS = 6


class Player:
    """Implements `interfaces.World` for the operator. `worst_n` is the largest force of an episode
    [N], `drove` says in which steps the operator had hold.
    """

    def __init__(self, task: str | Task, mode: Mode = "demonstrate", seed: int = 0, **habits: Any):
        self.task = task = config.load_task(task) if isinstance(task, str) else task
        arm = HAND if "moved" in task.grippers else HARDWARE
        tool = geometry.pose_multiply(np.array(arm.pose_flange_tcp), np.array(task.pose_tcp_tool))
        self.driver: Any = open_driver(arm, task.scene)
        leash = task.leash_translation, task.leash_rotation
        setup = ArmSetup(tool, task.compliance, tighten(arm.limits, task.limits), *leash)
        self.arm = LockstepArm(self.driver, setup)
        self.latest: WorldState = self.arm.world()
        judged = replace(task, reward=Use("simulator"))  # no steps in wait for a learned one's word
        given = Given(task=judged, world=self, mode=mode, seed=seed)
        self.operator: Any = Teleop(OperatorHabits(**habits), given)
        self.scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)

    def refresh(self) -> WorldState:
        self.latest = self.arm.world()
        return self.latest

    def reset(self, seed: int) -> WorldState:
        self.latest = self.arm.reset(seed)
        return self.latest

    def begin(self, seed: int) -> ArmState:
        """Reset the scene, and go to a start pose, with an open hand."""
        self.reset(seed)
        self._choice, self._wait = 1.0, 0
        rng, start = np.random.default_rng([seed, 9]), self.task.start[0]
        pose = np.array(start.pose_base_tool)
        pose[:3] += rng.uniform(-1.0, 1.0, 3) * start.translation
        turn = rng.uniform(-1.0, 1.0, 3) * start.rotation
        return self.go(geometry.pose_move(pose, np.array([0.0, 0.0, 0.0, *turn])), 25)

    def go(self, pose: Array, steps: int) -> ArmState:
        """Towards a pose `(7,)` for so many steps."""
        state = self.arm.state()
        for _ in range(steps):
            move = geometry.pose_delta(state.target_base_tcp, pose) / self.scale
            state = self.act(state, move / max(1.0, float(np.abs(move).max())))
        return state

    def act(self, state: ArmState, action: Array, choice: float = 0.0) -> ArmState:
        """One control step, and what is said to the fingers, where they move."""
        self._wait -= 1
        if choice not in (0.0, self._choice) and self._wait <= 0:
            self._choice, self._wait = choice, TOGGLE_STEPS
            hand = self.driver.fingers
            if choice > 0.0:
                hand.move(0.08, 0.1)
            else:
                hand.grasp(0.04, 0.04, 0.04, 0.1, 40.0)
        target = geometry.pose_move(state.target_base_tcp, action * self.scale)
        state = self.arm.command(ArmTarget(target, 0.1))
        assert state.fault == Fault.NONE
        self.refresh()
        return state

    def play(self, seed: int) -> OperatorCommand:
        """One episode, up to the operator's word; the policy stands still where it is left alone."""
        return self.go_on(self.begin(seed), self.task.max_steps)

    def go_on(self, state: ArmState, steps: int) -> OperatorCommand:
        """So many steps of an episode at most, up to the operator's word."""
        self.operator.begin_episode()
        self.worst_n, self.drove = 0.0, []
        for _ in range(steps):
            said = self.operator.read([state])
            self.drove.append(said.active)
            if said.outcome != OperatorCommand.NONE:
                return said.outcome
            state = self.act(state, said.twist * said.active, said.gripper * said.active)
            self.worst_n = max(self.worst_n, float(np.linalg.norm(state.wrench_base_tcp[:3])))
        return OperatorCommand.NONE
