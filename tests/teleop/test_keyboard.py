"""The keyboard, by keys that are really pressed on a display that nobody sees."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from robot_rl.interfaces import Given
from robot_rl.teleop._device import SLOW
from robot_rl.types import AXES, ConfigError, DeviceError, OperatorCommand
from tests.teleop.benches import require, until_says, wait_until

Xlib = require("Xlib")

from robot_rl.teleop import keyboard  # noqa: E402


@pytest.fixture
def display(start_display):
    return start_display()


@pytest.fixture
def device(display):
    device = keyboard.Teleop(keyboard.Options(), Given())
    yield device
    device.close()


def test_each_key_moves_its_axis_and_two_keys_both(display, device):
    display.press("space")
    for key, role in keyboard.KEYS.items():
        if role[0] in "+-":
            wanted = np.zeros(6)
            wanted[AXES.index(role[1:])] = float(role[0] + "1")
            display.press(key)
            wait_until(lambda: [*device.read(()).twist] == [*wanted])  # noqa: B023
            assert device.read(()).active
            display.release(key)
    for key in "wa":
        display.press(key)
    until_says(device, lambda said: said.twist[0] == said.twist[1] == 1.0)
    display.press("s")  # against w
    until_says(device, lambda said: said.twist[0] == 0.0 and said.twist[1] == 1.0)


def test_without_the_space_bar_typing_moves_nothing(display, device):
    display.press("w")
    assert not until_says(device, lambda said: said.twist.any()).active


def test_every_word_has_a_key(display, device):
    for key, role in keyboard.KEYS.items():
        if role.upper() in OperatorCommand.__members__:
            display.tap(key.upper())
            assert (
                until_says(device, lambda said: said.outcome).outcome
                == OperatorCommand[role.upper()]
            )


def test_the_gripper_goes_as_long_as_its_key_is_down(display, device):
    display.press("q")
    until_says(device, lambda said: said.gripper == -1.0)
    display.release("q")
    until_says(device, lambda said: said.gripper == 0.0)


def test_a_key_that_repeats_is_pressed_once(display, device):
    display.press("F6")
    wait_until(lambda: device.reports > 3)  # the server repeats it after 0.66 s, 25 times a second
    words = [device.read(()).outcome for _ in range(20)]
    assert words == [OperatorCommand.SUCCESS] + [OperatorCommand.NONE] * 19
    display.release("F6")
    display.press("w")
    reports = device.reports
    while device.reports < reports + 4:
        assert device.read(()).twist[0] == 1.0 or device.reports == reports, (
            "it let go between two repeats"
        )
        time.sleep(0.002)


def test_with_shift_a_key_is_the_same_key_and_slow(display, device):
    display.press("Shift_L")
    display.press("w")
    until_says(device, lambda said: said.twist[0] == 1.0 and said.pace == SLOW)
    display.release("Shift_L")
    until_says(device, lambda said: said.twist[0] == said.pace == 1.0)
    display.release("w")
    until_says(device, lambda said: not said.twist.any())


def test_a_key_that_comes_up_while_another_program_has_the_keyboard_is_up(display, device):
    display.press("space")
    display.press("w")
    until_says(device, lambda said: said.active)
    locker = Xlib.display.Display(display.name)
    root = locker.screen().root
    root.grab_keyboard(True, Xlib.X.GrabModeAsync, Xlib.X.GrabModeAsync, Xlib.X.CurrentTime)
    locker.sync()
    display.release("w")
    until_says(device, lambda said: not said.twist.any())
    locker.close()


def test_a_key_down_that_nobody_told_is_noticed_and_one_from_before_is_not(display, monkeypatch):
    monkeypatch.setattr(keyboard._Keyboard, "_on_press", lambda listener, key: None)
    display.press("space")
    device = keyboard.Teleop(keyboard.Options(), Given())
    display.press("w")
    assert not until_says(device, lambda said: said.twist[0] == 1.0).active
    display.release("space")
    time.sleep(0.1)
    display.press("space")
    until_says(device, lambda said: said.active)
    device.close()


def test_a_key_that_goes_down_while_the_display_is_asked_stays_down(device, display):
    asked, answers = device._source._display.query_keymap, []

    def press_meanwhile():
        answers.append(asked())
        if len(answers) == 1:
            display.press("w")
            wait_until(lambda: device.held)
        return answers[-1]

    device._source._display.query_keymap = press_meanwhile
    wait_until(lambda: len(answers) > 1)
    assert device.held == {"w"}


def test_a_key_that_is_tapped_as_soon_as_the_device_is_there_is_heard(display, monkeypatch):
    """pynput says that it is ready before the display has been asked to tell anything."""
    begin = Xlib.ext.record.EnableContext.__init__

    def slowly(*args, **options):
        time.sleep(0.3)
        begin(*args, **options)

    monkeypatch.setattr(Xlib.ext.record.EnableContext, "__init__", slowly)
    device = keyboard.Teleop(keyboard.Options(), Given())
    display.tap("F6")
    until_says(device, lambda said: said.outcome == OperatorCommand.SUCCESS)
    device.close()


def test_the_hardware_file_changes_single_keys(display):
    device = keyboard.Teleop(keyboard.Options(keys={"up": "+x", "w": "", "p": "discard"}), Given())
    display.press("w")
    display.press("Up")
    display.tap("p")
    said = until_says(device, lambda said: said.outcome)
    assert said.outcome == OperatorCommand.DISCARD and said.twist[0] == 1.0
    device.close()
    with pytest.raises(
        ConfigError, match=r"keys: 'spacebar' is no key; wanted a letter or one of .*space"
    ):
        keyboard.Teleop(keyboard.Options(keys={"spacebar": "deadman"}), Given())


@pytest.mark.parametrize(
    ("session", "is_wayland"),
    [({}, False), ({"XDG_SESSION_TYPE": "x11"}, False), ({"XDG_SESSION_TYPE": "wayland"}, True),
     ({"WAYLAND_DISPLAY": "wayland-0"}, True)],
)  # fmt: skip
def test_on_wayland_it_says_when_it_hears_nothing_and_what_to_use_instead(
    display, monkeypatch, caplog, session, is_wayland
):
    for name in ("XDG_SESSION_TYPE", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in session.items():
        monkeypatch.setenv(name, value)
    device = keyboard.Teleop(keyboard.Options(), Given())
    device.close()
    assert ("while a window of Wayland's has the focus" in device.name) == is_wayland
    assert ("X11 session" in caplog.text) == is_wayland


def test_without_a_display_it_says_what_to_do(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(
        DeviceError, match=r"there is no display: DISPLAY is not set .*Start this on the desktop"
    ):
        keyboard.Teleop(keyboard.Options(), Given())
    monkeypatch.setenv("DISPLAY", ":4711")
    with pytest.raises(DeviceError, match="the display ':4711' cannot be opened"):
        keyboard.Teleop(keyboard.Options(), Given())


def test_the_driver_can_be_looked_at_without_a_display():
    code = "from robot_rl import config; print(config.find('teleop', 'keyboard').Teleop.feel)"
    bare = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    subprocess.run([sys.executable, "-c", code], env=bare, check=True, timeout=60)
