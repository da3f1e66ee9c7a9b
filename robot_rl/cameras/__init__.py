"""One file = one kind of camera: a class `Camera` that implements `interfaces.Camera`."""

from robot_rl import config
from robot_rl.config import CameraConfig
from robot_rl.interfaces import Camera, Simulation


def open_camera(
    camera: CameraConfig, image_size: tuple[int, int] | None, simulation: Simulation | None = None
) -> Camera:
    """The camera of a hardware file, by its driver. `image_size` (height, width) None: frames as they come."""
    opened: Camera = config.find("cameras", camera.driver).Camera(camera, image_size, simulation)
    return opened
