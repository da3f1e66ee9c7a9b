"""One contract for every kind of camera: what `interfaces.Camera` promises. Losing one:
tests/cameras/test_live.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.cameras import is_simulated, open_camera
from robot_rl.config import CameraConfig
from robot_rl.types import ConfigError
from tests.cameras.bench import RealSense, video
from tests.cameras.test_mujoco import StillWorld
from tests.controllers.bench import TASK

DRIVERS = ("mujoco", "opencv", "realsense")
SIZE = (48, 64)


@pytest.fixture(params=DRIVERS)
def bench(request, tmp_path, monkeypatch):
    """The camera's entry of a hardware file, and what there is to draw."""
    if request.param == "mujoco":
        request.getfixturevalue("gl")
        yield CameraConfig("wrist", "mujoco"), (StillWorld(), TASK.scene)
    elif request.param == "opencv":
        with video(tmp_path / "film.mp4") as film:
            yield CameraConfig("wrist", "opencv", {"device": str(film)}), ()
    else:
        pytest.importorskip(
            "pyrealsense2", reason="pip install robot_rl[realsense]", exc_type=ImportError
        )
        made = RealSense(monkeypatch)
        yield made.config, ()
        made.close()


def test_every_driver_keeps_this_contract():
    assert set(config.names_of("cameras")) == set(DRIVERS)


def test_frames_are_rgb_bytes_of_the_wanted_size_in_memory_of_their_own(bench):
    camera = open_camera(bench[0], SIZE, *bench[1])
    frames = [camera.read() for _ in range(3)]
    kept = [frame.copy() for frame in frames]
    camera.close()
    for frame, copy in zip(frames, kept, strict=True):
        assert frame.shape == (*SIZE, 3) and frame.dtype == np.uint8
        np.testing.assert_array_equal(frame, copy)


def test_without_a_size_frames_come_as_they_are(bench):
    camera = open_camera(bench[0], None, *bench[1])
    height, width, channels = camera.read().shape
    camera.close()
    assert (height, width, channels) in ((480, 640, 3), (240, 320, 3))


def test_closing_twice_is_closing_once_and_another_may_be_opened(bench):
    for _ in range(2):
        camera = open_camera(bench[0], SIZE, *bench[1])
        camera.close()
        camera.close()


def test_an_option_that_the_driver_does_not_have_is_named(bench):
    wrong = replace(bench[0], options={**bench[0].options, "colour": "sepia"})
    with pytest.raises(
        ConfigError, match="camera 'wrist': options: colour is not a known key; allowed: "
    ):
        open_camera(wrong, SIZE, *bench[1])


def test_real_cameras_can_say_what_is_plugged_in_and_simulated_ones_cannot(bench):
    assert is_simulated(bench[0]) == (bench[0].driver == "mujoco")
