"""The compiled law against its reference in numpy, and the properties that make it safe."""

import numpy as np
import pytest

from robot_rl.controllers import impedance
from robot_rl.geometry import IDENTITY, pose_error, quat_from_rotvec
from tests.rotations import rotvec_of, turn_between

GAINS = np.array([
    [2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0],
    [89.0, 89.0, 89.0, 7.0, 7.0, 7.0],
    [0.01, 0.008, 0.006, 0.05, 0.05, 0.04],
    [0.002, 0.01, 0.01, 0.05, 0.01, 0.05],
    [0.0, 100.0, 5000.0, 0.0, 20.0, 0.0],
])  # fmt: skip
BOUND_LOW, BOUND_HIGH = -GAINS[0] * GAINS[3], GAINS[0] * GAINS[2]


def numpy_error(pose, reference):
    turn = rotvec_of(turn_between(pose[3:], reference[3:]))
    return np.concatenate([reference[:3] - pose[:3], turn])


def numpy_law(q, dq, coriolis, pose, J, reference, posture, gains, kn, push):
    """The law as one writes it down."""
    e = np.clip(numpy_error(pose, reference), -gains[3], gains[2])
    F = np.clip(gains[0] * e + push, -gains[0] * gains[3], gains[0] * gains[2]) - gains[1] * (
        J @ dq
    )
    v = np.clip(kn * (posture - q), -3.0, 3.0) - 2.0 * np.sqrt(kn) * dq
    U, s, Vt = np.linalg.svd(J.T, full_matrices=False)
    # damped, as in serl_franka_controllers
    pinv = Vt.T @ np.diag(s / (s**2 + impedance.NULLSPACE_DAMPING)) @ U.T
    return J.T @ F + v - J.T @ (pinv @ v) + coriolis


def numpy_integral(integral, error, gains, dt):
    low, high = -gains[3], gains[2]
    e = np.clip(error, low, high)
    return np.where(
        gains[4] > 0,
        np.clip(integral + gains[4] * e * dt, gains[0] * (low - e), gains[0] * (high - e)),
        0.0,
    )


def random_arguments(rng):
    pose, reference = rng.normal(size=(2, 7))
    pose[3:] /= np.linalg.norm(pose[3:])
    # inside the clip, or beyond
    reference = pose + 0.02 * rng.normal(size=7) if rng.random() < 0.5 else reference
    reference[3:] /= np.linalg.norm(reference[3:])
    q, dq, coriolis, posture = rng.normal(size=(4, 7))
    push = rng.normal(size=6) * 20.0
    return q, dq, coriolis, pose, rng.normal(size=(6, 7)), reference, posture, GAINS, 10.0, push


def test_compiled_law_agrees_with_numpy_over_random_states():
    rng = np.random.default_rng(0)
    for _ in range(500):
        arguments = random_arguments(rng)
        wanted = numpy_law(*arguments)
        atol = 1e-11 * np.abs(wanted).max()
        np.testing.assert_allclose(
            impedance.impedance_torque(*arguments), wanted, atol=atol, rtol=1e-11
        )


def test_compiled_integral_and_joint_law_agree_with_numpy():
    rng = np.random.default_rng(1)
    for _ in range(200):
        integral, error = rng.normal(size=(2, 6)) * [[10.0], [0.02]]
        np.testing.assert_allclose(
            impedance.integrate(integral, error, GAINS, 0.001),
            numpy_integral(integral, error, GAINS, 0.001),
            atol=1e-12,
        )
        q, dq, coriolis, reference, speed = rng.normal(size=(5, 7)) * 0.1
        gains = rng.uniform(1.0, 500.0, (2, 7))
        clipped = np.clip(reference - q, -impedance.JOINT_CLIP, impedance.JOINT_CLIP)
        wanted = gains[0] * clipped + gains[1] * (speed - dq) + coriolis
        np.testing.assert_allclose(
            impedance.joint_torque(q, dq, coriolis, reference, speed, gains), wanted, atol=1e-12
        )


def test_static_force_never_exceeds_stiffness_times_clip_of_its_sign():
    rng = np.random.default_rng(1)
    for _ in range(100):
        q, _, _, pose, J, reference, _, gains, _, push = random_arguments(rng)
        tau = impedance.impedance_torque(
            q, np.zeros(7), np.zeros(7), pose, J, reference, q, gains, 0.0, 100.0 * push
        )
        force = np.linalg.lstsq(J.T, tau, rcond=None)[0]
        assert (force >= BOUND_LOW - 1e-9).all() and (force <= BOUND_HIGH + 1e-9).all()


def test_the_integral_neither_winds_up_nor_adds_to_the_largest_force():
    integral, error = np.zeros(6), np.array([0.0, 0.005, 0.005, 0.0, -0.1, 0.0])
    for _ in range(20_000):
        integral = impedance.integrate(integral, error, GAINS, 0.001)
        force = impedance.spring_force(error, integral, GAINS)
        assert (force >= BOUND_LOW - 1e-9).all() and (force <= BOUND_HIGH + 1e-9).all()
    # it has pushed as hard as it may, below the clip
    np.testing.assert_allclose(force[1:3], BOUND_HIGH[1:3])
    back = impedance.integrate(integral, -error, GAINS, 0.001)
    assert impedance.spring_force(-error, back, GAINS)[1] <= 0.0  # and lets go within a tick
    assert integral[0] == integral[3] == 0.0  # an axis without an integral has none


def test_minimum_jerk_starts_and_ends_at_rest_with_its_peak_in_the_middle():
    phases = np.linspace(0.0, 1.0, 1001)
    share, rate = np.array([impedance.minimum_jerk(phase) for phase in phases]).T
    assert share[0] == 0.0 and share[-1] == 1.0 and rate[0] == rate[-1] == 0.0
    assert rate.max() == rate[500] == pytest.approx(impedance.PEAK_OF_MINIMUM_JERK)
    np.testing.assert_allclose(np.gradient(share, phases)[1:-1], rate[1:-1], atol=1e-4)
    assert (np.diff(share) > 0.0).all()


def test_posture_torque_hardly_reaches_the_tool():
    rng = np.random.default_rng(2)
    q, _, _, pose, J, _, posture, gains, kn, _ = random_arguments(rng)
    tau = impedance.impedance_torque(
        q, np.zeros(7), np.zeros(7), pose, J, pose, posture, gains, kn, np.zeros(6)
    )
    through_tool = np.linalg.norm(np.linalg.pinv(J.T) @ tau)
    assert through_tool < 0.1 * np.linalg.norm(np.linalg.pinv(J.T) @ (kn * (posture - q)))


def test_damped_solve_solves():
    rng = np.random.default_rng(3)
    J, b = rng.normal(size=(6, 7)), rng.normal(size=6)
    np.testing.assert_allclose(
        (J @ J.T + 0.04 * np.eye(6)) @ impedance.solve_damped(J, b, 0.04), b, atol=1e-12
    )


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
