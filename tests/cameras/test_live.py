"""One contract for every driver of a real camera: what it delivers, and what happens when it is
lost and comes back.

RealSense runs on librealsense's own software device, OpenCV on a network camera over loopback.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.cameras import _live
from robot_rl.types import CameraStaleError, ConfigError, DeviceError
from tests.cameras.bench import (
    MAX_AGE_S,
    Mjpeg,
    RealSense,
    be_quick,
    open_live,
    read_or_why,
    wait_until,
)

pytestmark = pytest.mark.real_clock


def make_bench(driver, monkeypatch):
    if driver == "opencv":
        return Mjpeg()
    pytest.importorskip(
        "pyrealsense2",
        reason="pip install robot_rl[realsense], with libusb-1.0-0",
        exc_type=ImportError,
    )
    return RealSense(monkeypatch)


@pytest.fixture(params=["realsense", "opencv"])
def bench(request, monkeypatch):
    be_quick(monkeypatch)
    made = make_bench(request.param, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def camera(bench):
    opened = open_live(bench.config, (128, 96))
    yield opened
    opened.close()


def with_options(config, **options):
    return replace(config, options={**config.options, **options})


def test_frames_are_rgb_of_the_wanted_size_and_never_old(camera):
    images, ages = [], []
    for _ in range(20):
        frame = camera.newest()
        images.append(frame.image)
        ages.append(time.monotonic() - frame.t)
        time.sleep(0.04)
    assert all(image.shape == (128, 96, 3) and image.dtype == np.uint8 for image in images)
    assert min(ages) >= 0.0 and max(ages) <= MAX_AGE_S
    reds = [int(image[64, 48, 0]) for image in images]
    # the newest each time, in order; green and blue stay
    assert len(set(reds)) > 10 and reds == sorted(reds)
    assert all(
        abs(int(image[64, 48, 1]) - 60) < 8 and abs(int(image[64, 48, 2]) - 60) < 8
        for image in images
    )


def test_a_reader_who_was_away_gets_the_newest_frame_and_no_queue(camera):
    before = camera.newest()
    time.sleep(0.5)
    after = camera.newest()
    assert time.monotonic() - after.t < MAX_AGE_S
    assert after.number - before.number > 5


def test_nobody_writes_into_a_frame_that_was_handed_out(camera):
    frame = camera.newest()
    kept = frame.image.copy()
    wait_until(lambda: camera.newest().number > frame.number + 5)
    np.testing.assert_array_equal(frame.image, kept)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["stall", "freeze"])
def test_a_camera_that_stalls_or_freezes_is_stale_until_it_is_back(bench, camera, what, caplog):
    getattr(bench, what)(True)
    wait_until(lambda: read_or_why(camera))
    with pytest.raises(
        CameraStaleError,
        match=rf"camera '{bench.config.name}': .* s old, 0.5 s is allowed; .*opened again",
    ):
        camera.read()
    number = camera._frame.number
    time.sleep(2.0 * _live.REOPEN_AFTER_S)  # opened again meanwhile, and still no better
    why = read_or_why(camera)
    assert why and camera._frame.number == number
    assert ("frozen" in why or what == "stall") and "cable" in why
    getattr(bench, what)(False)
    wait_until(lambda: not read_or_why(camera))
    assert camera.newest().number > number
    assert "is back after" in caplog.text


def test_an_unplugged_camera_is_back_when_it_is_plugged_in_again(bench, camera):
    bench.unplug()
    wait_until(
        lambda: "plugged in" in read_or_why(camera) or "cannot be opened" in read_or_why(camera)
    )
    time.sleep(0.3)
    assert read_or_why(camera)
    bench.plug()
    wait_until(lambda: not read_or_why(camera))


def test_a_camera_that_is_not_there_is_named_with_those_that_are(bench):
    begun = time.monotonic()
    with pytest.raises(
        DeviceError, match=f"camera '{bench.absent.name}': .*(0002|video97).*there is|plugged in"
    ):
        open_live(bench.absent, None)
    assert time.monotonic() - begun < 3.0


def test_a_camera_that_says_nothing_is_an_error_at_the_start(bench):
    bench.stall(True)
    with pytest.raises(DeviceError, match=f"camera '{bench.config.name}': "):
        open_live(bench.config, None)


def test_a_closed_camera_can_be_opened_again_at_once(bench):
    for _ in range(3):
        camera = open_live(bench.config, None)
        assert camera.read().shape == (480, 640, 3)
        camera.close()
        camera.close()


def test_the_crop_is_in_the_pixels_of_the_camera(bench):
    whole = open_live(bench.config, None)
    noisy = whole.read()[:4].std()
    whole.close()
    for crop, is_noisy in (([0, 0, 640, 4], True), ([0, 100, 320, 300], False)):
        camera = open_live(with_options(bench.config, crop=crop), None)
        image = camera.read()
        camera.close()
        assert image.shape == (crop[3], crop[2], 3)
        assert (image.std(axis=(0, 1)).max() > 0.5 * noisy) == is_noisy


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"crop": [600, 0, 100, 100]}, "is not inside its pictures, which are 640 x 480"),
        ({"crop": [0, 0, 0, 5]}, r"crop = \[0, 0, 0, 5\]"),
        ({"crop": [0, 0, 5]}, "crop"),
        ({"rate_hz": -3}, "rate_hz = -3: wanted 0 or more"),
        (
            {"rate_hz": 30, "max_age_s": 0.05},
            "max_age_s = 0.05: wanted more than two frame periods",
        ),
        ({"croop": [0, 0, 5, 5]}, "croop is not a known key.*did you mean 'crop'"),
        ({"exposure": "long"}, "exposure"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(bench, options, complaint):
    with pytest.raises(ConfigError, match=f"camera '{bench.config.name}'.*{complaint}"):
        open_live(with_options(bench.config, **options), (128, 128))


def test_two_cameras_do_not_disturb_one_another(bench, camera, monkeypatch):
    other_bench = Mjpeg()
    other = open_live(other_bench.config, (64, 64))
    try:
        bench.stall(True)
        wait_until(lambda: read_or_why(camera))
        for _ in range(20):
            other.read()
            time.sleep(0.03)
    finally:
        bench.stall(False)
        other.close()
        other_bench.close()


class Moody:
    """A device that raises what no driver says, now and then."""

    opened, port = 0, ""

    def __init__(self):
        Moody.opened += 1
        self._grabbed = 0

    def grab(self, timeout_s):
        time.sleep(0.01)
        self._grabbed += 1
        if self._grabbed == 5:
            raise ZeroDivisionError("of the library")
        rng = np.random.default_rng(10 * Moody.opened + self._grabbed)
        return _live.Grab(rng.integers(0, 255, (4, 4, 3), np.uint8), time.monotonic())

    def controls(self):
        return {}

    def close(self):
        pass


def test_whatever_a_library_raises_the_camera_comes_back(monkeypatch, caplog):
    be_quick(monkeypatch)
    camera = _live.LiveCamera("moody", _live.LiveOptions(max_age_s=1.0), None, Moody)
    wait_until(lambda: camera.newest().number > 12)
    camera.close()
    assert Moody.opened >= 3 and "ZeroDivisionError" in caplog.text


class HeldUp(Moody):
    """A device whose frames are there, before a thread that a busy machine now and then holds up."""

    def grab(self, timeout_s):
        self._grabbed += 1
        time.sleep(1.5 * _live.FIRST_FRAME_S if self._grabbed in (1, 4) else 0.01)
        if self._grabbed in (1, 4):
            return None
        return _live.Grab(np.full((4, 4, 3), self._grabbed % 256, np.uint8), time.monotonic())


def test_a_machine_that_held_the_thread_up_is_no_camera_that_fell_silent(monkeypatch, caplog):
    be_quick(monkeypatch)
    opened = Moody.opened
    camera = _live.LiveCamera("held up", _live.LiveOptions(max_age_s=5.0), None, HeldUp)
    wait_until(lambda: camera.newest().number > 12)
    camera.close()
    assert Moody.opened == opened + 1 and "opened again" not in caplog.text


@pytest.mark.slow
@given(
    wait_s=st.floats(0.0, 2.0),
    frames=st.lists(
        st.tuples(st.floats(0.0, 0.2), st.none() | st.floats(1.0, 1e4)), min_size=1, max_size=60
    ),
)
def test_exposure_settles_once_when_it_rests_or_the_time_is_over(wait_s, frames):
    settling, now, said, before = _live.Settling(wait_s), 0.0, [], False
    for i, (gap, exposure) in enumerate(frames):
        now += gap if i else 0.0
        said += [] if exposure is None else [exposure]
        settled = settling.has_settled(now, exposure)
        last = said[-_live.SETTLED_FRAMES :]
        rests = len(last) == _live.SETTLED_FRAMES and max(last) - min(
            last
        ) <= _live.SETTLED_SHARE * max(last)
        assert settled == (before or now >= wait_s or (exposure is not None and rests))
        before = settled
