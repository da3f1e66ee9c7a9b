"""The scene: it is as hard as it says, success is what it says, and it can be done."""

import math
from dataclasses import replace

import numpy as np
import pytest

from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.geometry import pose_delta, pose_error, pose_move
from robot_rl.sim.stage import find_scene
from robot_rl.types import ArmTarget, ConfigError, Fault, Use
from tests.controllers.bench import HARDWARE, LIMITS, SETUP, TASK, TOOL

STEP = np.array([0.008] * 3 + [0.05] * 3)


@pytest.fixture(scope="module")
def arm():
    return LockstepArm(
        open_driver(HARDWARE, TASK.scene), ArmSetup(TOOL, TASK.compliance, LIMITS, 0.02, 0.15)
    )


def insert(arm, seed, offset=0.0, steps=60):
    """Align above the hole (plus an offset), go straight down, lift when the rim is in the way.

    Returns the worst force [N] seen and the last state.
    """
    arm.reset(seed)
    state, goal, worst, down = arm.state(), arm.world().goal_base_tcp.copy(), 0.0, False
    goal[0] += offset
    for _ in range(steps):
        error = pose_error(state.pose_base_tcp, goal)
        aligned = np.hypot(*error[:2]) < 0.0004 and np.abs(error[3:]).max() < 0.01
        on_rim = state.pose_base_tcp[2] > 0.023 and np.hypot(*error[:2]) > 0.0006
        down = (down and not on_rim) or (aligned and state.pose_base_tcp[2] < 0.033)
        want = goal.copy()
        want[2] = goal[2] if down else 0.031
        move = np.clip(pose_delta(state.target_base_tcp, want), -STEP, STEP)
        state = arm.command(ArmTarget(pose_move(state.target_base_tcp, move), 0.1))
        worst = max(worst, float(np.linalg.norm(state.wrench_base_tcp[:3])))
        assert state.fault == Fault.NONE
        if arm.world().success:
            break
    return worst, state


@pytest.mark.parametrize("seed", range(10))
def test_a_scripted_insertion_succeeds_without_force(arm, seed):
    worst, state = insert(arm, seed)
    world = arm.world()
    assert world.success
    error = pose_error(state.pose_base_tcp, world.goal_base_tcp)
    assert np.abs(error[:2]).max() < 0.0011 and abs(error[2]) < 0.0015
    assert worst < 30.0


def test_beside_the_hole_the_peg_stays_on_the_rim(arm):
    worst, state = insert(arm, 0, offset=0.004)
    assert not arm.world().success
    assert state.pose_base_tcp[2] > 0.0245
    assert worst < 60.0


def test_the_socket_covers_its_range_and_the_seed_decides(arm):
    poses = np.array([arm.reset(seed).objects[0] for seed in range(300)])
    offset = poses[:, :2] - [0.5, 0.0]
    yaw = 2.0 * np.arctan2(poses[:, 5], poses[:, 6])
    assert np.abs(offset).max() <= 0.02 and np.abs(offset).max(axis=0).min() > 0.019
    assert 0.9 * math.radians(10) < np.abs(yaw).max() <= math.radians(10) + 1e-9
    np.testing.assert_array_equal(arm.reset(7).objects[0], poses[7])


def test_the_goal_is_the_tools_pose_whatever_the_tool_is(arm):
    arm.configure(SETUP)
    tip_goal = arm.reset(3).goal_base_tcp
    arm.configure(ArmSetup(np.array(HARDWARE.pose_flange_tcp), TASK.compliance, LIMITS, 0.02, 0.15))
    tcp_goal = arm.reset(3).goal_base_tcp
    arm.configure(SETUP)
    np.testing.assert_allclose(tcp_goal[:3] - tip_goal[:3], [0.0, 0.0, 0.042], atol=1e-9)
    assert tip_goal[2] == pytest.approx(0.0)


def test_home_is_above_the_nominal_socket_and_inside_the_workspace(arm):
    arm.configure(SETUP)
    arm.reset(0)
    pose = arm.state().pose_base_tcp
    np.testing.assert_allclose(pose[:2], [0.5, 0.0], atol=1e-3)
    assert 0.05 < pose[2] - 0.025 < 0.12
    np.testing.assert_allclose(np.abs(pose[3:]), [1.0, 0.0, 0.0, 0.0], atol=1e-3)
    arm.command(ArmTarget(pose, 0.1))
    assert arm.state().fault == Fault.NONE


def test_an_option_that_the_scene_does_not_have_is_named():
    with pytest.raises(ConfigError, match=r"peg_insert.*tightness"):
        find_scene(Use("peg_insert", {"tightness": 1}))


@pytest.mark.parametrize(("friction", "slides"), [(0.4, True), (1.0, False)])
def test_a_pressed_peg_slides_where_the_push_exceeds_the_friction(friction, slides):
    """10 N down (5 mm of 2,000 N/m) and 6 N aside: more than 0.4 of it, less than all of it."""
    assert TASK.scene is not None
    scene = replace(TASK.scene, options={**TASK.scene.options, "friction": friction})
    arm = LockstepArm(
        open_driver(HARDWARE, scene), ArmSetup(TOOL, TASK.compliance, LIMITS, 0.02, 0.15)
    )
    _, state = insert(arm, 0, offset=0.004, steps=40)
    pressed = state.pose_base_tcp.copy()
    for push in (0.0, 0.003):
        target = pressed + np.array([push, 0.0, -0.005, 0.0, 0.0, 0.0, 0.0])
        for _ in range(8):
            state = arm.command(ArmTarget(target, 0.1))
    assert (state.pose_base_tcp[0] - pressed[0] > 0.0005) == slides
