"""The keyboard, wherever the focus is, on an X11 display.

`pynput` tells which key went down, at once, also for the shortest tap. Which keys are down is asked
of the display itself as well, 50 times a second: so neither auto-repeat (a stream of ups and downs)
nor an event that never came (a locked screen, another window's grab, a listener that has just
started) matters.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import Xlib.display
import Xlib.error

from robot_rl.interfaces import Given
from robot_rl.teleop._device import Controls, Device
from robot_rl.types import ConfigError, DeviceError

log = logging.getLogger(__name__)

KEYS = {
    "w": "+x",
    "s": "-x",
    "a": "+y",
    "d": "-y",
    "r": "+z",
    "f": "-z",
    "l": "+rx",
    "j": "-rx",
    "i": "+ry",
    "k": "-ry",
    "u": "+rz",
    "o": "-rz",
    "e": "open",
    "q": "close",
    "space": "deadman",
    "shift": "slow",
    "f6": "success",
    "f7": "failure",
    "f8": "undo",
    "f9": "discard",
    "f10": "deny",
    "f12": "stop",
}
"""What each key is for, unless the hardware file says otherwise. None of the words is on a key that
people type.
"""

POLL_S = 0.02
HEARS_S = 5.0
"""How long the display has to begin to tell; after that what is down is seen none the less, and
only taps are not.
"""
GONE = (Xlib.error.ConnectionClosedError, Xlib.error.XError, OSError)

WAYLAND_HELP = (
    "On Wayland keys are heard only while a window of an X11 program (XWayland) has the focus:"
    " neither the space bar nor the key for `stop` counts in a terminal of the desktop's own. Log"
    ' in with an X11 session (Ubuntu: the gear at the login, "Ubuntu on Xorg"), or use a'
    " SpaceMouse, a gamepad or the console's page (teleop: browser)"
)


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file. Raises ConfigError for a role that there is not."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Changes or adds what single keys are for: a letter, or a name like space, up, f6; "" is for
    nothing.
    """

    def __post_init__(self) -> None:
        Controls(self.keys, "teleop 'keyboard': keys")


class Teleop(Device):
    """The keyboard.

    A key deflects its axis fully while it is down. The space bar is the dead-man's: without it
    nothing moves, so that who types in another window moves no arm.
    """

    feel = replace(Device.feel, speed=0.5)

    def __init__(self, options: Options, given: Given):
        """Raises ConfigError for a key that there is not, DeviceError without an X11 display."""
        controls = Controls({**KEYS, **options.keys}, "teleop 'keyboard': keys")
        super().__init__(lambda: _Keyboard(controls), controls)


class _Keyboard:
    """Two connections to the display: one that listens, one that asks what is down."""

    def __init__(self, controls: Controls):
        self._controls = controls
        self._heard = 0
        self.name = f"keyboard at display {os.environ.get('DISPLAY', '')}"
        try:
            self._display = Xlib.display.Display()
            if _is_wayland(self._display):
                self.name += ", which hears nothing while a window of Wayland's has the focus"
                log.warning("teleop: %s. %s", self.name, WAYLAND_HELP)
            if not self._display.has_extension("RECORD"):  # without it pynput would wait for ever
                raise OSError("it has no RECORD extension")
            from pynput import keyboard  # the import fails without a display

            self._keyboard: Any = keyboard
            self._codes = {control: self._code(control) for control in controls.roles}
            hears = threading.Event()
            self._listener = _quiet(keyboard.Listener, hears)(on_press=self._on_press)
            self._listener.start()
            hears.wait(HEARS_S)
            # what is down already counts once it is pressed anew
            self._before = self._stale = self._down()
        except (ImportError, Xlib.error.DisplayError, *GONE) as error:
            raise DeviceError(_no_display(error)) from error

    def read(self) -> int:
        """Release what is up by now, press what was down twice without a word; returns how many
        downs were heard.
        """
        time.sleep(POLL_S)
        # before the display is asked: what goes down meanwhile is not in its answer
        held = self._controls.held
        try:
            down = self._down()
        except GONE as error:
            raise OSError(f"the display does not answer: {error}") from error
        if not self._listener.is_alive():
            raise OSError("the display tells nothing any more")
        for control in held - down:
            self._controls.release(control)
        for control in (down & self._before) - held - self._stale:
            self._controls.press(control)
        self._before, self._stale = down, self._stale & down
        heard, self._heard = self._heard, 0
        return heard

    def close(self) -> None:
        """Hang up."""
        with suppress(*GONE):  # it may have hung up itself
            self._listener.stop()
            self._display.close()

    def _on_press(self, key: Any) -> None:
        """In the listener's thread: a key went down, or says so again."""
        self._heard += 1
        control = (
            key.name
            if isinstance(key, self._keyboard.Key)
            else (getattr(key, "char", None) or "").lower()
        )
        if control in self._codes:
            self._controls.press(control)

    def _down(self) -> frozenset[str]:
        """Which of the keys that are for something are down now."""
        keymap = self._display.query_keymap()  # 256 bits, one for each of the keyboard's codes
        return frozenset(
            control for control, code in self._codes.items() if keymap[code // 8] >> code % 8 & 1
        )

    def _code(self, control: str) -> int:
        """The display's number for a key."""
        named = getattr(self._keyboard.Key, control, None)
        if named is None and len(control) != 1:
            names = ", ".join(key.name for key in self._keyboard.Key)
            raise ConfigError(
                f"teleop 'keyboard': keys: {control!r} is no key; wanted a letter or one of {names}"
            )
        return int(self._display.keysym_to_keycode(named.value.vk if named else ord(control)))


def _quiet(listener: type[Any], hears: threading.Event) -> type[Any]:
    """A listener that sets `hears` with the first that the display tells, which is that it begins.

    pynput's `wait` ends before: a key that is tapped then is heard by nobody. Its thread ends
    without a traceback when the display goes: `_Keyboard.read` says so.
    """

    def run(self: Any) -> None:
        with suppress(*GONE):
            listener.run(self)

    def handler(self: Any, events: Any) -> None:
        hears.set()
        listener._handler(self, events)

    return type("QuietListener", (listener,), {"run": run, "_handler": handler})


def _is_wayland(display: Any) -> bool:
    """Whether the display is only a guest on a Wayland desktop. Before Xwayland 23.1 it does not
    say so itself.
    """
    session = os.environ.get("XDG_SESSION_TYPE") == "wayland" or bool(
        os.environ.get("WAYLAND_DISPLAY")
    )
    return session or bool(display.has_extension("XWAYLAND"))


def _no_display(error: Exception) -> str:
    display = os.environ.get("DISPLAY", "")
    where = "there is no display: DISPLAY is not set"
    if display:
        where = f"the display {display!r} cannot be opened"
    return (
        f"the keyboard is heard through an X11 display, and {where} ({error}). Start this on the"
        " desktop of the machine that the keyboard is plugged into, not over ssh, or use another"
        " device"
    )
