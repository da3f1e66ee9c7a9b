"""One contract for every kind of gripper, and for the process that it lives in."""

import time

import pytest

from robot_rl import config
from robot_rl.config import GripperConfig
from robot_rl.controllers.gripper import GripperProcess
from robot_rl.controllers.recorder import load
from robot_rl.interfaces import Given
from robot_rl.tools.blackbox import describe, draw
from robot_rl.types import ConfigError, DeviceError, Use
from tests.helpers import wait_until

OBJECT_M = 0.02
FAST = 0.1


@pytest.fixture(scope="module")
def robot():
    """A simulated robot with something 20 mm wide between its fingers."""
    pytest.importorskip(
        "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
    )
    from robot_rl.sim.fci.process import Simulation

    with Simulation(
        config.load_hardware("sim_panda").arms[0], object_width_m=OBJECT_M
    ) as simulation:
        yield simulation


@pytest.fixture(params=["mujoco", "franka"])
def gripper(request):
    if request.param == "mujoco":
        options = {"object_width_m": OBJECT_M}
    else:
        options = {"ip": request.getfixturevalue("robot").ip}
    opened = config.make("controllers/grippers", Use(request.param, options), Given(name="hand"))
    yield opened
    opened.close()


def test_it_moves_to_a_width_and_says_so(gripper):
    assert gripper.move(0.06, FAST)
    reading = gripper.read()
    assert abs(reading.width_m - 0.06) < 5e-4 and not reading.grasped
    assert 0.0 < reading.width_m <= reading.max_width_m


def test_a_grasp_holds_what_is_there_and_misses_what_is_not(gripper):
    gripper.move(0.05, FAST)
    assert gripper.grasp(OBJECT_M, FAST, 20.0, 0.005) and gripper.read().grasped
    gripper.move(0.05, FAST)
    assert not gripper.grasp(0.04, FAST, 20.0, 0.005) and not gripper.read().grasped


def test_homing_ends_open(gripper):
    gripper.home()
    reading = gripper.read()
    assert abs(reading.width_m - reading.max_width_m) < 5e-4


def test_what_the_hand_cannot_do_is_an_error(gripper):
    with pytest.raises(DeviceError, match="hand"):
        gripper.move(0.5, FAST)


def test_nobody_at_the_address_says_what_to_look_at():
    pytest.importorskip(
        "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
    )
    with pytest.raises(DeviceError, match=r"127\.9\.9\.9.*FCI"):
        config.make("controllers/grippers", Use("franka", {"ip": "127.9.9.9"}))


def finished(process):
    wait_until(lambda: not process.state().busy, what="the hand is never through")
    return process.state()


def test_an_order_does_not_wait_for_the_fingers():
    process = GripperProcess(GripperConfig("hand", "mujoco", {"object_width_m": OBJECT_M}))
    try:
        begun = time.monotonic()
        process.grasp(OBJECT_M, speed=0.1)
        assert time.monotonic() - begun < 0.1
        state = finished(process)
        assert state.succeeded and state.reading.grasped and time.monotonic() - begun > 0.3
        with pytest.raises(ConfigError, match=r"width_m is -0\.1"):
            process.move(-0.1)
    finally:
        process.close()


def black_box(folder):
    """The file that a fault has left."""
    wait_until(lambda: list(folder.glob("*GRIPPER.npz")), what="no black box")
    return next(folder.glob("*GRIPPER.npz"))


def test_a_hand_that_fails_is_a_latched_fault_with_a_black_box_and_a_way_back(robot, tmp_path):
    process = GripperProcess(GripperConfig("hand", "franka", {"ip": robot.ip}), tmp_path)
    try:
        robot.ask("jam_hand", True)
        process.move(0.03)
        assert "failed" in finished(process).reason
        with pytest.raises(DeviceError, match="acknowledge"):
            process.move(0.04)
        recording = load(black_box(tmp_path))
        assert "failed" in describe(recording)
        assert recording.column("fault").tolist()[-2:] == [0.0, 1.0]
        assert (
            recording.column("ordered_width_m")[-1]
            == 0.03
            != recording.column("measured_width_m")[-1]
        )
        assert draw(recording, tmp_path / "hand.png").read_bytes()[:4] == b"\x89PNG"
        robot.ask("jam_hand", False)
        process.acknowledge()
        wait_until(
            lambda: not process.state().reason, what="the fault outlives its acknowledgement"
        )
        process.move(0.05, speed=FAST)
        assert finished(process).succeeded
    finally:
        robot.ask("jam_hand", False)
        process.close()


def test_the_franka_hand_of_a_scene_with_fingers_holds_and_drops_what_is_there():
    pytest.importorskip("pylibfranka", reason="pip install robot_rl[franka]")
    from robot_rl.sim.fci.process import Simulation

    scene = Use("tests.sim.pinched:Scene", {"width_m": OBJECT_M})
    with Simulation(config.load_hardware("sim_panda").arms[0], scene) as robot:
        hand = config.make(
            "controllers/grippers", Use("franka", {"ip": robot.ip}), Given(name="hand")
        )
        try:
            held = hand.read()
            assert held.grasped and abs(held.width_m - OBJECT_M) < 1e-3
            height = robot.ask("world")["objects"][0][2]
            assert hand.move(held.max_width_m, FAST) and not hand.read().grasped
            dropped = robot.ask("world")
            assert dropped["objects"][0][2] < height - 0.05 and dropped["width_m"] > 0.079
            assert not hand.grasp(OBJECT_M, FAST, 40.0, 0.005), "nothing is there any more"
        finally:
            hand.close()


def test_a_hand_that_is_not_there_is_an_error_at_the_start():
    pytest.importorskip(
        "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
    )
    with pytest.raises(DeviceError, match=r"127\.9\.9\.9"):
        GripperProcess(GripperConfig("hand", "franka", {"ip": "127.9.9.9"}))
