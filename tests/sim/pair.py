"""A task's two simulated arms, tick by tick in one world, and the operator who plays its phases."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

import mujoco
import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Task, tighten
from robot_rl.controllers.arm_loops import ArmLoops, stand_of
from robot_rl.controllers.arms.mujoco import Arm
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.setup import ArmSetup
from robot_rl.interfaces import Given
from robot_rl.sim.panda import Unmodelled
from robot_rl.teleop.scripted import OperatorHabits, Teleop
from robot_rl.types import ArmState, ArmTarget, Array, Fault, OperatorCommand, Use, WorldState
from tests.sim.player import TOGGLE_STEPS, Mode

PAIR = config.load_hardware("sim_two_pandas")
TICKS = 100


class Moment(NamedTuple):
    """Where everything of a scene is, and whether each hand was told to be open (1) or shut (-1)."""

    qpos: Array
    choices: tuple[float, ...]


class PairPlayer:
    """Implements `interfaces.World` for the operator, as `Player` does for one arm.

    `near_m` is the least distance of the fingertips in an episode [m], `took` how many steps it was.
    """

    def __init__(self, name: str, mode: Mode = "demonstrate", seed: int = 0, **habits: Any):
        self.task: Task = config.load_task(name)
        task, names = self.task, tuple(arm.name for arm in PAIR.arms)
        given = [(Unmodelled(), Given(arm=arm, scene=task.scene)) for arm in PAIR.arms]
        self.drivers = Arm.together(given)
        self.loops = [
            ArmLoop(driver, self._setup(arm))
            for driver, arm in zip(self.drivers, PAIR.arms, strict=True)
        ]
        self.together = ArmLoops(self.loops, [stand_of(arm) for arm in PAIR.arms])
        self.scene, self.data = self.drivers[0]._world.scene, self.drivers[0]._data
        self.refresh()
        judged = replace(task, reward=Use("simulator"))  # no steps in wait for a learned one's word
        seen = Given(task=judged, world=self, mode=mode, seed=seed, arms=names)
        self.operator: Any = Teleop(OperatorHabits(**habits), seen)
        self.names = names
        self.scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)

    def _setup(self, arm: Any) -> ArmSetup:
        task = self.task
        tool = geometry.pose_multiply(np.array(arm.pose_flange_tcp), np.array(task.pose_tcp_tool))
        leash = task.leash_translation, task.leash_rotation
        return ArmSetup(tool, task.compliance, tighten(arm.limits, task.limits), *leash)

    def refresh(self) -> WorldState:
        self.latest: WorldState = self.drivers[0].world()
        return self.latest

    def reset(self, seed: int) -> WorldState:
        self.together.reset(self.loops[0], seed)
        return self.refresh()

    def states(self) -> list[ArmState]:
        return [loop.observe() for loop in self.loops]

    def begin(self, seed: int) -> list[ArmState]:
        """Reset the scene, and go to start poses, with open hands."""
        self.reset(seed)
        self._choices, self._waits, self.near_m = [1.0] * 2, [0] * 2, np.inf
        rng, poses = np.random.default_rng([seed, 9]), list[Array]()
        for start in self.task.start:
            pose = np.array(start.pose_base_tool)
            pose[:3] += rng.uniform(-1.0, 1.0, 3) * start.translation
            turn = rng.uniform(-1.0, 1.0, 3) * start.rotation
            poses.append(geometry.pose_move(pose, np.array([0.0, 0.0, 0.0, *turn])))
        return self.go(poses, 25)

    def moment(self) -> Moment:
        """As things stand."""
        return Moment(self.data.qpos.copy(), tuple(self._choices))

    def begin_at(self, seed: int, moment: Moment) -> list[ArmState]:
        """Reset the scene to a moment of an episode of this seed, at rest; each hand is told again."""
        place = self.scene.place

        def place_all(model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
            place(model, data, seed)
            data.qpos[:] = moment.qpos

        with patch.object(self.scene, "place", place_all):
            self.reset(seed)
        self._choices, self._waits, self.near_m = [0.0] * 2, [0] * 2, np.inf
        return self.act(self.states(), [np.zeros(6)] * 2, moment.choices)

    def go(self, poses: Sequence[Array], steps: int) -> list[ArmState]:
        """Towards a pose `(7,)` of each arm for so many steps."""
        states = self.states()
        for _ in range(steps):
            moves = [
                geometry.pose_delta(state.target_base_tcp, pose) / self.scale
                for state, pose in zip(states, poses, strict=True)
            ]
            states = self.act(states, [m / max(1.0, float(np.abs(m).max())) for m in moves])
        return states

    def act(
        self,
        states: Sequence[ArmState],
        actions: Sequence[Array],
        choices: Sequence[float] = (0, 0),
    ) -> list[ArmState]:
        """One control step of both, and what is said to the fingers."""
        for i, choice in enumerate(choices):
            self._say(i, choice)
        for loop, state, action in zip(self.loops, states, actions, strict=True):
            target = geometry.pose_move(state.target_base_tcp, action * self.scale)
            loop.obey(ArmTarget(target, 0.1), loop.t + 0.3)
        first = self.loops[0].ticks + 1
        for tick in range(first, first + TICKS):
            self.together.tick(0.001 * tick)
        states = self.states()
        assert all(state.fault == Fault.NONE for state in states), [s.reason for s in states]
        tips = [geometry.pose_multiply(np.array(stand), s.pose_base_tcp)[:3]
                for stand, s in zip(self.scene.stands, states, strict=True)]  # fmt: skip
        self.near_m = min(self.near_m, float(np.linalg.norm(tips[0] - tips[1])))
        self.refresh()
        return states

    def _say(self, i: int, choice: float) -> None:
        self._waits[i] -= 1
        if choice in (0.0, self._choices[i]) or self._waits[i] > 0:
            return
        self._choices[i], self._waits[i] = choice, TOGGLE_STEPS
        hand: Any = self.drivers[i].fingers
        if choice > 0.0:
            hand.move(0.08, 0.1)
        else:
            hand.grasp(0.04, 0.04, 0.04, 0.1, 40.0)

    def play(self, seed: int) -> OperatorCommand:
        """One episode, up to the operator's word; the policy stands still where it is left alone."""
        return self.go_on(self.begin(seed), self.task.max_steps)

    def go_on(self, states: list[ArmState], steps: int) -> OperatorCommand:
        """So many steps of an episode at most, up to the operator's word."""
        self.operator.begin_episode()
        self.took = 0
        while self.took < steps:
            states, word = self.follow(states)
            if word != OperatorCommand.NONE:
                return word
        return OperatorCommand.NONE

    def follow(self, states: list[ArmState]) -> tuple[list[ArmState], OperatorCommand]:
        """A step of the operator's, or their word on the episode."""
        events = self.operator.read(states)
        said = [events[name] for name in self.names]
        if said[0].outcome != OperatorCommand.NONE:
            return states, said[0].outcome
        self.took += 1
        moves, choices = [s.twist * s.active for s in said], [s.gripper * s.active for s in said]
        return self.act(states, moves, choices), OperatorCommand.NONE
