"""RealSense cameras without hardware: librealsense's own software devices, behind its own contexts
and pipelines.

A device is what `pyrealsense2` lists, opens and streams from; only the sensor is not real. Its
thread hands over a frame at its rate, with the time on it, until it is told to stall, to freeze or
to be unplugged.
"""

import contextlib
import threading
import time
from collections.abc import Callable

import numpy as np
import pyrealsense2 as rs

SOFTWARE_ONLY = '{"device-mask":256}'
"""A context that looks for no USB device (RS2_PRODUCT_LINE_SW_ONLY)."""


class Bus:
    """What is plugged in: `context` is what librealsense sees of it now.

    A context forgets no software device: it keeps an empty entry of one that is gone, which its
    pipelines fall over. So there is a new one whenever something was unplugged.
    """

    def __init__(self) -> None:
        self._devices: dict[str, rs.software_device] = {}
        self._look_anew()

    def plug(self, serial: str, device: rs.software_device) -> None:
        self._devices[serial] = device
        self._add(device)

    def unplug(self, serial: str) -> None:
        del self._devices[serial]
        self._look_anew()

    def _look_anew(self) -> None:
        self.context = rs.context(SOFTWARE_ONLY)
        self._announced: list[
            object
        ] = []  # kept, because the context holds what is added to it weakly
        announced = self._announced
        self.context.set_devices_changed_callback(
            lambda event: announced.append(event.get_new_devices())
        )
        for device in self._devices.values():
            self._add(device)

    def _add(self, device: rs.software_device) -> None:
        before, deadline = len(self._announced), time.monotonic() + 5.0
        device.add_to(self.context)
        while len(self._announced) == before:
            assert time.monotonic() < deadline, "the context does not announce the device"
            time.sleep(0.01)


class SimulatedRealSense:
    """One camera with a colour stream: `draw(n) -> (H, W, 3)` uint8 is its n-th picture.

    `options` are the controls that it has: name of the option to (low, high, step, default).
    `exposure(n)` is what it says of the exposure of its n-th picture since it was plugged in, `usb`
    of its port.
    """

    def __init__(
        self,
        bus: Bus,
        serial: str,
        *,
        size: tuple[int, int] = (480, 640),
        rate_hz: float = 30,
        draw: Callable[[int], np.ndarray] | None = None,
        options: dict[str, tuple[float, float, float, float]] | None = None,
        exposure: Callable[[int], int] | None = None,
        usb: str = "3.2",
    ):
        self.serial, self.size, self.rate_hz = serial, size, rate_hz
        self.frozen = self._stalled = False
        self.delay_s = 0.0
        # the truth, by number of the picture [s, monotonic clock]
        self.taken_t = dict[int, float]()
        self.has_clock, self.error_s = (
            False,
            0.0,
        )  # of its own: global time, so wrong, and its count with each frame
        self._handing_over = threading.Lock()
        self._bus, self._draw = bus, draw or noise(size)
        self._options, self._exposure, self._usb = options or {}, exposure, usb
        self.plug()

    def plug(self) -> None:
        """Plug it in, anew: a device that has lost its power knows nothing of the one before."""
        height, width = self.size
        device = rs.software_device()
        for what, text in (
            (rs.camera_info.name, "Simulated D435"),
            (rs.camera_info.serial_number, self.serial),
            (rs.camera_info.product_line, "D400"),
            (rs.camera_info.usb_type_descriptor, self._usb),
            (rs.camera_info.physical_port, f"sim://{self.serial}"),
        ):
            device.register_info(what, text)
        stream = rs.video_stream()
        stream.type, stream.fmt, stream.bpp = rs.stream.color, rs.format.rgb8, 3
        stream.index, stream.uid = 0, 1
        stream.width, stream.height, stream.fps = width, height, round(self.rate_hz)
        intrinsics = rs.intrinsics()
        intrinsics.width, intrinsics.height, intrinsics.fx, intrinsics.fy = (
            width,
            height,
            600.0,
            600.0,
        )
        intrinsics.ppx, intrinsics.ppy, intrinsics.model = width / 2, height / 2, rs.distortion.none
        stream.intrinsics = intrinsics
        self.sensor = device.add_sensor("RGB Camera")
        self._profile = self.sensor.add_video_stream(stream, True).as_video_stream_profile()
        for name, span in self._options.items():
            allowed = rs.option_range()
            allowed.min, allowed.max, allowed.step, allowed.default = span
            self.sensor.add_option(getattr(rs.option, name), allowed, True)
        self._bus.plug(self.serial, device)
        self._device = device
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._stream, daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """Gone from the bus, with everything that belongs to it."""
        self._stop.set()
        self._thread.join()
        self._bus.unplug(self.serial)
        del self.sensor, self._profile, self._device

    def stall(self, stalled: bool) -> None:
        """From when this returns no frame comes any more, or frames come again."""
        with self._handing_over:
            self._stalled = stalled

    def _stream(self) -> None:
        number, due = 0, time.monotonic()
        while not self._stop.is_set():
            if not self.frozen or number == 0:
                number += 1
                picture = np.ascontiguousarray(self._draw(number))
            with self._handing_over:
                if not self._stalled:
                    self._hand_over(number, picture)
            due += 1.0 / self.rate_hz
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _hand_over(self, number: int, picture: np.ndarray) -> None:
        # in one go, like the kernel: a pause between the two would be no truth
        reads = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(3)]
        taken_t, system_s, _ = min(reads, key=lambda read: read[2] - read[0])
        self.taken_t[number] = taken_t
        frame = rs.software_video_frame()
        frame.pixels = picture
        frame.stride, frame.bpp = 3 * self.size[1], 3
        frame.timestamp, frame.domain = 1e3 * system_s, rs.timestamp_domain.system_time
        if self.has_clock:
            frame.timestamp += 1e3 * self.error_s
            frame.domain = rs.timestamp_domain.global_time
            self.sensor.set_metadata(
                rs.frame_metadata_value.frame_timestamp, round(1e6 * taken_t) % 2**32
            )
        frame.frame_number, frame.profile = number, self._profile
        time.sleep(self.delay_s)  # exposure, transfer
        if self._exposure is not None:
            self.sensor.set_metadata(
                rs.frame_metadata_value.actual_exposure, self._exposure(number)
            )
        with contextlib.suppress(RuntimeError):  # nobody has started the sensor
            self.sensor.on_video_frame(frame)


def noise(size: tuple[int, int]) -> Callable[[int], np.ndarray]:
    """Pictures whose number can be read off: red is n, and a few bytes of noise, as every real
    sensor has.
    """
    rng = np.random.default_rng(0)
    picture = np.full((*size, 3), 60, np.uint8)

    def draw(number: int) -> np.ndarray:
        picture[..., 0] = number % 256
        picture[:4, :, 2] = rng.integers(0, 255, (4, size[1]), np.uint8)
        return picture

    return draw
