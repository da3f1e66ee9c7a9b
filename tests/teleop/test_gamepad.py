"""The gamepad, event by event, as the kernel writes them."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_rl.types import DeviceError, OperatorCommand
from tests.teleop.benches import GamepadBench, require, until_says, wait_until

require("evdev")

from robot_rl.teleop import gamepad  # noqa: E402


@pytest.fixture
def pad(monkeypatch, tmp_path):
    yield from GamepadBench.on(monkeypatch, tmp_path)


@pytest.fixture
def device(pad):
    device = pad.open()
    yield device
    device.close()


@pytest.mark.parametrize(
    ("event", "axis", "sign"),
    [
        (("ABS_Y", 0), 0, 1),  # left stick ahead
        (("ABS_X", 255), 1, -1),  # left stick to the right
        (("ABS_RY", 0), 2, 1),  # right stick ahead: up
        (("ABS_RX", 255), 5, -1),  # right stick to the right: clockwise, seen from above
        (("ABS_HAT0Y", -1), 4, 1),  # directional pad ahead: tilts ahead
        (("ABS_HAT0X", 1), 3, 1),  # to the right: rolls to the right
        (("BTN_DPAD_DOWN", 1), 4, -1),  # the same as buttons
    ],
)
def test_sticks_and_pad_are_the_operators_axes(pad, device, event, axis, sign):
    pad.send(("BTN_TR", 1), event)
    said = until_says(device, lambda said: said.twist[axis] == sign)
    assert said.active
    assert np.abs(np.delete(said.twist, axis)).max() < 0.005


def test_without_the_dead_mans_button_nothing_is_active(pad, device):
    pad.send(("ABS_Y", 0))
    assert not until_says(device, lambda said: said.twist[0] == 1.0).active
    pad.send(("BTN_TR", 1))
    until_says(device, lambda said: said.active)
    pad.send(("BTN_TR", 0))
    until_says(device, lambda said: not said.active)


@pytest.mark.parametrize(("button", "word"), [("SOUTH", "SUCCESS"), ("EAST", "FAILURE"), ("THUMBL", "UNDO"),
                                              ("SELECT", "DISCARD"), ("START", "STOP")])  # fmt: skip
def test_every_word_has_a_button(pad, device, button, word):
    pad.send((f"BTN_{button}", 1), (f"BTN_{button}", 2), (f"BTN_{button}", 0))
    assert until_says(device, lambda said: said.outcome).outcome == OperatorCommand[word]
    assert device.read(()).outcome == OperatorCommand.NONE


def test_after_lost_events_the_sticks_are_looked_at_and_no_button_is_held(pad, device):
    pad.hold()
    until_says(device, lambda said: said.active)
    pad.rest[pad.codes.ABS_X] = 255  # went there meanwhile, and both events of it were lost
    pad.rest[pad.codes.ABS_Y] = 128
    pad.send(("SYN_DROPPED", 0))
    said = until_says(device, lambda said: said.twist[1] == -1.0)
    assert not said.active and abs(said.twist[0]) < 0.005


def test_a_pad_that_another_program_has_is_busy(pad):
    pad.busy = True
    with pytest.raises(DeviceError, match=r"Test Pad at .*event3 is in use by another program"):
        pad.open()


def test_a_pad_that_may_not_be_read_is_told_apart_from_none(pad, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(gamepad.evdev, "InputDevice", denied)
    with pytest.raises(
        DeviceError,
        match=(
            r"no gamepad is plugged in. Or one is, at .*event3\. .*sudo cp \S+rules .*-aG plugdev"
        ),
    ):
        pad.open()


EVENTS = st.one_of(
    st.tuples(st.sampled_from(["ABS_X", "ABS_Y", "ABS_RX", "ABS_RY"]), st.integers(0, 255)),
    st.tuples(st.sampled_from(["ABS_HAT0X", "ABS_HAT0Y"]), st.integers(-1, 1)),
    st.tuples(st.sampled_from(["BTN_TR", "BTN_SOUTH", "BTN_TL", "BTN_MODE"]), st.integers(0, 2)),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, max_size=30))
def test_whatever_is_pressed_the_twist_stays_in_bounds_and_the_dead_man_decides(
    pad, device, events
):
    before = device.reports
    pad.send(("BTN_TR", 0), *events)
    wait_until(lambda: device.reports >= before + len(events) + 2)
    said, held = device.read(()), False
    for name, value in events:
        if name == "BTN_TR" and value < 2:
            held = bool(value)
    assert np.abs(said.twist).max() <= 1.0
    assert said.active == held
