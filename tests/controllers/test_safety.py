"""Limits as properties: whatever comes in, what goes out is inside."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.config.limits import tilt_and_turn
from robot_rl.controllers import safety
from robot_rl.geometry import pose_error, quat_from_rotvec

BOX = np.array([[0.35, -0.2, 0.0], [0.65, 0.2, 0.35]])
DOWN = np.array([1.0, 0.0, 0.0, 0.0])
CONE, WIDE = np.array([0.6, 0.0]), np.array([0.2, 1.75])
"""All of an angle bounded; and a tilt less than a turn."""
numbers = st.floats(-3.0, 3.0, allow_subnormal=False)


@st.composite
def poses(draw):
    turn = np.array([draw(numbers) for _ in range(3)])
    return np.concatenate([[draw(numbers) for _ in range(3)], quat_from_rotvec(turn)])


def joint_limits(speed, torque, low, high, joints=1, offset=0.0, deceleration=0.0):
    """What the tick is handed, of joints that are all alike; the arm's own range is the file's."""
    return np.array([
        [x] * joints for x in (speed, torque, low, high, low, high, offset, deceleration)
    ])


def angle_between(a, b):
    return 2.0 * np.arccos(min(1.0, abs(a @ b)))


@given(poses())
def test_a_clipped_target_is_inside_the_workspace(pose):
    out = safety.clip_to_workspace(pose, BOX, DOWN, CONE)
    assert (out[:3] >= BOX[0]).all() and (out[:3] <= BOX[1]).all()
    assert angle_between(out[3:], DOWN) <= CONE[0] + 1e-6
    np.testing.assert_allclose(safety.clip_to_workspace(out, BOX, DOWN, CONE), out, atol=1e-9)


@given(poses())
def test_a_target_may_turn_further_than_it_may_tilt(pose):
    out = safety.clip_to_workspace(pose, BOX, DOWN, WIDE)
    tilt, turn = tilt_and_turn((1.0, 0.0, 0.0, 0.0), out[3:].tolist())
    assert tilt <= WIDE[0] + 1e-6 and abs(turn) <= WIDE[1] + 1e-6
    again = safety.clip_to_workspace(out, BOX, DOWN, WIDE)
    assert angle_between(again[3:], out[3:]) < 1e-6
    before = tilt_and_turn((1.0, 0.0, 0.0, 0.0), pose[3:].tolist())
    if before[0] < 0.2 and abs(before[1]) < 1.75:
        assert angle_between(out[3:], pose[3:]) < 1e-6, "what is inside stays"
    elif before[0] < 3.0:
        assert abs(turn - np.clip(before[1], -1.75, 1.75)) < 1e-5, "a clipped tilt turns nothing"


@given(poses(), poses())
def test_a_leashed_target_is_within_the_leash(pose, measured):
    error = pose_error(measured, safety.clip_to_leash(pose, measured, 0.02, 0.15))
    assert np.linalg.norm(error[:3]) <= 0.02 + 1e-9
    assert np.linalg.norm(error[3:]) <= 0.15 + 1e-7


@given(
    st.lists(st.floats(-500, 500), min_size=7, max_size=7),
    st.lists(st.floats(-1, 1), min_size=7, max_size=7),
)
def test_torque_never_exceeds_its_limit_nor_its_rate(wanted, last_share):
    limits = np.array([[2.0] * 7, [87.0] * 4 + [12.0] * 3])
    last = np.array(last_share) * limits[1]
    out = safety.limit_torque(np.array(wanted), last, limits, 1.0)
    assert (np.abs(out) <= limits[1]).all()
    assert (np.abs(out - last) <= 1.0 + 1e-9).all()


def test_each_fault_has_its_cause():
    still, pose = np.zeros(7), np.concatenate([[0.5, 0.0, 0.1], DOWN])
    limits = joint_limits(2.0, 87.0, -1.0, 1.0, joints=7)
    boxes = np.array([[[0.36, -0.1, 0.0], [0.4, 0.1, 0.1]]])

    def joints(q=still, dq=still):
        return safety.check_joints(q, dq, limits, np.zeros(7))

    def tool(twist=(0.0,) * 6, pose=pose, wrench=(0.0,) * 6):
        speeds, forces = np.array([1.0, 2.0]), np.array([80.0, 30.0])
        return safety.check_tool(
            np.array(twist),
            np.array(pose),
            np.array(wrench),
            BOX,
            boxes,
            0.03,
            np.zeros(2),
            speeds,
            forces,
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
    # by less than a fifth of its 40 mm
    assert tool(pose=np.concatenate([[0.394, 0.0, 0.05], DOWN])) == safety.NONE
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
    assert (np.minimum(before, after)[:3] <= out[:3]).all() and (
        out[:3] <= np.maximum(before, after)[:3]
    ).all()
    np.testing.assert_array_equal(safety.stay_out(out, before, keep_out), out)


def test_a_reference_slides_along_a_keep_out_box():
    box = np.array([[[0.45, -0.05, 0.0], [0.55, 0.05, 0.1]]])
    before, after = (
        np.concatenate([position, DOWN]) for position in ([0.5, 0.0, 0.11], [0.51, 0.02, 0.08])
    )
    np.testing.assert_allclose(safety.stay_out(after, before, box)[:3], [0.51, 0.02, 0.1])


def test_a_braked_joint_stops_at_its_limit():
    """Pushed with all its torque from anywhere, also at full speed where the margin begins, with a
    wrist's inertia.
    """
    limits = joint_limits(2.5, 12.0, -1.0, 1.0)
    for inertia in (0.1, 0.3):
        for start in np.linspace(-0.9, 0.9, 7):
            q, dq, tau = np.array([start]), np.array([2.0]), np.zeros(1)
            for _ in range(3000):
                wanted = np.array([12.0])
                safety.brake_joints_into(wanted, q, dq, limits, 0.1, 0.5)
                tau = safety.limit_torque(wanted, tau, limits, 1.0)
                # viscous friction of 1 Nms/rad, as in the simulated arm
                dq = dq + 0.001 * (tau - dq) / inertia
                q = q + 0.001 * dq
                assert q[0] < 1.001 and dq[0] < 2.5
            assert abs(dq[0]) < 0.05


def test_joints_away_from_their_limits_are_left_alone():
    rng = np.random.default_rng(0)
    limits = joint_limits(2.0, 87.0, -1.0, 1.0, joints=7)
    for _ in range(100):
        q, dq, tau = rng.uniform(-0.9, 0.9, 7), rng.uniform(-1.8, 1.8, 7), rng.uniform(-87, 87, 7)
        same = tau.copy()
        assert safety.brake_joints_into(same, q, dq, limits, 0.1, 0.2) == 0
        np.testing.assert_array_equal(same, tau)


def test_towards_the_end_of_a_range_a_joint_is_braked_to_what_the_arm_itself_allows():
    """FR3, "Robot and interface specifications": joint 4 may go at 0.59 rad/s where 0.1 rad are
    left.
    """
    limits = joint_limits(2.62, 87.0, -3.0421, -0.1518, offset=0.30, deceleration=4.0)
    q = np.array([-0.1518 - 0.1])
    assert safety.own_speed(q, 0, 1.0, limits) == pytest.approx(0.594, abs=1e-3)
    assert safety.own_speed(q, 0, -1.0, limits) > 2.62
    for speed, fault in ((0.55, safety.NONE), (0.65, safety.JOINT_SPEED), (-0.65, safety.NONE)):
        assert safety.check_joints(q, np.array([speed]), limits, np.zeros(1)) == fault
    tau = np.array([10.0])
    assert (
        safety.brake_joints_into(tau, q, np.array([0.55]), limits, 0.05, 0.2) == safety.BRAKED
        and tau[0] < 0.0
    )


@pytest.mark.parametrize("thickness", [0.002, 0.01, 0.04, 0.2])
def test_the_middle_of_a_keep_out_box_is_too_deep_at_any_thickness(thickness):
    box = np.array([[[0.4, -0.1, 0.05], [0.5, 0.1, 0.05 + thickness]]])
    assert safety.too_deep(np.array([0.45, 0.0, 0.05 + 0.5 * thickness]), box, 0.03) > 0.0
    assert safety.too_deep(np.array([0.45, 0.0, 0.05 + 0.09 * thickness]), box, 0.03) < 0.0
