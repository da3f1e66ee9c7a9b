"""Limits as properties: whatever comes in, what goes out is inside."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.controllers import safety
from robot_rl.geometry import pose_error, quat_from_rotvec

BOX = np.array([[0.35, -0.2, 0.0], [0.65, 0.2, 0.35]])
DOWN = np.array([1.0, 0.0, 0.0, 0.0])
ANGLE = 0.6
numbers = st.floats(-3.0, 3.0, allow_subnormal=False)


@st.composite
def poses(draw):
    turn = np.array([draw(numbers) for _ in range(3)])
    return np.concatenate([[draw(numbers) for _ in range(3)], quat_from_rotvec(turn)])


def angle_between(a, b):
    return 2.0 * np.arccos(min(1.0, abs(a @ b)))


@given(poses())
def test_a_clipped_target_is_inside_the_workspace(pose):
    out = safety.clip_to_workspace(pose, BOX, DOWN, ANGLE)
    assert (out[:3] >= BOX[0]).all() and (out[:3] <= BOX[1]).all()
    assert angle_between(out[3:], DOWN) <= ANGLE + 1e-6
    np.testing.assert_allclose(safety.clip_to_workspace(out, BOX, DOWN, ANGLE), out, atol=1e-9)


@given(poses(), poses())
def test_a_leashed_target_is_within_the_leash(pose, measured):
    error = pose_error(measured, safety.clip_to_leash(pose, measured, 0.02, 0.15))
    assert np.linalg.norm(error[:3]) <= 0.02 + 1e-9
    assert np.linalg.norm(error[3:]) <= 0.15 + 1e-7


@given(st.lists(st.floats(-500, 500), min_size=7, max_size=7), st.lists(st.floats(-1, 1), min_size=7, max_size=7))
def test_torque_never_exceeds_its_limit_nor_its_rate(wanted, last_share):
    limits = np.array([[2.0] * 7, [87.0] * 4 + [12.0] * 3])
    last = np.array(last_share) * limits[1]
    out = safety.limit_torque(np.array(wanted), last, limits, 1.0)
    assert (np.abs(out) <= limits[1]).all()
    assert (np.abs(out - last) <= 1.0 + 1e-9).all()


def test_each_fault_has_its_cause():
    still, pose = np.zeros(7), np.concatenate([[0.5, 0.0, 0.1], DOWN])
    limits = np.array([[2.0] * 7, [87.0] * 7, [-1.0] * 7, [1.0] * 7])
    boxes = np.array([[[0.36, -0.1, 0.0], [0.4, 0.1, 0.1]]])

    def joints(q=still, dq=still):
        return safety.check_joints(q, dq, limits, 0.0)

    def tool(twist=(0.0,) * 6, pose=pose, wrench=(0.0,) * 6):
        speeds, forces = np.array([1.0, 2.0]), np.array([80.0, 30.0])
        return safety.check_tool(
            np.array(twist), np.array(pose), np.array(wrench), BOX, boxes, 0.03, 0.01, speeds, forces
        )

    assert joints() == safety.NONE
    assert joints(dq=still + 2.1) == safety.JOINT_SPEED
    assert joints(q=still - 1.1) == safety.JOINT_POSITION
    assert tool() == safety.NONE
    assert tool(twist=(0.8, 0.8, 0.0, 0.0, 0.0, 0.0)) == safety.TCP_SPEED
    assert tool(twist=(0.0, 0.0, 0.0, 2.1, 0.0, 0.0)) == safety.TCP_ROTATION_SPEED
    assert tool(pose=np.concatenate([[0.69, 0.0, 0.1], DOWN])) == safety.WORKSPACE
    assert tool(pose=np.concatenate([[0.67, 0.0, 0.1], DOWN])) == safety.NONE
    assert tool(pose=np.concatenate([[0.38, 0.0, 0.05], DOWN])) == safety.KEEP_OUT
    assert tool(pose=np.concatenate([[0.395, 0.0, 0.05], DOWN])) == safety.NONE
    assert tool(wrench=(0.0, 60.0, 60.0, 0.0, 0.0, 0.0)) == safety.FORCE
    assert tool(wrench=(0.0, 0.0, 0.0, 0.0, 0.0, -31.0)) == safety.MOMENT


@st.composite
def boxes(draw, most=3):
    count = draw(st.integers(1, most))
    corners = []
    for _ in range(count):
        low = np.array([draw(st.floats(BOX[0, i], BOX[1, i] - 0.02)) for i in range(3)])
        corners.append([low, low + [draw(st.floats(0.005, 0.15)) for _ in range(3)]])
    return np.array(corners)


positions = st.tuples(*[st.floats(BOX[0, i], BOX[1, i]) for i in range(3)])


@settings(max_examples=300)
@given(boxes(), positions, positions)
def test_no_step_ends_in_a_keep_out_box_nor_outside_the_workspace(keep_out, before, after):
    before, after = (np.concatenate([position, DOWN]) for position in (before, after))
    out = safety.stay_out(after, before, keep_out)
    for box in keep_out:
        assert safety.depth_inside(out, box) <= max(safety.depth_inside(before, box), 0.0)
    assert (np.minimum(before, after)[:3] <= out[:3]).all() and (out[:3] <= np.maximum(before, after)[:3]).all()
    np.testing.assert_array_equal(safety.stay_out(out, before, keep_out), out)


def test_a_reference_slides_along_a_keep_out_box():
    box = np.array([[[0.45, -0.05, 0.0], [0.55, 0.05, 0.1]]])
    before, after = (np.concatenate([position, DOWN]) for position in ([0.5, 0.0, 0.11], [0.51, 0.02, 0.08]))
    np.testing.assert_allclose(safety.stay_out(after, before, box)[:3], [0.51, 0.02, 0.1])


def test_a_braked_joint_stops_at_its_limit():
    """Pushed with all its torque from anywhere, also at full speed where the margin begins, with a wrist's inertia."""
    limits = np.array([[2.5], [12.0], [-1.0], [1.0]])
    for inertia in (0.1, 0.3):
        for start in np.linspace(-0.9, 0.9, 7):
            q, dq, tau = np.array([start]), np.array([2.0]), np.zeros(1)
            for _ in range(3000):
                wanted = np.array([12.0])
                safety.brake_joints_into(wanted, q, dq, limits, 0.1, 0.5)
                tau = safety.limit_torque(wanted, tau, limits, 1.0)
                dq = dq + 0.001 * (tau - dq) / inertia  # viscous friction of 1 Nms/rad, as in the simulated arm
                q = q + 0.001 * dq
                assert q[0] < 1.001 and dq[0] < 2.5
            assert abs(dq[0]) < 0.05


def test_joints_away_from_their_limits_are_left_alone():
    rng = np.random.default_rng(0)
    limits = np.array([[2.0] * 7, [87.0] * 7, [-1.0] * 7, [1.0] * 7])
    for _ in range(100):
        q, dq, tau = rng.uniform(-0.9, 0.9, 7), rng.uniform(-1.8, 1.8, 7), rng.uniform(-87, 87, 7)
        same = tau.copy()
        assert safety.brake_joints_into(same, q, dq, limits, 0.1, 0.2) == 0
        np.testing.assert_array_equal(same, tau)
