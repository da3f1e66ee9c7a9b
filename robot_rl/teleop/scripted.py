"""A scripted operator for simulated arms: demonstrates insertion, and corrects as a human would.

It sees the simulator's truth through the `world` channel, so it can stand in for the person at the
bench in CI and for everybody who has no arm yet. It is not a policy to learn from in simulation
only: it drives with the same six numbers as a SpaceMouse, with its own pace and an unsteady hand.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robot_rl import config, geometry, interfaces
from robot_rl.config.kinds import options_class
from robot_rl.interfaces import Given
from robot_rl.sim.socket import Socket
from robot_rl.teleop._habits import OperatorHabits, SeeingOperator
from robot_rl.teleop._near_misses import PRESS_M, Plan
from robot_rl.types import ArmState, Array, DeviceError, OperatorCommand, TeleopEvent

SIDEWAYS = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
ALIGNED, ALIGNED_RAD_PER_M = (
    0.7,
    24.0,
)  # of the clearance: with 0.5 mm, 0.35 mm and 0.012 rad, which turn 0.12 mm away
HOVER_M = 0.003  # above the rim while lining up
# setting off swings the tip 0.7 mm aside: a tighter hole wants a slower hand and a lower hover
ROOMY_M = 0.0005
PEG = "peg_insert"

Options = OperatorHabits


class Teleop(SeeingOperator):
    """The operator's hand and judgement in a peg's insertion; a scene that offers phases has the
    operator that plays them (`teleop/_waypoints.py`).
    """

    name = "the scripted operator"

    def __new__(cls, *args: Any, **others: Any) -> Any:
        """The operator who knows the task's scene. Raises DeviceError if there is none."""
        given = next((each for each in args if isinstance(each, Given)), None)
        scene = given.task.scene if given and given.task else None
        if given is None or scene is None or scene.name == PEG:
            return super().__new__(cls)
        kind = config.driver("sim/scenes", scene.name)
        is_socket = issubclass(options_class("sim/scenes", kind), Socket)
        # at a socket near misses are upright, whatever the way in
        shows_misses = is_socket and given.mode == "collect"
        if kind.phases is not interfaces.Scene.phases and not shows_misses:
            from robot_rl.teleop import _waypoints  # needs mujoco, which a peg's operator does not

            return _waypoints.Teleop(*args)
        if not is_socket:
            raise DeviceError(
                f"teleop 'scripted': scene {scene.name!r} offers no `phases`, and its options are"
                " no socket's: write `phases` (docs/scenes.md), or name another device"
            )
        return super().__new__(cls)

    def __init__(self, options: OperatorHabits, given: Given):
        super().__init__(options, given)
        assert given.task is not None
        task, socket = given.task, Socket.of(given.task.scene)
        furthest_m = float(
            np.linalg.norm(np.array(task.start[0].translation[:2]) + socket.socket_range_m)
        )
        self._habits = replace(options, far_m=max(options.far_m, 1.1 * furthest_m))
        self._depth_m = socket.depth_m
        self._aligned_m, self._aligned_rad = (
            ALIGNED * socket.clearance_m,
            ALIGNED_RAD_PER_M * socket.clearance_m,
        )
        self._gentle = min(1.0, socket.clearance_m / ROOMY_M) ** 2
        drawn = np.random.default_rng([given.seed, 2])
        self._plan = Plan(socket, drawn) if given.mode == "collect" else None

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back, and have a plan for what is collected."""
        if self._plan is not None:
            self._plan.begin_episode()
        return super().begin_episode()

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """Watch the arm, steer it with the clutch closed, and say when the task is done."""
        (arm,) = arms
        goal = self._world.latest.goal_base_tcp
        offset = geometry.pose_delta(goal, arm.pose_base_tcp)
        word = self._word()
        if self._plan is not None:
            action = self._show(self._plan, arm, goal, offset)
            word = OperatorCommand.FAILURE if self._plan.is_over else word
        else:
            action = self._steer(arm, goal, offset)
        self.reports += 1
        active = self._mode != "correct" or self._corrects(*self._distance(offset))
        return TeleopEvent(active, action, "tool", outcome=word)

    def _distance(self, offset: Array) -> tuple[float, bool]:
        """How far the tool is from the goal, seen from there `(6,)`, and whether it leaves."""
        distance = float(np.linalg.norm(offset[:3]) + 0.05 * np.linalg.norm(offset[3:]))
        aside = bool(np.linalg.norm(offset[:2]) > self._habits.far_m)
        return distance, aside or bool(-offset[2] > 0.12)

    def _show(self, plan: Plan, arm: ArmState, goal: Array, offset: Array) -> Array:
        """What a classifier is to see: the success, in a restless hand, or a near miss."""
        success = self._world.latest.success
        miss = plan.step(offset, success)
        if miss is not None and not (miss.depth_m and plan.is_over_hole(offset)):
            return self._move(arm, plan.waypoint(goal, arm.pose_base_tcp, miss))
        action = self._steer(arm, goal, offset, PRESS_M if miss is None else miss.at[2])
        if success:
            action += self._rng.normal(0.0, self._habits.unsteadiness, 6) * SIDEWAYS
        return np.clip(action, -1.0, 1.0)

    def _move(self, arm: ArmState, to: Array) -> Array:
        """Straight to a pose `(7,)`, with an unsteady hand."""
        action = self._pace * geometry.pose_delta(arm.target_base_tcp, to) / self._scale
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6)
        return np.clip(action + hand, -1.0, 1.0)

    def _steer(self, arm: ArmState, goal: Array, offset: Array, bottom: float = PRESS_M) -> Array:
        """Line up a little above the rim, then push in, up to `bottom` [m] beyond the goal; an
        unsteady hand while there is room. From beside the socket straight up first.

        Out of line just above a tight hole, stay as low as the target has come: backing off would
        swing the tip again.
        """
        height, depth = -offset[2], self._depth_m
        far = float(np.linalg.norm(offset[:2])) > 0.004
        upright = bool((np.abs(offset[3:]) < self._aligned_rad).all())
        aligned = upright and bool((np.abs(offset[:2]) < self._aligned_m).all())
        beside = far and height < depth
        inserting = not beside and (
            height < depth - 0.0005 or (aligned and height < depth + 2 * HOVER_M)
        )
        above_rim = -geometry.pose_delta(goal, arm.target_base_tcp)[2] - depth
        hover = np.clip(above_rim, HOVER_M * (1.0 if far else self._gentle), HOVER_M)
        along = bottom if inserting else -(depth + hover)
        across = offset[:2] if beside else (0.0, 0.0)
        waypoint = geometry.pose_move(goal, np.array([*across, along, 0.0, 0.0, 0.0]))
        action = self._pace * geometry.pose_delta(arm.target_base_tcp, waypoint) / self._scale
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6) * (1.0 if far else 0.1)
        action = np.clip(action + hand, -1.0, 1.0)
        if inserting and height > depth - 0.002:
            action[2] = min(action[2], self._gentle)
        return action
