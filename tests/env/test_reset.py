"""Between episodes: start poses lie in the task's range, and the arm gets there through ordinary
targets.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.controllers.client import ArmClient
from robot_rl.env.reset import STEP, TOLERANCE, Resetter, _next_target, sample_start
from robot_rl.machine.clock import LockstepClock
from robot_rl.sim.panda import flange_pose
from robot_rl.types import ArmFaultError, ArmTarget, JointTarget, ResetMissedError, StoppedError
from tests.controllers.bench import HARDWARE, LIMITS, TASK, TOOL

START = TASK.start[0]


@given(seed=st.integers(0, 2**31))
def test_start_poses_lie_in_the_tasks_range(seed):
    pose = sample_start(START, np.random.default_rng(seed))
    middle = np.array(START.pose_base_tool)
    assert (np.abs(pose[:3] - middle[:3]) <= START.translation).all()
    assert (np.abs(geometry.pose_delta(middle, pose)[3:]) <= np.array(START.rotation) + 1e-12).all()
    assert np.linalg.norm(pose[3:]) == pytest.approx(1.0)


@given(seed=st.integers(0, 2**31))
def test_targets_move_in_bounded_steps_first_up_and_reach_the_goal(seed):
    rng = np.random.default_rng(seed)
    target = np.concatenate([rng.uniform(-0.1, 0.1, 3), [0.0, 0.0, 0.0, 1.0]])
    goal = geometry.pose_move(
        target, np.concatenate([rng.uniform(-0.15, 0.15, 3), rng.uniform(-0.3, 0.3, 3)])
    )
    for _ in range(80):
        following = _next_target(target, goal)
        assert (np.abs(geometry.pose_delta(target, following)) <= STEP + 1e-9).all()
        if goal[2] - target[2] > STEP[2]:  # out of the socket before anything else
            np.testing.assert_array_equal(following[[0, 1, 3, 4, 5, 6]], target[[0, 1, 3, 4, 5, 6]])
        target = following
    np.testing.assert_allclose(geometry.pose_error(target, goal), np.zeros(6), atol=1e-9)


@pytest.fixture
def arm(lockstep_arm):
    client = ArmClient(lockstep_arm, timeout_s=100.0)
    configure(client, LIMITS)
    yield client
    client.close()


def configure(client, limits):
    client.configure(TOOL, TASK.compliance, limits, TASK.leash_translation, TASK.leash_rotation)


def test_the_arm_arrives_within_the_tolerance_at_every_start(arm):
    rng, resetter = np.random.default_rng(0), Resetter([arm], LockstepClock(), 0.1)
    for _ in range(5):
        goal = sample_start(START, rng)
        (state,) = resetter.go([goal])
        assert (np.abs(geometry.pose_error(state.pose_base_tcp, goal)) < TOLERANCE).all()


def test_a_goal_outside_the_workspace_is_told_not_waited_for(arm):
    low = config.load_hardware("sim_panda").arms[0].limits.workspace_low
    goal = np.array(START.pose_base_tool)
    goal[0] = low[0] - 0.05
    with pytest.raises(
        ResetMissedError,
        match=(
            r"did not arrive within 8 s: arm 'panda' is off by \(-?.*mm .*held back by:"
            r" workspace.*Look"
        ),
    ):
        Resetter([arm], LockstepClock(), 0.1).go([goal])


def test_a_fault_on_the_way_is_told_by_its_name_at_once(arm):
    configure(arm, replace(LIMITS, max_force=20.0))
    on_the_table = np.array(START.pose_base_tool)
    on_the_table[:3] = 0.4, 0.1, LIMITS.workspace_low[2]
    begun_t = arm.refresh().t
    with pytest.raises(ArmFaultError, match=r"FORCE: .* N on the tool; limit 20"):
        Resetter([arm], LockstepClock(), 0.1).go([on_the_table])
    assert arm.state().t - begun_t < 4.0  # [s]


def test_stopped_on_the_way_it_holds_where_it_was_in_pose_space_and_in_joint_space(arm):
    resetter = Resetter([arm], LockstepClock(), 0.1, [HARDWARE.home], max_drift=0.3)
    far = np.array(START.pose_base_tool) + [-0.1, 0.1, 0.15, 0, 0, 0, 0]
    for begun_from in (arm.state().q, elbow_aside(HARDWARE.home, 0.6)):
        arm.move_joints(JointTarget(begun_from, 0.1))
        asked, poses = iter(range(100)), list[np.ndarray]()

        def stopped(asked=asked, poses=poses):
            poses.append(arm.state().pose_base_tcp)
            return next(asked) == 18

        with pytest.raises(StoppedError, match="stopped by the operator on the way"):
            resetter.go([far], stopped)
        for _ in range(10):
            state = arm.command(ArmTarget(arm.state().target_base_tcp, 0.1))
        assert np.linalg.norm(poses[-1][:3] - poses[0][:3]) > 0.05, "it had not set out yet"
        assert np.linalg.norm(state.pose_base_tcp[:3] - poses[-1][:3]) < 0.005
        resetter.go([far])


def elbow_aside(q, angle):
    """Another posture `(7,)` with the flange where it is at `q`: redundancy, by small steps along
    the nullspace.
    """
    pose, q, h = flange_pose(q), np.array(q, float), 1e-6
    turned = 0.0
    while turned < angle:
        J = (
            np.stack(
                [geometry.pose_error(flange_pose(q + h * e), flange_pose(q)) for e in np.eye(7)],
                axis=1,
            )
            / h
        )
        aside = np.linalg.svd(J)[2][6]
        q += 0.01 * aside * np.sign(aside[2]) + np.linalg.pinv(J) @ geometry.pose_error(
            pose, flange_pose(q)
        )
        turned += 0.01
    return q


def test_an_arm_whose_elbow_has_drifted_is_raised_and_goes_home_before_it_goes_to_its_start(
    arm, monkeypatch
):
    home = np.array(HARDWARE.home)
    goal = sample_start(START, np.random.default_rng(0))
    arm.move_joints(JointTarget(elbow_aside(home, 0.6), 0.1))
    low = arm.state().pose_base_tcp.copy()
    low[2] -= 0.04  # an episode ends below its start
    Resetter([arm], LockstepClock(), 0.1).go([low])
    assert (np.abs(arm.state().pose_base_tcp - low)[:3] < TOLERANCE[:3]).all()
    (state,) = Resetter([arm], LockstepClock(), 0.1, [home], max_drift=3.0).go([goal])
    assert np.abs(state.q - home).max() > 0.3, "poses alone leave the elbow where it is"

    Resetter([arm], LockstepClock(), 0.1).go([low])
    heights, move = [], arm.move_joints

    def noting(target, **options):
        heights.append(arm.state().pose_base_tcp[2])
        return move(target, **options)

    monkeypatch.setattr(arm, "move_joints", noting)
    (state,) = Resetter([arm], LockstepClock(), 0.1, [home], max_drift=0.3).go([goal])
    assert len(heights) == 1 and heights[0] > goal[2] - 0.015, "the tool was not clear yet"
    assert (np.abs(geometry.pose_error(state.pose_base_tcp, goal)) < TOLERANCE).all()
    assert np.abs(state.q - home).max() < 0.3


def test_the_main_job_never_goes_home_in_joint_space(arm, monkeypatch):
    """Its arm stands at home after each reset of the world, and its start poses are near."""
    monkeypatch.setattr(arm, "move_joints", None)
    rng, resetter = (
        np.random.default_rng(0),
        Resetter([arm], LockstepClock(), 0.1, [HARDWARE.home], max_drift=0.3),
    )
    for _ in range(5):
        resetter.go([sample_start(START, rng)])
    assert TASK.max_drift is None
