"""What lies below a driver in these tests: hidapi's `read`, an X server, the event file of the kernel."""

import errno
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from robot_rl.types import Handover


def require(name: str) -> Any:
    """The package, or skip; with CI=true fail instead."""
    try:
        return __import__(name)
    except ImportError:
        unavailable(f"the package {name} is not installed here (see the Makefile: .installed-dev)")


def unavailable(problem: str) -> None:
    """Skip, saying what is missing; with CI=true fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(problem)
    pytest.skip(problem, allow_module_level=True)


def wait_until(true: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Wait for what another thread is about to do."""
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.002)


def until_says(device: Any, true: Callable[[Handover], object], timeout_s: float = 20.0) -> Handover:
    """Read a device until it says what is waited for."""
    until = time.monotonic() + timeout_s
    while not true(said := device.read(())):
        assert time.monotonic() < until, f"it still says {said}"
        time.sleep(0.002)
    return said


class Bench(Protocol):
    """A device, and a person who handles it."""

    name: str
    nothing_there: str

    def open(self, **options: Any) -> Any:
        """The driver."""
        ...

    def hold(self) -> None:
        """Deflect it fully away from the operator, the dead-man's button held if there is one."""
        ...

    def let_go(self) -> None: ...

    def press_success(self) -> None: ...

    def release_success(self) -> None: ...

    def unplug(self) -> None: ...

    def plug_in(self) -> None: ...


# ---------------------------------------------------------------------------------------------- SpaceMouse


class Bus:
    """What `import hid` is for the driver: the devices that are plugged in, and their reports."""

    def __init__(self, *ids: tuple[int, int]):
        self.plugged = [(vendor, product, f"/dev/hidraw{i}".encode()) for i, (vendor, product) in enumerate(ids)]
        self.denied = False
        self.opened: list[BusDevice] = []

    def enumerate(self) -> list[dict[str, Any]]:
        keyboard, cap = (1, 6), (1, 8)  # a receiver has more than one interface
        return [
            {"vendor_id": vendor, "product_id": product, "path": path + suffix, "usage_page": page, "usage": usage}
            for vendor, product, path in self.plugged
            for suffix, (page, usage) in ((b"0", keyboard), (b"", cap))
        ]

    def device(self) -> "BusDevice":
        return BusDevice(self)

    def send(self, *reports: str | bytes) -> None:
        """Reports as they come, bytes or their hexadecimal digits."""
        for report in reports:
            self.opened[-1].waiting.append(bytes.fromhex(report) if isinstance(report, str) else report)


class BusDevice:
    """hidapi's device, as far as the driver uses it: reads and raises what hidapi does."""

    def __init__(self, bus: Bus):
        self._bus = bus
        self._path = b""
        self._waits = True
        self.waiting: list[bytes] = []

    def open_path(self, path: bytes) -> None:
        if self._bus.denied or path not in [path for *_, path in self._bus.plugged]:
            raise OSError("open failed")
        self._path = path
        self._bus.opened.append(self)

    def set_nonblocking(self, nonblocking: bool) -> None:
        self._waits = not nonblocking

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        assert timeout_ms or not self._waits, "this would wait for ever"
        until = time.monotonic() + 1e-3 * timeout_ms
        while True:
            if self._path not in [path for *_, path in self._bus.plugged]:
                raise OSError("read error")
            if self.waiting:
                return list(self.waiting.pop(0)[:max_length])
            if time.monotonic() >= until:
                return []
            time.sleep(0.001)

    def close(self) -> None:
        self._path = b""


class SpaceMouseBench:
    """A SpaceMouse Compact that repeats its report while it is deflected, as real ones do."""

    name, nothing_there = "spacemouse", "no SpaceMouse is plugged in"
    ids = (0x256F, 0xC635)

    def __init__(self, monkeypatch):
        require("hid")
        from robot_rl.teleop import spacemouse

        self._driver = spacemouse
        self.bus = Bus(self.ids)
        monkeypatch.setattr(spacemouse, "hid", self.bus)
        monkeypatch.setattr(spacemouse, "SILENCE_S", 60.0)

    def open(self, **options):
        return self._driver.Teleop(**options)

    def hold(self):
        self.bus.send(struct.pack("<B3h", 1, 0, -350, 0))

    def let_go(self):
        self.bus.send(struct.pack("<B3h", 1, 0, 0, 0))

    def press_success(self):
        self.bus.send("03 01")

    def release_success(self):
        self.bus.send("03 00")

    def unplug(self):
        self.bus.plugged = []

    def plug_in(self):
        self.bus.plugged = [(*self.ids, b"/dev/hidraw5")]  # not the number that it had


# ---------------------------------------------------------------------------------------------- keyboard


def require_display() -> None:
    """Skip without Xvfb, naming what to install; with CI=true fail instead."""
    if shutil.which("Xvfb") is None:
        unavailable(
            "the keyboard's tests need a display that nobody sees. On Debian or Ubuntu: "
            "`sudo apt-get install --no-install-recommends xvfb`"
        )
    require("Xlib")


class Display:
    """An X server, and a finger on its keyboard: the XTest extension's events are a real keyboard's, repeat and all."""

    def __init__(self, name: str = ""):
        import Xlib.display

        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            ["Xvfb", *([name] if name else []), "-displayfd", str(writing), "-screen", "0", "320x240x24"],
            pass_fds=(writing,),
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.name = f":{pipe.readline().strip()}"
        self._finger = Xlib.display.Display(self.name)

    def press(self, key: str) -> None:
        """A key goes down; `key` is its name for X: w, space, F6."""
        self._send(2, key)

    def release(self, key: str) -> None:
        self._send(3, key)

    def tap(self, key: str) -> None:
        self.press(key)
        self.release(key)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _send(self, kind: int, key: str) -> None:
        import Xlib.ext.xtest
        import Xlib.XK

        code = self._finger.keysym_to_keycode(Xlib.XK.string_to_keysym(key))
        Xlib.ext.xtest.fake_input(self._finger, kind, code)
        self._finger.sync()


class KeyboardBench:
    """A keyboard; it is pulled out with its display."""

    name, nothing_there = "keyboard", "the display ':[0-9]+' cannot be opened"

    def __init__(self, start_display):
        self._start = start_display
        self.display = start_display()

    def open(self, **options):
        from robot_rl.teleop.keyboard import Teleop

        return Teleop(**options)

    def hold(self):
        self.display.press("space")
        self.display.press("w")

    def let_go(self):
        self.display.release("w")
        self.display.release("space")

    def press_success(self):
        self.display.press("F6")

    def release_success(self):
        self.display.release("F6")

    def unplug(self):
        self.display.stop()

    def plug_in(self):
        self.display = self._start(self.display.name)


# ---------------------------------------------------------------------------------------------- gamepad


class GamepadBench:
    """A gamepad whose event file is a pipe: the bytes in it are the kernel's, and evdev's own code reads them."""

    name, nothing_there = "gamepad", "no gamepad is plugged in"

    @classmethod
    def on(cls, monkeypatch, folder: Path) -> Iterator["GamepadBench"]:
        bench = cls(monkeypatch, folder)
        yield bench
        with suppress(OSError):
            os.close(bench._writing)

    def __init__(self, monkeypatch, folder: Path):
        evdev = require("evdev")
        from evdev import ecodes

        from robot_rl.teleop import gamepad

        self._driver, self.codes, self._path = gamepad, ecodes, folder / "event3"
        self.busy, self.rest = False, dict.fromkeys(gamepad.STICKS, 128)
        bench = self

        real: Any = evdev.InputDevice

        class Pad(real):
            """What the kernel says of the pad by ioctl, which a pipe cannot; everything else is evdev's."""

            def __init__(self, path):
                self.path, self.name = str(path), "Test Pad"
                self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

            def capabilities(self, verbose=False, absinfo=True):
                ranges = {code: evdev.AbsInfo(0, 0, 255, 0, 15, 0) for code in gamepad.STICKS}
                ranges |= {code: evdev.AbsInfo(0, -1, 1, 0, 0, 0) for code in gamepad.HATS}
                return {
                    ecodes.EV_KEY: [ecodes.BTN_SOUTH, ecodes.BTN_TR],
                    ecodes.EV_ABS: list(ranges.items()) if absinfo else list(ranges),
                }

            def absinfo(self, axis_num):
                return evdev.AbsInfo(bench.rest[axis_num], 0, 255, 0, 15, 0)

            def grab(self):
                if bench.busy:
                    raise OSError(errno.EBUSY, "Device or resource busy")

            def read(self):
                events = list(super().read())
                if not events:  # the end of the pipe; the kernel's own file says so
                    raise OSError(errno.ENODEV, "No such device")
                return iter(events)

        monkeypatch.setattr(evdev, "InputDevice", Pad)
        monkeypatch.setattr(gamepad, "INPUTS", folder)
        self.plug_in()

    def open(self, **options):
        return self._driver.Teleop(**options)

    def send(self, *events: tuple[str, int]) -> None:
        """Events by the kernel's names, then its mark that they belong together."""
        ecodes = self.codes
        kinds = {"ABS": ecodes.EV_ABS, "BTN": ecodes.EV_KEY, "SYN": ecodes.EV_SYN}
        for name, value in (*events, ("SYN_REPORT", 0)):
            code = ecodes.ecodes[name]
            os.write(self._writing, struct.pack("@qqHHi", 0, 0, kinds[name[:3]], code, value))

    def hold(self):
        self.send(("ABS_Y", 0), ("BTN_TR", 1))

    def let_go(self):
        self.send(("ABS_Y", 128), ("BTN_TR", 0))

    def press_success(self):
        self.send(("BTN_SOUTH", 1))

    def release_success(self):
        self.send(("BTN_SOUTH", 0))

    def unplug(self):
        self._path.unlink()
        os.close(self._writing)

    def plug_in(self):
        os.mkfifo(self._path)
        self._writing = os.open(self._path, os.O_RDWR)
