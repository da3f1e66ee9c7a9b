"""Wandering: straight out first, then all over the space from which episodes start."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.actor.wander import Wanderer
from robot_rl.sim.socket import Socket
from robot_rl.types import ArmState, Array, Fault, Use

GOAL = np.array([0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def state(target: Array) -> ArmState:
    return ArmState(0, 0.0, np.zeros(7), np.zeros(7), target, np.zeros(6), np.zeros(6), target, False, Fault.NONE)


def wander(task: config.Task, steps: int, limit=lambda pose: pose) -> Array:
    """Offsets `(steps, 6)` from the goal of an arm whose target goes where it is told, as far as the limit lets it."""
    wanderer = Wanderer(task, np.random.default_rng(0))
    scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
    wanderer.begin_episode(state(GOAL))
    target, path = GOAL, []
    for _ in range(steps):
        target = limit(geometry.pose_move(target, wanderer.act(state(target)) * scale))
        path.append(geometry.pose_delta(GOAL, target))
    return np.array(path)


@pytest.mark.parametrize("name", ["peg_insert", "peg_insert_hard"])
def test_it_covers_the_offsets_with_which_episodes_start(name):
    task = config.load_task(name)
    socket, start = Socket.of(task.scene), task.start[0]
    path = wander(task, 4000)
    for axis in (0, 1):
        assert np.abs(path[:, axis]).max() > 0.9 * (socket.socket_range_m + start.translation[axis])
    assert np.abs(path[:, 5]).max() > 0.9 * (socket.socket_range_rad + start.rotation[2])
    assert (-path[:, 2]).max() > socket.depth_m + 0.06


def test_it_leaves_the_hole_straight_whatever_its_depth():
    easy = config.load_task("peg_insert")
    for depth_m in (0.015, 0.025, 0.040):
        scene = Use("peg_insert", {"depth_m": depth_m, "success_depth_m": 0.014})
        path = wander(replace(easy, scene=scene), 300)
        inside = -path[:, 2] < depth_m - 1e-6
        assert 0 < inside.sum() < 8
        np.testing.assert_allclose(path[inside, :2], 0.0, atol=1e-6)


def test_a_waypoint_beyond_the_arms_limits_is_given_up():
    def left_half(pose):
        return np.concatenate([pose[:1], np.maximum(pose[1:2], 0.0), pose[2:]])

    path = wander(config.load_task("peg_insert_hard"), 1000, left_half)
    still = np.all(np.abs(np.diff(path, axis=0)) < 1e-4, axis=1)
    assert still.any(), "no waypoint was out of reach: the test shows nothing"
    assert not (still[1:] & still[:-1]).any()
