"""What skills there are: the task files of the folder one works in and of the suite, and a picture
of each that is simulated.
"""

from pathlib import Path

import numpy as np

from robot_rl import config
from robot_rl.cameras.mujoco import Camera, Options
from robot_rl.config import Task
from robot_rl.controllers.setup import open_in_company
from robot_rl.dataset.pictures import write_picture
from robot_rl.interfaces import Arm, Given
from robot_rl.types import Array, ConfigError, WorldState

PICTURE = (360, 360)
"""Height and width of what each camera sees: square, as a policy has it."""


def tasks() -> dict[str, Task | str]:
    """Each task by its name; instead of one whose file cannot be read, what is wrong with it."""
    found: dict[str, Task | str] = {}
    for name in config.task_names():
        try:
            found[name] = config.load_task(name)
        except ConfigError as error:
            found[name] = str(error)
    return found


class StillWorld:
    """Implements `interfaces.World` around a simulated arm of this process."""

    def __init__(self, arm: Arm):
        self._arm = arm
        self.latest = self.reset(0)

    def refresh(self) -> WorldState:
        """The truth, now."""
        self.latest = self._arm.world()
        return self.latest

    def reset(self, seed: int) -> WorldState:
        """Put everything where the seed says."""
        self._arm.reset(seed)
        return self.refresh()


def draw(task: Task, hardware: str, folder: Path) -> Path:
    """Write what the task's cameras see after a reset, side by side; where it is. A bench with
    another number of arms than the task gives way to the task's own.

    Raises DeviceError without headless OpenGL, ConfigError for a scene that cannot be built or has
    not these cameras, DataError if the picture cannot be written.
    """
    bench = config.load_hardware(hardware)
    if len(bench.arms) != len(task.start):  # it is for another number of arms
        bench = config.load_hardware(task.hardware)
    arm = open_in_company(bench.arms[0], bench, task)
    try:
        world = StillWorld(arm)
        views = [_view(name, task, world) for name in task.cameras]
    finally:
        arm.close()
    return write_picture(folder / f"{task.name}.png", np.hstack(views))


def _view(name: str, task: Task, world: StillWorld) -> Array:
    camera = Camera(Options(), Given(name, scene=task.scene, world=world, image_size=PICTURE))
    try:
        return camera.read()
    finally:
        camera.close()
