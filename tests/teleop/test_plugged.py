"""Two devices of a kind: which one is the operator's is said, and an unplugged one is never
replaced by the other.
"""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.teleop._device import RULES
from robot_rl.teleop._plugged import Choice, Plugged, usb_port
from robot_rl.tools import teleop_monitor
from robot_rl.types import ConfigError, DeviceError
from tests.teleop import benches
from tests.teleop.benches import Sysfs, until_says, wait_until


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr("robot_rl.teleop._device.RETRY_S", (0.02, 0.05))


@pytest.fixture(params=["spacemouse", "gamepad"])
def bench(request, monkeypatch, tmp_path):
    if request.param == "spacemouse":
        yield benches.SpaceMouseBench(monkeypatch)
    else:
        yield from benches.GamepadBench.on(monkeypatch, tmp_path)


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("teleop:")]


def options_of(line: str) -> dict[str, str]:
    """A line for a hardware file, as YAML reads it."""
    return yaml.safe_load(line)["teleop"]["options"]


def test_two_that_nobody_chose_between_are_refused_with_a_line_for_each(bench):
    bench.plug_in_another(serial="SN 7")
    with pytest.raises(
        ConfigError, match="2 devices are plugged in that may be the operator's"
    ) as refused:
        bench.open()
    own, other = (options_of(line) for line in lines_of(str(refused.value)))
    assert other == {"serial": "SN 7"} and set(own) == {"port"}
    listed, problems = teleop_monitor.listing()
    assert set(lines_of(str(refused.value))) <= set(listed.splitlines()) and not problems
    for options in (own, other):  # each line opens what it says
        device = bench.open(**options)
        device.close()


def test_the_one_that_is_named_is_opened_and_no_other(bench):
    node = bench.plug_in_another(serial="SN 7")
    device = bench.open(serial="SN 7")
    assert device.name.endswith(f" at {node}")
    device.close()


def test_an_unplugged_one_is_never_replaced_by_the_other(bench):
    device = bench.open()
    try:
        bench.hold()
        until_says(device, lambda said: said.active)
        bench.plug_in_another()
        bench.unplug()
        said = until_says(device, lambda said: "is not plugged in; there is: " in said.problem)
        assert "that was in use" in said.problem and 'port "0000:00:14.0-2' in said.problem
        looks = _count_looks(bench, device)
        wait_until(lambda: looks() >= 5)  # it had five chances to take the other one
        said = device.read(())
        assert said.problem and not said.active and not said.twist.any()
        bench.plug_in()
        until_says(device, lambda said: not said.problem)
        bench.hold()
        until_says(device, lambda said: said.active and said.twist.any())
    finally:
        device.close()


def _count_looks(bench, device):
    """How often the device's thread has looked for it since now."""
    looks, opening = [0], device._open

    def count():
        looks[0] += 1
        return opening()

    device._open = count
    return lambda: looks[0]


def test_one_that_is_not_there_is_named_with_those_that_are(bench):
    with pytest.raises(
        DeviceError,
        match=r'with serial "SN 8" is not plugged in; there is: .* \(port "0000:00:14\.0-2',
    ):
        bench.open(serial="SN 8")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"serial": 123}, "serial = 123: wanted a text; put it into quotes"),
        ({"path": "/dev/hidraw0"}, "the kernel numbers these anew"),
        ({"path": "/dev/input/event3"}, "the kernel numbers these anew"),
    ],
)
def test_a_name_that_says_nothing_is_refused(bench, options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        bench.open(**options)


def test_a_link_names_the_device_that_it_leads_to(monkeypatch, tmp_path):
    for bench in benches.GamepadBench.on(monkeypatch, tmp_path):
        node = bench.plug_in_another()
        link = tmp_path / "by-path"
        link.symlink_to(node)
        device = bench.open(path=str(link))
        assert device.name.endswith(f" at {node}")
        device.close()


NAMES = st.builds(
    Plugged,
    model=st.sampled_from("AB"),
    node=st.sampled_from(["n0", "n1", "n2"]),
    serial=st.sampled_from(["", "1", "2"]),
    port=st.sampled_from(["", "p", "q"]),
)


@given(
    first=st.lists(NAMES, min_size=1, max_size=3, unique=True),
    later=st.lists(NAMES, max_size=3, unique=True),
)
def test_whatever_is_plugged_in_later_the_choice_takes_the_one_it_had_or_none(first, later):
    choice = Choice("spacemouse", "SpaceMouse")
    try:
        had = choice.pick(first)
    except ConfigError:
        assert len(first) > 1
        return
    choice.keep(had, first)
    try:
        found = choice.pick(later)
    except DeviceError:
        return
    assert found.model == had.model and found.serial == had.serial
    assert had.serial or found.port == had.port != ""
    assert sum(had.is_the_same(each) for each in later) == 1


def test_one_that_is_swapped_while_it_is_opened_is_not_kept():
    mouse = Plugged("A", "n0", port="p")
    with pytest.raises(DeviceError, match="pulled out while it was opened"):
        Choice("spacemouse", "SpaceMouse").keep(mouse, [Plugged("A", "n0", port="q")])


def test_a_port_is_read_off_the_kernels_tree_and_has_no_bus_number():
    sysfs = Sysfs("hidraw")
    sysfs.add("hidraw0", "2.3:1.0")
    sysfs.add("hidraw1", "")  # Bluetooth
    assert usb_port(sysfs.classes / "hidraw0") == "0000:00:14.0-2.3:1.0"
    assert usb_port(sysfs.classes / "hidraw1") == "" == usb_port(sysfs.classes / "hidraw7")
    adapter = (
        sysfs.classes.parent.parent
        / "pci0/0000:00:14.0/usb1/1-7/1-7:1.0/bluetooth/hci0/hci0:256/hidraw2"
    )
    adapter.mkdir(parents=True)
    assert usb_port(adapter) == ""  # what hangs on the adapter is not what is plugged in there


def rules() -> list[str]:
    return [rule for rule in RULES.read_text().splitlines() if rule and not rule.startswith("#")]


def test_the_udev_rules_name_each_model_on_usb_and_bluetooth_and_nothing_else():
    benches.require("hid")
    from robot_rl.teleop.spacemouse import MODELS

    named = []
    for rule in (rule for rule in rules() if "hidraw" in rule):
        (pattern,) = re.findall(r'KERNELS=="([^"]+)"', rule)
        vendor, product = re.findall(r":([0-9A-F]{4})", pattern)
        # of USB or Bluetooth, and nothing left open but its number
        assert pattern == f"000[35]:{vendor}:{product}.*"
        named.append((int(vendor, 16), int(product, 16)))
    assert sorted(named) == sorted(MODELS)


def test_the_udev_rules_let_in_the_seat_and_a_group_and_read_no_keyboard():
    for rule in rules():
        assert 'TAG+="uaccess"' in rule and 'GROUP="plugdev"' in rule and 'MODE="0660"' in rule
        assert "KERNELS==" in rule or 'ENV{ID_INPUT_JOYSTICK}=="1"' in rule
    assert int(RULES.name.split("-")[0]) < 73  # or systemd does not see the tag
