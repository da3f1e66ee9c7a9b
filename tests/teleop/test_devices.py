"""What every operator's device does, whichever it is: one contract over all drivers."""

import threading

import numpy as np
import pytest

from robot_rl import config
from robot_rl.interfaces import Given
from robot_rl.operator.mapping import Operator, Steering
from robot_rl.types import (
    CLOSE,
    OPEN,
    STAY,
    ActionSpec,
    ConfigError,
    DeviceError,
    OperatorCommand,
    TeleopMapping,
    Use,
)
from tests.hands import arm_at
from tests.teleop import benches
from tests.teleop.benches import until_says, wait_until

AHEAD = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
CENTRED = 0.005  # an 8-bit stick has no middle


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr("robot_rl.teleop._device.RETRY_S", (0.02, 0.05))


@pytest.fixture
def device(bench):
    device = bench.open()
    yield device
    device.close()


def say_success(bench, device):
    """Press and release, and wait until the device's thread has heard both."""
    bench.press_success()
    wait_until(lambda: device.held)
    bench.release_success()
    wait_until(lambda: not device.held)


def test_untouched_it_says_nothing(bench, device):
    said = device.read(())
    assert np.abs(said.twist).max() < CENTRED and said.gripper == 0.0
    assert said.outcome == OperatorCommand.NONE and said.problem == "" and said.frame == "base"


def test_held_it_says_how_far_it_is_deflected_and_let_go_it_says_nothing(bench, device):
    bench.hold()
    said = until_says(device, lambda said: said.active and said.twist.any())
    np.testing.assert_allclose(said.twist, AHEAD, atol=CENTRED)
    bench.let_go()
    assert np.abs(until_says(device, lambda said: not said.active).twist).max() < CENTRED


def test_a_word_is_said_once(bench, device):
    say_success(bench, device)
    assert [device.read(()).outcome for _ in range(3)] == [
        OperatorCommand.SUCCESS,
        OperatorCommand.NONE,
        OperatorCommand.NONE,
    ]


GRIPS = ActionSpec(("panda.x", "hand"), (1,))
PICK = Given(task=config.load_task("pick_cube"))


def test_its_gripper_buttons_close_and_open_the_hand_of_the_arm_that_it_drives(bench):
    operator = Operator(bench.open(PICK), actions=GRIPS)
    bench.hold()  # the dead-man's button, where there is one
    for role, choice in (("close", CLOSE), ("open", OPEN)):
        bench.press_gripper(role)
        wait_until(lambda choice=choice: operator.read([arm_at(0.0)]).action[1] == choice)
        bench.release_gripper(role)
        wait_until(lambda: operator.read([arm_at(0.0)]).action[1] == STAY)
    operator.close()


def test_words_that_nobody_read_are_handed_over_when_an_episode_begins(bench, device):
    say_success(bench, device)
    assert list(device.begin_episode()) == [OperatorCommand.SUCCESS]
    assert not device.begin_episode() and device.read(()).outcome == OperatorCommand.NONE


def test_it_says_what_was_found_and_what_its_controls_are_for(bench, device):
    assert device.name
    assert "success" in device.controls.values()
    assert isinstance(device.feel, TeleopMapping)


def test_an_absent_device_is_named_at_once(bench):
    bench.unplug()
    with pytest.raises(DeviceError, match=bench.nothing_there):
        bench.open()


def test_unplugged_in_use_nobody_holds_it_and_back_again_it_goes_on(bench, device, caplog):
    bench.hold()
    until_says(device, lambda said: said.active)
    bench.unplug()
    said = until_says(device, lambda said: said.problem)
    assert not said.active and not said.twist.any()
    assert device.name in caplog.text and "is gone" in caplog.text

    bench.plug_in()
    said = until_says(device, lambda said: not said.problem)
    assert not said.active, "what was held when it went is not held any more"
    bench.hold()
    until_says(device, lambda said: said.active and said.twist.any())


def test_a_word_that_was_said_before_it_was_unplugged_is_not_lost(bench, device):
    say_success(bench, device)
    bench.unplug()
    until_says(device, lambda said: said.outcome == OperatorCommand.SUCCESS)


def test_closed_it_reads_no_more_and_says_so(bench):
    device = bench.open()
    device.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("teleop")]
    assert not device.read(()).active and "not read any more" in device.read(()).problem


@pytest.mark.parametrize("driver", config.names_of("teleop"))
def test_each_file_of_the_folder_is_a_device(driver):
    for name in {"spacemouse": ["hid"], "keyboard": ["Xlib"], "gamepad": ["evdev"]}.get(driver, []):
        benches.require(name)
    Steering(config.driver("teleop", driver).feel)  # or it is a ConfigError


@pytest.mark.parametrize(
    ("driver", "package", "option", "value"),
    [
        ("spacemouse", "hid", "buttons", ["sucess"]),
        ("keyboard", "Xlib", "keys", {"w": "sucess"}),
        ("gamepad", "evdev", "buttons", {"south": "sucess"}),
    ],
)
def test_a_control_has_a_purpose_that_there_is(driver, package, option, value):
    benches.require(package)
    with pytest.raises(
        ConfigError, match=rf"teleop '{driver}': {option}: .*'sucess' is not known.*mean 'success'"
    ):
        config.make("teleop", Use(driver, {option: value}))
