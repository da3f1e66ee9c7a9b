"""Which device is the operator's: devices that are plugged in are told apart by serial number or
port.

Two of a kind on one bench (two arms, two operators) look alike, and the kernel numbers their files
in the order in which they were plugged in. Taking "the first" hands the arm to the other one
after an unplug.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robot_rl.types import ConfigError, DeviceError

NUMBERED = re.compile(r"/dev/(hidraw|input/event|input/js)\d+")
"""Names of files that belong to whatever was plugged in at that moment."""


@dataclass(frozen=True)
class Plugged:
    """A device that is plugged in: its model, the file it is opened by now, and what tells it from
    another.

    `serial` is its own number, "" if it has none, as many SpaceMice. `port` says where it is
    plugged in, down to the interface, so that two behind one receiver differ; "" over Bluetooth,
    where the serial is the device's address.
    """

    model: str
    node: str
    serial: str = ""
    port: str = ""

    def __str__(self) -> str:
        return f"{self.model} at {self.node}"

    def is_the_same(self, other: "Plugged") -> bool:
        """Whether both are one device, opened at different times: by serial, else by port, else by
        nothing.
        """
        if self.model != other.model or self.serial != other.serial:
            return False
        return bool(self.serial) or self.port == other.port != ""


@dataclass(frozen=True)
class ChoiceOptions:
    """Which of several devices is meant, in a hardware file; nothing where there is but one."""

    serial: str = ""
    """Its serial number, as `robot-rl teleop` lists it."""
    port: str = ""
    """The port that it is plugged into, as `robot-rl teleop` lists it."""
    path: str = ""
    """A link that udev makes to its file, as in /dev/input/by-id."""


class Choice:
    """The device that is meant: the one that the hardware file names, or the only one that there
    is.

    Once it was opened it is that device alone: while it is unplugged another one is left where it
    is.
    """

    def __init__(self, driver: str, kind: str, *, serial: str = "", port: str = "", path: str = ""):
        """`kind` is its name for people. Raises ConfigError for a name that says nothing."""
        self._driver, self._kind = driver, kind
        self._named = {"serial": serial, "port": port, "path": path}
        for option, value in self._named.items():
            if not isinstance(value, str):
                raise ConfigError(
                    f"teleop '{driver}': {option} = {value!r}: wanted a text; put it into quotes"
                )
        if NUMBERED.fullmatch(path):
            raise ConfigError(
                f"teleop '{driver}': path = {path!r}: the kernel numbers these anew each time"
                " something is plugged in. Give serial or port, as `robot-rl teleop` lists them,"
                " or a link of udev's"
            )
        self._opened: Plugged | None = None

    def pick(self, there: Sequence[Plugged], hint: str = "") -> Plugged:
        """The one that is meant of those that are plugged in; `hint` is a reason why there may be
        none.

        Raises DeviceError if it is not there, ConfigError if several may be meant.
        """
        if not there and self._opened is None:
            raise DeviceError(f"no {self._kind} is plugged in{hint}")
        meant = [device for device in there if self._is_meant(device)]
        if not meant:
            others = (
                "; ".join(f"{device} ({self._option(device, there)})" for device in there) or "none"
            )
            raise DeviceError(f"{self._wanted()} is not plugged in; there is: {others}")
        if len(meant) == 1:
            return meant[0]
        if self._opened is not None:  # two with one serial: which of them it was, nobody can say
            raise DeviceError(
                f"{self._wanted()} cannot be told from another that is plugged in: pull that"
                " one out"
            )
        raise ConfigError(
            f"{len(meant)} devices are plugged in that may be the operator's. Choose one in the"
            " hardware file:\n"
            + "\n".join(f"  {line(self._driver, device, there)}" for device in meant)
        )

    def keep(self, device: Plugged, there: Sequence[Plugged]) -> None:
        """It was opened: from now on only this one is meant. Raises DeviceError if it was swapped
        in that moment.
        """
        if device not in there:
            raise DeviceError(f"{device} was pulled out while it was opened")
        self._opened = device

    def _is_meant(self, device: Plugged) -> bool:
        if self._opened is not None and not self._opened.is_the_same(device):
            return False
        named = self._named
        return (
            named["serial"] in ("", device.serial)
            and named["port"] in ("", device.port)
            and (
                not named["path"]
                or str(Path(named["path"]).resolve()) == str(Path(device.node).resolve())
            )
        )

    def _wanted(self) -> str:
        if (opened := self._opened) is not None:
            return f"the {opened.model} that was in use ({self._option(opened, [opened])})"
        named = ", ".join(
            f"{option} {json.dumps(value)}" for option, value in self._named.items() if value
        )
        return f"the {self._kind} with {named}"

    @staticmethod
    def _option(device: Plugged, there: Sequence[Plugged]) -> str:
        return (
            ", ".join(
                f"{name} {json.dumps(value)}" for name, value in options(device, there).items()
            )
            or "no name"
        )


def options(device: Plugged, there: Sequence[Plugged]) -> dict[str, str]:
    """What names a device among those that are plugged in: its serial, else its port; nothing if it
    has neither.
    """
    is_one = sum(other.serial == device.serial for other in there) == 1
    if device.serial and (is_one or not device.port):
        return {"serial": device.serial}
    return {"port": device.port} if device.port else {}


def line(driver: str, device: Plugged, there: Sequence[Plugged]) -> str:
    """The line of a hardware file that names a device, and which one it is."""
    named = ", ".join(
        f"{name}: {json.dumps(value)}" for name, value in options(device, there).items()
    )
    return f"teleop: {{name: {driver}, options: {{{named}}}}}  # {device}"


def usb_port(node: Path) -> str:
    """Where on the USB the device of a node of sysfs is plugged in; "" if it is not on the USB.

    `/sys/class/hidraw/hidraw0` leads to `.../0000:00:14.0/usb1/1-2/1-2.3/1-2.3:1.0/...`:
    controller, and port behind port. What is returned, `0000:00:14.0-2.3:1.0`, has no number of a
    bus in it, which may change with each start.
    """
    parts = node.resolve().parts
    buses = [i for i, part in enumerate(parts) if re.fullmatch(r"usb\d+", part)]
    interfaces = [part for part in parts if re.fullmatch(r"\d+-[\d.]+:\d+\.\d+", part)]
    # that port would be the Bluetooth adapter's
    if not buses or not interfaces or "bluetooth" in parts:
        return ""
    return f"{parts[buses[0] - 1]}-{interfaces[-1].partition('-')[2]}"
