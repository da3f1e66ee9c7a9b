"""Laws of rotations and poses, against MuJoCo and against the group axioms."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import geometry
from tests.rotations import matrix_of, quat_of, rotvec_of, turn_between

numbers = st.floats(-2.0, 2.0, allow_subnormal=False)
vectors = st.tuples(numbers, numbers, numbers).map(np.array)
rotvecs = vectors.map(lambda v: v * min(1.0, 3.1 / max(float(np.linalg.norm(v)), 1e-9)))
poses = st.tuples(vectors, rotvecs).map(lambda p: np.concatenate([p[0], quat_of(p[1])]))
deltas = st.tuples(vectors, rotvecs).map(np.concatenate)


def assert_same_pose(a, b):
    np.testing.assert_allclose(a[:3], b[:3], atol=1e-9)
    assert abs(abs(a[3:] @ b[3:]) - 1.0) < 1e-12


@given(poses, poses, poses)
def test_chaining_poses_is_associative(a, b, c):
    multiply = geometry.pose_multiply
    assert_same_pose(multiply(multiply(a, b), c), multiply(a, multiply(b, c)))


@given(poses)
def test_inverse_undoes_a_pose_from_both_sides(pose):
    assert_same_pose(geometry.pose_multiply(pose, geometry.pose_inverse(pose)), geometry.IDENTITY)
    assert_same_pose(geometry.pose_multiply(geometry.pose_inverse(pose), pose), geometry.IDENTITY)


@given(poses, poses)
def test_delta_is_the_inverse_of_move(a, b):
    assert_same_pose(geometry.pose_move(a, geometry.pose_delta(a, b)), b)


@given(poses, deltas)
def test_move_is_the_inverse_of_delta(pose, delta):
    np.testing.assert_allclose(
        geometry.pose_delta(pose, geometry.pose_move(pose, delta)), delta, atol=1e-7
    )


@given(poses, vectors)
def test_a_pure_translation_never_leaks_into_rotation(pose, translation):
    moved = geometry.pose_move(pose, np.concatenate([translation, np.zeros(3)]))
    np.testing.assert_allclose(moved[3:], pose[3:], atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(moved[:3] - pose[:3]), np.linalg.norm(translation), atol=1e-9
    )


@given(poses, rotvecs)
def test_a_pure_rotation_leaves_the_origin_in_place(pose, turn):
    np.testing.assert_array_equal(
        geometry.pose_move(pose, np.concatenate([np.zeros(3), turn]))[:3], pose[:3]
    )


@given(poses, deltas)
def test_turning_a_twist_keeps_linear_and_angular_parts_apart(pose, twist):
    linear_only = np.concatenate([twist[:3], np.zeros(3)])
    np.testing.assert_array_equal(geometry.rotate_spatial(pose[3:], linear_only)[3:], np.zeros(3))
    turned = geometry.rotate_spatial(pose[3:], twist)
    matrix = matrix_of(pose[3:])
    np.testing.assert_allclose(
        turned, np.concatenate([matrix @ twist[:3], matrix @ twist[3:]]), atol=1e-9
    )


@given(poses, poses)
def test_the_rotation_error_is_the_full_angle_on_the_short_way(a, b):
    error = geometry.pose_error(a, b)[3:]
    relative = turn_between(a[3:], b[3:])
    assert np.linalg.norm(error) <= np.pi + 1e-12
    np.testing.assert_allclose(
        np.linalg.norm(error), np.linalg.norm(rotvec_of(relative)), atol=1e-7
    )
    np.testing.assert_allclose(matrix_of(quat_of(error)), matrix_of(relative), atol=1e-9)


@given(rotvecs)
def test_rotation_vector_quaternion_and_matrix_agree_with_mujoco(turn):
    quat = geometry.quat_from_rotvec(turn)
    matrix = matrix_of(quat_of(turn))
    np.testing.assert_allclose(geometry.quat_to_matrix(quat), matrix, atol=1e-12)
    assert abs(abs(geometry.quat_from_matrix(matrix) @ quat) - 1.0) < 1e-12
    np.testing.assert_allclose(geometry.quat_to_rotvec(quat), turn, atol=1e-9)
    np.testing.assert_allclose(geometry.quat_to_rotvec(-quat), turn, atol=1e-9)


@given(vectors, st.floats(0.01, 3.0))
def test_clipping_a_norm_keeps_the_direction(vector, limit):
    clipped = geometry.clip_norm(vector, limit)
    assert np.linalg.norm(clipped) <= limit + 1e-12
    np.testing.assert_allclose(np.cross(clipped, vector), 0.0, atol=1e-9)
    if np.linalg.norm(vector) <= limit:
        np.testing.assert_array_equal(clipped, vector)
