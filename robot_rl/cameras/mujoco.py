"""Cameras of the simulated world: rendered in the actor's process, from the world channel's poses.

The picture is drawn from a model of its own, which never steps: joint angles and object poses are
copied into it. All cameras of a process that look at the same scene share that model and one GL
context; the first camera that draws a new world state copies it in. Used by one thread.
"""

import contextlib
import importlib
import os
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.cameras._live import Crop, require_inside
from robot_rl.interfaces import Given
from robot_rl.sim.looks import Appearance, Looks
from robot_rl.sim.parts import Parts
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import Array, ConfigError, DeviceError, Use, WorldState

GL_PACKAGES = ("libegl1", "libegl-mesa0", "libopengl0", "libgl1-mesa-dri")
"""Debian's packages for EGL with Mesa's software renderer; PyOpenGL looks for libopengl0. The
Makefile asks here.
"""

GL_HELP = (
    "rendering the simulated cameras needs OpenGL without a display. On Debian or Ubuntu: `sudo"
    f" apt-get install --no-install-recommends {' '.join(GL_PACKAGES)}`. Set MUJOCO_GL=osmesa (with"
    " libosmesa6) or MUJOCO_GL=glfw (with a display) for another way, or train with `--obs state`,"
    " which renders nothing"
)


DEFAULT_SIZE = (480, 640)
"""Height and width of pictures whose size nobody says."""


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file. Two cameras may share a view."""

    view: str = ""
    """The camera's name in the scene; "": the same as here."""
    crop: Crop | None = None
    """A part of its picture of 640 x 480, x y width height, drawn at the task's image size; None:
    all that it sees.
    """


class Camera(interfaces.Camera):
    """One camera of the scene."""

    simulated = True

    def __init__(self, options: Options, given: Given):
        """Raises DeviceError without GL or without a world, ConfigError if the scene has no such
        camera.
        """
        if options.crop is not None:
            require_inside(options.crop, DEFAULT_SIZE, given.name)
        if given.world is None:
            raise DeviceError(
                f"camera '{given.name}' draws a simulated world, but the arm is not simulated"
            )
        height, width = given.image_size or DEFAULT_SIZE
        self._world, self._crop = given.world, options.crop
        self._stage = _Stage.shared(given.scene, width, height)
        try:
            self._index = self._stage.camera_index(options.view or given.name)
        except ConfigError:
            self._stage.release()
            raise
        self._closed = False

    def read(self) -> Array:
        """The view of `world.latest`, `(H, W, 3)` uint8 RGB."""
        self._stage.show(self._world.latest)
        return self._stage.draw(self._index, self._crop)

    def close(self) -> None:
        """Let go of the picture; the last camera of a scene frees its GL context."""
        if not self._closed:
            self._closed = True
            self._stage.release()

    @classmethod
    def problem(cls) -> str:
        return gl_problem()


class _Stage:
    """A scene's model and what is needed to draw it at one size."""

    def __init__(self, key: str, scene: Use | None, width: int, height: int):
        self._key, self._cameras = key, 0
        found = find_scene(scene)
        self._model = build_model(found)
        self._data, self._parts = mujoco.MjData(self._model), Parts(self._model)
        self._appearance = Appearance(self._model, found.looks or Looks())
        self._context = open_gl(width, height)
        self._renderer = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_resizeOffscreen(width, height, self._renderer)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._renderer)
        self._view = mujoco.MjvScene(self._model, maxgeom=200 + self._model.ngeom)
        self._view.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._view.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mujoco.MjvOption()
        self._perturbation = mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._shown: WorldState | None = None

    @classmethod
    def shared(cls, scene: Use | None, width: int, height: int) -> "_Stage":
        """The stage for this scene and size, made when the first camera asks for it."""
        key = repr((scene and scene.name, scene and sorted(scene.options.items()), width, height))
        if key not in _stages:
            _stages[key] = cls(key, scene, width, height)
        _stages[key]._cameras += 1
        return _stages[key]

    def camera_index(self, name: str) -> int:
        names = [self._model.camera(i).name for i in range(self._model.ncam)]
        if name not in names:
            raise ConfigError(f"camera '{name}' is not in this scene; it has: {', '.join(names)}")
        return names.index(name)

    def show(self, world: WorldState) -> None:
        """Take over joint angles and object poses, and the looks of a new episode, unless they are
        there already.
        """
        if world is self._shown:
            return
        if self._shown is None or world.seed != self._shown.seed:
            self._dress(world.seed)
        self._parts.take_over(self._data, world)
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        self._shown = world

    def _dress(self, seed: int) -> None:
        self._appearance.randomize(seed)
        self._context.make_current()
        for texture in self._appearance.textures:
            mujoco.mjr_uploadTexture(self._model, self._renderer, texture)

    def draw(self, index: int, crop: Crop | None) -> Array:
        """A new picture `(H, W, 3)` uint8."""
        self._context.make_current()
        self._camera.fixedcamid = index
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            self._perturbation,
            self._camera,
            everything,
            self._view,
        )
        if crop is not None:
            self._look_at(crop)
        mujoco.mjr_render(self._rectangle, self._view, self._renderer)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._renderer)
        return self._pixels[::-1].copy()  # OpenGL counts rows from below

    def _look_at(self, crop: Crop) -> None:
        """Open the view on a part of the picture alone: an oblique frustum [m, on the near plane]."""
        (x, y, across, down), (height, width) = crop, DEFAULT_SIZE
        for eye in self._view.camera:
            pixel = (eye.frustum_top - eye.frustum_bottom) / height
            eye.frustum_center = pixel * (x + across / 2 - width / 2)
            eye.frustum_width = pixel * across / 2
            eye.frustum_bottom = pixel * (height / 2 - y - down)
            eye.frustum_top = pixel * (height / 2 - y)

    def release(self) -> None:
        """One camera less; the last one frees the context, which must not be left to the
        interpreter's exit.
        """
        self._cameras -= 1
        if self._cameras == 0:
            self._context.make_current()
            self._renderer.free()
            self._context.free()
            del _stages[self._key]


_stages: dict[str, _Stage] = {}


def open_gl(width: int, height: int) -> Any:
    """A GL context that is current. Raises DeviceError with what to install if there is none.

    MuJoCo's own choice is made when `mujoco` is imported, which the arm's process does too, on
    machines without GL; so the module of the platform is taken by name here: EGL, or what MUJOCO_GL
    says.
    """
    platform = os.environ.get("MUJOCO_GL") or "egl"
    if platform not in ("egl", "osmesa", "glfw"):
        raise DeviceError(f"MUJOCO_GL is '{platform}'; allowed: egl, osmesa, glfw")
    # Mesa's software renderer: pictures this small do not repay its threads, and the learner needs
    # the cores
    os.environ.setdefault("LP_NUM_THREADS", "1")
    try:
        context = importlib.import_module(f"mujoco.{platform}").GLContext(width, height)
        context.make_current()
    # PyOpenGL answers a missing library with whatever its lookup stumbles over: ImportError,
    # AttributeError, its own
    except Exception as error:
        raise DeviceError(
            f"no OpenGL context by '{platform}' ({type(error).__name__}: {error}); {GL_HELP}"
        ) from error
    return context


def gl_problem() -> str:
    """Why this machine cannot render, with what to do; empty if it can."""
    try:
        context = open_gl(64, 64)
    except DeviceError as error:
        return str(error)
    with contextlib.suppress(RuntimeError):
        context.free()
    return ""
