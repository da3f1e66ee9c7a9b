"""The SpaceMouse, byte by byte."""

import re
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import config
from robot_rl.interfaces import Given
from robot_rl.types import ConfigError, DeviceError, OperatorCommand
from tests.teleop.benches import Bus, require, until_says

require("hid")

from robot_rl.teleop import spacemouse  # noqa: E402

COMPACT, NAVIGATOR, WIRELESS, RECEIVER = (
    (0x256F, 0xC635),
    (0x046D, 0xC626),
    (0x256F, 0xC62E),
    (0x256F, 0xC652),
)
RAW = st.lists(st.integers(-350, 350), min_size=6, max_size=6)


@pytest.fixture
def plug(monkeypatch):
    """`bus, device = plug((0x256F, 0xC635))`"""
    opened = []

    def plug(*ids, **options):
        bus = Bus(*ids).install(monkeypatch)
        opened.append(spacemouse.Teleop(spacemouse.Options(**options), Given()))
        return bus, opened[-1]

    yield plug
    for device in opened:
        device.close()


def twist_of(*reports: str) -> np.ndarray:
    cap = np.zeros(6)
    for report in reports:
        assert spacemouse.decode(bytes.fromhex(report), cap) is None
    return spacemouse.operator_axes(cap)


@pytest.mark.parametrize(
    ("reports", "twist"),
    [
        # pushed ahead, to the left, up; rolled to the right, tilted ahead, turned counterclockwise
        # seen from above
        (["01 0000 a2fe 0000"], [1, 0, 0, 0, 0, 0]),
        (["01 a2fe 0000 0000"], [0, 1, 0, 0, 0, 0]),
        (["01 0000 0000 a2fe"], [0, 0, 1, 0, 0, 0]),
        (["02 0000 a2fe 0000"], [0, 0, 0, 1, 0, 0]),
        (["02 a2fe 0000 0000"], [0, 0, 0, 0, 1, 0]),
        (["02 0000 0000 a2fe"], [0, 0, 0, 0, 0, 1]),
        # translation and rotation each in a report (Compact, SpaceNavigator), and all in one
        # (Wireless, receiver)
        (["01 0000 a2fe 0000", "02 0000 0000 af00"], [1, 0, 0, 0, 0, -0.5]),
        (["01 0000 a2fe 0000 0000 0000 af00"], [1, 0, 0, 0, 0, -0.5]),
        # a SpaceMouse Compact pressed down, as someone's came over the wire (CloudCompare, pull
        # request 2339)
        (["02 20 00 00 00 17 00", "01 12 00 00 00 f8 00", "02 20 00 00 00 19 00", "01 12 00 00 00 12 01"],
         [0, -18 / 350, -274 / 350, 0, -32 / 350, -25 / 350]),
    ],
)  # fmt: skip
def test_reports_are_the_operators_axes(reports, twist):
    np.testing.assert_allclose(twist_of(*reports), twist, atol=1e-12)


@given(RAW)
def test_split_and_combined_reports_say_the_same(raw):
    combined = struct.pack("<B6h", 1, *raw).hex()
    split = struct.pack("<B3h", 1, *raw[:3]).hex(), struct.pack("<B3h", 2, *raw[3:]).hex()
    np.testing.assert_array_equal(twist_of(combined), twist_of(*split))
    assert np.abs(twist_of(combined)).max() <= 1.0


@given(st.binary(max_size=64))
def test_any_bytes_at_all_leave_a_finite_twist(report):
    cap = np.zeros(6)
    spacemouse.decode(report, cap)
    assert np.isfinite(cap).all()
    assert cap.any() <= (len(report) >= 7 and report[0] in (1, 2))


@pytest.mark.parametrize("ids", sorted(spacemouse.MODELS))
def test_each_model_is_found_by_its_cap_and_named(plug, ids):
    bus, device = plug((0x046D, 0xC52B), ids)  # beside a Logitech receiver, which is none
    assert spacemouse.MODELS[ids] in device.name and "/dev/hidraw1" in device.name
    bus.send(struct.pack("<B6h", 1, 0, -350, 0, 0, 0, 0))
    until_says(device, lambda said: said.twist[0] == 1.0)


def test_the_buttons_say_what_the_hardware_file_wants(plug):
    bus, device = plug(COMPACT, buttons=["discard", "undo"])
    bus.send("03 01", "03 03", "03 02", "03 00")
    said = [until_says(device, lambda said: said.outcome).outcome for _ in range(2)]
    assert said == [OperatorCommand.DISCARD, OperatorCommand.UNDO]


def test_two_buttons_are_the_grippers_where_the_task_moves_one_unless_the_file_says_otherwise(
    monkeypatch,
):
    Bus(COMPACT).install(monkeypatch)
    roles = {}
    for task in ("pick_cube", "peg_insert"):
        for buttons in (None, ("undo",)):
            options = spacemouse.Options(buttons=buttons)
            device = spacemouse.Teleop(options, Given(task=config.load_task(task)))
            roles[task, buttons] = [*device.controls.values()]
            device.close()
    assert roles == {
        ("pick_cube", None): ["close", "open"],
        ("peg_insert", None): ["success", "failure"],
        ("pick_cube", ("undo",)): ["undo"],
        ("peg_insert", ("undo",)): ["undo"],
    }


def test_a_pros_many_buttons_are_one_bit_each(plug):
    roles = [""] * 26
    roles[22], roles[23] = "close", "open"
    bus, device = plug((0x046D, 0xC62B), buttons=roles)
    bus.send("03 00 00 40 00")
    assert until_says(device, lambda said: said.gripper).gripper == -1.0
    bus.send("03 00 00 80 00")
    assert until_says(device, lambda said: said.gripper > 0.0).gripper == 1.0


def test_with_a_dead_mans_button_the_cap_alone_moves_nothing(plug):
    bus, device = plug(COMPACT, buttons=["deadman"])
    bus.send("01 0000 a2fe 0000")
    assert not until_says(device, lambda said: said.twist.any()).active
    bus.send("03 01")
    until_says(device, lambda said: said.active)
    bus.send("03 00")
    until_says(device, lambda said: not said.active)


def test_battery_and_other_reports_move_nothing(plug):
    bus, device = plug(WIRELESS)
    bus.send("17 64", "1c 0d 00 00 00 00 00", "01 0000 a2fe 0000 0000 0000 0000")
    until_says(device, lambda said: said.twist[0] == 1.0)
    assert device.reports == 3


def test_a_deflected_cap_that_falls_silent_is_not_deflected(plug, monkeypatch):
    monkeypatch.setattr(spacemouse, "SILENCE_S", 0.05)
    bus, device = plug(RECEIVER)
    for _ in range(20):  # one that goes on reporting stays deflected
        bus.send("01 0000 a2fe 0000 0000 0000 0000")
        time.sleep(0.01)
    assert device.read(()).twist[0] == 1.0
    until_says(device, lambda said: not said.twist.any())


def test_none_plugged_in_and_none_permitted_are_told_apart(plug, monkeypatch):
    with pytest.raises(
        DeviceError, match=r"no SpaceMouse is plugged in \(looked for: .*SpaceNavigator, "
    ):
        plug((0x046D, 0xC52B))
    bus = Bus(NAVIGATOR).install(monkeypatch)
    bus.denied = True
    monkeypatch.setattr(spacemouse.os, "access", lambda path, mode: False)
    with pytest.raises(
        DeviceError, match=r"SpaceNavigator .* may not be opened by this user.*sudo cp .*udevadm"
    ) as e:
        spacemouse.Teleop(spacemouse.Options(), Given())
    (rules,) = re.findall(r"sudo cp (\S+) ", str(e.value))
    assert Path(rules).is_file()
    monkeypatch.setattr(spacemouse.os, "access", lambda path, mode: True)
    with pytest.raises(DeviceError, match=r"SpaceNavigator .* another program has it"):
        spacemouse.Teleop(spacemouse.Options(), Given())


def test_a_mistake_in_the_hardware_file_is_told_before_anything_is_opened(monkeypatch):
    Bus(COMPACT).install(monkeypatch)
    with pytest.raises(ConfigError, match="'clutch' is not known; allowed: "):
        spacemouse.Options(buttons=("clutch",))
    assert spacemouse.hid.opened == []


def test_the_real_hidapi_has_what_the_driver_uses():
    """Without a device: the library's own words for none, and the methods and arguments that the
    fake stands in for.
    """
    assert isinstance(spacemouse.hid.enumerate(), list)
    device = spacemouse.hid.device()
    with pytest.raises(OSError, match="open failed"):
        device.open_path(b"/dev/hidraw99")
    with pytest.raises(ValueError, match="not open"):
        device.read(64, 100)
    device.close()
