"""Free wandering about a goal that has just been reached: frames with a known relative goal, without any label.

At a demonstration's success the tool pose *is* the goal pose. An episode that starts there and wanders about
therefore knows, for each of its frames, where the goal is seen from the tool: goal-relative pretraining
(`learner/pretrain.py`) regresses it. It needs nothing that a real arm does not have.
"""

import numpy as np

from robot_rl import geometry
from robot_rl.config import Task
from robot_rl.sim.socket import Socket
from robot_rl.types import ArmState, Array


class Wanderer:
    """Chooses waypoints about the goal and steers towards them: out along the approach first, then at random.

    Half of the waypoints are close to the entrance, where accuracy counts; the others fill the space from which
    episodes start. Ranges are half-widths in the goal frame, [m] and [rad].
    """

    def __init__(self, task: Task, rng: np.random.Generator):
        self._rng = rng
        socket = Socket.of(task.scene)
        self._depth_m = socket.depth_m
        self._scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
        start = task.start[0]
        # as far as the start may be from the socket, which turns about the last axis; elsewhere a little further
        shift = np.array(start.translation) + socket.socket_range_m
        self._wide = np.concatenate([shift, 1.2 * np.array(start.rotation)])
        self._wide[5] = start.rotation[2] + socket.socket_range_rad
        self._goal = geometry.IDENTITY
        self._waypoint = geometry.IDENTITY
        self._target = geometry.IDENTITY

    def begin_episode(self, arm: ArmState) -> None:
        """The arm stands at the goal: remember it, and go straight out."""
        self._goal = arm.pose_base_tcp
        self._target = geometry.IDENTITY
        out = -(self._depth_m + 0.006)
        self._waypoint = geometry.pose_move(self._goal, np.array([0.0, 0.0, out, 0.0, 0.0, 0.0]))

    def act(self, arm: ArmState) -> Array:
        """The action `(6,)` towards the current waypoint. One that the arm's limits keep out of reach is given up."""
        left = geometry.pose_delta(arm.target_base_tcp, self._waypoint)
        arrived = np.linalg.norm(left[:3]) < 0.002 and np.linalg.norm(left[3:]) < 0.02
        stopped = bool((np.abs(geometry.pose_delta(self._target, arm.target_base_tcp)) < 0.05 * self._scale).all())
        self._target = arm.target_base_tcp
        if arrived or stopped:
            self._waypoint = self._choose()
            left = geometry.pose_delta(arm.target_base_tcp, self._waypoint)
        action = left / self._scale
        return np.clip(action / max(1.0, float(np.abs(action).max())), -1.0, 1.0).astype(np.float32)

    def _choose(self) -> Array:
        near = self._rng.random() < 0.5
        spread = self._rng.uniform(-1.0, 1.0, 6) * self._wide
        if near:  # near in place, but turned as far as anywhere: an encoder that has never seen a tilted tool at the
            spread[:3] *= 0.15  # entrance takes every tool there for an upright one
        height = self._rng.uniform(0.0, 0.010) if near else self._rng.uniform(0.003, 0.065)
        spread[2] = -(self._depth_m + height)
        return geometry.pose_move(self._goal, spread)
