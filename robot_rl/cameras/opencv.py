"""What OpenCV opens: USB cameras (Video4Linux), MJPEG and RTSP streams, video files, which begin again at their end.

A frame's time is when it arrived here: Video4Linux and network streams tell no other that OpenCV hands on unchanged.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import cv2

from robot_rl.cameras._live import FIRST_FRAME_S, REOPEN_AFTER_S, Grab, LiveCamera, LiveOptions
from robot_rl.config import CameraConfig
from robot_rl.interfaces import Simulation
from robot_rl.types import ConfigError, DeviceError, FoundCamera
from robot_rl.validation import from_json

V4L2_AUTOMATIC, V4L2_MANUAL = 3.0, 1.0
"""Of the control V4L2_CID_EXPOSURE_AUTO (linux/v4l2-controls.h): aperture priority, which every webcam has; manual."""

BY_ID, CLASS = Path("/dev/v4l/by-id"), Path("/sys/class/video4linux")


@dataclass(frozen=True, kw_only=True)
class Options(LiveOptions):
    """The driver's part of a hardware file.

    `device` is a path (`/dev/v4l/by-id/...` stays the same whatever else is plugged in), a number (2 is /dev/video2), a
    URL or a video file. `fourcc` is the format that a USB camera sends in ("MJPG" for high rates; empty: its own).
    `exposure` [100 us] and `white_balance` [K] lock these on a USB camera; None leaves them automatic.
    """

    device: int | str
    width: int = 0
    height: int = 0
    rate_hz: int = 0
    fourcc: str = ""
    exposure: float | None = None
    white_balance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.fourcc) not in (0, 4):
            raise ConfigError(f"fourcc = {self.fourcc!r}: wanted 4 letters, as MJPG")


class Camera(LiveCamera):
    """Implements `interfaces.Camera`."""

    def __init__(self, config: CameraConfig, image_size: tuple[int, int] | None, simulation: Simulation | None = None):
        options = from_json(Options, config.options, source=f"camera '{config.name}': options")
        super().__init__(config.name, options, image_size, lambda: _Capture(config.name, options))


def found() -> list[FoundCamera]:
    """The USB cameras that are plugged in now. Their second nodes, which deliver no pictures, are left out."""
    stable = {link.resolve(): link for link in sorted(BY_ID.glob("*"), reverse=True)}
    nodes = [node for node in sorted(CLASS.glob("video*")) if (node / "index").read_text().strip() == "0"]
    paths = [Path("/dev") / node.name for node in nodes]
    return [
        FoundCamera("opencv", {"device": str(stable.get(path, path))}, (node / "name").read_text().strip())
        for node, path in zip(nodes, paths, strict=True)
    ]


class _Capture:
    """An open `cv2.VideoCapture`."""

    def __init__(self, name: str, options: Options):
        self._name = name
        place = f"/dev/video{options.device}" if isinstance(options.device, int) else options.device
        self._is_file, self._is_usb = Path(place).is_file(), "://" not in place and not Path(place).is_file()
        if self._is_usb:
            self._check_node(place)
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
            why = "does another program use it?" if self._is_usb else "does it exist, and is it a video?"
            raise DeviceError(f"camera '{name}': {place} cannot be opened; {why}")
        try:
            self._check_mode(options)
            self._set_controls(options)
        except BaseException:
            self.close()
            raise
        self._period_s = 1.0 / (options.rate_hz or self._capture.get(cv2.CAP_PROP_FPS) or 30.0)
        self._due = time.monotonic()

    def grab(self, timeout_s: float) -> Grab | None:
        if self._is_file:
            self._due += self._period_s
            time.sleep(max(0.0, self._due - time.monotonic()))
        if not self._capture.grab() and not (self._begin_again() and self._capture.grab()):
            raise DeviceError(f"camera '{self._name}': its stream has ended, or no frames come")
        taken = time.monotonic()
        there, picture = self._capture.retrieve()
        return Grab(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), taken) if there else None

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
            raise DeviceError(f"camera '{self._name}': there is no {place}; cameras that are plugged in: {there}")
        if not os.access(place, os.R_OK | os.W_OK):
            raise DeviceError(f"camera '{self._name}': {place} is not yours to read: `sudo usermod -aG video $USER`, "
                              "then log in again")  # fmt: skip

    def _check_mode(self, options: Options) -> None:
        """A driver takes the mode that is nearest to the one that was asked for, and says nothing."""
        size = tuple(int(self._capture.get(p)) for p in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
        if any(asked not in (0, got) for asked, got in zip((options.width, options.height), size, strict=True)):
            raise ConfigError(
                f"camera '{self._name}': options: {options.width} x {options.height} pixels are asked for, it delivers "
                f"{size[0]} x {size[1]}; `v4l2-ctl --list-formats-ext` lists what a USB camera has"
            )

    def _set_controls(self, options: Options) -> None:
        """Lock what the options give; make the rest automatic, if the camera has it."""
        for name, automatic, on, off, control in (
            ("exposure", cv2.CAP_PROP_AUTO_EXPOSURE, V4L2_AUTOMATIC, V4L2_MANUAL, cv2.CAP_PROP_EXPOSURE),
            ("white_balance", cv2.CAP_PROP_AUTO_WB, 1.0, 0.0, cv2.CAP_PROP_WB_TEMPERATURE),
        ):
            value = getattr(options, name)
            if self._is_usb:
                self._capture.set(automatic, on if value is None else off)
            if value is not None and not (self._is_usb and self._capture.set(control, value)):
                raise ConfigError(f"camera '{self._name}': options: {name} = {value:g}: this camera does not take it")
