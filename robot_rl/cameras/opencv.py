"""What OpenCV opens: USB cameras (Video4Linux), MJPEG and RTSP streams, video files, which begin
again at their end.

A frame's time is when it arrived here: Video4Linux and network streams tell no other that OpenCV
hands on unchanged.
"""

import fcntl
import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cv2

from robot_rl.cameras import _live
from robot_rl.cameras._live import (
    FIRST_FRAME_S,
    REOPEN_AFTER_S,
    Grab,
    LiveCamera,
    LiveOptions,
    Settling,
)
from robot_rl.interfaces import Given
from robot_rl.types import ConfigError, DeviceError, FoundCamera

V4L2_AUTOMATIC, V4L2_MANUAL = 3.0, 1.0
"""Of the control V4L2_CID_EXPOSURE_AUTO (linux/v4l2-controls.h): aperture priority, which every
webcam has; manual.
"""

CONTROLS = (
    ("exposure", cv2.CAP_PROP_AUTO_EXPOSURE, V4L2_AUTOMATIC, V4L2_MANUAL, cv2.CAP_PROP_EXPOSURE),
    ("white_balance", cv2.CAP_PROP_AUTO_WB, 1.0, 0.0, cv2.CAP_PROP_WB_TEMPERATURE),
)
"""By option: the control that makes it automatic, its values for on and off, and the control."""

VIDIOC_S_CTRL, EXPOSURE_AUTO_PRIORITY = 0xC008561C, 0x009A0903
"""Request and control (linux/videodev2.h, v4l2-controls.h), whose name for people is
`exposure_dynamic_framerate`.
"""

RATE_SHARE = 0.05
"""Share by which a rate that was granted may differ from the one that was asked for: 29.97 Hz are
30.
"""

BY_ID = Path("/dev/v4l/by-id")
BY_PATH = Path("/dev/v4l/by-path")
CLASS = Path("/sys/class/video4linux")


@dataclass(frozen=True, kw_only=True)
class Options(LiveOptions):
    """The driver's part of a hardware file."""

    device: int | str
    """A path (`/dev/v4l/by-id/...` stays the same whatever else is plugged in,
    `/dev/v4l/by-path/...` is whatever is in that port: for two of a model that have no serial
    number), a number (2 is /dev/video2), a URL or a video file."""
    width: int = 0
    height: int = 0
    rate_hz: int = 0
    fourcc: str = ""
    """The format that a USB camera sends in: "MJPG" for high rates; "": its own."""
    exposure: float | None = None
    """Locks the exposure of a USB camera [100 us]; None leaves it automatic."""
    white_balance: float | None = None
    """Locks the white balance of a USB camera [K]; None leaves it automatic."""
    latency_s: float = 0.0
    """How long before it arrived a frame was taken [s], exposure, camera and way: nothing tells but a
    measurement (docs/cameras.md)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.latency_s < self.max_age_s:
            raise ConfigError(
                f"latency_s = {self.latency_s:g}: wanted 0 or more, and less than max_age_s"
                f" ({self.max_age_s:g}), beyond which a frame is shown to nobody"
            )
        if len(self.fourcc) not in (0, 4):
            raise ConfigError(f"fourcc = {self.fourcc!r}: wanted 4 letters, as MJPG")


class Camera(LiveCamera):
    """A camera of this kind, grabbed from in the background."""

    def __init__(self, options: Options, given: Given):
        known: set[str] = set()
        super().__init__(
            given.name, options, given.image_size, lambda: _Capture(given.name, options, known)
        )

    @classmethod
    def found(cls) -> list[FoundCamera]:
        return found()


def found() -> list[FoundCamera]:
    """The USB cameras that are plugged in now. Their second nodes, which deliver no pictures, are
    left out.

    Two of a model without serial numbers share one link in `by-id`, which leads to either: they are
    listed by port.
    """
    nodes = [
        node for node in sorted(CLASS.glob("video*")) if (node / "index").read_text().strip() == "0"
    ]
    names = {node: (node / "name").read_text().strip() for node in nodes}
    by_id, by_path = _links(BY_ID), _links(BY_PATH)
    there = []
    for node in nodes:
        path = Path("/dev") / node.name
        twins = [twin for twin in nodes if names[twin] == names[node]]
        is_one = all(Path("/dev") / twin.name in by_id for twin in twins)
        stable = (by_id if is_one else by_path).get(path, by_path.get(path, path))
        there.append(FoundCamera("opencv", {"device": str(stable)}, names[node]))
    return there


def _links(folder: Path) -> dict[Path, Path]:
    """The links of a folder of udev's, by the node that they lead to."""
    return {link.resolve(): link for link in sorted(folder.glob("*"), reverse=True)}


def _identity(node: Path) -> str:
    """What a USB camera is known by: its serial number, if it has one, else its port; "" if nobody
    knows.
    """
    interface = (CLASS / node.name / "device").resolve()
    if not interface.exists():
        return ""
    facts = [interface.parent / name for name in ("idVendor", "idProduct", "serial")]
    if all(fact.exists() for fact in facts):
        return ":".join(fact.read_text().strip() for fact in facts)
    return interface.name


class _Capture:
    """An open `cv2.VideoCapture`."""

    port = ""

    def __init__(self, name: str, options: Options, known: set[str]):
        """`known` keeps what the camera is known by: once it was open, no other one is."""
        self._name = name
        place = f"/dev/video{options.device}" if isinstance(options.device, int) else options.device
        self._place = place
        self._is_file = Path(place).is_file()
        self._is_usb = "://" not in place and not Path(place).is_file()
        if self._is_usb:
            self._check_node(place)
            identity = self._check_identity(Path(place).resolve(), known)
            wanted = [(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*options.fourcc) if options.fourcc else 0),
                      (cv2.CAP_PROP_FRAME_WIDTH, options.width), (cv2.CAP_PROP_FRAME_HEIGHT, options.height),
                      (cv2.CAP_PROP_FPS, options.rate_hz), (cv2.CAP_PROP_BUFFERSIZE, 1)]  # fmt: skip
            flat = [int(number) for pair in wanted if pair[1] for number in pair]
            self._capture = cv2.VideoCapture(str(Path(place).resolve()), cv2.CAP_V4L2, flat)
        else:
            limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, int(1e3 * FIRST_FRAME_S)]
            limits += [cv2.CAP_PROP_READ_TIMEOUT_MSEC, int(1e3 * REOPEN_AFTER_S)]
            self._capture = cv2.VideoCapture(place, cv2.CAP_FFMPEG, [] if self._is_file else limits)
        if not self._capture.isOpened():
            why = "does it exist, and is it a video?"
            if self._is_usb:
                why = "does another program use it?"
            raise DeviceError(f"camera '{name}': {place} cannot be opened; {why}")
        try:
            self._check_mode(options)
            self._set_controls(options)
        except BaseException:
            self.close()
            raise
        if self._is_usb and identity:
            known.add(identity)
        self._settling = Settling(self._settles_s(options))
        self._period_s = 1.0 / (options.rate_hz or self._capture.get(cv2.CAP_PROP_FPS) or 30.0)
        self._due = time.monotonic()
        self._latency_s = options.latency_s

    def grab(self, timeout_s: float) -> Grab | None:
        if self._is_file:
            now = time.monotonic()
            # what a busy machine has missed does not come in a burst
            self._due = max(self._due + self._period_s, now)
            time.sleep(self._due - now)
        if not self._capture.grab() and not (self._begin_again() and self._capture.grab()):
            raise DeviceError(f"camera '{self._name}': its stream has ended, or no frames come")
        taken = time.monotonic()
        there, picture = self._capture.retrieve()
        if not there:
            return None
        return Grab(
            cv2.cvtColor(picture, cv2.COLOR_BGR2RGB),
            taken - self._latency_s,
            settled=self._settling.has_settled(taken),
        )

    def controls(self) -> dict[str, float]:
        if not self._is_usb:
            return {}
        controls = {"exposure": cv2.CAP_PROP_EXPOSURE, "white_balance": cv2.CAP_PROP_WB_TEMPERATURE}
        return {name: self._capture.get(number) for name, number in controls.items()}

    def close(self) -> None:
        self._capture.release()

    def _begin_again(self) -> bool:
        return self._is_file and bool(self._capture.set(cv2.CAP_PROP_POS_FRAMES, 0))

    def _check_node(self, place: str) -> None:
        if not Path(place).exists():
            there = ", ".join(str(camera.options["device"]) for camera in found()) or "none"
            raise DeviceError(
                f"camera '{self._name}': there is no {place}; cameras that are plugged in: {there}"
            )
        if not os.access(place, os.R_OK | os.W_OK):
            raise DeviceError(f"camera '{self._name}': {place} is not yours to read: `sudo usermod -aG video $USER`, "
                              "then log in again")  # fmt: skip

    def _check_identity(self, node: Path, known: set[str]) -> str:
        """A node or a link may lead to another camera by now, where two were plugged in anew or
        share a link.
        """
        identity = _identity(node)
        if known and identity not in known:
            raise DeviceError(
                f"camera '{self._name}': {node} is another camera now ({identity}) than the one"
                f" that was in use ({', '.join(known)}): plug that one back in where it was, or"
                " start anew"
            )
        return identity

    def _check_mode(self, options: Options) -> None:
        """A driver takes the mode that is nearest to the one that was asked for, and says nothing."""
        size = tuple(
            int(self._capture.get(p)) for p in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)
        )
        lists = "`v4l2-ctl --list-formats-ext` lists what a USB camera has"
        problems = []
        if any(
            wanted not in (0, got)
            for wanted, got in zip((options.width, options.height), size, strict=True)
        ):
            problems.append(
                f"{options.width} x {options.height} pixels are asked for, it delivers {size[0]} x"
                f" {size[1]}"
            )
        if self._is_usb:
            rate = self._capture.get(cv2.CAP_PROP_FPS)
            fourcc = _letters(self._capture.get(cv2.CAP_PROP_FOURCC))
            if (
                options.rate_hz
                and rate > 0.0
                and abs(rate - options.rate_hz) > RATE_SHARE * options.rate_hz
            ):
                problems.append(
                    f"rate_hz = {options.rate_hz} is asked for, it delivers {rate:g} in this mode"
                )
            if options.fourcc and fourcc != options.fourcc:
                problems.append(f"fourcc = {options.fourcc!r} is asked for, it sends {fourcc!r}")
        if problems:
            raise ConfigError(
                "\n".join(f"camera '{self._name}': options: {each}; {lists}" for each in problems)
            )

    def _set_controls(self, options: Options) -> None:
        """Lock what the options give; make the rest automatic, if the camera has it, but never
        slower in the dark.
        """
        if self._is_usb:
            _keep_rate(self._place)
        for name, automatic, on, off, control in CONTROLS:
            value = getattr(options, name)
            if self._is_usb:
                self._capture.set(automatic, on if value is None else off)
            if value is None:
                continue
            if not (self._is_usb and self._capture.set(control, value)):
                raise ConfigError(
                    f"camera '{self._name}': options: {name} = {value:g}: this camera does not"
                    " take it"
                )
            if abs((taken := self._capture.get(control)) - value) >= 1.0:
                raise ConfigError(
                    f"camera '{self._name}': options: {name} = {value:g}: this camera takes"
                    f" {taken:g} instead; write that, or what `v4l2-ctl --list-ctrls` allows"
                )

    def _settles_s(self, options: Options) -> float:
        """For how long frames count for nothing, because their exposure is not yet what it will be."""
        if not self._is_usb:
            return 0.0
        return _live.SETTLE_S if options.exposure is None else _live.LOCK_S


def _letters(fourcc: float) -> str:
    """Four letters that came as a number."""
    return int(fourcc).to_bytes(4, "little", signed=int(fourcc) < 0).decode("latin-1")


def _keep_rate(node: str) -> None:
    """Forbid a USB camera to halve its rate in the dark (`exposure_dynamic_framerate`), if it can
    be told.
    """
    with suppress(OSError):  # this camera has no such control
        descriptor = os.open(node, os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.ioctl(descriptor, VIDIOC_S_CTRL, struct.pack("Ii", EXPOSURE_AUTO_PRIORITY, 0))
        finally:
            os.close(descriptor)
