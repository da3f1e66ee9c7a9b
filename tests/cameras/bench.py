"""Cameras that run without hardware, and what may happen to them: one bench for each driver, with
the same levers.
"""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np

from robot_rl.cameras import _live, open_camera, opencv
from robot_rl.cameras._live import LiveCamera
from robot_rl.config import CameraConfig
from robot_rl.types import CameraStaleError
from tests.helpers import wait_until as wait_until

SIZE = (480, 640)
MAX_AGE_S = 0.5
"""More than by default: the tests of many may run beside one another."""


opened: list[LiveCamera] = []


def open_live(config: CameraConfig, image_size: tuple[int, int] | None) -> LiveCamera:
    """It is closed after the test, whatever came of it: its thread would go on in the next one."""
    camera = open_camera(config, image_size)
    assert isinstance(camera, LiveCamera)
    opened.append(camera)
    return camera


def be_quick(monkeypatch) -> None:
    """Everything that is waited for between two attempts, shorter."""
    for module in (_live, opencv):
        monkeypatch.setattr(module, "REOPEN_AFTER_S", 0.6)
        monkeypatch.setattr(module, "FIRST_FRAME_S", 1.0)
    monkeypatch.setattr(_live, "BACK_OFF_S", (0.05, 0.1, 0.2))
    monkeypatch.setattr(_live, "SETTLE_S", 0.3)
    monkeypatch.setattr(_live, "RESTART_S", 5.0)


def read_or_why(camera) -> str:
    """`` if there is a fresh frame, else the complaint."""
    try:
        camera.read()
    except CameraStaleError as error:
        return str(error)
    return ""


class RealSense:
    """A camera of librealsense's own simulation."""

    def __init__(self, monkeypatch):
        from robot_rl.cameras import realsense
        from tests.cameras.simulated_realsense import Bus, SimulatedRealSense

        self.bus = Bus()
        monkeypatch.setattr(realsense, "_context", lambda: self.bus.context)
        monkeypatch.setattr(realsense, "SILENT_S", 0.5)
        self.device = SimulatedRealSense(self.bus, "0001")
        self.config = CameraConfig("wrist", "realsense", {"serial": "0001", "max_age_s": MAX_AGE_S})
        self.absent = CameraConfig("wrist", "realsense", {"serial": "0002"})

    def stall(self, stalled: bool) -> None:
        self.device.stall(stalled)

    def freeze(self, frozen: bool) -> None:
        self.device.frozen = frozen

    def unplug(self) -> None:
        self.device.unplug()

    def plug(self) -> None:
        self.device.plug()

    def close(self) -> None:
        self.device.unplug()


class Mjpeg:
    """A network camera: an HTTP server on loopback that sends JPEG after JPEG."""

    def __init__(self):
        self.stalled = self._frozen = self._gone = False
        self._picture = np.full((*SIZE, 3), 60, np.uint8)
        self._number, self._rng = 0, np.random.default_rng(0)
        bench = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if bench._gone:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
                self.end_headers()
                with contextlib.suppress(OSError):  # the reader has gone
                    bench._stream(self.wfile)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_port}/video"
        self.config = CameraConfig("front", "opencv", {"device": url, "max_age_s": MAX_AGE_S})
        self.absent = CameraConfig("front", "opencv", {"device": "/dev/video97"})

    def _stream(self, file) -> None:
        while not self._gone:
            if not self._frozen:
                self._number += 1
                self._picture[:8] = self._rng.integers(0, 255, (8, SIZE[1], 3), np.uint8)
                self._picture[8:, :, 2] = self._number % 256  # BGR: the number in red
            if not self.stalled:
                jpeg = cv2.imencode(".jpg", self._picture)[1].tobytes()
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                file.write(head.encode() + jpeg + b"\r\n")
            time.sleep(1 / 30)

    def stall(self, stalled: bool) -> None:
        self.stalled = stalled

    def freeze(self, frozen: bool) -> None:
        self._frozen = frozen

    def unplug(self) -> None:
        self._gone = True

    def plug(self) -> None:
        self._gone = False

    def close(self) -> None:
        self._gone = True
        self._server.shutdown()
        self._server.server_close()


class Webcam:
    """What Video4Linux and OpenCV make of a USB camera: a node, and a capture that grants what it
    likes.

    `grants` is what it has instead of what is asked for, by OpenCV's number of the property.
    """

    def __init__(self, monkeypatch, folder: Path, serial: str = ""):
        self.node, self.grants = folder / "video0", dict[int, float]()
        self.controls: list[tuple[int, bytes]] = []
        self._class, self._usb = folder / "class", folder / "usb1"
        self._rng = np.random.default_rng(0)
        self.plug("1-2:1.0", serial)
        monkeypatch.setattr(opencv, "CLASS", self._class)
        monkeypatch.setattr(
            opencv.cv2, "VideoCapture", lambda place, api, flat: _Granting(self, flat)
        )
        monkeypatch.setattr(
            opencv.fcntl,
            "ioctl",
            lambda _, request, control: self.controls.append((request, control)),
        )

    def plug(self, port: str, serial: str = "") -> None:
        """One appears as the node, in a port of its own."""
        interface = self._usb / port.partition(":")[0] / port
        interface.mkdir(parents=True, exist_ok=True)
        for name, fact in (("idVendor", "046d"), ("idProduct", "0892"), ("serial", serial)):
            if fact:
                (interface.parent / name).write_text(f"{fact}\n")
        (self._class / "video0").mkdir(parents=True)
        (self._class / "video0" / "device").symlink_to(interface)
        os.mkfifo(self.node)

    def unplug(self) -> None:
        self.node.unlink()
        shutil.rmtree(self._class)

    def draw(self) -> np.ndarray:
        return self._rng.integers(0, 255, (*SIZE, 3), np.uint8)


class _Granting:
    """`cv2.VideoCapture` of such a camera."""

    def __init__(self, camera: Webcam, flat: list[int]):
        self._camera = camera
        self._has: dict[int, float] = dict(zip(flat[::2], flat[1::2], strict=True))
        self._has |= {cv2.CAP_PROP_FRAME_WIDTH: SIZE[1], cv2.CAP_PROP_FRAME_HEIGHT: SIZE[0]}

    def isOpened(self) -> bool:
        return self._camera.node.exists()

    def get(self, number: int) -> float:
        return self._camera.grants.get(number, self._has.get(number, 0.0))

    def set(self, number: int, value: float) -> bool:
        self._has[number] = value
        return True

    def grab(self) -> bool:
        time.sleep(1 / 30)
        return self._camera.node.exists()

    def retrieve(self) -> tuple[bool, np.ndarray]:
        return True, self._camera.draw()

    def release(self) -> None:
        pass


@contextmanager
def video(path: Path, frames: int = 20, rate_hz: float = 30.0) -> Iterator[Path]:
    """A film whose n-th picture is 10 n in red."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate_hz, (320, 240))
    for number in range(frames):
        writer.write(np.full((240, 320, 3), (0, 0, 10 * number), np.uint8))
    writer.release()
    yield path
