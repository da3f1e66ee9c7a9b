"""The simulated cameras: they show the world as it is, and say what is missing where they cannot."""

import os
import subprocess
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest

from robot_rl import config
from robot_rl.cameras import mujoco as cameras
from robot_rl.cameras import open_camera
from robot_rl.config import CameraConfig
from robot_rl.controllers.setup import open_driver
from robot_rl.types import ConfigError, DeviceError, Use
from tests.controllers.bench import HARDWARE, TASK

HARD = config.load_task("peg_insert_hard").scene or Use("empty")
EASY = TASK.scene or Use("empty")


SIZE = (128, 128)


def look_from(name, scene, world, size=SIZE, **options):
    return open_camera(CameraConfig(name, "mujoco", options), size, world, scene)


class StillWorld:
    """A world that somebody else moves."""

    def __init__(self, scene=TASK.scene):
        self.arm = open_driver(HARDWARE, scene)
        self.reset(0)

    def reset(self, seed):
        self.arm.reset(seed)
        return self.refresh()

    def refresh(self):
        self.latest = self.arm.world()
        return self.latest


@pytest.fixture(scope="module")
def world():
    return StillWorld()


@pytest.fixture
def views(gl, world):
    opened = [look_from(name, TASK.scene, world) for name in ("wrist", "front")]
    yield opened
    for camera in opened:
        camera.close()


def test_a_frame_is_rgb_bytes_and_shows_something(views):
    for camera in views:
        frame = camera.read()
        assert frame.shape == (128, 128, 3) and frame.dtype == np.uint8
        assert frame.std() > 20.0


def test_a_frame_repeats_for_the_same_world_and_changes_with_it(views, world):
    world.reset(1)
    first = [camera.read() for camera in views]
    world.reset(2)
    second = [camera.read() for camera in views]
    world.reset(1)
    again = [camera.read() for camera in views]
    for a, b, c in zip(first, second, again, strict=True):
        np.testing.assert_array_equal(a, c)
        assert (a != b).any(axis=2).mean() > 0.01


def test_the_hole_is_seen_by_both_cameras(views, world):
    world.reset(3)
    for camera in views:
        red, green, blue = np.moveaxis(camera.read().astype(int), 2, 0)
        socket = (blue > red + 40) & (blue > green)
        peg = (red > blue + 40) & (red > green + 30)
        assert socket.mean() > 0.02 and peg.mean() > 0.005


def test_without_ranges_of_looks_not_one_pixel_changes(gl, world, monkeypatch):
    assert "looks" not in EASY.options
    pictures = []
    for undressed in (False, True):
        if undressed:
            monkeypatch.setattr(cameras.Appearance, "randomize", lambda self, seed: None)
        world.reset(5)
        opened = [look_from(name, TASK.scene, world) for name in ("wrist", "front")]
        pictures.append(np.stack([camera.read() for camera in opened]))
        for camera in opened:
            camera.close()
    np.testing.assert_array_equal(pictures[0], pictures[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "only", [None, "light_m", "brightness", "tint", "colour", "texture", "camera_m", "camera_rad"]
)
def test_looks_follow_from_the_seed_of_the_episode_alone(gl, only):
    looks = HARD.options["looks"]
    options = {**HARD.options, "socket_range_m": 0.0, "socket_range_rad": 0.0}
    scene = replace(
        HARD, options={**options, "looks": looks if only is None else {only: looks[only]}}
    )
    world = StillWorld(scene)

    def look(*seeds):
        pictures = []
        opened = [look_from(name, scene, world) for name in ("wrist", "front")]
        for seed in seeds:
            world.reset(seed)
            pictures.append(np.stack([camera.read() for camera in opened]))
        for camera in opened:
            camera.close()
        return pictures

    first, second, again = look(1, 2, 1)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(second, look(2)[0])  # another process, with another past
    for a, b in zip(first, second, strict=True):
        assert (a != b).any(axis=2).mean() > 0.02


def test_cameras_of_one_scene_share_a_model_and_the_last_one_frees_it(views):
    assert views[0]._stage is views[1]._stage
    extra = look_from("front", TASK.scene, views[0]._world, (48, 64))
    assert extra.read().shape == (48, 64, 3)
    assert len(cameras._stages) == 2
    extra.close()
    extra.close()
    assert len(cameras._stages) == 1
    assert views[0].read().shape == (128, 128, 3)


def test_a_crop_is_that_part_of_the_whole_picture_and_drawn_as_large_as_it_is_asked_for(gl, world):
    world.reset(4)
    whole = look_from("wrist", TASK.scene, world, cameras.DEFAULT_SIZE)
    beside = look_from("wrist", TASK.scene, world, (120, 160))
    before = beside.read()
    part = look_from("tip", TASK.scene, world, (120, 160), view="wrist", crop=(300, 40, 160, 120))
    large = look_from("tip", TASK.scene, world, (240, 320), view="wrist", crop=(300, 40, 160, 120))
    # rounded elsewhere
    np.testing.assert_allclose(part.read(), whole.read()[40:160, 300:460], atol=2)
    smaller = cv2.resize(large.read(), (160, 120), interpolation=cv2.INTER_AREA).astype(int)
    assert np.abs(smaller - part.read()).mean() < 3.0
    np.testing.assert_array_equal(beside.read(), before)  # it shares what it draws with
    for camera in (whole, beside, part, large):
        camera.close()


@pytest.mark.parametrize(
    "crop", [(-1, 0, 10, 10), (0, 0, 0, 10), (600, 0, 41, 10), (0, 470, 10, 11)]
)
def test_a_crop_outside_the_picture_is_refused(world, crop):
    with pytest.raises(ConfigError, match=r"camera 'wrist'.*640 x 480"):
        look_from("wrist", TASK.scene, world, crop=crop)
    assert not cameras._stages


def test_an_unknown_camera_is_named_with_those_there_are(gl, world):
    with pytest.raises(ConfigError, match=r"'side'.*front.*wrist"):
        look_from("side", TASK.scene, world)
    assert not cameras._stages


def test_without_a_world_there_is_nothing_to_draw():
    with pytest.raises(DeviceError, match="not simulated"):
        open_camera(CameraConfig("wrist", "mujoco"), SIZE)


def test_without_gl_the_error_says_what_to_install():
    environment = os.environ | {
        "__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent.json",
        "MUJOCO_GL": "egl",
    }
    code = "from robot_rl.cameras.mujoco import gl_problem; print(gl_problem())"
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "apt-get install" in out.stdout and "libegl1" in out.stdout
