"""A gamepad, by the Linux kernel's own names for its sticks and buttons, so that every make of pad
is alike.

The names are those of the kernel's gamepad specification (Documentation/input/gamepad.rst): `south`
is A on an Xbox pad and the cross on a PlayStation's.
"""

import errno
import select
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import evdev
import numpy as np
from evdev import ecodes

from robot_rl.interfaces import Given
from robot_rl.machine.validation import nearest
from robot_rl.teleop._device import RULES_HELP, Controls, Device
from robot_rl.teleop._plugged import Choice, ChoiceOptions, Plugged, usb_port
from robot_rl.types import ConfigError, DeviceError

BUTTONS = {
    "tr": "deadman",
    "south": "success",
    "east": "failure",
    "west": "close",
    "north": "open",
    "thumbl": "undo",
    "select": "discard",
    "start": "stop",
    "tl": "slow",
    "tl2": "",
    "tr2": "",
    "mode": "",
    "thumbr": "deny",
    "dpad_up": "+ry",
    "dpad_down": "-ry",
    "dpad_left": "-rx",
    "dpad_right": "+rx",
}
"""What each button is for, unless the hardware file says otherwise. tr is the upper one on the
right shoulder.
"""

STICKS = {
    ecodes.ABS_Y: (0, -1.0),
    ecodes.ABS_X: (1, -1.0),
    ecodes.ABS_RY: (2, -1.0),
    ecodes.ABS_RX: (5, -1.0),
}
"""Which of the operator's axes a stick moves, and its sign: the kernel's y points down, x to the
right.
"""

HATS = {ecodes.ABS_HAT0Y: ("dpad_up", "dpad_down"), ecodes.ABS_HAT0X: ("dpad_left", "dpad_right")}
"""A directional pad that is an axis: what -1 and what 1 stand for."""

INPUTS = Path("/dev/input")
CLASS = Path("/sys/class/input")


@dataclass(frozen=True)
class Options(ChoiceOptions):
    """The driver's part of a hardware file. Raises ConfigError for a button or a role that there is
    not.
    """

    buttons: Mapping[str, str] = field(default_factory=dict)
    """Changes what single buttons are for; "" is for nothing."""

    def __post_init__(self) -> None:
        for button in self.buttons.keys() - BUTTONS.keys():
            raise ConfigError(
                f"buttons: {button} is no button; there are: {nearest(button, BUTTONS)}"
            )
        Controls(self.buttons, "teleop 'gamepad': buttons")


class Teleop(Device):
    """A gamepad.

    The left stick moves ahead and aside, the right one up, down and about the vertical, the
    directional pad tilts; all of it only while the dead-man's button is held.
    """

    feel = replace(Device.feel, deadband=0.12)

    def __init__(self, options: Options, given: Given):
        """Raises ConfigError if several may be meant, DeviceError if there is no gamepad or it
        cannot be opened.
        """
        controls = Controls({**BUTTONS, **options.buttons}, "teleop 'gamepad': buttons")
        choice = Choice(
            "gamepad", "gamepad", serial=options.serial, port=options.port, path=options.path
        )
        super().__init__(lambda: _Gamepad(choice, controls), controls)


def found() -> list[Plugged]:
    """The gamepads that are plugged in now and may be read."""
    return _look()[0]


def _look() -> tuple[list[Plugged], list[Path]]:
    """The gamepads that are plugged in, and the files of which nobody but others may know whether
    they are one.
    """
    there, denied = [], []
    for path in sorted(
        INPUTS.glob("event*"), key=lambda path: int(path.name.removeprefix("event"))
    ):
        try:
            device = evdev.InputDevice(path)
        except PermissionError:
            denied.append(path)
            continue
        except OSError:
            continue  # it went away just now
        with closing(device):
            able = device.capabilities(absinfo=False)
            if ecodes.BTN_SOUTH in able.get(ecodes.EV_KEY, ()) and ecodes.ABS_X in able.get(
                ecodes.EV_ABS, ()
            ):
                there.append(
                    Plugged(device.name, str(path), device.uniq, usb_port(CLASS / path.name))
                )
    return there, denied


class _Gamepad:
    """One that is open, and nobody else's while it is."""

    def __init__(self, choice: Choice, controls: Controls):
        self._controls = controls
        there, denied = _look()
        pad = choice.pick(
            there, f". Or one is, at {', '.join(map(str, denied))}. {RULES_HELP}" if denied else ""
        )
        self._device = evdev.InputDevice(pad.node)
        self.name = str(pad)
        try:
            choice.keep(pad, found())
            self._device.grab()
        except DeviceError:
            self._device.close()
            raise
        except OSError as error:
            self._device.close()
            if error.errno != errno.EBUSY:
                raise
            raise DeviceError(
                f"{self.name} is in use by another program (a game, Steam?); end that one"
            ) from error
        able: dict[int, Any] = self._device.capabilities()
        self._ranges: dict[int, evdev.AbsInfo] = dict(able[ecodes.EV_ABS])
        self._turned = np.zeros(6)
        self._look()

    def read(self) -> int:
        """Wait for 0.1 s for events, and take in all that have come."""
        if not select.select([self._device.fd], [], [], 0.1)[0]:
            return 0
        count = 0
        for event in self._device.read():
            count += 1
            if event.type == ecodes.EV_KEY and event.value < 2:  # 2 is auto-repeat
                self._button(event.code, bool(event.value))
            elif event.type == ecodes.EV_ABS:
                self._axis(event.code, event.value)
            elif event.type == ecodes.EV_SYN and event.code == ecodes.SYN_DROPPED:
                self._look()  # some were lost: what is true now?
        self._controls.turn(self._turned)
        return count

    def close(self) -> None:
        """Let go of it."""
        self._device.close()

    def _look(self) -> None:
        """Where the sticks are now. Buttons that are down already count once they are pressed anew."""
        for code in self._ranges:
            if code in STICKS:
                self._axis(code, self._device.absinfo(code).value)
        self._controls.let_go()
        self._controls.turn(self._turned)

    def _button(self, code: int, down: bool) -> None:
        control = NAMES.get(code)
        if control is not None:
            (self._controls.press if down else self._controls.release)(control)

    def _axis(self, code: int, value: int) -> None:
        if code in STICKS:
            axis, sign = STICKS[code]
            low, high = self._ranges[code].min, self._ranges[code].max
            self._turned[axis] = sign * (2.0 * (value - low) / (high - low) - 1.0)
        elif code in HATS:
            for control, at in zip(HATS[code], (-1, 1), strict=True):
                (self._controls.press if value == at else self._controls.release)(control)


NAMES = {ecodes.ecodes[f"BTN_{name.upper()}"]: name for name in BUTTONS}
"""Of the buttons, by the kernel's code."""
