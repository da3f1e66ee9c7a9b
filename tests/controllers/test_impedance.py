"""The compiled law against its reference in numpy, and the properties that make it safe."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_rl.controllers import impedance
from robot_rl.geometry import IDENTITY, pose_error, quat_from_rotvec

GAINS = np.array([
    [2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0], [89.0, 89.0, 89.0, 7.0, 7.0, 7.0], [0.01] * 3 + [0.05] * 3
])  # fmt: skip


def numpy_law(q, dq, coriolis, pose, J, reference, posture, gains, kn):
    """The law as one writes it down."""
    turn = Rotation.from_quat(reference[3:]) * Rotation.from_quat(pose[3:]).inv()
    e = np.clip(np.concatenate([reference[:3] - pose[:3], turn.as_rotvec()]), -gains[2], gains[2])
    F = gains[0] * e - gains[1] * (J @ dq)
    v = kn * (posture - q) - 2.0 * np.sqrt(kn) * dq
    U, s, Vt = np.linalg.svd(J.T, full_matrices=False)
    pinv = Vt.T @ np.diag(s / (s**2 + impedance.NULLSPACE_DAMPING)) @ U.T  # damped, as in serl_franka_controllers
    return J.T @ F + v - J.T @ (pinv @ v) + coriolis


def random_arguments(rng):
    pose, reference = rng.normal(size=(2, 7))
    pose[3:] /= np.linalg.norm(pose[3:])
    reference[3:] /= np.linalg.norm(reference[3:])
    q, dq, coriolis, posture = rng.normal(size=(4, 7))
    return q, dq, coriolis, pose, rng.normal(size=(6, 7)), reference, posture, GAINS, 10.0


@pytest.mark.parametrize("seed", range(20))
def test_compiled_law_agrees_with_numpy_to_1e_10(seed):
    arguments = random_arguments(np.random.default_rng(seed))
    np.testing.assert_allclose(impedance.impedance_torque(*arguments), numpy_law(*arguments), atol=1e-10, rtol=1e-10)


def test_static_force_never_exceeds_stiffness_times_clip():
    rng = np.random.default_rng(1)
    for _ in range(50):
        q, _, _, pose, J, reference, _, gains, _ = random_arguments(rng)
        tau = impedance.impedance_torque(q, np.zeros(7), np.zeros(7), pose, J, reference, q, gains, 0.0)
        force = np.linalg.lstsq(J.T, tau, rcond=None)[0]
        assert (np.abs(force) <= gains[0] * gains[2] + 1e-9).all()


def test_posture_torque_hardly_reaches_the_tool():
    rng = np.random.default_rng(2)
    q, _, _, pose, J, _, posture, gains, kn = random_arguments(rng)
    tau = impedance.impedance_torque(q, np.zeros(7), np.zeros(7), pose, J, pose, posture, gains, kn)
    through_tool = np.linalg.norm(np.linalg.pinv(J.T) @ tau)
    assert through_tool < 0.1 * np.linalg.norm(np.linalg.pinv(J.T) @ (kn * (posture - q)))


def test_damped_solve_solves():
    rng = np.random.default_rng(3)
    J, b = rng.normal(size=(6, 7)), rng.normal(size=6)
    np.testing.assert_allclose((J @ J.T + 0.04 * np.eye(6)) @ impedance.solve_damped(J, b, 0.04), b, atol=1e-12)


def test_reference_moves_at_most_its_speed_and_arrives():
    target = np.concatenate([[0.3, -0.2, 0.1], quat_from_rotvec(np.array([0.4, 0.1, -0.8]))])
    reference = IDENTITY
    for _ in range(6000):
        after = impedance.filter_reference(reference, target, 0.02, 0.00025, 0.001)
        step = pose_error(reference, after)
        assert np.linalg.norm(step[:3]) <= 0.00025 + 1e-12
        assert np.linalg.norm(step[3:]) <= 0.001 + 1e-9
        reference = after
    np.testing.assert_allclose(pose_error(reference, target), 0.0, atol=1e-6)


def test_reference_filter_is_first_order_with_its_time_constant():
    target = np.concatenate([[0.01, 0.0, 0.0], IDENTITY[3:]])
    reference, gain = IDENTITY, 1.0 - np.exp(-0.001 / 0.05)
    for _ in range(50):
        reference = impedance.filter_reference(reference, target, gain, 1.0, 1.0)
    np.testing.assert_allclose(reference[0], 0.01 * (1.0 - np.exp(-1.0)), rtol=1e-9)
