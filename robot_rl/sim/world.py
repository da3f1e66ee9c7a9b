"""The world that simulated arms stand in: one model, one clock, one truth, for one arm or several.

Time goes on by a tick once each of the arms has written its torques. Used by one thread.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import mujoco

from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import Unmodelled
from robot_rl.sim.parts import Parts, arms_in
from robot_rl.sim.stage import blamed_on, build_model, find_scene
from robot_rl.types import ArmFacts, Array, ConfigError, Use, WorldState


class StandingArm(Protocol):
    """What the world wants of an arm that stands in it."""

    pose_flange_tool: Array

    def go_home(self) -> None:
        """Of a reset: the arm's part."""

    def begin(self) -> None:
        """Of a reset, once everything is in its place."""

    def feel(self) -> None:
        """After a step: what its torques do not explain."""


class SimulatedWorld:
    """A scene of `sim/scenes` (an empty table if there is none), with as many arms as it has stands.

    ```
    world = SimulatedWorld(scene)
    left, right = (SimulatedPanda(home, tool, world) for home, tool in arms)
    world.begin()
    ```
    """

    def __init__(
        self,
        scene: Use | None,
        facts: ArmFacts = PANDA,
        unmodelled: Sequence[Unmodelled] = (),
    ):
        self.scene = find_scene(scene)
        self.model = build_model(self.scene, facts, unmodelled)
        self.data, self._parts = mujoco.MjData(self.model), Parts(self.model)
        self.stands = arms_in(self.model)
        self.arms: list[StandingArm] = []
        self._written = 0
        self._step1, self._step2 = mujoco.mj_step1, mujoco.mj_step2
        self._sequence = self.seed = 0

    def join(self, arm: StandingArm) -> int:
        """The number of the stand that an arm gets. ConfigError if each has its arm."""
        if len(self.arms) == self.stands:
            raise ConfigError(
                f"scene '{self.scene.__module__.rsplit('.', 1)[-1]}' is for {self.stands} of the"
                " arms, and there is another one"
            )
        self.arms.append(arm)
        return len(self.arms) - 1

    def begin(self) -> None:
        """All arms have joined: put everything in its place. Raises ConfigError for what is wrong
        with the scene, here and not in the loop.
        """
        if len(self.arms) < self.stands:
            raise ConfigError(
                f"scene '{self.scene.__module__.rsplit('.', 1)[-1]}' is for {self.stands} arms, and"
                f" there are {len(self.arms)}"
            )
        with blamed_on(self.scene):
            self.reset(0)
            self.state()

    def measure(self) -> None:
        """The first half of a step, what follows from where everything is; for all arms at once."""
        if self._written == 0:
            self._step1(self.model, self.data)

    def advance(self) -> None:
        """One more arm has written its torques: the last one's are the second half of the step."""
        self._written += 1
        if self._written == len(self.arms):
            self._written = 0
            self._step2(self.model, self.data)
            for arm in self.arms:
                arm.feel()

    def reset(self, seed: int) -> None:
        """Put the arms at their home postures, and all else where the model has it and the seed
        says; all of it at rest.
        """
        mujoco.mj_resetData(self.model, self.data)
        for arm in self.arms:
            arm.go_home()
        self.seed, self._written = seed, 0
        self.scene.place(self.model, self.data, seed)
        mujoco.mj_forward(self.model, self.data)
        for arm in self.arms:
            arm.begin()

    def state(self) -> WorldState:
        """The truth at the last `measure`: `q` and `width_m` are the first arm's; another's are
        among `scene_q`.
        """
        scene, data, back = self.scene, self.data, self.scene.way_back
        self._sequence += 1
        tool, goals = self.arms[0].pose_flange_tool, dict[str, Any]()
        if back is not None:
            goals["goal_back"] = back.goal_base_tool(data, tool)
            goals["success_back"] = back.success(data)
        return WorldState(
            sequence=self._sequence,
            t=data.time,
            q=data.qpos[self._parts.angles].copy(),
            objects=self._parts.poses(data),
            goal_base_tcp=scene.goal_base_tool(data, tool),
            success=scene.success(data),
            seed=self.seed,
            scene_q=data.qpos[self._parts.positions],
            width_m=self._parts.width(data),
            **goals,
        )
