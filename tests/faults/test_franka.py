"""Faults of a Franka arm, from its own wire up: the real client, the real processes, a robot that
is simulated.

Each leaves the robot standing still, a fault of a name, a black box, and a way back.
"""

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.recorder import load
from robot_rl.controllers.server import serve
from robot_rl.links.sockets import free_addresses
from robot_rl.sim.fci.process import Simulation
from robot_rl.types import ArmTarget, Compliance, DeviceError, Fault, LinkError
from tests.helpers import wait_until
from tests.system.main_job import descendants

pytest.importorskip(
    "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
)
HARDWARE = config.load_hardware("fci_sim").arms[0]
STANDS = 0.05  # [rad/s]


def can_be_undisturbed():
    """Without real-time priority a busy machine loses the robot twenty packets by itself."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, *before)
    return True


pytestmark = [
    pytest.mark.real_clock,
    pytest.mark.skipif(
        not can_be_undisturbed(), reason="needs real-time priority: rtprio in limits.conf"
    ),
]


def serve_arm(arm, folder, stop):
    serve(arm, stop=stop.is_set, blackbox=folder)


class Bench:
    """A simulated robot, and an arm's process that drives it over the wire."""

    def __init__(self, folder):
        self.folder = folder
        self.robot = Simulation(HARDWARE)
        self.start()

    def start(self):
        (address,) = free_addresses(1)
        # touched harder than this, the robot stops before the loop's own limit of 80 N does
        options = {"ip": self.robot.ip, "collision_force": [30.0, 30.0, 30.0, 20.0, 20.0, 20.0]}
        context = multiprocessing.get_context("spawn")
        self.stop = context.Event()
        arm = replace(HARDWARE, driver="franka", options=options, address=address)
        self.process = context.Process(target=serve_arm, args=(arm, self.folder, self.stop))
        self.process.start()
        self.arm = ArmClient(address, timeout_s=100.0)
        self.arm.configure(np.array(arm.pose_flange_tcp), Compliance(), arm.limits)
        self.middle = self.arm.refresh().pose_base_tcp.copy()

    def move(self, seconds, until=lambda state: False):
        """Go to and fro, sideways above the table; the state that ended it."""
        end = time.monotonic() + seconds
        while True:
            target = self.middle.copy()
            target[1] += 0.03 * np.sin(4.0 * time.monotonic())
            state = self.arm.command(ArmTarget(target, 0.1))
            if until(state) or time.monotonic() > end:
                return state
            time.sleep(0.02)

    def moves(self):
        """Whether the arm follows targets."""
        aside = list[float]()

        def has_stopped(state):
            aside.append(state.pose_base_tcp[1])
            return state.fault

        return not self.move(1.0, until=has_stopped).fault and np.ptp(aside) > 0.005

    def speed(self):
        return max(self.robot.ask("status")["largest_speed"] for _ in range(5))

    def fault(self):
        """The fault that ends the motion, once the robot stands still."""
        state = self.move(5.0, until=lambda state: state.fault)
        self.stands()
        return state

    def stands(self, mode=None):
        """Waits until the robot does, in that mode if one is given."""

        def is_so():
            status = self.robot.ask("status")
            return status["largest_speed"] <= STANDS and mode in (None, status["mode"])

        wait_until(is_so, what="the robot goes on moving")

    def black_box(self, event):
        """The last seconds before an event, which it has left on disk, up to the moment itself."""
        wait_until(
            lambda: list(self.folder.glob(f"*-{event}.npz")), what=f"no black box of {event}"
        )
        recording = load(next(self.folder.glob(f"*-{event}.npz")))
        assert recording.about["event"] == event and recording.about["reason"]
        if event != "LOOP_DIED":
            robot = recording.about[
                "robot"
            ]  # what it recorded itself, up to the state that names the error
            assert robot["stopped"] and len(robot["states"]) > 10
        assert len(recording.rows) > 500 and np.ptp(recording.column("pose_y")) > 0.001, (
            "what came before is not there"
        )
        return recording

    def comes_back(self):
        """Somebody has looked."""
        deadline = time.monotonic() + 10.0
        while (state := self.arm.acknowledge_fault()).fault:
            assert time.monotonic() < deadline, (
                f"the fault stays: {state.fault.name}: {state.reason}"
            )
            time.sleep(0.1)
        self.middle = self.arm.refresh().pose_base_tcp.copy()
        return self.moves()

    def loop_pid(self):
        assert self.process.pid is not None
        below = descendants(self.process.pid)
        return next(pid for pid, command in below.items() if "spawn_main" in command)

    def close(self):
        self.arm.close()
        self.stop.set()
        self.process.join(20.0)
        if self.process.is_alive():
            self.process.kill()
        self.robot.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("blackbox"))
    yield bench
    bench.close()


@pytest.fixture
def bench(shared):
    """The same processes for every fault: that each is over is part of the law."""
    for path in shared.folder.iterdir():
        path.unlink()
    shared.robot.ask("network", {"loss": 0.0, "cut": False})
    shared.robot.ask("user_stop", False)
    assert shared.moves(), "the last fault is not over"
    return shared


def test_a_collision_is_a_reflex(bench):
    """The robot's own, by the thresholds that our driver has set."""
    bench.robot.ask("touch", [0.0, 40.0, 0.0])
    state = bench.fault()
    assert state.fault == Fault.REFLEX and "reflex" in state.reason
    bench.black_box("REFLEX")
    bench.robot.ask("touch", [0.0, 0.0, 0.0])
    assert bench.comes_back()


def test_a_stall_of_60_ms_is_a_loss_of_communication(bench):
    pid = bench.loop_pid()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.06)
    os.kill(pid, signal.SIGCONT)
    state = bench.fault()
    assert state.fault == Fault.COMMUNICATION and "communication_constraints" in state.reason
    bench.black_box("COMMUNICATION")
    assert bench.comes_back()


def test_a_network_that_loses_every_packet_for_a_while_is_a_loss_of_communication(bench):
    bench.robot.ask("network", {"loss": 1.0})
    time.sleep(0.1)
    assert bench.robot.ask("status")["mode"] == "REFLEX"
    bench.robot.ask("network", {"loss": 0.0})
    state = bench.fault()
    assert state.fault == Fault.COMMUNICATION
    bench.black_box("COMMUNICATION")
    assert bench.comes_back()


def test_one_packet_in_twenty_is_lost_and_nothing_happens(bench):
    bench.robot.ask("network", {"loss": 0.05})
    before = bench.arm.stats().lost_ticks
    assert bench.moves()
    assert bench.arm.stats().lost_ticks > before
    bench.robot.ask("network", {"loss": 0.0})


def test_the_user_stop_has_to_be_released_before_anything_moves(bench):
    bench.robot.ask("user_stop", True)
    state = bench.fault()
    assert state.fault == Fault.USER_STOP
    bench.black_box("USER_STOP")
    assert bench.arm.acknowledge_fault().fault == Fault.USER_STOP, (
        "recovered while the stop is pressed"
    )
    bench.robot.ask("user_stop", False)
    assert bench.comes_back()


def test_a_cut_network_is_a_loss_of_communication_until_it_is_mended(bench):
    bench.robot.ask("network", {"cut": True})
    state = bench.fault()
    assert state.fault == Fault.COMMUNICATION and "no connection" in state.reason
    bench.black_box("COMMUNICATION")
    assert bench.arm.acknowledge_fault().fault == Fault.COMMUNICATION, "recovered without a network"
    bench.robot.ask("network", {"cut": False})
    assert bench.comes_back()


def test_a_torque_that_jumps_is_a_reflex(bench):
    bench.robot.ask("torque_jump", 5.0)
    state = bench.fault()
    assert state.fault == Fault.REFLEX and "controller_torque_discontinuity" in state.reason
    bench.black_box("REFLEX")
    assert bench.comes_back()


def test_an_actor_that_dies_leaves_an_arm_that_holds_within_the_lease(bench):
    assert bench.moves()
    last = time.monotonic()
    while not bench.arm.refresh().holding:
        assert time.monotonic() - last < 0.3 + 0.1, (
            "the lease of 3 periods of 0.1 s did not end the motion"
        )
        time.sleep(0.005)
    time.sleep(0.3)
    assert bench.speed() < STANDS and bench.robot.ask("status")["mode"] == "MOVE"
    assert bench.moves(), "a command ends a hold"


def test_a_loop_that_is_killed_leaves_a_robot_that_stands_and_can_be_started_again(bench):
    os.kill(bench.loop_pid(), signal.SIGKILL)
    with pytest.raises((DeviceError, LinkError)):
        bench.move(10.0)
    bench.process.join(10.0)
    assert bench.process.exitcode, (
        "an arm's process without its loop is of no use, and must say so by ending"
    )
    assert "exit code -9" in bench.black_box("LOOP_DIED").about["reason"]
    bench.stands("REFLEX")
    bench.arm.close()
    bench.start()
    assert bench.fault().fault == Fault.REFLEX, (
        "a robot in a reflex was moved without anybody having looked"
    )
    assert bench.comes_back()
