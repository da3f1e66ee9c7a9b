"""What the arm can reach of its workspace: the kinematics against published ones, and every shipped
file.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.controllers.reach import AXES, Reach, error_of, forward, turns_of
from robot_rl.geometry import pose_multiply, quat_from_rotvec, quat_rotate
from robot_rl.sim.franka_facts import FR3, PANDA
from robot_rl.sim.panda import flange_pose
from robot_rl.tools.arm_check import limits_of, tool_of

FACTS = {"mujoco": PANDA, "fci_sim": FR3, "franka": FR3}
SHIPPED = [
    (name, "") for name in ("sim_panda", "sim_hand", "sim_two_pandas", "fci_sim", "franka_fr3")
]
SHIPPED += [("sim_wide", ""), ("sim_wide", "peg_wide")]
SHIPPED += list(itertools.product(("sim_panda", "fci_sim"), ("peg_insert", "peg_insert_hard")))


def reach_of(hardware, task="", **changes):
    arm, *_ = config.load_hardware(hardware).arms
    task = config.load_task(task) if task else None
    limits = replace(limits_of(arm, task), **changes)
    return Reach(FACTS[arm.driver], limits, np.array(arm.home), tool_of(arm, task)), limits, arm


def random_q(rng):
    return rng.uniform(FR3.joint_low, FR3.joint_high)


def test_forward_kinematics_are_those_of_the_model_that_is_simulated():
    rng, tool = (
        np.random.default_rng(0),
        np.array([0.01, -0.02, 0.15, 0.0, 0.0, -0.3826834, 0.9238795]),
    )
    for _ in range(50):
        q = random_q(rng)
        error = error_of(forward(FR3, q, tool)[0], pose_multiply(flange_pose(q), tool))
        np.testing.assert_allclose(error, 0.0, atol=1e-7)


def test_the_jacobian_is_the_derivative_of_the_pose():
    rng, tool = np.random.default_rng(1), np.array([0.0, 0.03, 0.1, 0.0, 0.0, 0.0, 1.0])
    q = random_q(rng)
    _, jacobian = forward(FR3, q, tool)
    for j in range(7):
        h = 1e-5 * np.eye(7)[j]
        before = pose_multiply(flange_pose(q - h), tool)
        slope = error_of(forward(FR3, q + h, tool)[0], before) / -2e-5
        np.testing.assert_allclose(jacobian[:, j], slope, atol=1e-6)


def test_a_posture_that_is_found_reaches_its_goal_inside_the_joints_limits():
    reach, limits, arm = reach_of("fci_sim")
    rng, tool = np.random.default_rng(2), np.array(arm.pose_flange_tcp)
    for _ in range(20):
        goal = np.concatenate([
            rng.uniform(limits.workspace_low, limits.workspace_high),
            limits.workspace_quat,
        ])
        q = reach.solve(goal, np.array(arm.home))
        assert np.abs(error_of(forward(FR3, q, tool)[0], goal)).max() < 0.001
        margin = limits.joint_margin - 1e-9
        assert (q >= np.array(limits.joint_low) + margin).all() and (
            q <= np.array(limits.joint_high) - margin
        ).all()


@pytest.mark.parametrize(("hardware", "task"), SHIPPED)
def test_every_corner_of_a_shipped_workspace_can_be_reached(hardware, task):
    """In the middle of its cone and all round its edge, with the task's tool."""
    assert len(AXES) == 14
    reach, _, _ = reach_of(hardware, task)
    assert [str(miss) for miss in reach.unreachable()] == []


def test_an_arm_that_may_turn_further_than_it_may_tilt_is_tried_at_the_ends_of_both():
    _, limits, _ = reach_of("sim_hand")
    turns = turns_of(limits)
    assert len(turns) == 14
    z = np.array([0.0, 0.0, 1.0])
    for turn in turns:
        tilt = np.arccos(min(1.0, z @ quat_rotate(quat_from_rotvec(turn), z)))
        assert tilt == pytest.approx(limits.workspace_angle) or np.linalg.norm(turn) == 1.75
    assert reach_of("sim_hand", workspace_turn=2.6)[0].unreachable(), "a wrist turns so far at most"
    assert reach_of("sim_hand", workspace_angle=0.5)[0].widest_angle() < 0.4


def test_a_corner_too_far_away_is_named_and_so_is_the_joint_that_is_at_its_end():
    reach, _, _ = reach_of("fci_sim", workspace_high=(0.95, 0.2, 0.30))
    missed = reach.unreachable()
    assert {miss.corner[0] for miss in missed} == {0.95}, (
        "the near corners are not the ones that are missed"
    )
    assert max(miss.missed_m for miss in missed) > 0.05 and "(0.95, " in str(missed[0])
    assert reach.widest_angle() < 0.0, "straight or tilted, it is too far away"
    wrist, limits, _ = reach_of("sim_panda", workspace_angle=0.6)
    assert any(
        miss.joint == 5 and "joint 6 at the end" in str(miss) for miss in wrist.unreachable()
    )
    angle = wrist.widest_angle()
    assert 0.3 < angle < 0.6
    assert not Reach(
        PANDA,
        replace(limits, workspace_angle=angle),
        np.array(reach_of("sim_panda")[2].home),
        wrist._tool,
    ).unreachable()


@pytest.mark.parametrize("hardware", ["sim_panda", "fci_sim"])
@pytest.mark.parametrize("task", ["peg_insert", "peg_insert_hard"])
def test_where_a_task_plays_is_inside_the_box(hardware, task):
    """The start range, and the socket wherever it may be, down to its bottom, with a leash to spare
    on every side.
    """
    bench, task = config.load_hardware(hardware), config.load_task(task)
    config.check_fit(task, bench)
    limits, scene = limits_of(bench.arms[0], task), task.scene.options
    x, y = scene["socket_nominal"]
    half = scene["socket_range_m"] + task.leash_translation
    low, high = np.array(limits.workspace_low), np.array(limits.workspace_high)
    assert (
        (low[:2] <= (x - half, y - half)).all()
        and (high[:2] >= (x + half, y + half)).all()
        and low[2] <= 0.0
    )
    assert scene["socket_range_rad"] + task.leash_rotation / 2 <= limits.workspace_angle
