"""The bench's cameras, each opened once, and the pictures that policy and judge see of it."""

from collections.abc import Sequence
from contextlib import ExitStack

import cv2

from robot_rl.cameras import open_camera
from robot_rl.config import Hardware, Task
from robot_rl.config.judge import JUDGE
from robot_rl.interfaces import Camera, World
from robot_rl.types import Array, SpaceSpec

Size = tuple[int, int]


class Views:
    """What is seen of each camera, by the observation's names: `image/NAME` and `judge/NAME`.

    A camera that both look through is read once per step, at the larger height and the larger
    width of the two, and resized for whoever wants less.
    """

    def __init__(
        self,
        task: Task,
        hardware: Hardware,
        space: SpaceSpec,
        world: World | None,
        renders: bool = False,
    ):
        """Open what `space` asks for, and with `renders` the task's cameras; if one cannot be
        opened, those before it are closed.
        """
        self._sizes: dict[str, Size] = {
            name: (shape[0], shape[1])
            for name, (shape, _) in space.observations.items()
            if len(shape) == 3
        }
        self._observed = list(self._sizes)
        if renders:
            self._sizes |= {f"image/{name}": task.image_size for name in task.cameras}
        self.cameras: dict[str, Camera] = {}
        self._opened_at: dict[str, Size] = {}
        configs = {camera.name: camera for camera in hardware.cameras}
        with ExitStack() as opened:
            for name in self._order(task):
                size = self._opened_at[name] = self._largest(name)
                self.cameras[name] = open_camera(configs[name], size, world, task.scene)
                opened.callback(self.cameras[name].close)
            opened.pop_all()

    def _order(self, task: Task) -> list[str]:
        """The cameras that are needed: the policy's as the task has them, then the judge's."""
        needed = [name.partition("/")[2] for name in self._sizes]
        return list(dict.fromkeys([*filter(needed.__contains__, task.cameras), *needed]))

    def _largest(self, camera: str) -> Size:
        sizes = [size for name, size in self._sizes.items() if name.partition("/")[2] == camera]
        return max(height for height, _ in sizes), max(width for _, width in sizes)

    def read(self) -> dict[str, Array]:
        """The newest pictures of the observation. CameraStaleError while a camera has no fresh
        frame.
        """
        return self._read(self._observed)

    def render(self) -> dict[str, Array]:
        """What the policy sees, or would see, now."""
        return self._read([name for name in self._sizes if not name.startswith(JUDGE)])

    def _read(self, names: Sequence[str]) -> dict[str, Array]:
        frames = {
            camera: self.cameras[camera].read()
            for camera in self.cameras
            if any(name.partition("/")[2] == camera for name in names)
        }
        return {name: self._resized(name, frames[name.partition("/")[2]]) for name in names}

    def _resized(self, name: str, frame: Array) -> Array:
        """A frame as `name` is to see it, each pixel the mean of what it covers; a driver that
        gives what nobody asked for is not mended.
        """
        size = self._sizes[name]
        if size == self._opened_at[name.partition("/")[2]]:
            return frame
        smaller: Array = cv2.resize(frame, size[::-1], interpolation=cv2.INTER_AREA)
        return smaller

    def close(self) -> None:
        """Let go of the cameras."""
        for camera in self.cameras.values():
            camera.close()
