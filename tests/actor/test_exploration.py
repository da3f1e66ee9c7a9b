"""Wandering: straight out first, then all over the space from which episodes start."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.actor.exploration import GoalExplorer, SceneExplorer
from robot_rl.config import StartPose, Wander
from robot_rl.sim.socket import Socket
from robot_rl.types import ArmState, Array, Fault

LIMITS = config.load_hardware("sim_panda").arms[0].limits
GOAL = np.array([0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])


def state(target: Array) -> ArmState:
    return ArmState(
        0,
        0.0,
        np.zeros(7),
        np.zeros(7),
        target,
        np.zeros(6),
        np.zeros(6),
        target,
        False,
        Fault.NONE,
    )


def wander(task: config.Task, steps: int, limit=lambda pose: pose, limits=LIMITS) -> Array:
    """Offsets `(steps, 6)` from the goal of an arm whose target goes where it is told, as far as
    the limit lets it.
    """
    assert task.wander is not None
    wanderer = GoalExplorer(task, task.wander, limits, np.random.default_rng(0))
    scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
    wanderer.begin_episode(state(GOAL))
    target, path = GOAL, []
    for _ in range(steps):
        target = limit(geometry.pose_move(target, wanderer.act(state(target))[0] * scale))
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


@pytest.mark.parametrize(
    "way_out", [(0.0, 0.0, -0.015), (0.0, 0.0, -0.040), (0.02, 0.0, 0.0), (0.0, 0.03, -0.04)]
)
def test_it_goes_straight_along_the_way_out_that_the_task_states(way_out):
    task = replace(config.load_task("peg_insert"), wander=Wander(way_out, height=0.03, aside=0.02))
    path, out = wander(task, 300), np.array(way_out) / np.linalg.norm(way_out)
    along = path[:, :3] @ out
    aside = path[:, :3] - along[:, None] * out
    inside = along < np.linalg.norm(way_out) - 1e-6
    assert 0 < inside.sum() < 10
    np.testing.assert_allclose(aside[inside], 0.0, atol=1e-6)
    assert np.abs(aside).max() > 0.01, "it goes aside once it is out"
    assert along.max() <= np.linalg.norm(way_out) + 0.03 + 1e-6
    assert (
        np.linalg.norm(aside, axis=1).max() <= np.sqrt(3.0) * 0.02
        and np.abs(path[:, 3:]).max() < 1e-6
    )


def test_no_waypoint_lies_outside_the_workspace():
    limits = replace(LIMITS, workspace_low=(0.46, -0.01, 0.0), workspace_high=(0.54, 0.05, 0.06))
    path = wander(config.load_task("peg_insert_hard"), 1000, limits=limits)
    xyz = GOAL[:3] + path[:, :3] * [1.0, -1.0, -1.0]  # the tool points down
    assert (xyz > np.array(limits.workspace_low) - 1e-6).all() and (
        xyz < np.array(limits.workspace_high) + 1e-6
    ).all()


@pytest.mark.parametrize("lowest", [-0.01, None])
def test_it_goes_no_lower_than_the_task_states(lowest):
    task = config.load_task("usb_insert")
    assert task.wander is not None
    way = replace(task.wander, lowest=lowest)
    limits = replace(LIMITS, workspace_low=(0.3, -0.2, -0.1))
    height = -wander(replace(task, wander=way), 1000, limits=limits)[:, 2]  # the tool points down
    assert (height.min() > -0.01 - 1e-6) == (lowest is not None)
    assert height.max() > 0.9 * way.aside


def test_a_waypoint_beyond_the_arms_limits_is_given_up():
    def left_half(pose):
        return np.concatenate([pose[:1], np.maximum(pose[1:2], 0.0), pose[2:]])

    path = wander(config.load_task("peg_insert_hard"), 1000, left_half)
    still = np.all(np.abs(np.diff(path, axis=0)) < 1e-4, axis=1)
    assert still.any(), "no waypoint was out of reach: the test shows nothing"
    assert not (still[1:] & still[:-1]).any()


def test_it_goes_along_the_axes_that_the_task_frees_alone_and_covers_them():
    task = replace(config.load_task("peg_insert"), axes=("x", "z", "rz"))
    path = wander(task, 2000)
    # (in the goal's frame a turn about z makes some of x to y)
    np.testing.assert_allclose(path[:, 3:5], 0.0, atol=1e-9)
    assert np.abs(path[:, 0]).max() > 0.03 and np.abs(path[:, 5]).max() > 0.2
    still = np.all(np.abs(np.diff(path, axis=0)) < 1e-4, axis=1)
    assert not (still[1:] & still[:-1]).any(), "it waits for what it cannot reach"


def test_who_looks_around_sees_from_everywhere_that_the_task_states_and_leaves_no_workspace():
    task = config.load_task("peg_insert")
    low, high = np.array(LIMITS.workspace_low), np.array(LIMITS.workspace_high)
    middle = np.array([high[0], 0.0, 0.15])  # half of it is out of reach
    around = StartPose((*middle, 1.0, 0.0, 0.0, 0.0), (0.08, 0.06, 0.04), (0.0, 0.0, 0.6))
    looker = SceneExplorer(task, around, LIMITS, np.random.default_rng(0))
    scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
    target = np.array([*(middle - [0.04, 0.0, 0.0]), 1.0, 0.0, 0.0, 0.0])
    start, path = target, []
    looker.begin_episode(state(target))
    for _ in range(4000):
        target = geometry.pose_move(target, looker.act(state(target))[0] * scale)
        path.append(target)
    places = np.array(path)[:, :3]
    turns = np.array([geometry.pose_delta(start, pose)[5] for pose in path])
    assert (places >= low - 1e-6).all() and (places <= high + 1e-6).all()
    assert (np.abs(places - middle) <= [0.08 + 1e-6, 0.06 + 1e-6, 0.04 + 1e-6]).all()
    assert np.ptp(places, axis=0) == pytest.approx([0.08, 0.12, 0.08], abs=0.012)
    assert np.ptp(turns) == pytest.approx(1.2, abs=0.1)
