"""What only OpenCV opens: video files, nodes of Video4Linux, streams."""

import contextlib
import time
from itertools import pairwise

import cv2
import numpy as np
import pytest

from robot_rl.cameras import _live, opencv
from robot_rl.config import CameraConfig
from robot_rl.types import ConfigError, DeviceError
from tests.cameras.bench import Webcam, be_quick, open_live, video, wait_until

pytestmark = pytest.mark.real_clock


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    be_quick(monkeypatch)


def front(device, **options):
    return CameraConfig("front", "opencv", {"device": str(device), "max_age_s": 1.0, **options})


def test_a_file_plays_at_its_own_rate_and_begins_again(tmp_path):
    """For 1.2 s, or as long as it takes to see all of it: a busy machine misses pictures."""

    def falls() -> int:
        return sum(after < before for before, after in pairwise(reds))

    def is_seen() -> bool:
        return bool(reds) and max(reds) > 180 and min(reds) < 10 and falls() > 0

    with video(tmp_path / "film.mp4") as film:
        camera = open_live(front(film), (60, 80))
        frames, reds, begun = {}, list[int](), time.monotonic()
        while (took_s := time.monotonic() - begun) < 1.2 or not (is_seen() or took_s > 20.0):
            frame = camera.newest()
            frames[frame.number] = frame.t
            reds.append(int(frame.image[..., 0].mean()))
            time.sleep(0.005)
        camera.close()
    gaps = [(t1 - t0) / (n1 - n0) for (n0, t0), (n1, t1) in pairwise(frames.items())]
    assert 20 <= 1.2 / np.median(gaps) <= 45  # 30 Hz
    assert max(reds) > 180 and min(reds) < 10  # the whole of it
    assert 1 <= falls() <= 3 * took_s / 1.2


def test_a_slower_rate_can_be_asked_of_a_file(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        camera = open_live(front(film, rate_hz=10), None)
        begun, number = time.monotonic(), camera.newest().number
        wait_until(lambda: camera.newest().number >= number + 8)
        assert time.monotonic() - begun > 0.5, "the film's own 30 Hz would be 0.27 s"


def test_what_was_missed_of_a_file_does_not_come_in_a_burst(tmp_path):
    """A busy machine held the thread up: no camera sends afterwards what nobody took."""
    with video(tmp_path / "film.mp4") as film:
        options = opencv.Options(device=str(film), rate_hz=10, width=0, height=0, max_age_s=1.0)
        capture = opencv._Capture("front", options, set())
        with contextlib.closing(capture):
            capture.grab(0.1)
            time.sleep(0.5)
            begun = time.monotonic()
            for _ in range(5):
                assert capture.grab(0.1) is not None
    assert time.monotonic() - begun > 0.35


def test_a_frame_is_as_old_as_it_was_on_its_way_before_it_arrived(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        patient = {"max_age_s": 10.0}  # a busy machine holds a test up, too
        in_time = open_live(front(film, **patient), None)
        late = open_live(front(film, latency_s=0.4, **patient), None)
        ages = []
        for _ in range(10):
            time.sleep(0.03)
            for camera in (in_time, late):
                camera.read()
                ages.append(time.monotonic() - (camera.taken_t or 0.0))
        in_time.close()
        late.close()
    assert min(ages[1::2]) >= 0.4 and min(ages[::2]) < 0.3
    assert np.median(ages[1::2]) - np.median(ages[::2]) == pytest.approx(0.4, abs=0.15)


@pytest.mark.parametrize("latency_s", [-0.01, 1.0])
def test_a_latency_that_no_frame_could_survive_is_refused(latency_s):
    with pytest.raises(ConfigError, match=r"latency_s = .*less than max_age_s"):
        open_live(front("/dev/video98", latency_s=latency_s), None)


def test_a_picture_that_stays_is_frozen_unless_the_file_says_it_may(tmp_path):
    with video(tmp_path / "still.mp4", frames=1) as film:
        # each picture opens the film anew
        camera = open_live(front(film, detect_frozen=False, max_age_s=60.0), None)
        number = camera.newest().number
        wait_until(lambda: camera.newest().number > number + 5)
        camera.close()
        camera = open_live(front(film), None)
        wait_until(lambda: "frozen" in camera._problem)
        camera.close()


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ("/dev/video98", r"there is no /dev/video98; cameras that are plugged in: "),
        (97, r"there is no /dev/video97"),
        ("http://127.0.0.1:9/video", r"http://127\.0\.0\.1:9/video cannot be opened"),
        (__file__, ".*test_opencv.py cannot be opened; does it exist, and is it a video"),
    ],
)
def test_what_cannot_be_opened_is_named(device, complaint):
    with pytest.raises(DeviceError, match=f"camera 'front': {complaint}"):
        open_live(CameraConfig("front", "opencv", {"device": device}), None)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"exposure": 3.0}, "exposure = 3: this camera does not take it"),
        ({"width": 640, "height": 480}, "640 x 480 pixels are asked for, it delivers 320 x 240"),
        ({"fourcc": "MJPEG"}, "fourcc = 'MJPEG': wanted 4 letters"),
    ],
)
def test_what_the_camera_does_not_have_is_named(tmp_path, options, complaint):
    with video(tmp_path / "film.mp4") as film, pytest.raises(ConfigError, match=complaint):
        open_live(front(film, **options), None)


def test_usb_cameras_are_listed_by_the_path_that_stays(tmp_path, monkeypatch):
    for node, index, name in (("video0", 0, "C920"), ("video1", 1, "C920"), ("video2", 0, "Other")):
        (tmp_path / "class" / node).mkdir(parents=True)
        (tmp_path / "class" / node / "index").write_text(f"{index}\n")
        (tmp_path / "class" / node / "name").write_text(f"{name}\n")
    (tmp_path / "by-id").mkdir()
    (tmp_path / "by-id" / "usb-C920-index0").symlink_to("/dev/video0")
    monkeypatch.setattr(opencv, "CLASS", tmp_path / "class")
    monkeypatch.setattr(opencv, "BY_ID", tmp_path / "by-id")
    assert [(found.options["device"], found.description) for found in opencv.found()] == [
        (str(tmp_path / "by-id" / "usb-C920-index0"), "C920"),
        ("/dev/video2", "Other"),
    ]


def test_two_of_a_model_without_serial_numbers_are_listed_by_their_ports(tmp_path, monkeypatch):
    for node, name in (("video0", "C920"), ("video2", "C920"), ("video4", "Other")):
        (tmp_path / "class" / node).mkdir(parents=True)
        (tmp_path / "class" / node / "index").write_text("0\n")
        (tmp_path / "class" / node / "name").write_text(f"{name}\n")
    for folder, link, node in (("by-id", "usb-C920-index0", "video2"), ("by-id", "usb-Other-index0", "video4"),
                               ("by-path", "pci-usb-0:1", "video0"), ("by-path", "pci-usb-0:2", "video2"),
                               ("by-path", "pci-usb-0:3", "video4")):  # fmt: skip
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / link).symlink_to(f"/dev/{node}")
    for attribute, folder in (("CLASS", "class"), ("BY_ID", "by-id"), ("BY_PATH", "by-path")):
        monkeypatch.setattr(opencv, attribute, tmp_path / folder)
    assert [found.options["device"] for found in opencv.found()] == [
        str(tmp_path / "by-path" / "pci-usb-0:1"),
        str(tmp_path / "by-path" / "pci-usb-0:2"),
        str(tmp_path / "by-id" / "usb-Other-index0"),
    ]


@pytest.fixture
def webcam(monkeypatch, tmp_path):
    return Webcam(monkeypatch, tmp_path)


YUYV, MJPG = (float(cv2.VideoWriter.fourcc(*letters)) for letters in ("YUYV", "MJPG"))


@pytest.mark.parametrize(
    ("options", "grants", "complaint"),
    [
        (
            {"rate_hz": 60},
            {cv2.CAP_PROP_FPS: 30.0},
            "rate_hz = 60 is asked for, it delivers 30 in this mode",
        ),
        (
            {"fourcc": "MJPG"},
            {cv2.CAP_PROP_FOURCC: YUYV},
            "fourcc = 'MJPG' is asked for, it sends 'YUYV'",
        ),
        (
            {"exposure": 300.0},
            {cv2.CAP_PROP_EXPOSURE: 312.0},
            "exposure = 300: this camera takes 312 instead",
        ),
        (
            {"white_balance": 9e9},
            {cv2.CAP_PROP_WB_TEMPERATURE: 6500.0},
            "this camera takes 6500 instead",
        ),
    ],
)
def test_what_a_usb_camera_did_not_grant_is_refused_with_what_it_did(
    webcam, options, grants, complaint
):
    webcam.grants = grants
    with pytest.raises(ConfigError, match=f"camera 'front': options: .*{complaint}"):
        open_live(front(webcam.node, **options), None)


def test_what_a_usb_camera_granted_is_taken(webcam):
    webcam.grants = {cv2.CAP_PROP_FPS: 29.97, cv2.CAP_PROP_FOURCC: MJPG}
    camera = open_live(
        front(webcam.node, rate_hz=30, fourcc="MJPG", exposure=300.0, width=640, height=480),
        (48, 64),
    )
    assert camera.read().shape == (48, 64, 3)
    assert camera.controls()["exposure"] == 300.0
    camera.close()


def test_a_rate_that_the_driver_does_not_tell_is_no_complaint(webcam):
    webcam.grants = {cv2.CAP_PROP_FPS: -1.0}
    open_live(front(webcam.node, rate_hz=30), None).close()


def test_a_usb_camera_may_not_slow_down_in_the_dark(webcam):
    open_live(front(webcam.node), None).close()
    request, control = webcam.controls[0]
    # by hand from linux/videodev2.h: _IOWR('V', 28, struct v4l2_control), and
    # V4L2_CID_CAMERA_CLASS_BASE + 3 = 0
    assert request == (3 << 30) | (8 << 16) | (ord("V") << 8) | 28
    assert control == ((0x009A0000 | 0x900) + 3).to_bytes(4, "little") + bytes(4)


def test_a_camera_without_that_control_opens_as_well(webcam, monkeypatch):
    monkeypatch.undo()  # the real ioctl, on something that is no camera
    opencv._keep_rate(str(webcam.node))


def test_automatic_exposure_of_a_usb_camera_has_time_to_settle(webcam, monkeypatch):
    monkeypatch.setattr(_live, "SETTLE_S", 0.6)
    begun = time.monotonic()
    open_live(front(webcam.node), None).close()
    automatic, begun = time.monotonic() - begun, time.monotonic()
    open_live(front(webcam.node, exposure=300.0), None).close()
    assert automatic >= 0.6 and time.monotonic() - begun >= _live.LOCK_S


@pytest.mark.parametrize("serial", ["", "1234"])
def test_another_camera_at_the_same_node_is_not_taken_for_the_one_that_was_there(webcam, serial):
    webcam.unplug()
    webcam.plug("1-2:1.0", serial)
    camera = open_live(front(webcam.node), None)
    webcam.unplug()
    wait_until(lambda: "there is no" in camera._problem)
    webcam.plug("1-3:1.0")  # another one of the kind is plugged in first, and gets the number
    wait_until(lambda: "is another camera now" in camera._problem)
    webcam.unplug()
    webcam.plug("1-4:1.0" if serial else "1-2:1.0", serial)  # one with a serial number may move
    wait_until(lambda: not camera._problem)
    assert camera.read().shape == (480, 640, 3)
    camera.close()


def test_a_resized_frame_keeps_the_colours(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        for size in ((12, 16), (480, 640)):
            camera = open_live(front(film), size)
            wait_until(lambda camera=camera: camera.read()[..., 0].mean() > 100)
            image = camera.read()
            camera.close()
            assert image.shape == (*size, 3)
            assert image[..., 0].mean() > 50 and np.abs(image[..., 1:].astype(int)).max() < 20
