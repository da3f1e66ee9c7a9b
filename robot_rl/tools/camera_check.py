"""`robot-rl cameras`: which cameras are plugged in, what those of a bench see, and how well they
keep up.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np

from robot_rl import config
from robot_rl.cameras import flow, is_simulated, open_camera
from robot_rl.cameras._live import Crop, Frame, LiveCamera, crop_and_resize
from robot_rl.config import CameraConfig, Hardware, Task
from robot_rl.config.judge import judge_inputs
from robot_rl.controllers.setup import open_in_company
from robot_rl.dataset.pictures import FONT, INK, PAPER, draw_crop, write_picture
from robot_rl.types import Array, FoundCamera, RobotRLError

HEIGHT = 360
"""Of a view on the contact sheet [pixels]."""
CAPTION = 34
LOOK_S = 0.005
"""Between two looks while ages are measured."""


@dataclass(frozen=True)
class View:
    """What a camera delivered while it was looked at.

    `picture` is a whole frame `(H, W, 3)` uint8 RGB, without the crop of the hardware file;
    `rate_hz` how many fresh ones came, `asked_hz` how many were asked for (0: as it likes);
    `ages_s` how old the newest one was whenever somebody looked, `max_age_s` how old it may be.
    `controls` are exposure and white balance at the end. `port` is how it is connected ("USB 3.2"),
    as far as it says.
    """

    camera: CameraConfig
    picture: Array
    rate_hz: float = 0.0
    asked_hz: float = 0.0
    ages_s: Array = field(default_factory=lambda: np.zeros(1))
    max_age_s: float = 0.0
    controls: Mapping[str, float] = field(default_factory=dict)
    port: str = ""

    @property
    def crop(self) -> Crop | None:
        """The crop of the hardware file."""
        given = self.camera.options.get("crop")
        return None if given is None else tuple(given)

    @property
    def is_measured(self) -> bool:
        """Whether rate and age are known: not of a picture that was drawn, or read once."""
        return self.max_age_s > 0.0

    def age_ms(self, percentile: float) -> float:
        return 1e3 * float(np.percentile(self.ages_s, percentile))

    @property
    def timing(self) -> tuple[str, str] | tuple[()]:
        """Rate and age for people; nothing where they were not measured."""
        if not self.is_measured:
            return ()
        return (
            f"{self.rate_hz:.1f} Hz",
            f"age {self.age_ms(50):.0f} ms, p99 {self.age_ms(99):.0f} ms",
        )

    def to_json(self) -> dict[str, Any]:
        """Without the picture."""
        height, width = self.picture.shape[:2]
        return {
            "name": self.camera.name,
            "driver": self.camera.driver,
            "size": [width, height],
            "crop": self.crop,
            "rate_hz": round(self.rate_hz, 2),
            "age_ms_p50": round(self.age_ms(50), 2),
            "age_ms_p99": round(self.age_ms(99), 2),
            "controls": dict(self.controls),
            "port": self.port,
        }


def find_cameras() -> tuple[list[FoundCamera], list[str]]:
    """What is plugged in, of every driver; and of each driver that cannot say, why."""
    there: list[FoundCamera] = []
    problems: list[str] = []
    for name in config.names_of("cameras"):
        try:
            there += config.driver("cameras", name).found()
        except RobotRLError as error:
            problems.append(str(error))
    return there, problems


def look(cameras: Sequence[CameraConfig], seconds: float) -> tuple[list[View], dict[str, str]]:
    """Look through real cameras, all at the same time; and of each that does not work, by its name,
    why.

    A simulated one is passed over: see `draw`. Rate and age are measured of a `LiveCamera`; any
    other one is read once.
    """
    problems: dict[str, str] = {}
    opened: list[tuple[CameraConfig, LiveCamera, list[float]]] = []
    views = []
    with ExitStack() as stack:
        for camera in cameras:
            try:
                if is_simulated(camera):
                    continue
                device = open_camera(_whole(camera), None)
                stack.callback(device.close)
                if isinstance(device, LiveCamera):
                    opened.append((camera, device, []))
                else:
                    views.append(View(camera, device.read()))
            except RobotRLError as error:
                problems[camera.name] = str(error)
        began: dict[str, Frame] = {}
        newest: dict[str, Frame] = {}
        until = time.monotonic() + seconds
        while opened:
            for camera, live, ages in opened:
                try:
                    frame = live.newest()
                except RobotRLError as error:
                    problems[camera.name] = str(error)
                    continue
                ages.append(time.monotonic() - frame.t)
                began.setdefault(camera.name, frame)
                newest[camera.name] = frame
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        for camera, live, ages in opened:
            if camera.name in problems:
                continue
            last, begun = newest[camera.name], began[camera.name]
            rate_hz = (last.number - begun.number) / max(last.t - begun.t, 1e-3)
            asked_hz, limit_s = live.options.rate_hz, live.options.max_age_s
            now = live.controls()
            views.append(
                View(camera, last.image, rate_hz, asked_hz, np.array(ages), limit_s, now, live.port)
            )
    return sorted(views, key=lambda view: list(cameras).index(view.camera)), problems


def draw(hardware: Hardware, task: Task | None) -> tuple[list[View], dict[str, str]]:
    """What the simulated cameras of a bench see of a task's scene, those that are for the task, or
    of an empty table, with the arm at its home.

    And of each that cannot be drawn, by its name, why.
    """
    simulated = [camera for camera in hardware.cameras if is_simulated(camera)]
    if task is not None:
        used = {*task.cameras, *judge_inputs(task).cameras}
        simulated = [camera for camera in simulated if camera.name in used]
    if not simulated:
        return [], {}
    scene = config.scene_of(task, hardware)
    stand_in = replace(hardware.arms[0], driver="mujoco", options={}, load=None)
    arm = open_in_company(stand_in, hardware, task)
    world: Any = SimpleNamespace(latest=arm.world())
    views: list[View] = []
    problems: dict[str, str] = {}
    for camera in simulated:
        # without a crop it is drawn in the policy's shape
        size = None if camera.options.get("crop") else (480, 480)
        try:
            drawn = open_camera(_whole(camera), size, world, scene)
        except RobotRLError as error:
            problems[camera.name] = str(error)
            continue
        views.append(View(camera, drawn.read()))
        drawn.close()
    return views, problems


def _whole(camera: CameraConfig) -> CameraConfig:
    """The camera as it is, without the crop of the hardware file."""
    return replace(
        camera, options={name: value for name, value in camera.options.items() if name != "crop"}
    )


def contact_sheet(
    views: Sequence[View], crops: Mapping[str, Crop], image_size: tuple[int, int]
) -> Array:
    """One row per camera, `(H, W, 3)` uint8 RGB: the whole picture with the crop on it, and what
    the policy sees.

    `crops` stand in for those of the hardware file. Raises ConfigError for one that is not inside
    its picture.
    """
    rows = [_row(view, crops.get(view.camera.name, view.crop), image_size) for view in views]
    width = max(row.shape[1] for row in rows)
    return np.concatenate([_widen(row, width) for row in rows])


def _row(view: View, crop: Crop | None, image_size: tuple[int, int]) -> Array:
    seen = crop_and_resize(view.picture, crop, image_size, view.camera.name)
    whole = view.picture if crop is None else draw_crop(view.picture, crop)
    gap = np.full((HEIGHT, 12, 3), PAPER, np.uint8)
    pictures = np.concatenate([_to_height(whole), gap, _to_height(seen)], axis=1)
    caption = np.full((CAPTION, pictures.shape[1], 3), PAPER, np.uint8)
    height, width = view.picture.shape[:2]
    said = [f"{view.camera.name}: {width} x {height}", *view.timing,
            f"crop {list(crop)}" if crop else "no crop", f"policy {image_size[1]} x {image_size[0]}"]  # fmt: skip
    cv2.putText(caption, "   ".join(said), (4, 23), FONT, 0.5, INK, 1, cv2.LINE_AA)
    return np.concatenate([caption, pictures])


def _to_height(picture: Array) -> Array:
    height, width = picture.shape[:2]
    way = cv2.INTER_AREA if height > HEIGHT else cv2.INTER_NEAREST
    scaled: Array = cv2.resize(picture, (round(width * HEIGHT / height), HEIGHT), interpolation=way)
    return scaled


def _widen(row: Array, width: int) -> Array:
    missing = np.full((row.shape[0], width - row.shape[1], 3), PAPER, np.uint8)
    return np.concatenate([row, missing], axis=1)


def write_sheet(
    path: Path,
    views: Sequence[View],
    crops: Mapping[str, Crop],
    image_size: tuple[int, int] = (128, 128),
) -> Path:
    """The contact sheet as PNG."""
    return write_picture(path, contact_sheet(views, crops, image_size))


def listing(found: Sequence[FoundCamera]) -> str:
    """What is plugged in: one line each, with the options that a hardware file needs."""
    lines = [
        f"driver: {each.driver}, options: {flow(each.options)}  # {each.description}"
        for each in found
    ]
    return "\n".join(lines) or "no camera is plugged in"


def table(hardware: str, views: Sequence[View]) -> Any:
    """The views as a table for a terminal."""
    from rich.table import Table

    out = Table(title=f"cameras of {hardware}")
    for heading in ("camera", "driver", "size", "rate", "age, p99", "crop", "port", "now"):
        out.add_column(heading)
    for view in views:
        height, width = view.picture.shape[:2]
        controls = ", ".join(f"{name} {value:g}" for name, value in view.controls.items())
        numbers = view.timing or ("drawn" if is_simulated(view.camera) else "not measured", "")
        crop = str(list(view.crop)) if view.crop else "none"
        out.add_row(
            view.camera.name,
            view.camera.driver,
            f"{width} x {height}",
            *numbers,
            crop,
            view.port,
            controls,
        )
    return out
