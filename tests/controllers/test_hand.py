"""A hand as the environment has it: choices on the leash of time, and nothing that opens by itself."""

import multiprocessing
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config import GripperConfig
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.hand import Hand, SimulatedGripper
from robot_rl.types import ArmTarget, DeviceError, GripperReading, GripperState, Use
from tests.controllers.bench import served
from tests.helpers import wait_until

(ARM,) = config.load_hardware("sim_panda").arms
CONFIG = GripperConfig("hand", "mujoco", toggle_s=0.5)
BLOCK = Use("tests.sim.pinched:Scene", {"width_m": 0.03})


class Fingers:
    """A gripper that does what it is told at once, unless it is told not to."""

    def __init__(self):
        self.width, self.reason, self.busy, self.orders = 0.08, "", False, []
        self.dead = False

    def state(self):
        if self.dead:
            raise DeviceError("its process has died")
        reading = GripperReading(self.width, 0.08, 0.01 < self.width < 0.07)
        return GripperState(0.0, reading, self.busy, True, self.reason)

    def move(self, width, speed):
        self.orders.append(("move", width))
        self.width = width

    def grasp(self, width, speed, force, tolerance):
        self.orders.append(("grasp", width - tolerance, width + tolerance))
        self.width = 0.04

    def acknowledge(self):
        self.reason = ""

    def close(self):
        self.orders.append("close")


@pytest.fixture
def hand(monkeypatch):
    monkeypatch.setattr("robot_rl.controllers.hand.open_gripper", lambda *args: Fingers())
    return Hand(CONFIG, ARM)


def test_a_choice_is_begun_once_and_not_before_the_last_toggle_is_old_enough(hand):
    hand.begin_episode(0.08)
    said = [(0, 0.0), (1, 0.1), (-1, 0.2), (-1, 0.3), (1, 0.4), (1, 0.69), (1, 0.71), (-1, 1.3)]
    begun = [hand.choose(choice, t) for choice, t in said]
    assert begun == [0, 0, -1, 0, 0, 0, 1, -1]
    closing = ("grasp", pytest.approx(0.001), pytest.approx(0.08))
    assert hand._gripper.orders == [closing, ("move", 0.08), closing]
    assert hand.state().held


def test_while_the_fingers_move_nothing_else_is_begun(hand):
    hand.begin_episode(0.08)
    hand._gripper.busy = True
    assert hand.choose(-1, 1.0) == 0 and hand.state().moving
    hand._gripper.busy = False
    assert hand.choose(-1, 1.0) == -1


def test_a_fault_is_latched_until_somebody_acknowledges_it_and_opens_nothing(hand):
    hand.choose(-1, 0.0)
    hand._gripper.reason = "jammed"
    assert hand.choose(1, 9.0) == 0 and hand.state().reason == "jammed"
    hand.acknowledge()
    assert not hand.state().reason and hand._gripper.orders == [
        ("grasp", pytest.approx(0.001), pytest.approx(0.08))
    ]
    hand._gripper.dead = True
    assert hand.choose(1, 9.0) == 0 and "died" in hand.state().reason and hand.state().held
    hand.acknowledge()
    assert not hand.state().reason and hand.choose(1, 9.0) == 1


def test_fingers_that_do_not_get_to_the_start_are_a_fault_that_says_what_to_look_at(hand):
    hand._gripper.move = lambda width, speed: None
    hand._gripper.width = 0.03
    hand.begin_episode(0.08)
    assert "30.0 mm" in hand.state().reason and "open_m" in hand.state().reason


def let_pass(client, periods):
    pose = client.state().pose_base_tcp
    for _ in range(periods):
        client.command(ArmTarget(pose, 0.1))


def test_in_lockstep_fingers_move_with_the_arms_time_and_with_nothing_else(address):
    with served(address, "lockstep", BLOCK) as (client, arm):
        hand = Hand(CONFIG, arm)
        try:
            assert hand.state().held and hand.state().width == pytest.approx(0.03, abs=1e-3)
            assert hand.choose(1, client.state().t) == 1
            widths = [hand.state().width for _ in range(5)]
            assert len(set(widths)) == 1 and hand.state().moving
            let_pass(client, 8)
            opened = hand.state()
            assert opened.width == pytest.approx(0.08, abs=1e-3)
            assert not (opened.moving or opened.held or opened.reason)
            assert hand.choose(-1, client.state().t) == -1
            let_pass(client, 12)
            shut = hand.state()
            assert shut.width < 1e-3 and not shut.held, "the block has fallen"
        finally:
            hand.close()


def test_who_may_not_move_the_arm_may_look_at_its_fingers_and_not_move_them(address):
    with served(address, "lockstep", BLOCK):
        stranger = SimulatedGripper("hand", address)
        stranger._link._secret = b"x" * 16
        try:
            assert stranger.state().reading.grasped
            with pytest.raises(Exception, match="secret"):
                stranger.move(0.08)
            assert stranger.state().reading.grasped
        finally:
            stranger.close()


def test_an_arm_without_fingers_says_so_and_its_hand_is_the_gripper_of_the_file(address):
    with served(address, "lockstep") as (_, arm):
        link = SimulatedGripper("hand", address)
        body = np.zeros((), messages.FINGER_ORDER)
        body["order"] = 2
        with pytest.raises(DeviceError, match="no fingers move"):
            link._link.ask(messages.Kind.MOVE_FINGERS, body)
        link.close()
        hand = Hand(CONFIG, arm)
        try:
            assert hand.state().width == pytest.approx(0.08) and hand.choose(-1, 0.0) == -1
            wait_until(lambda: not hand.state().moving, what="the fingers never get there")
            assert hand.state().width < 1e-3 and not hand.state().held
            process: Any = hand._gripper
            process._process.kill()
            process._process.join()
            assert "its process has died" in hand.state().reason and hand.choose(1, 9.0) == 0
            hand.acknowledge()
            assert not hand.state().reason and hand.choose(1, 9.0) == 1
        finally:
            hand.close()


def hold_and_wait(address, begun):
    """A process that has an arm and its hand, as an environment does, until it is killed."""
    client = ArmClient(address)
    client.configure(np.array(ARM.pose_flange_tcp), config.Task.compliance, ARM.limits)
    hand = Hand(CONFIG, replace(ARM, address=address))
    client.command(ArmTarget(client.state().pose_base_tcp, 0.1))
    begun.send(hand.state().held)
    threading.Event().wait()


@pytest.mark.slow
def test_who_holds_something_and_is_killed_drops_nothing(address, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with served(address, "real", BLOCK) as (client, _):
        seen, said = spawn.Pipe(duplex=False)
        holder = spawn.Process(target=hold_and_wait, args=(address, said))
        holder.start()
        try:
            assert seen.recv(), "the block is held"
            holder.kill()
            holder.join()
            begun = client.refresh().t
            wait_until(lambda: client.refresh().t > begun + 1.0, what="the arm stands still")
            look = SimulatedGripper("hand", address)
            state = look.state()
            look.close()
            assert client.refresh().holding and state.reading.grasped
            assert state.reading.width_m == pytest.approx(0.03, abs=1e-3)
        finally:
            holder.kill()
