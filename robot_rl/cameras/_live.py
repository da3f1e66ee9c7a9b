"""What every real camera shares: a thread that grabs, a slot with the newest frame, and a way back
when it is lost.

A driver file opens its device, takes frames from it and closes it; everything else is here. The
thread writes the slot at the camera's rate, the actor reads it whenever it likes; nothing queues. A
frame counts as fresh if its number and its bytes differ from those of the one before. When none has
come for a while the device is closed and opened again, in the background, until it is back;
meanwhile a reader gets a CameraStaleError.
"""

import atexit
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from robot_rl import interfaces
from robot_rl.types import Array, CameraStaleError, ConfigError, DeviceError, RobotRLError

log = logging.getLogger(__name__)

FIRST_FRAME_S = 5.0
"""From opening to the first frame: a RealSense takes about a second, a network camera a few."""
REOPEN_AFTER_S = 1.0
"""So long without a fresh frame, and the device is opened again: longer than a hiccup of the USB
bus.
"""
GRAB_S = 0.1
"""So long a device is asked for its next frame at a time."""
RESTART_S = 10.0
"""For so long a device that was reset may be away: it loads its firmware, then the bus lists it
anew.
"""
SETTLE_S = 1.0
"""Automatic exposure has found its value by then, if the device does not say so itself."""
LOCK_S = 0.15
"""A locked exposure is in force by then: it is set when frames flow already, and some are still on
the way.
"""
SETTLED_FRAMES, SETTLED_SHARE = 10, 0.02
"""Exposure that stays within this share of itself over so many frames has come to rest."""
BACK_OFF_S = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Between two attempts to open a device that is not there."""

Crop = tuple[int, int, int, int]
"""x, y, width, height [pixels of the camera], from the upper left corner."""


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """What a hardware file says of any real camera. Raises ConfigError for values that no camera
    can have.
    """

    width: int = 640
    """Of the mode that the camera is asked for [pixels]; 0: its own."""
    height: int = 480
    """Of that mode [pixels]; 0: the camera's own."""
    rate_hz: int = 30
    """Of that mode [Hz]; 0: the camera's own."""
    crop: Crop | None = None
    """The part that is kept, x y width height in pixels of that mode, before it is resized; None:
    all of it.
    """
    max_age_s: float = 0.2
    """An older frame is shown to nobody [s]."""
    detect_frozen: bool = True
    """Whether a picture that equals the one before to the last bit, as no real sensor's does, is no
    fresh one.
    """

    def __post_init__(self) -> None:
        problems = [f"{key} = {getattr(self, key)}: wanted 0 or more" for key in ("width", "height", "rate_hz")
                    if getattr(self, key) < 0]  # fmt: skip
        if self.crop is not None and (min(self.crop[:2]) < 0 or min(self.crop[2:]) < 1):
            problems.append(
                f"crop = {list(self.crop)}: wanted x, y, width, height with none negative and some"
                " area"
            )
        least = 2.0 / self.rate_hz if self.rate_hz > 0 else 0.0
        if self.max_age_s <= least:
            problems.append(
                f"max_age_s = {self.max_age_s:g}: wanted more than two frame periods, {least:.3f}"
            )
        if problems:
            raise ConfigError("\n".join(problems))


class Grab(NamedTuple):
    """What a device delivers: an RGB picture `(H, W, 3)` uint8 that is valid until the next grab,
    when it was taken [s, monotonic clock], the camera's own number of it, if it counts, and whether
    the exposure has settled: a picture from before is shown to nobody."""

    image: Array
    t: float
    number: int | None = None
    settled: bool = True


class Frame(NamedTuple):
    """A frame as it is shown: `(H, W, 3)` uint8 RGB, when it was taken [s, monotonic clock], how
    many came before.
    """

    image: Array
    t: float
    number: int


class Restarting(DeviceError):
    """The device was reset, and is away for a moment: its opening waits for it, up to
    `RESTART_S`.
    """


class Settling:
    """When the pictures of a camera that was just opened are like those to come: its exposure
    changes no more.
    """

    def __init__(self, wait_s: float):
        """It has settled `wait_s` [s] after the first frame, whatever it says; 0: there is nothing
        to wait for.
        """
        self._wait_s, self._until = wait_s, math.inf
        self._exposures: deque[float] = deque(maxlen=SETTLED_FRAMES)

    def has_settled(self, now: float, exposure: float | None = None) -> bool:
        """A frame has come at `now` [s], with this exposure (any unit, more than 0) if the device
        says it.
        """
        if self._until == math.inf:
            self._until = now + self._wait_s
        if now < self._until and exposure is not None:
            self._exposures.append(exposure)
            low, high = min(self._exposures), max(self._exposures)
            if len(self._exposures) == SETTLED_FRAMES and high - low <= SETTLED_SHARE * high:
                self._until = now
        return now >= self._until


class Device(Protocol):
    """An open camera, used by one thread."""

    port: str
    """How it is connected, as far as it says: `USB 3.2`, or ""."""

    def grab(self, timeout_s: float) -> Grab | None:
        """The next frame, or None if there is none within about `timeout_s`. Raises DeviceError if
        it is lost.
        """
        ...

    def controls(self) -> dict[str, float]:
        """What exposure and white balance are now, by the names of the driver's options."""
        ...

    def close(self) -> None: ...


class LiveCamera(interfaces.Camera):
    """A camera that is grabbed from in the background. Any thread may read.

    `image_size` (height, width) is what frames are resized to; None leaves them as they are. The
    constructor waits for the first frame; it raises DeviceError if the camera is absent, busy or
    silent, ConfigError if its options do not fit it. From then on only `read` says what is wrong,
    and the camera comes back by itself.
    """

    def __init__(
        self,
        name: str,
        options: LiveOptions,
        image_size: tuple[int, int] | None,
        open_device: Callable[[], Device],
    ):
        self.name, self.port = name, ""
        self.options, self._image_size, self._open = options, image_size, open_device
        self._frame: Frame | None = None
        self._raw = np.empty(0, np.uint8)
        self._problem = ""
        self._error: Exception | None = None
        self._back_by = -math.inf  # by when a device that was reset is to be there again
        self._controls: dict[str, float] | None = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"camera {name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # librealsense aborts a process that ends while it streams
        with self._changed:
            while not self._changed.wait_for(
                lambda: self._frame or self._error, FIRST_FRAME_S + 2.0
            ):
                if time.monotonic() >= self._back_by:
                    break
        if self._frame is None:
            self.close()
            if isinstance(self._error, RobotRLError):
                raise self._error
            raise DeviceError(f"camera '{name}': it does not answer") from self._error

    def read(self) -> Array:
        """The newest frame, `(H, W, 3)` uint8 RGB, or CameraStaleError. Nobody writes into it any
        more.
        """
        frame = self.newest()
        self.taken_t = frame.t
        return frame.image

    @property
    def whole(self) -> Array:  # type: ignore[override]
        """The newest picture as it came, neither cropped nor resized, however old. Nobody writes
        into it any more.
        """
        return self._raw

    def newest(self) -> Frame:
        """The newest frame with its time. Raises CameraStaleError if it is older than the limit."""
        frame = self._frame
        assert frame is not None, "the constructor waits for the first"
        if (age := time.monotonic() - frame.t) > self.options.max_age_s:
            raise CameraStaleError(
                f"camera '{self.name}': its newest frame is {age:.2f} s old,"
                f" {self.options.max_age_s:g} s is allowed; {self._problem or 'no frames come'}. It"
                " is opened again in the background: if it stays away, look at its cable and"
                " power, and whether another program uses it",
                self.name,
            )
        return frame

    def controls(self) -> dict[str, float]:
        """Exposure and white balance as they are now, by the names of the options that lock them;
        empty if unknown.
        """
        with self._changed:
            self._controls = None  # asks the thread, which alone may ask the device
            self._changed.wait_for(lambda: self._controls is not None, REOPEN_AFTER_S)
        return self._controls or {}

    def close(self) -> None:
        """Stop the thread, which closes the device."""
        atexit.unregister(self.close)
        self._stop.set()
        self._thread.join(FIRST_FRAME_S)

    # -------------------------------------------------------------------------- the camera's thread

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            before = self._frame
            try:
                self._grab()
            except Exception as error:  # noqa: BLE001 whatever a device's library raises, the camera is to come back
                self._lose(error)
            failures = 0 if self._frame is not before else failures + 1
            self._stop.wait(BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)])

    def _grab(self) -> None:
        """Open the device and fill the slot until a stop. Nothing of the device is left when this
        returns.
        """
        with contextlib.closing(self._open()) as device:
            self._grab_from(device)

    def _grab_from(self, device: Device) -> None:
        """Fill the slot until a stop; DeviceError if no fresh frame has come for too long."""
        patience, waited_s, number = FIRST_FRAME_S, 0.0, None
        self.port = device.port
        while not self._stop.is_set():
            asked = time.monotonic()
            grab = device.grab(GRAB_S)
            if grab is not None and not grab.settled:
                continue
            if (
                grab is not None
                and (grab.number is None or grab.number != number)
                and not self._repeats(grab.image)
            ):
                number = grab.number
                self._show(grab)
                if self._controls is None:
                    self._controls = device.controls()
                patience, waited_s = REOPEN_AFTER_S, 0.0
                continue
            if grab is not None:
                self._problem = "it is frozen: the same frame comes again and again"
            # a busy machine that held this thread up for longer says nothing of the camera
            waited_s += min(time.monotonic() - asked, 2.0 * GRAB_S)
            if waited_s > patience:
                raise DeviceError(f"camera '{self.name}': {self._problem or 'no frames come'}")

    def _repeats(self, image: Array) -> bool:
        """Whether the picture is the last one, to the last bit: of this device, or before it was
        opened again.
        """
        repeats = self.options.detect_frozen and np.array_equal(image, self._raw)
        if not repeats:
            self._raw = image.copy()
        return repeats

    def _show(self, grab: Grab) -> None:
        image = crop_and_resize(grab.image, self.options.crop, self._image_size, self.name)
        before = self._frame
        frame = Frame(image, min(grab.t, time.monotonic()), before.number + 1 if before else 0)
        if before is not None and frame.t - before.t > self.options.max_age_s:
            log.warning("camera '%s' is back after %.1f s", self.name, frame.t - before.t)
        with self._changed:
            self._frame, self._problem = frame, ""
            self._changed.notify_all()

    def _lose(self, error: Exception) -> None:
        unexpected = error if not isinstance(error, RobotRLError) else None
        text = (
            str(error).removeprefix(f"camera '{self.name}': ")
            if unexpected is None
            else repr(error)
        )
        if text != self._problem and self._frame is not None:
            log.warning("camera '%s': %s; it is opened again", self.name, text, exc_info=unexpected)
        with self._changed:
            self._problem = text
            if isinstance(error, Restarting):
                self._back_by = time.monotonic() + RESTART_S
            elif self._frame is None and time.monotonic() >= self._back_by:
                self._error = error
            self._changed.notify_all()


def crop_and_resize(
    image: Array, crop: Crop | None, size: tuple[int, int] | None, name: str
) -> Array:
    """The part of a picture that is kept, at the size (height, width) that is wanted, in memory of
    its own.

    Raises ConfigError if the crop is not inside the picture.
    """
    if crop is not None:
        require_inside(crop, image.shape[:2], name)
        x, y, width, height = crop
        image = image[y : y + height, x : x + width]
    if size is None or image.shape[:2] == size:
        return image.copy()
    shrinks = size[0] < image.shape[0]
    resized: Array = cv2.resize(
        image, size[::-1], interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    )
    return resized


def require_inside(crop: Crop, size: tuple[int, ...], name: str) -> None:
    """Raise ConfigError unless the crop has some area, all of it inside pictures of `size` (height,
    width).
    """
    (x, y, width, height), (rows, columns) = crop, size
    if min(x, y) < 0 or min(width, height) < 1 or x + width > columns or y + height > rows:
        raise ConfigError(
            f"camera '{name}': crop {list(crop)} (x, y, width, height) is not inside its pictures,"
            f" which are {columns} x {rows} pixels"
        )
