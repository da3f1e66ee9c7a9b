"""Marking a camera's crop on the page: its whole picture, live, two sliders, and the lines for the
hardware file.
"""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_rl.cameras import lines_for_file
from robot_rl.cameras._live import Crop
from robot_rl.config import CameraConfig
from robot_rl.dataset.pictures import draw_crop
from robot_rl.links.console_link import Picture
from robot_rl.types import Array

NONE = "none"
LEAST = 8  # pixels of a side: a slider's two knobs are not to meet


class CropTab:
    """What is on the page for it. `gui` is viser's; `show` is called by one thread, ten times a
    second.
    """

    def __init__(self, gui: Any, cameras: Sequence[CameraConfig]):
        self._configs = {camera.name: camera for camera in cameras}
        self._choice = gui.add_dropdown("Camera", (NONE, *self._configs), initial_value=NONE)
        self._image = gui.add_image(
            np.zeros((48, 64, 3), np.uint8), format="jpeg", jpeg_quality=80, visible=False
        )
        knobs = {
            "min": 0,
            "max": 640,
            "step": 1,
            "initial_value": (0, 640),
            "min_range": LEAST,
            "visible": False,
        }
        self._across = gui.add_multi_slider("Left, right", **knobs)
        self._down = gui.add_multi_slider("Top, bottom", **knobs)
        self._lines = gui.add_html(
            _paragraph("Choose a camera: its whole picture is only sent while one is chosen.")
        )
        self._marked: tuple[str, tuple[int, int]] | None = None

    @property
    def camera(self) -> str:
        """The camera whose crop is being marked, "" if none is."""
        return "" if self._choice.value == NONE else str(self._choice.value)

    @property
    def crop(self) -> Crop:
        """x, y, width, height [pixels of the picture that is shown]."""
        (left, right), (top, bottom) = self._across.value, self._down.value
        return left, top, right - left, bottom - top

    def show(self, picture: Picture | None) -> None:
        """The newest picture of the camera that was chosen; None if there is none."""
        for handle in (self._image, self._across, self._down):
            if handle.visible != (picture is not None):
                handle.visible = picture is not None
        if picture is None:
            if self.camera:
                self._write(
                    _paragraph("This camera shows nothing yet: nobody acts, or not from pixels.")
                )
            return
        config = self._configs[picture.camera]
        if self._marked != (picture.camera, picture.size):
            self._marked = picture.camera, picture.size
            self._begin(picture, config)
        self._image.image = marked(picture, self.crop)
        self._write(crop_html(config, picture, self.crop))

    def _begin(self, picture: Picture, config: CameraConfig) -> None:
        """Sliders for this picture, at the crop of the hardware file."""
        width, height = picture.size
        given = config.options.get("crop") if picture.whole else None
        x, y, w, h = given or (0, 0, width, height)
        for slider, most, ends in (
            (self._across, width, (x, x + w)),
            (self._down, height, (y, y + h)),
        ):
            slider.max = most
            slider.value = ends

    def _write(self, content: str) -> None:
        if self._lines.content != content:
            self._lines.content = content


def marked(picture: Picture, crop: Crop) -> Array:
    """The picture with the crop on it: it may have been made smaller on its way here."""
    scale = picture.image.shape[1] / picture.size[0]
    x, y, width, height = (round(scale * pixels) for pixels in crop)
    return draw_crop(picture.image, (x, y, width, height))


def crop_html(camera: CameraConfig, picture: Picture, crop: Crop) -> str:
    """The lines for the hardware file, as `robot-rl cameras --crop` prints them; or why there are
    none.
    """
    if not picture.whole:
        width, height = picture.size
        return _paragraph(
            f"{list(crop)} of the {width} x {height} pixels that the policy sees: this camera has"
            " no other picture here (a simulated one is drawn at that size, with its crop)"
        )
    lines = html.escape(lines_for_file(camera, crop=crop))
    return (
        '<pre id="robot-rl-crop" style="padding:4px'
        f' 12px;font-size:12px;white-space:pre-wrap">{lines}</pre>'
        + _paragraph("In the hardware file; it is read when the next process starts.")
    )


def _paragraph(text: str) -> str:
    return f'<div style="padding:4px 12px;font-size:13px;opacity:.7">{html.escape(text)}</div>'
