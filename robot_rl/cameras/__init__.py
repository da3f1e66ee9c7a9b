"""One file = one kind of camera: a class `Camera` that implements `interfaces.Camera`."""

import json
from collections.abc import Mapping
from typing import Any

from robot_rl import config
from robot_rl.config import CameraConfig
from robot_rl.interfaces import Camera, Given, World
from robot_rl.types import Use


def open_camera(
    camera: CameraConfig,
    image_size: tuple[int, int] | None,
    world: World | None = None,
    scene: Use | None = None,
) -> Camera:
    """The camera of a hardware file, by its driver. `image_size` (height, width) None: frames as
    they come.

    `world` and `scene` are what a simulated one draws.
    """
    given = Given(name=camera.name, image_size=image_size, world=world, scene=scene)
    opened: Camera = config.make("cameras", Use(camera.driver, camera.options), given)
    return opened


def is_simulated(camera: CameraConfig) -> bool:
    """Whether the driver draws a simulated world."""
    return bool(config.driver("cameras", camera.driver).simulated)


def lines_for_file(camera: CameraConfig, **changes: Any) -> str:
    """The camera as lines for a hardware file, with some of its options changed.

    `lines_for_file(camera, crop=(160, 80, 320, 320))` is what marking a crop comes to.
    """
    options = flow({**camera.options, **changes})
    return (
        f"cameras:\n  - name: {json.dumps(camera.name)}\n    driver: {camera.driver}\n    options:"
        f" {options}"
    )


def flow(options: Mapping[str, Any]) -> str:
    """Options as they stand in a hardware file, on one line: `{serial: "0123", exposure: 156}`."""
    return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items()) + "}"
