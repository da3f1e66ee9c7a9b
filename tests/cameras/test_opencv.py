"""What only OpenCV opens: video files, nodes of Video4Linux, streams."""

import time

import numpy as np
import pytest

from robot_rl.cameras import opencv
from robot_rl.config import CameraConfig
from robot_rl.types import ConfigError, DeviceError
from tests.cameras.bench import be_quick, open_live, video, wait_until


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    be_quick(monkeypatch)


def front(device, **options):
    return CameraConfig("front", "opencv", {"device": str(device), "max_age_s": 1.0, **options})


def test_a_file_plays_at_its_own_rate_and_begins_again(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        camera = open_live(front(film), (60, 80))
        first, reds, until = camera.newest(), [], time.monotonic() + 1.2
        while time.monotonic() < until:
            reds.append(int(camera.read()[..., 0].mean()))
            time.sleep(0.005)
        shown = camera.newest().number - first.number
        camera.close()
    assert 20 <= shown <= 45  # 30 Hz
    assert max(reds) > 180 and min(reds) < 10  # the whole of it
    falls = [i for i in range(1, len(reds)) if reds[i] < reds[i - 1]]
    assert 1 <= len(falls) <= 3


def test_a_slower_rate_can_be_asked_of_a_file(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        camera = open_live(front(film, rate_hz=10), None)
        number = camera.newest().number
        time.sleep(1.0)
        assert 6 <= camera.newest().number - number <= 14
        camera.close()


def test_a_picture_that_stays_is_frozen_unless_the_file_says_it_may(tmp_path):
    with video(tmp_path / "still.mp4", frames=1) as film:
        camera = open_live(front(film, detect_frozen=False), None)
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


def test_a_resized_frame_keeps_the_colours(tmp_path):
    with video(tmp_path / "film.mp4") as film:
        for size in ((12, 16), (480, 640)):
            camera = open_live(front(film), size)
            wait_until(lambda camera=camera: camera.read()[..., 0].mean() > 100)
            image = camera.read()
            camera.close()
            assert image.shape == (*size, 3)
            assert image[..., 0].mean() > 50 and np.abs(image[..., 1:].astype(int)).max() < 20
