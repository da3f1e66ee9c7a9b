"""Intel RealSense cameras (D400 series) through Intel's own pyrealsense2: the colour stream of one
device.

Traps. The unit of `exposure` is the camera's own: 100 us for the colour sensor of a D435, 1 us for
a D405, whose colour comes from its stereo module. Controls outlive the program that set them, so
both exposure and white balance are set each time, to a value or to automatic. Starting two
pipelines at the same moment confuses librealsense: one at a time. A call about a device that is
gone may hang: each has a time limit. A program that was killed leaves a camera that opens and sends
nothing: such a one is reset.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from robot_rl.cameras import _live
from robot_rl.cameras._frame_clock import FrameClock
from robot_rl.cameras._live import Grab, LiveCamera, LiveOptions, Restarting, Settling
from robot_rl.interfaces import Given
from robot_rl.types import ConfigError, DeviceError, FoundCamera

try:
    import pyrealsense2 as rs
except ModuleNotFoundError:
    raise
except ImportError as error:  # the wheel brings everything but these two
    raise ConfigError(
        f"pyrealsense2 cannot be loaded: {error}. On Debian or Ubuntu: "
        "`sudo apt-get install --no-install-recommends libusb-1.0-0 libudev1`"
    ) from error

log = logging.getLogger(__name__)

START_S, STOP_S = 5.0, 2.0
"""For how long librealsense may take to start a stream, and to stop it."""
SILENT_S = 3.0
"""A camera that was opened and has sent no frame for so long is wedged: the first one comes after
about a second.
"""
REFUSALS = 2
"""So often in a row a camera that this process has had may refuse to start. Any other one may be
another program's.
"""
RESET_EVERY_S = 60.0
"""A camera is reset no more often: what a reset does not mend, another one does not."""


@dataclass(frozen=True, kw_only=True)
class Options(LiveOptions):
    """The driver's part of a hardware file. Either `serial` or `recording` is given."""

    serial: str = ""
    """What `robot-rl cameras` lists, in quotes."""
    recording: str = ""
    """A file of RealSense's own recorder (.db3, .bag), which begins again at its end."""
    exposure: float | None = None
    """Locks the exposure (the camera's own units); None leaves it automatic."""
    gain: float | None = None
    """Locks the gain (the camera's own units), for a locked exposure only; None leaves it
    automatic.
    """
    white_balance: float | None = None
    """Locks the white balance [K]; None leaves it automatic."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.serial) == bool(self.recording):
            raise ConfigError("wanted either serial or recording")
        if self.gain is not None and self.exposure is None:
            raise ConfigError("gain is for a locked exposure; give exposure as well")


class Camera(LiveCamera):
    """A camera of this kind, grabbed from in the background."""

    def __init__(self, options: Options, given: Given):
        history = _History()
        super().__init__(
            given.name, options, given.image_size, lambda: _Stream(given.name, options, history)
        )

    @classmethod
    def found(cls) -> list[FoundCamera]:
        return found()


def found() -> list[FoundCamera]:
    """The devices that are plugged in now."""
    return [
        FoundCamera(
            "realsense", {"serial": serial}, f"{_info(device, rs.camera_info.name)}, {_usb(device)}"
        )
        for serial, device in _devices().items()
    ]


@dataclass
class _History:
    """What is known of a camera from one opening to the next: frames ever, refusals in a row, when
    it was reset.
    """

    has_delivered: bool = False
    refusals: int = 0
    reset_t: float = -math.inf


class _Stream:
    """The running colour stream of one device."""

    def __init__(self, name: str, options: Options, history: _History):
        self._name, self._is_recorded, self._history = name, bool(options.recording), history
        self._pipeline: Any = None
        self._device: Any = None
        self._sensor: Any = None
        self._held: Any = None
        try:
            with _opening:
                self._pipeline, self._device = _within(START_S, lambda: self._start(options))
            self._sensor = next(
                sensor for sensor in self._device.query_sensors() if _is_colour(sensor)
            )
            self._set_controls(options)
        except (
            RuntimeError,
            TimeoutError,
        ) as error:  # of librealsense: a device may go at any moment
            self.close()
            self._refuse(options.serial)
            raise DeviceError(
                f"camera '{name}': it does not start: {error}. Does another program use it?"
            ) from error
        except BaseException:
            self.close()
            raise
        self.port = "" if self._is_recorded else _usb(self._device)
        self._settling = Settling(self._settles_s(options))
        self._clock = FrameClock()
        self._started_t, self._is_silent = time.monotonic(), True
        history.refusals = 0

    def _start(self, options: Options) -> tuple[Any, Any]:
        """Pipeline and device. Nothing of `self` changes: if this comes too late, nobody waits for
        it any more.
        """
        config, pipeline = rs.config(), rs.pipeline(_context())
        if options.recording:
            config.enable_device_from_file(options.recording, True)
        else:
            config.enable_device(self._find(options.serial))
        config.enable_stream(
            rs.stream.color, options.width, options.height, rs.format.rgb8, options.rate_hz
        )
        if not config.can_resolve(rs.pipeline_wrapper(pipeline)):
            raise DeviceError(
                f"camera '{self._name}': it has no {options.width} x {options.height} pixels at"
                f" {options.rate_hz} Hz"
                + ("" if options.recording else f"; it has: {_modes(_devices()[options.serial])}")
            )
        return pipeline, pipeline.start(config).get_device()

    def _refuse(self, serial: str) -> None:
        """It did not start. One that this process has had, and is plugged in, is reset when that
        happens again.
        """
        self._history.refusals += 1
        if not self._history.has_delivered or self._history.refusals < REFUSALS:
            return
        if serial in (there := _devices()):
            self._reset(there[serial], "it refuses to start again")

    def _reset(self, device: Any, why: str) -> None:
        """Start the camera itself anew, unless that was done a moment ago. Raises Restarting if it
        does.
        """
        if time.monotonic() - self._history.reset_t < RESET_EVERY_S:
            return
        self._history.reset_t, self._history.refusals = time.monotonic(), 0
        try:
            _within(STOP_S, device.hardware_reset)
        except (RuntimeError, TimeoutError) as error:
            log.warning("camera '%s': %s, and cannot be reset: %s", self._name, why, error)
            return
        log.warning("camera '%s': %s; it was reset, and is away for a few seconds", self._name, why)
        raise Restarting(f"camera '{self._name}': {why}; it was reset")

    def _find(self, serial: str) -> str:
        devices = _devices()
        if serial not in devices:
            there = (
                ", ".join(devices)
                or "none (or librealsense's udev rules are missing: docs/cameras.md)"
            )
            raise DeviceError(
                f"camera '{self._name}': no RealSense with serial {serial!r} is plugged in; there"
                f" is: {there}"
            )
        return serial

    def grab(self, timeout_s: float) -> Grab | None:
        try:
            arrived, frames = self._pipeline.try_wait_for_frames(int(1e3 * timeout_s))
        except RuntimeError as error:
            raise DeviceError(f"camera '{self._name}': {error}") from error
        frame = frames.get_color_frame() if arrived else None
        if not frame:
            if (
                self._is_silent
                and time.monotonic() - self._started_t > SILENT_S
                and not self._is_recorded
            ):
                self._reset(self._device, "it was opened and sends no frame")
            return None
        self._is_silent, self._history.has_delivered = False, True
        self._held = frame  # the picture is a view into it
        taken = time.monotonic() if self._is_recorded else _time_of(frame, self._clock)
        settled = self._settling.has_settled(time.monotonic(), _exposure_of(frame))
        return Grab(np.asanyarray(frame.get_data()), taken, frame.get_frame_number(), settled)

    def controls(self) -> dict[str, float]:
        return {name: self._sensor.get_option(option) for name, (option, _) in _CONTROLS.items()
                if self._sensor.supports(option)}  # fmt: skip

    def close(self) -> None:
        """Let go of the device. What hangs is left behind: others have cameras to open."""
        pipeline, self._pipeline = self._pipeline, None
        self._device = self._sensor = self._held = None
        if pipeline is None:
            return
        try:
            _within(STOP_S, pipeline.stop)
        except RuntimeError:
            pass  # it has gone already
        except TimeoutError:
            log.warning("camera '%s': librealsense did not stop it within %g s", self._name, STOP_S)

    def _settles_s(self, options: Options) -> float:
        """For how long frames at most count for nothing, because their exposure is not yet what it
        will be.
        """
        if not self._sensor.supports(rs.option.exposure):
            return 0.0
        is_automatic = options.exposure is None and self._sensor.supports(
            rs.option.enable_auto_exposure
        )
        return _live.SETTLE_S if is_automatic else _live.LOCK_S

    def _set_controls(self, options: Options) -> None:
        """Lock what the options give, make the rest automatic, but never at the cost of the frame
        rate.
        """
        if self._sensor.supports(rs.option.auto_exposure_priority):
            # 1 lets a dark scene halve the rate
            self._sensor.set_option(rs.option.auto_exposure_priority, 0.0)
        for name, (option, automatic) in _CONTROLS.items():
            value = getattr(options, name)
            if automatic is not None and self._sensor.supports(automatic):
                self._sensor.set_option(automatic, float(value is None))
            if value is None:
                continue
            if not self._sensor.supports(option):
                raise ConfigError(
                    f"camera '{self._name}': options: this camera has no {name} to lock"
                )
            span = self._sensor.get_option_range(option)
            if not span.min <= value <= span.max:
                raise ConfigError(
                    f"camera '{self._name}': options: {name} = {value:g}: this camera takes"
                    f" {span.min:g} to {span.max:g} in steps of {span.step:g}"
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


def _within(limit_s: float, call: Callable[[], Any]) -> Any:
    """What a call of librealsense's returns or raises, or TimeoutError if it hangs; it is left to
    itself then.
    """
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001 the waiting thread raises it
            answers.put((None, error))

    try:
        threading.Thread(target=run, name="librealsense", daemon=True).start()
    except RuntimeError:  # this process is ending: there are no new threads any more
        return call()
    try:
        answer, error = answers.get(timeout=limit_s)
    except Empty:
        raise TimeoutError(f"librealsense did not answer within {limit_s:g} s") from None
    if error is not None:
        raise error
    return answer


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
    """Whether the colour stream comes from this sensor: on a D405 that is not the one that is
    called so.
    """
    return any(profile.stream_type() == rs.stream.color for profile in sensor.get_stream_profiles())


def _modes(device: Any) -> str:
    """The colour modes of a device, in words, and its port: USB 2 has fewer."""
    profiles = [
        profile for sensor in device.query_sensors() for profile in sensor.get_stream_profiles()
    ]
    colour = [p.as_video_stream_profile() for p in profiles if p.stream_type() == rs.stream.color]
    modes = {
        f"{p.width()} x {p.height()} at {p.fps()} Hz"
        for p in colour
        if p.format() == rs.format.rgb8
    }
    return f"{', '.join(sorted(modes)) or 'nothing'} on {_usb(device)}"


def _usb(device: Any) -> str:
    return f"USB {_info(device, rs.camera_info.usb_type_descriptor)}"


def _info(device: Any, what: Any) -> str:
    return str(device.get_info(what)) if device.supports(what) else "?"


def _exposure_of(frame: Any) -> float | None:
    """How bright the frame was exposed, exposure times gain, if the camera says so with each frame."""
    values = rs.frame_metadata_value
    if not frame.supports_frame_metadata(values.actual_exposure):
        return None
    gain = 1
    if frame.supports_frame_metadata(values.gain_level):
        gain = frame.get_frame_metadata(values.gain_level)
    return float(max(frame.get_frame_metadata(values.actual_exposure), 1) * max(gain, 1))


def _time_of(frame: Any, clock: FrameClock) -> float:
    """When the frame was taken [s, monotonic clock].

    librealsense tells it on the system's clock, from the camera's (global time) or as the kernel's
    time of arrival, or on the camera's alone; of most frames the camera's own count comes as well.
    """
    arrived = time.monotonic()
    ahead = _system_ahead_s()
    stamp, own = 1e-3 * frame.get_timestamp(), rs.frame_metadata_value.frame_timestamp
    counted = 1e-6 * frame.get_frame_metadata(own) if frame.supports_frame_metadata(own) else None
    if frame.get_frame_timestamp_domain() == rs.timestamp_domain.hardware_clock:
        return clock.taken(arrived, ahead, None, stamp if counted is None else counted)
    is_arrival = frame.get_frame_timestamp_domain() == rs.timestamp_domain.system_time
    return clock.taken(arrived, ahead, stamp, None if is_arrival else counted)


def _system_ahead_s() -> float:
    """What the system's clock is ahead of the monotonic one [s], read in one go: a pause between
    the two would look like a clock that was set."""
    before, system, after = min(
        ((time.monotonic(), time.time(), time.monotonic()) for _ in range(3)),
        key=lambda read: read[2] - read[0],
    )
    return system - 0.5 * (before + after)
