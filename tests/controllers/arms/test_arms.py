"""One contract for every kind of arm: what `interfaces.Arm` promises, on each driver that has a
simulation behind it.

`fci_sim` is the driver `franka.py`, with Franka's own client library, against a robot on the other
side of the wire. In lockstep, so that nothing depends on how busy the machine is.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.controllers.setup import open_driver
from robot_rl.geometry import pose_error, pose_multiply, twist_of
from robot_rl.sim.panda import JOINT_RANGE, flange_pose
from robot_rl.types import ConfigError

pytestmark = pytest.mark.real_clock

HARDWARE = {"mujoco": "sim_panda", "fci_sim": "fci_sim"}
TOOL = np.array([0.01, -0.02, 0.15, 0.0, 0.0, 0.0, 1.0])


def open_arm(driver, **options):
    """An open arm over an empty table, whose time stands still between writes."""
    if driver == "fci_sim":
        pytest.importorskip(
            "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
        )
    arm = config.load_hardware(HARDWARE[driver]).arms[0]
    # nothing hangs on the simulated flange but the hand
    return open_driver(
        replace(arm, load=None, options={**arm.options, **options}), None, "lockstep"
    )


@pytest.fixture(scope="module", params=HARDWARE)
def opened(request):
    arm = open_arm(request.param)
    yield arm
    arm.close()


@pytest.fixture
def arm(opened):
    """At home, with a tool."""
    opened.set_tool(TOOL)
    opened.reset(0)
    return opened


def wave(tick):
    """Torques [Nm] that move every joint a little, and never by more than a robot allows in a
    millisecond.
    """
    return np.array([6.0, 8.0, 6.0, 6.0, 2.0, 2.0, 1.0]) * np.sin(0.02 * tick)


def test_a_reading_is_finite_and_its_pose_is_that_of_the_published_kinematics(arm):
    for tick in range(50):
        r = arm.read()
        for values, shape in ((r.q, 7), (r.dq, 7), (r.coriolis, 7), (r.pose, 7), (r.wrench, 6)):
            assert (
                values.shape == (shape,)
                and values.dtype == np.float64
                and np.isfinite(values).all()
            )
        np.testing.assert_allclose(
            pose_error(r.pose, pose_multiply(flange_pose(r.q), TOOL)), 0.0, atol=2e-6
        )
        arm.write(wave(tick))


def test_without_a_write_the_same_cycle_is_measured_again(arm):
    arm.read()
    arm.write(wave(30))
    first = arm.read().q.copy(), arm.read().dq.copy()
    np.testing.assert_array_equal(arm.read().q, first[0])
    np.testing.assert_array_equal(arm.read().dq, first[1])


def test_the_jacobian_is_the_derivative_of_the_pose(arm):
    for tick in range(60):
        r = arm.read()
        before = r.pose.copy()
        arm.write(wave(tick))
        r = arm.read()
        # a state on the wire is float32, hence 1e-7 m, which a millisecond makes 1e-4 m/s
        np.testing.assert_allclose(
            pose_error(before, r.pose) / 0.001, twist_of(r.jacobian, r.dq), atol=1e-3
        )


def test_gravity_is_held_below_the_driver(arm):
    start = arm.read().q.copy()
    for _ in range(200):
        arm.read()
        arm.write(np.zeros(7))
    np.testing.assert_allclose(arm.read().q, start, atol=1e-5)


def test_the_tool_moves_pose_and_jacobian(arm):
    pose = arm.read().pose.copy()
    longer = TOOL + np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    arm.set_tool(longer)
    r = arm.read()
    np.testing.assert_allclose(r.pose[2], pose[2] - 0.1, atol=1e-5)  # the hand points down
    np.testing.assert_allclose(
        pose_error(r.pose, pose_multiply(flange_pose(r.q), longer)), 0.0, atol=2e-6
    )


@pytest.mark.slow
def test_the_wrench_is_what_the_table_does_to_the_tool(arm):
    """Pressed on the table, the arm feels a force upwards of the size that it presses with."""
    arm.set_tool(np.array([0.0, 0.0, 0.112, 0.0, 0.0, 0.0, 1.0]))  # the fingers' ends
    for _ in range(2000):
        r = arm.read()
        force = np.array([0.0, 0.0, -8.0, 0.0, 0.0, 0.0]) - 80.0 * twist_of(r.jacobian, r.dq)
        arm.write(np.clip(r.jacobian.T @ force + r.coriolis, -20.0, 20.0))
    r = arm.read()
    assert abs(r.pose[2]) < 0.01, f"never touched the table: {r.pose[:3]}"
    assert 5.0 < r.wrench[2] < 11.0 and np.abs(r.wrench[:2]).max() < 5.0


def test_a_reset_is_home_at_rest_and_follows_from_the_seed(arm):
    for tick in range(20):
        arm.read()
        arm.write(wave(tick))
    arm.reset(7)
    r = arm.read()
    home = np.array(config.load_hardware("sim_panda").arms[0].home)
    np.testing.assert_allclose(r.q, home, atol=1e-6)
    np.testing.assert_array_equal(r.dq, 0.0)
    np.testing.assert_array_equal(r.wrench, 0.0)
    assert (r.q > np.array(JOINT_RANGE)[:, 0]).all() and (r.q < np.array(JOINT_RANGE)[:, 1]).all()
    assert arm.world().t == pytest.approx(0.0, abs=0.002)


@pytest.mark.slow
def test_the_same_torques_move_every_kind_of_arm_alike():
    """Over the wire, with Franka's client and Franka's model, the arm does what the simulation does
    by itself.
    """
    readings = {}
    for driver, options in (("mujoco", {}), ("fci_sim", {"torque_filter_hz": 0.0})):
        arm = open_arm(driver, **options)
        arm.set_tool(TOOL)
        arm.reset(0)
        for tick in range(300):
            arm.read()
            arm.write(wave(tick))
        r = arm.read()
        names = ("q", "dq", "pose", "jacobian", "coriolis")
        readings[driver] = {name: getattr(r, name).copy() for name in names}
        arm.close()
    for name, value in readings["mujoco"].items():
        np.testing.assert_allclose(readings["fci_sim"][name], value, atol=3e-6, err_msg=name)


def test_an_option_that_the_driver_does_not_have_is_named():
    pytest.importorskip(
        "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
    )
    arm = replace(config.load_hardware("franka_fr3").arms[0], options={"ipp": "172.16.0.2"})
    with pytest.raises(ConfigError, match="ipp"):
        open_driver(arm)
