"""One file = one kind of camera: a class `Camera` that implements `interfaces.Camera`."""

import json
from collections.abc import Mapping
from typing import Any

from robot_rl import config
from robot_rl.config import CameraConfig
from robot_rl.interfaces import Camera, Simulation


def open_camera(
    camera: CameraConfig, image_size: tuple[int, int] | None, simulation: Simulation | None = None
) -> Camera:
    """The camera of a hardware file, by its driver. `image_size` (height, width) None: frames as they come."""
    opened: Camera = config.find("cameras", camera.driver).Camera(camera, image_size, simulation)
    return opened


def is_simulated(camera: CameraConfig) -> bool:
    """Whether the driver draws a simulated world; those of real cameras can say what is plugged in."""
    return not hasattr(config.find("cameras", camera.driver), "found")


def lines_for_file(camera: CameraConfig, **changes: Any) -> str:
    """The camera as lines for a hardware file, with some of its options changed.

    `lines_for_file(camera, crop=(160, 80, 320, 320))` is what marking a crop comes to.
    """
    options = flow({**camera.options, **changes})
    return f"cameras:\n  - name: {json.dumps(camera.name)}\n    driver: {camera.driver}\n    options: {options}"


def flow(options: Mapping[str, Any]) -> str:
    """Options as they stand in a hardware file, on one line: `{serial: "0123", exposure: 156}`."""
    return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items()) + "}"
