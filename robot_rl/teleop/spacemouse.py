"""3Dconnexion's SpaceMouse: a cap with six axes, read as raw HID reports.

On Linux through `/dev/hidraw*`, which works over cable, receiver and Bluetooth alike and takes the
device from nobody.
"""

import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.interfaces import Given
from robot_rl.teleop._device import RULES_HELP, Controls, Device
from robot_rl.teleop._plugged import Choice, ChoiceOptions, Plugged, usb_port
from robot_rl.types import Array, DeviceError

try:
    import hidraw as hid  # hidapi over /dev/hidraw, on Linux
except ImportError:
    import hid

MODELS = {
    (0x046D, 0xC625): "SpacePilot",
    (0x046D, 0xC626): "SpaceNavigator",
    (0x046D, 0xC627): "SpaceExplorer",
    (0x046D, 0xC628): "SpaceNavigator for Notebooks",
    (0x046D, 0xC629): "SpacePilot Pro",
    (0x046D, 0xC62B): "SpaceMouse Pro",
    (0x256F, 0xC62E): "SpaceMouse Wireless (cable)",
    (0x256F, 0xC62F): "SpaceMouse Wireless (receiver)",
    (0x256F, 0xC631): "SpaceMouse Pro Wireless (cable)",
    (0x256F, 0xC632): "SpaceMouse Pro Wireless (receiver)",
    (0x256F, 0xC633): "SpaceMouse Enterprise",
    (0x256F, 0xC635): "SpaceMouse Compact",
    (0x256F, 0xC638): "SpaceMouse Pro Wireless (Bluetooth)",
    (0x256F, 0xC63A): "SpaceMouse Wireless (new)",
    (0x256F, 0xC641): "SpaceMouse (USB module)",
    (0x256F, 0xC652): "3Dconnexion Universal Receiver",
}
"""By USB vendor (0x046d Logitech, 0x256f 3Dconnexion) and product. Sources: the device tables of
PySpaceMouse (devices.toml) and spacenavd (dev.c), and the Linux USB ID list."""

FULL_DEFLECTION = 350.0
"""What each axis reports at most, either way; the logical range of the HID descriptor."""

SILENCE_S = 0.25
"""A deflected cap reports every 8 to 16 ms; one that is silent for so long is out of the receiver's
reach.
"""

WORDS, GRIPS = ("success", "failure"), ("close", "open")
"""What a small one's two buttons are for, unless the hardware file says otherwise."""

MULTI_AXIS = (1, 8)
"""HID usage of the cap. A receiver has interfaces for a keyboard and a mouse as well."""

CLASS = Path("/sys/class/hidraw")


@dataclass(frozen=True)
class Options(ChoiceOptions):
    """The driver's part of a hardware file. Raises ConfigError for a role that there is not."""

    buttons: tuple[str, ...] | None = None
    """What each of the buttons is for, in the order of their bits; on a small one left, then right.
    Without it WORDS, or GRIPS where the task moves a gripper.
    """

    def __post_init__(self) -> None:
        Controls(named(self.buttons or ()), "teleop 'spacemouse': buttons")


def named(roles: Sequence[str]) -> dict[str, str]:
    """What each button is for, by its name."""
    return {f"button {i}": role for i, role in enumerate(roles)}


class Teleop(Device):
    """A SpaceMouse.

    Without a dead-man's button a hand that moves the cap has hold of the arm.
    """

    feel = replace(Device.feel, deadband=0.08)

    def __init__(self, options: Options, given: Given):
        """Raises ConfigError if several may be meant, DeviceError if there is no SpaceMouse or it
        cannot be opened.
        """
        moves = given.task is not None and "moved" in given.task.grippers
        usual = GRIPS if moves else WORDS
        roles = usual if options.buttons is None else options.buttons
        controls = Controls(named(roles), "teleop 'spacemouse': buttons")
        choice = Choice(
            "spacemouse", "SpaceMouse", serial=options.serial, port=options.port, path=options.path
        )
        super().__init__(lambda: _SpaceMouse(choice, controls), controls)


def found() -> list[Plugged]:
    """The SpaceMice that are plugged in now, each by the interface of its cap."""
    mice = [
        _plugged(info)
        for info in hid.enumerate()
        if (info["vendor_id"], info["product_id"]) in MODELS
    ]
    mice.sort(key=lambda mouse: (_whole(mouse[0]), mouse[0].node))
    there: list[Plugged] = []
    for _, interfaces in groupby(mice, key=lambda mouse: _whole(mouse[0])):
        mouse = list(interfaces)
        there += list(dict.fromkeys(each for each, is_cap in mouse if is_cap)) or [mouse[0][0]]
    return there


def _plugged(info: dict[str, Any]) -> tuple[Plugged, bool]:
    """One interface of a SpaceMouse, and whether the cap is behind it."""
    ids, node = (info["vendor_id"], info["product_id"]), os.fsdecode(info["path"])
    port = usb_port(CLASS / Path(node).name)
    mouse = Plugged(
        f"{MODELS[ids]} ({ids[0]:04x}:{ids[1]:04x})", node, info.get("serial_number") or "", port
    )
    return mouse, (info.get("usage_page"), info.get("usage")) == MULTI_AXIS


def _whole(mouse: Plugged) -> tuple[str, str, str]:
    """What the interfaces of one device have in common."""
    return mouse.model, mouse.serial, mouse.port.rpartition(":")[0]


def decode(report: bytes, cap: Array) -> int | None:
    """Take an input report in: axes into `cap (6,)`, in raw units; returns the buttons as bits, if
    it is about those.

    Byte 0 is the report's id, then 16-bit little-endian numbers. Report 1 with 13 bytes has all six
    axes, with 7 the translation alone, and then report 2 has the rotation; more bytes are padding.
    Report 3 are the buttons. Everything else (battery) is passed over. The raw axes: x to the
    right, y towards the operator, z down, turning by the right hand (as HIL-SERL maps them for a
    robot that the operator faces).
    """
    match report[:1], len(report):
        case b"\x01", length if length >= 13:
            cap[:] = struct.unpack_from("<6h", report, 1)
        case b"\x01", length if length >= 7:
            cap[:3] = struct.unpack_from("<3h", report, 1)
        case b"\x02", length if length >= 7:
            cap[3:] = struct.unpack_from("<3h", report, 1)
        case b"\x03", length if length > 1:
            return int.from_bytes(report[1:], "little")
    return None


def operator_axes(cap: Array) -> Array:
    """The raw axes as shares of full deflection in the operator's: x away from them, y to the left,
    z up.
    """
    return -cap[[1, 0, 2, 4, 3, 5]] / FULL_DEFLECTION


class _SpaceMouse:
    """One that is open."""

    def __init__(self, choice: Choice, controls: Controls):
        mouse = choice.pick(found(), f" (looked for: {', '.join(MODELS.values())})")
        self.name = str(mouse)
        self._controls = controls
        self._cap = np.zeros(6)
        self._down: set[str] = set()
        self._heard_t = time.monotonic()
        self._device: Any = hid.device()
        try:
            self._device.open_path(os.fsencode(mouse.node))
        except OSError as error:
            raise DeviceError(_why_not(mouse, error)) from error
        try:
            choice.keep(mouse, found())
        except BaseException:
            self._device.close()
            raise
        self._device.set_nonblocking(True)  # a read without a timeout returns at once

    def read(self) -> int:
        """Wait for 0.1 s for a report, and take in whatever else has come with it."""
        count = 0
        report = self._device.read(64, 100)
        while report:
            self._take(bytes(report))
            count += 1
            report = self._device.read(64)
        now = time.monotonic()
        if count:
            self._heard_t = now
        elif now - self._heard_t > SILENCE_S:
            self._cap[:] = 0.0
            self._controls.turn(self._cap)
        return count

    def _take(self, report: bytes) -> None:
        bits = decode(report, self._cap)
        self._controls.turn(operator_axes(self._cap))
        if bits is not None:
            down = {f"button {i}" for i in range(bits.bit_length()) if bits >> i & 1}
            for control in down - self._down:
                self._controls.press(control)
            for control in self._down - down:
                self._controls.release(control)
            self._down = down

    def close(self) -> None:
        self._device.close()


def _why_not(mouse: Plugged, error: OSError) -> str:
    if not os.access(mouse.node, os.R_OK | os.W_OK):
        return f"{mouse} may not be opened by this user. {RULES_HELP}"
    return (
        f"{mouse} cannot be opened ({error}): another program has it (spacenavd, 3Dconnexion's"
        " driver?); end that one"
    )
