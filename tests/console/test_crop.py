"""Marking a crop in a real browser: the camera's whole picture, the sliders, and the lines for the
hardware file.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from robot_rl import config
from robot_rl.cameras import lines_for_file, open_camera
from robot_rl.config import CameraConfig
from robot_rl.dataset.pictures import GOOD
from robot_rl.links.console_link import Picture
from tests.cameras.bench import video
from tests.links.test_console_link import a_step
from tests.teleop.benches import wait_until

PATIENCE_S = 60.0  # Chromium draws in software, perhaps beside a training
GIVEN = [40, 20, 100, 120]


@pytest.fixture
def film(tmp_path):
    with video(tmp_path / "film.mp4") as path:
        options = {"device": str(path), "crop": GIVEN, "max_age_s": 5.0}
        yield CameraConfig("wrist", "opencv", options)


def test_the_desk_shows_the_whole_picture_of_a_camera_that_is_cropped_and_else_what_the_policy_sees(
    desk, console, film
):
    camera = open_camera(film, (128, 128))
    desk.cameras = {"wrist": camera, "front": SimpleNamespace(whole=None)}
    whole = console.picture("wrist")
    camera.close()
    assert (whole.size, whole.whole, whole.image.shape) == ((320, 240), True, (240, 320, 3))
    assert camera.read().shape == (128, 128, 3)
    assert console.picture("front") is None and console.picture("") is None, "nothing was seen yet"
    step = a_step(0)
    desk.show(replace(step, observation={"image/front": np.full((100, 1000, 3), 90, np.uint8)}), [])
    seen = console.picture("front")
    assert (seen.size, seen.whole, seen.image.shape) == ((1000, 100), False, (64, 640, 3))


def test_the_page_marks_a_crop_and_says_its_lines(browser, desk, film, tmp_path):
    from robot_rl.console.model import Sources
    from robot_rl.console.serve import Console

    bench = config.load_hardware("sim_panda")
    camera = open_camera(film, (128, 128))
    desk.cameras = {"wrist": camera}
    desk.show(
        replace(a_step(0), observation={"image/front": np.full((128, 128, 3), 90, np.uint8)}), []
    )
    cameras = (film, bench.cameras[1])
    console = Console(
        Sources("test", replace(bench, cameras=cameras, arms=()), desk=desk.address), port=0
    )
    stop = threading.Event()
    looking = threading.Thread(target=lambda: console.run(stop.is_set))
    looking.start()
    page = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=0.5)
    page.set_default_timeout(1e3 * PATIENCE_S)
    page.goto(console.url)
    # that it draws in software
    page.add_style_tag(content=".mantine-Notifications-root { display: none }")
    try:
        page.get_by_role("tab", name="Crop").click()
        page.get_by_role("combobox", name="Camera").click()
        page.get_by_role("option", name="wrist").click()
        lines = page.locator("#robot-rl-crop")
        lines.wait_for()
        assert crop_in(lines.inner_text()) == GIVEN, "it begins with what the file says"
        left_edge = lambda: crop_in(lines.inner_text())[0]  # noqa: E731
        drag(page, page.locator(".multi-slider-thumb").first, by=40, value=left_edge)
        said = lines.inner_text()  # once: the page may still be on its way to where the knob is
        x, y, width, height = crop_in(said)
        assert (x + width, y, height) == (140, 20, 120), "the left edge alone"
        assert said == lines_for_file(film, crop=(x, y, width, height))

        page.get_by_role("combobox", name="Camera").click()
        page.get_by_role("option", name="front").click()
        page.get_by_text("[0, 0, 128, 128] of the 128 x 128 pixels that the policy sees").wait_for()
        assert lines.count() == 0
    finally:
        page.close()
        stop.set()
        looking.join(20.0)
        console.close()
        camera.close()


def drag(page, knob, by: float, value: Callable[[], int]) -> None:
    """Take a slider's knob and pull it to the right [pixels of the page], until its `value` has grown by
    half of that.

    A page that draws slowly may have moved the knob away from under the mouse: who has missed it takes
    hold of it again.
    """
    before, until = value(), time.monotonic() + PATIENCE_S
    while value() <= before + by / 2.0:
        assert time.monotonic() < until, "the knob was pulled, and nothing moved"
        knob.hover()  # waits until it stands still
        box = knob.bounding_box()
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2.0 + by, box["y"] + box["height"] / 2.0, steps=4)
        page.mouse.up()
        with suppress(AssertionError):
            wait_until(lambda: value() > before + by / 2.0, timeout_s=10.0)


def crop_in(lines: str) -> list[int]:
    (camera,) = yaml.safe_load(lines)["cameras"]
    crop: list[int] = camera["options"]["crop"]
    return crop


def test_the_rectangle_is_where_the_crop_is_however_small_the_picture_was_made():
    from robot_rl.console.crop import marked

    picture = Picture("wrist", np.zeros((360, 640, 3), np.uint8), (1280, 720), whole=True)
    ys, xs = np.nonzero((marked(picture, (400, 200, 600, 300)) == GOOD).all(axis=2))
    np.testing.assert_allclose(
        [xs.min(), xs.max(), ys.min(), ys.max()], [200, 499, 100, 249], atol=2
    )
    assert not picture.image.any(), "drawn on a copy"
