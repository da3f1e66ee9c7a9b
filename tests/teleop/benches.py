"""What lies below a driver in these tests: hidapi's `read`, an X server, the event file of the
kernel.
"""

import errno
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from robot_rl.interfaces import Given
from robot_rl.types import TeleopEvent
from tests.helpers import wait_until as wait_until

GIVEN = Given()


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


def until_says(
    device: Any, true: Callable[[TeleopEvent], object], timeout_s: float = 20.0
) -> TeleopEvent:
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

    def open(self, given: Given = GIVEN, **options: Any) -> Any:
        """The driver."""
        ...

    def hold(self) -> None:
        """Deflect it fully away from the operator, the dead-man's button held if there is one."""
        ...

    def let_go(self) -> None: ...

    def press_success(self) -> None: ...

    def release_success(self) -> None: ...

    def press_gripper(self, role: str) -> None:
        """The button for `open` or `close` goes down, in a task that moves a gripper."""
        ...

    def release_gripper(self, role: str) -> None: ...

    def unplug(self) -> None: ...

    def plug_in(self) -> None: ...


# --------------------------------------------------------------------------------------- SpaceMouse


class Sysfs:
    """The kernel's tree of devices, in a folder of its own: which node hangs on which port."""

    def __init__(self, kind: str):
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        self.classes, self._devices = root / "class" / kind, root / "devices"
        self.classes.mkdir(parents=True)

    def add(self, node: str, port: str, controller: str = "0000:00:14.0") -> None:
        """A node behind `port`, "2.3:1.0": hub's port, port, configuration and interface; "" is no
        USB at all.
        """
        place = self._devices / "virtual" / "misc" / "uhid"
        if port:
            place = (
                self._devices
                / "pci0000:00"
                / controller
                / "usb1"
                / f"1-{port.partition(':')[0]}"
                / f"1-{port}"
            )
        (place / node).mkdir(parents=True, exist_ok=True)
        (self.classes / node).symlink_to(place / node)

    def remove(self, node: str) -> None:
        (self.classes / node).unlink()


@dataclass(frozen=True)
class Mouse:
    """One on the bus: what hidapi tells of it."""

    ids: tuple[int, int]
    path: bytes
    serial: str = ""


class Bus:
    """What `import hid` is for the driver: the devices that are plugged in, and their reports."""

    def __init__(self, *ids: tuple[int, int]):
        self.plugged: list[Mouse] = []
        self.sysfs = Sysfs("hidraw")
        self.denied = False
        self.opened: list[BusDevice] = []
        for i, each in enumerate(ids):
            self.plug(each, i, port=f"{i + 1}")

    def install(self, monkeypatch) -> "Bus":
        """Be the driver's bus."""
        from robot_rl.teleop import spacemouse

        monkeypatch.setattr(spacemouse, "hid", self)
        monkeypatch.setattr(spacemouse, "CLASS", self.sysfs.classes)
        return self

    def plug(self, ids: tuple[int, int], number: int, *, port: str, serial: str = "") -> Mouse:
        """Plug one in, as /dev/hidraw`number` and its second interface; `port` "" is Bluetooth."""
        for suffix, interface in (("", 0), ("0", 1)):
            self.sysfs.add(f"hidraw{number}{suffix}", port and f"{port}:1.{interface}")
        mouse = Mouse(ids, f"/dev/hidraw{number}".encode(), serial)
        self.plugged = [*self.plugged, mouse]  # all at once: the driver's thread looks at any time
        return mouse

    def unplug(self, mouse: Mouse) -> None:
        self.plugged = [other for other in self.plugged if other != mouse]
        for suffix in (b"", b"0"):
            self.sysfs.remove(Path(os.fsdecode(mouse.path + suffix)).name)

    def has(self, path: bytes) -> bool:
        return path in [mouse.path for mouse in self.plugged]

    def enumerate(self) -> list[dict[str, Any]]:
        keyboard, cap = (1, 6), (1, 8)  # a receiver has more than one interface
        return [
            {
                "vendor_id": mouse.ids[0],
                "product_id": mouse.ids[1],
                "path": mouse.path + suffix,
                "serial_number": mouse.serial,
                "usage_page": page,
                "usage": usage,
            }
            for mouse in self.plugged
            for suffix, (page, usage) in ((b"0", keyboard), (b"", cap))
        ]

    def device(self) -> "BusDevice":
        return BusDevice(self)

    def send(self, *reports: str | bytes) -> None:
        """Reports as they come, bytes or their hexadecimal digits."""
        for report in reports:
            self.opened[-1].waiting.append(
                bytes.fromhex(report) if isinstance(report, str) else report
            )


class BusDevice:
    """hidapi's device, as far as the driver uses it: reads and raises what hidapi does."""

    def __init__(self, bus: Bus):
        self._bus = bus
        self._path = b""
        self._waits = True
        self.waiting: list[bytes] = []

    def open_path(self, path: bytes) -> None:
        if self._bus.denied or not self._bus.has(path):
            raise OSError("open failed")
        self._path = path
        self._bus.opened.append(self)

    def set_nonblocking(self, nonblocking: bool) -> None:
        self._waits = not nonblocking

    def read(self, max_length: int, timeout_ms: int = 0) -> list[int]:
        assert timeout_ms or not self._waits, "this would wait for ever"
        until = time.monotonic() + 1e-3 * timeout_ms
        while True:
            if not self._bus.has(self._path):
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
        self.bus = Bus().install(monkeypatch)
        self.own = self.bus.plug(self.ids, 0, port="2.3")
        monkeypatch.setattr(spacemouse, "SILENCE_S", 60.0)

    def open(self, given=GIVEN, **options):
        return self._driver.Teleop(self._driver.Options(**options), given)

    def hold(self):
        self.bus.send(struct.pack("<B3h", 1, 0, -350, 0))

    def let_go(self):
        self.bus.send(struct.pack("<B3h", 1, 0, 0, 0))

    def press_success(self):
        self.bus.send("03 01")

    def release_success(self):
        self.bus.send("03 00")

    def press_gripper(self, role):
        self.bus.send("03 01" if role == "close" else "03 02")

    def release_gripper(self, role):
        self.bus.send("03 00")

    def unplug(self):
        self.bus.unplug(self.own)

    def plug_in(self):
        self.own = self.bus.plug(self.ids, 5, port="2.3")  # not the number that it had

    def plug_in_another(self, number=1, *, serial=""):
        return os.fsdecode(self.bus.plug(self.ids, number, port="2.4", serial=serial).path)


# ----------------------------------------------------------------------------------------- keyboard


def require_display() -> None:
    """Skip without Xvfb, naming what to install; with CI=true fail instead."""
    if shutil.which("Xvfb") is None:
        unavailable(
            "the keyboard's tests need a display that nobody sees. On Debian or Ubuntu: "
            "`sudo apt-get install --no-install-recommends xvfb`"
        )
    require("Xlib")


class Display:
    """An X server, and a finger on its keyboard: the XTest extension's events are a real
    keyboard's, repeat and all.
    """

    def __init__(self, name: str = ""):
        import Xlib.display

        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [
                "Xvfb",
                *([name] if name else []),
                "-displayfd",
                str(writing),
                "-screen",
                "0",
                "320x240x24",
            ],
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

    def open(self, given=GIVEN, **options):
        from robot_rl.teleop.keyboard import Options, Teleop

        return Teleop(Options(**options), given)

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

    def press_gripper(self, role):
        self.display.press("q" if role == "close" else "e")

    def release_gripper(self, role):
        self.display.release("q" if role == "close" else "e")

    def unplug(self):
        self.display.stop()

    def plug_in(self):
        self.display = self._start(self.display.name)


# ------------------------------------------------------------------------------------------ gamepad


class GamepadBench:
    """A gamepad whose event file is a pipe: the bytes in it are the kernel's, and evdev's own code
    reads them.
    """

    name, nothing_there = "gamepad", "no gamepad is plugged in"

    @classmethod
    def on(cls, monkeypatch, folder: Path) -> Iterator["GamepadBench"]:
        bench = cls(monkeypatch, folder)
        yield bench
        bench.close()

    def __init__(self, monkeypatch, folder: Path):
        evdev = require("evdev")
        from evdev import ecodes

        from robot_rl.teleop import gamepad

        self._driver, self.codes, self._folder = gamepad, ecodes, folder
        self.busy, self.rest = False, dict.fromkeys(gamepad.STICKS, 128)
        self.sysfs, self._serials = Sysfs("input"), dict[str, str]()
        self._others: list[int] = []
        bench = self

        real: Any = evdev.InputDevice

        class Pad(real):
            """What the kernel says of the pad by ioctl, which a pipe cannot; everything else is
            evdev's.
            """

            def __init__(self, path):
                self.path, self.name = str(path), "Test Pad"
                self.uniq = bench._serials[Path(path).name]
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
        monkeypatch.setattr(gamepad, "CLASS", self.sysfs.classes)
        self._plug_in(3)

    def open(self, given=GIVEN, **options):
        return self._driver.Teleop(self._driver.Options(**options), given)

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

    def press_gripper(self, role):
        self.send(("BTN_WEST" if role == "close" else "BTN_NORTH", 1))

    def release_gripper(self, role):
        self.send(("BTN_WEST" if role == "close" else "BTN_NORTH", 0))

    def unplug(self):
        self._path.unlink()
        self.sysfs.remove(self._path.name)
        os.close(self._writing)

    def plug_in(self):
        self._plug_in(9)  # not the number that it had

    def plug_in_another(self, number=4, *, serial=""):
        """Behind the same receiver: another interface of the same port."""
        self._others.append(self._make(number, "2:1.2", serial))
        return str(self._folder / f"event{number}")

    def close(self) -> None:
        for writing in (self._writing, *self._others):
            with suppress(OSError):
                os.close(writing)

    def _plug_in(self, number: int) -> None:
        self._path = self._folder / f"event{number}"
        self._writing = self._make(number, "2:1.0", "")

    def _make(self, number: int, port: str, serial: str) -> int:
        path = self._folder / f"event{number}"
        self._serials[path.name] = serial
        self.sysfs.add(path.name, port)
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)
