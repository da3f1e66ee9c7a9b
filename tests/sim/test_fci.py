"""The simulated FR3 as Franka's own client sees it: handshake, modes, limits, reflexes, recovery;
and strangers.
"""

import functools
import gc
import socket
import struct
import subprocess
import time

import numpy as np
import pytest

from robot_rl import config
from robot_rl.controllers.setup import open_driver
from robot_rl.sim.fci import layout
from robot_rl.sim.fci.process import Simulation
from robot_rl.sim.fci.robot import speed_allowed
from robot_rl.sim.fci.urdf import robot_urdf
from robot_rl.sim.franka_facts import FR3

plf = pytest.importorskip(
    "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
)
pytestmark = [pytest.mark.slow, pytest.mark.real_clock]
HARDWARE = config.load_hardware("sim_panda").arms[0]


@pytest.fixture(scope="module")
def simulation():
    """In lockstep, so that nothing depends on how busy the machine is."""
    with Simulation(HARDWARE, None, "lockstep") as running:
        yield running


@pytest.fixture
def robot(simulation):
    """A connected client of an idle robot at home."""
    gc.collect()  # the last test's client, if an exception still holds it
    simulation.ask("user_stop", False)
    simulation.reset(0)
    client = plf.Robot(simulation.ip, plf.RealtimeConfig.kIgnore)
    client.automatic_error_recovery()
    client.set_collision_behavior([40.0] * 7, [40.0] * 7, [60.0] * 6, [60.0] * 6)
    yield client
    client = None


def run(control, ticks, torque=lambda state, tick: np.zeros(7)):
    """Torque control for so many ticks; the last state."""
    state = None
    for tick in range(ticks):
        state, _ = control.readOnce()
        control.writeOnce(plf.Torques(torque(state, tick).tolist()))
    return state


class Starved(Exception):
    """The client, or the robot itself, got no processor for so long that the motion had to end."""


class Live:
    """A torque control on the real clock that knows how long its client has paused."""

    def __init__(self, real, client):
        self.real, self.control = real, client.start_torque_control()
        self.longest, self.at = 0.0, time.monotonic()

    def run(self, ticks):
        """The last state. Starved if client or robot has paused, and the motion was aborted."""
        state = None
        try:
            for _ in range(ticks):
                state = run(self.control, 1)
                self.longest, self.at = (
                    max(self.longest, time.monotonic() - self.at),
                    time.monotonic(),
                )
        except plf.ControlException as error:
            if max(self.longest, time.monotonic() - self.at) > 0.005:
                raise Starved from error
            raise
        except plf.NetworkException as error:
            if self.real.ask("status")["longest_slip_s"] > 0.5:
                raise Starved from error
            raise
        return state


def beside_load(test):
    """A busy machine may starve the client, which is no failure of the arm's: played again."""

    @functools.wraps(test)
    def played():
        for _ in range(20):
            try:
                return test()
            except Starved:
                pass
        raise AssertionError("the client was starved twenty times")

    return played


def test_states_have_the_sizes_of_protocol_version_10():
    assert (layout.STATE.itemsize, layout.TORQUES.itemsize, layout.HAND_STATE.size) == (
        1377,
        371,
        23,
    )
    assert layout.PAYLOAD[layout.Command.MOVE].itemsize == 113


def test_the_robot_stands_at_home_and_idle(robot):
    state = robot.read_once()
    np.testing.assert_allclose(state.q, HARDWARE.home, atol=1e-6)
    assert state.robot_mode == plf.RobotMode.Idle and not state.current_errors
    assert state.m_ee == pytest.approx(0.73)


def test_the_model_that_is_handed_out_is_the_one_that_is_simulated(robot):
    """Franka's library builds its own dynamics from our URDF: at another posture they are MuJoCo's."""

    twin, model = open_driver(HARDWARE), robot.load_model()
    twin.set_tool(np.array(HARDWARE.pose_flange_tcp))
    control = robot.start_torque_control()

    def torque(state, tick):
        reading = twin.read()
        np.testing.assert_allclose(
            np.reshape(model.zero_jacobian(state), (7, 6)).T, reading.jacobian, atol=1e-5
        )
        np.testing.assert_allclose(model.coriolis(state), reading.coriolis, atol=1e-5)
        tau = np.array([6.0, 8.0, 6.0, 6.0, 2.0, 2.0, 1.0]) * np.sin(0.02 * tick)
        twin.write(tau)
        return tau

    state = run(control, 200, torque)
    assert np.abs(state.dq).max() > 0.05


def test_nothing_can_be_set_during_a_motion(robot):
    control = robot.start_torque_control()
    run(control, 5)
    with pytest.raises(plf.CommandException, match="not possible"):
        robot.set_load(1.0, [0.0] * 3, [0.0] * 9)
    run(control, 5)


def test_a_motion_that_is_finished_leaves_the_robot_idle(robot):
    control = robot.start_torque_control()
    run(control, 5)
    last = plf.Torques([0.0] * 7)
    last.motion_finished = True
    control.readOnce()
    control.writeOnce(last)
    control = None
    assert robot.read_once().robot_mode == plf.RobotMode.Idle


def test_the_speed_allowed_falls_towards_the_ends_of_a_range_as_an_fr3s_does():
    """Numbers by hand from Franka's formula, at 0.1 rad from the end; and what the client's library
    is told.
    """
    allowed = speed_allowed(np.full(7, 0.1))
    np.testing.assert_allclose(
        allowed, [0.795, 0.519, 0.637, 0.594, 1.494, 0.699, 1.494], atol=1e-3
    )
    np.testing.assert_allclose(speed_allowed(np.full(7, 3.0)), FR3.max_joint_speed)
    for offset, deceleration in zip(FR3.speed_offset, FR3.deceleration, strict=True):
        assert f'velocity_offset="{offset}" deceleration_limit="{deceleration}"' in robot_urdf()


def test_a_joint_that_nears_its_end_too_fast_is_a_reflex_though_it_is_slower_than_its_largest_speed(
    robot,
):
    control = robot.start_torque_control()
    last = []

    def torque(state, tick):
        last.append((state.q[3], abs(state.dq[3])))
        return np.array([0.0, 0.0, 0.0, -min(8.0, 0.5 * tick), 0.0, 0.0, 0.0])

    with pytest.raises(plf.ControlException, match="joint_velocity_violation"):
        run(control, 2000, torque)
    control = None
    q, speed = last[-1]
    assert FR3.joint_low[3] + 0.1 < q < -2.4 and 0.8 < speed < 2.3 < FR3.max_joint_speed[3]
    assert speed > 0.95 * speed_allowed(np.full(7, q - FR3.joint_low[3]))[3]


@pytest.mark.parametrize(
    ("torque", "error"),
    [
        (
            lambda state, tick: np.full(7, 3.0 if tick == 20 else 0.0),
            "controller_torque_discontinuity",
        ),
        (
            lambda state, tick: np.array([0, 0, 0, 0, 0.5 * tick, 0, 0.0]),
            "tau_j_range_violation|tau_J_range|velocity",
        ),
    ],
)
def test_torques_beyond_the_limits_are_reflexes_and_recovery_ends_them(
    robot, simulation, torque, error
):
    control = robot.start_torque_control()
    with pytest.raises(plf.ControlException, match=error):
        run(control, 100, torque)
    control = None
    assert robot.read_once().robot_mode == plf.RobotMode.Reflex
    with pytest.raises((plf.CommandException, plf.ControlException), match="Reflex"):
        robot.start_torque_control()
    robot.automatic_error_recovery()
    run(robot.start_torque_control(), 10)


def press(model, state, tick):
    """Let the hand sink onto the table, about 5 N at first, then ever harder."""
    force = -5.0 - 0.1 * max(tick - 1200, 0)
    J, last = np.reshape(model.zero_jacobian(state), (7, 6)).T, np.array(state.tau_J_d)
    wrench = np.array([0.0, 0.0, force, 0.0, 0.0, 0.0]) - np.array([40.0] * 3 + [4.0] * 3) * (
        J @ state.dq
    )
    return last + np.clip(np.clip(J.T @ wrench, -11.0, 11.0) - last, -0.9, 0.9)


@pytest.mark.parametrize(
    ("torque_threshold", "force_threshold", "error"),
    [(40.0, 15.0, "cartesian_reflex"), (4.0, 80.0, "joint_reflex")],
)
def test_a_collision_is_judged_by_the_clients_own_thresholds(
    robot, torque_threshold, force_threshold, error
):
    robot.set_collision_behavior(
        [torque_threshold] * 7, [torque_threshold] * 7, [force_threshold] * 6, [force_threshold] * 6
    )
    model = robot.load_model()
    control = robot.start_torque_control()
    with pytest.raises(plf.ControlException, match=error):
        run(control, 3000, lambda state, tick: press(model, state, tick))
    control = None
    state = robot.read_once()
    # what the arm does to the table is positive in the robot's sign: it presses down
    assert state.O_F_ext_hat_K[2] < -2.0
    assert np.abs(state.dq).max() < 0.5


def test_a_pressed_user_stop_ends_a_motion_and_keeps_the_robot_from_another(robot, simulation):
    control = robot.start_torque_control()
    run(control, 5)
    simulation.ask("user_stop", True)
    with pytest.raises(plf.ControlException, match="User Stop"):
        run(control, 5)
    control = None
    with pytest.raises((plf.CommandException, plf.ControlException)):
        robot.start_torque_control()
    simulation.ask("user_stop", False)
    run(robot.start_torque_control(), 5)


def test_the_clients_numbers_are_checked(robot):
    with pytest.raises(plf.CommandException):
        robot.set_collision_behavior([-1.0] * 7, [-1.0] * 7, [1.0] * 6, [1.0] * 6)
    with pytest.raises(plf.CommandException):
        robot.set_EE([2.0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0, 1.0])


def raw(simulation, port=layout.ARM_PORT):
    gc.collect()
    client = socket.create_connection((simulation.ip, port), timeout=5.0)
    client.settimeout(5.0)
    return client


def answer(client):
    """What comes back; nothing, if the connection is closed."""
    try:
        return client.recv(100)
    except ConnectionResetError:
        return b""


def test_another_version_of_the_protocol_is_told_which_one_is_spoken(simulation):
    with raw(simulation) as client:
        client.sendall(struct.pack("<IIIHH", 0, 3, 16, 5, 40000))
        assert struct.unpack("<IIIBH", answer(client)) == (0, 3, 15, 1, 10)


def test_a_second_client_is_sent_away(simulation, robot):
    with raw(simulation) as other:
        assert not answer(other)
    assert robot.read_once().robot_mode == plf.RobotMode.Idle


def test_garbage_ends_its_own_connection_alone(simulation):
    rng = np.random.default_rng(0)
    for size in (3, 12, 40, 4000):
        with raw(simulation) as client:
            client.sendall(struct.pack("<III", 99, 1, 12 + size) + rng.bytes(size))
            assert not answer(client)
    assert simulation.ask("status")["mode"] == "IDLE"


@pytest.mark.parametrize("size", [0, 11, 13, 2**32 - 1])
@pytest.mark.parametrize(
    "command", [layout.Command.STOP_MOVE, layout.Command.GET_ROBOT_MODEL, layout.Command.MOVE]
)
def test_a_request_whose_header_lies_about_its_size_ends_its_connection(simulation, command, size):
    with raw(simulation) as client:
        client.sendall(struct.pack("<III", command, 1, size))
        assert not answer(client)
    with raw(simulation, layout.HAND_PORT) as client:
        client.sendall(struct.pack("<HII", layout.HandCommand.STOP, 1, size))
        assert not answer(client)
    assert simulation.ask("status")["mode"] == "IDLE"


def test_a_client_that_asks_and_never_reads_is_let_go(simulation):
    with raw(simulation) as client:
        requests, deadline = (
            100 * struct.pack("<III", layout.Command.GET_ROBOT_MODEL, 1, 12),
            time.monotonic() + 20.0,
        )
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while time.monotonic() < deadline:
                client.sendall(requests)
    assert simulation.ask("status")["mode"] == "IDLE"


@pytest.mark.parametrize("port", [0, 1, 65535])
def test_a_client_that_leaves_at_once_and_listens_nowhere_harms_nobody(simulation, port):
    for _ in range(5):
        with raw(simulation) as client:
            # a reset, not an end
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(
                struct.pack("<IIIHH", layout.Command.CONNECT, 1, 16, layout.VERSION, port)
            )
    assert simulation.ask("status")["mode"] == "IDLE"


@beside_load
def test_real_time_keeps_a_millisecond_and_counts_what_the_client_loses():
    with Simulation(HARDWARE) as real:
        client = plf.Robot(real.ip, plf.RealtimeConfig.kIgnore)
        before, begun = real.ask("status")["ticks"], time.monotonic()
        time.sleep(0.3)
        after = real.ask("status")["ticks"]
        elapsed = time.monotonic() - begun
        # it slips, it never bursts
        assert 0.3 * 1000 * elapsed < after - before < 1.1 * 1000 * elapsed
        live = Live(real, client)
        live.run(20)
        time.sleep(0.1)
        with pytest.raises(plf.ControlException, match="communication_constraints_violation"):
            run(live.control, 200)
        status = real.ask("status")
        assert status["mode"] == "REFLEX" and status["lost_ticks"] >= 19
        del live


@beside_load
def test_a_robot_that_stood_still_itself_blames_nobody():
    with Simulation(HARDWARE) as real:
        client = plf.Robot(real.ip, plf.RealtimeConfig.kIgnore)
        live = Live(real, client)
        live.run(50)
        before = real.ask("status")
        # by another process: a client that waits for a state holds the GIL
        stop = subprocess.Popen([
            "sh",
            "-c",
            f"kill -STOP {real.pid}; sleep 0.05; kill -CONT {real.pid}",
        ])
        live.run(300)
        while stop.poll() is None:
            live.run(20)
        ended, after = time.monotonic(), real.ask("status")
        if time.monotonic() - ended > 0.015:
            raise Starved  # nobody has sent a torque meanwhile: that is a reflex of its own
        assert after["mode"] == "MOVE" and after["slips"] > before["slips"]
        assert after["lost_ticks"] - before["lost_ticks"] < 20, (
            "fifty cycles went by in which nobody could answer"
        )
        del live


@beside_load
def test_a_network_that_loses_one_packet_in_ten_does_not_stop_the_arm_but_a_deaf_one_does():
    with Simulation(HARDWARE) as real:
        client = plf.Robot(real.ip, plf.RealtimeConfig.kIgnore)
        real.ask("network", {"loss": 0.1})
        live = Live(real, client)
        live.run(300)
        assert real.ask("status")["lost_ticks"] > 10
        real.ask("network", {"cut": True})
        with pytest.raises(plf.NetworkException, match="Timeout"):
            live.run(300)
        status = real.ask("status")
        assert status["errors"] == ["COMMUNICATION_CONSTRAINTS"] and status["largest_speed"] < 0.01
        del live


@beside_load
def test_commands_that_are_lost_on_their_way_are_in_the_robots_own_success_rate():
    """Every state arrives: nobody on this side of the wire could know."""
    with Simulation(HARDWARE) as real:
        client = plf.Robot(real.ip, plf.RealtimeConfig.kIgnore)
        live = Live(real, client)
        assert live.run(200).control_command_success_rate > 0.8
        real.ask("network", {"command_loss": 0.5})
        state = live.run(400)
        assert 0.2 < state.control_command_success_rate < 0.7
        assert real.ask("status")["lost_ticks"] > 100
        del live
