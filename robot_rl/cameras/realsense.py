"""Intel RealSense cameras (D400 series) through Intel's own pyrealsense2: the colour stream of one device.

Traps. The unit of `exposure` is the camera's own: 100 us for the colour sensor of a D435, 1 us for a D405, whose colour
comes from its stereo module. Controls outlive the program that set them, so both exposure and white balance are set
each time, to a value or to automatic. Starting two pipelines at the same moment confuses librealsense: one at a time.
"""

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.cameras._live import Grab, LiveCamera, LiveOptions
from robot_rl.config import CameraConfig
from robot_rl.interfaces import Simulation
from robot_rl.types import ConfigError, DeviceError, FoundCamera
from robot_rl.validation import from_json

try:
    import pyrealsense2 as rs
except ModuleNotFoundError:
    raise
except ImportError as error:  # the wheel brings everything but these two
    raise ConfigError(
        f"pyrealsense2 cannot be loaded: {error}. On Debian or Ubuntu: "
        "`sudo apt-get install --no-install-recommends libusb-1.0-0 libudev1`"
    ) from error


@dataclass(frozen=True, kw_only=True)
class Options(LiveOptions):
    """The driver's part of a hardware file.

    `serial` is what `robot-rl cameras` lists, in quotes; or `recording` is a file of RealSense's own recorder (.db3,
    .bag), which begins again at its end. `exposure` and `gain` (the camera's own units) and `white_balance` [K] lock
    these; None leaves them automatic. A gain is for a locked exposure only.
    """

    serial: str = ""
    recording: str = ""
    exposure: float | None = None
    gain: float | None = None
    white_balance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.serial) == bool(self.recording):
            raise ConfigError("wanted either serial or recording")
        if self.gain is not None and self.exposure is None:
            raise ConfigError("gain is for a locked exposure; give exposure as well")


class Camera(LiveCamera):
    """Implements `interfaces.Camera`."""

    def __init__(self, config: CameraConfig, image_size: tuple[int, int] | None, simulation: Simulation | None = None):
        options = from_json(Options, config.options, source=f"camera '{config.name}': options")
        super().__init__(config.name, options, image_size, lambda: _Stream(config.name, options))


def found() -> list[FoundCamera]:
    """The devices that are plugged in now."""
    return [
        FoundCamera("realsense", {"serial": serial}, f"{_info(device, rs.camera_info.name)}, {_usb(device)}")
        for serial, device in _devices().items()
    ]


class _Stream:
    """The running colour stream of one device."""

    def __init__(self, name: str, options: Options):
        self._name, self._is_recorded = name, bool(options.recording)
        self._pipeline: Any = None
        self._sensor: Any = None
        self._held: Any = None
        try:
            with _opening:
                self._start(options)
            self._set_controls(options)
        except RuntimeError as error:  # of librealsense: a device may go at any moment
            self.close()
            raise DeviceError(f"camera '{name}': it does not start: {error}. Does another program use it?") from error
        except BaseException:
            self.close()
            raise

    def _start(self, options: Options) -> None:
        config, pipeline = rs.config(), rs.pipeline(_context())
        if options.recording:
            config.enable_device_from_file(options.recording, True)
        else:
            config.enable_device(self._find(options.serial))
        config.enable_stream(rs.stream.color, options.width, options.height, rs.format.rgb8, options.rate_hz)
        if not config.can_resolve(rs.pipeline_wrapper(pipeline)):
            raise DeviceError(
                f"camera '{self._name}': it has no {options.width} x {options.height} pixels at {options.rate_hz} Hz"
                + ("" if options.recording else f"; it has: {_modes(_devices()[options.serial])}")
            )
        device = pipeline.start(config).get_device()
        self._pipeline = pipeline
        self._sensor = next(sensor for sensor in device.query_sensors() if _is_colour(sensor))

    def _find(self, serial: str) -> str:
        devices = _devices()
        if serial not in devices:
            there = ", ".join(devices) or "none"
            raise DeviceError(
                f"camera '{self._name}': no RealSense with serial {serial!r} is plugged in; there is: {there}"
            )
        return serial

    def grab(self, timeout_s: float) -> Grab | None:
        try:
            arrived, frames = self._pipeline.try_wait_for_frames(int(1e3 * timeout_s))
        except RuntimeError as error:
            raise DeviceError(f"camera '{self._name}': {error}") from error
        frame = frames.get_color_frame() if arrived else None
        if not frame:
            return None
        self._held = frame  # the picture is a view into it
        taken = time.monotonic() if self._is_recorded else _time_of(frame)
        return Grab(np.asanyarray(frame.get_data()), taken, frame.get_frame_number())

    def controls(self) -> dict[str, float]:
        return {name: self._sensor.get_option(option) for name, (option, _) in _CONTROLS.items()
                if self._sensor.supports(option)}  # fmt: skip

    def close(self) -> None:
        with _opening, contextlib.suppress(RuntimeError):  # it may be gone already
            if self._pipeline is not None:
                self._pipeline.stop()
        self._pipeline = self._sensor = self._held = None

    def _set_controls(self, options: Options) -> None:
        """Lock what the options give, make the rest automatic, but never at the cost of the frame rate."""
        if self._sensor.supports(rs.option.auto_exposure_priority):
            self._sensor.set_option(rs.option.auto_exposure_priority, 0.0)  # 1 lets a dark scene halve the rate
        for name, (option, automatic) in _CONTROLS.items():
            value = getattr(options, name)
            if automatic is not None and self._sensor.supports(automatic):
                self._sensor.set_option(automatic, float(value is None))
            if value is None:
                continue
            if not self._sensor.supports(option):
                raise ConfigError(f"camera '{self._name}': options: this camera has no {name} to lock")
            span = self._sensor.get_option_range(option)
            if not span.min <= value <= span.max:
                raise ConfigError(
                    f"camera '{self._name}': options: {name} = {value:g}: this camera takes {span.min:g} to "
                    f"{span.max:g} in steps of {span.step:g}"
                )
            self._sensor.set_option(option, value)


_CONTROLS = {
    "exposure": (rs.option.exposure, rs.option.enable_auto_exposure),
    "gain": (rs.option.gain, None),
    "white_balance": (rs.option.white_balance, rs.option.enable_auto_white_balance),
}
"""By the name of the option: the camera's control, and its switch for automatic."""

_opening = threading.Lock()
_shared: list[Any] = []


def _context() -> Any:
    """librealsense's view of the bus, one for the process."""
    if not _shared:
        _shared.append(rs.context())
    return _shared[0]


def _devices() -> dict[str, Any]:
    """What is plugged in, by serial number."""
    devices = {}
    for device in _context().query_devices():
        with contextlib.suppress(RuntimeError):  # it has gone since the list was made
            devices[_info(device, rs.camera_info.serial_number)] = device
    return devices


def _is_colour(sensor: Any) -> bool:
    """Whether the colour stream comes from this sensor: on a D405 that is not the one that is called so."""
    return any(profile.stream_type() == rs.stream.color for profile in sensor.get_stream_profiles())


def _modes(device: Any) -> str:
    """The colour modes of a device, in words, and its port: USB 2 has fewer."""
    profiles = [profile for sensor in device.query_sensors() for profile in sensor.get_stream_profiles()]
    colour = [p.as_video_stream_profile() for p in profiles if p.stream_type() == rs.stream.color]
    modes = {f"{p.width()} x {p.height()} at {p.fps()} Hz" for p in colour if p.format() == rs.format.rgb8}
    return f"{', '.join(sorted(modes)) or 'nothing'} on {_usb(device)}"


def _usb(device: Any) -> str:
    return f"USB {_info(device, rs.camera_info.usb_type_descriptor)}"


def _info(device: Any, what: Any) -> str:
    return str(device.get_info(what)) if device.supports(what) else "?"


def _time_of(frame: Any) -> float:
    """When the frame was taken [s, monotonic clock].

    librealsense tells it on the system's clock, from the camera's (global time) or as the kernel's time of arrival. A
    clock that was set meanwhile, or a camera that only counts for itself, leaves the time now.
    """
    now = time.monotonic()
    if frame.get_frame_timestamp_domain() == rs.timestamp_domain.hardware_clock:
        return now
    age = time.time() - 1e-3 * frame.get_timestamp()
    return now - age if 0.0 <= age < 1.0 else now
