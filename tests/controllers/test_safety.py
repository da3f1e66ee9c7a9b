"""Limits as properties: whatever comes in, what goes out is inside."""

import numpy as np
from hypothesis import given
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
    limits = np.array([[2.0] * 7, [87.0] * 7])

    def check(dq=still, twist=np.zeros(6), pose=pose, wrench=np.zeros(6)):  # noqa: B008
        return safety.check_state(dq, twist, pose, wrench, limits, BOX, 0.03, 1.0, 80.0)

    assert check() == safety.NONE
    assert check(dq=still + 2.1) == safety.JOINT_SPEED
    assert check(twist=np.array([0.8, 0.8, 0.0, 0.0, 0.0, 0.0])) == safety.TCP_SPEED
    assert check(pose=np.concatenate([[0.69, 0.0, 0.1], DOWN])) == safety.WORKSPACE
    assert check(pose=np.concatenate([[0.67, 0.0, 0.1], DOWN])) == safety.NONE
    assert check(wrench=np.array([0.0, 60.0, 60.0, 0.0, 0.0, 0.0])) == safety.FORCE
