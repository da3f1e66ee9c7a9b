"""What every scene shares: contact settings, a table, light, cameras, and the compiled model of an
arm in a scene.

Contact settings were chosen by measurement, with MuJoCo's default friction of 1: pyramidal cones
and the default number of solver iterations. Fewer line-search iterations (`ls_iterations` 10) make
impulses of kilonewtons.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mujoco
import numpy as np

from robot_rl import config
from robot_rl.config.kinds import line_in
from robot_rl.interfaces import Scene
from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import (
    POSE_FLANGE_HAND,
    WORLD_CONTACT,
    Unmodelled,
    add_panda,
    prefix_of,
    wxyz,
)
from robot_rl.sim.parts import Parts
from robot_rl.types import ArmFacts, Array, ConfigError, RobotRLError, Use

TICK_S = 0.001
ANOTHER_ARM = 8
"""Bit of the contacts by which the arms before touch the one of this number, shifted by that."""


def find_scene(use: Use | None) -> Scene:
    """The `Scene` that a task names, built with the task's options; an empty table if it names
    none.
    """
    scene: Scene = config.make("sim/scenes", use or Use("empty"))
    return scene


@contextmanager
def blamed_on(scene: Scene) -> Iterator[None]:
    """What goes wrong in a scene's own file, or in MuJoCo because of it, is a ConfigError with file
    and line.
    """
    try:
        yield
    except RobotRLError:
        raise
    except Exception as error:
        path = inspect.getfile(type(scene))
        raise ConfigError(
            f"{path}:{line_in(path, error)}: {type(error).__name__}: {error}"
        ) from error


def build_model(
    scene: Scene, facts: ArmFacts = PANDA, unmodelled: Sequence[Unmodelled] = ()
) -> mujoco.MjModel:
    """Compile the arms in their scene: Pandas, or sisters of theirs with the ranges and torques of
    `facts`; `unmodelled` are each one's own, as far as there are any.
    """
    spec = _new_spec()
    with blamed_on(scene):
        hands = _add_arms(spec, scene, facts, unmodelled)
        scene.add_to(spec, hands[0] if len(hands) == 1 else hands)
        for geom in spec.geoms:
            if geom.priority > 0:  # the fingers' pads, or what a scene makes as it wants it
                continue
            geom.solref = [0.01, 1.0]
            geom.solimp = [0.95, 0.99, 0.0005, 0.5, 2.0]
        return spec.compile()


def _new_spec() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = "panda"
    spec.compiler.autolimits, spec.compiler.degree = False, False
    option = spec.option
    option.timestep = TICK_S
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    option.impratio = 1.0
    return spec


def _add_arms(
    spec: mujoco.MjSpec, scene: Scene, facts: ArmFacts, unmodelled: Sequence[Unmodelled]
) -> tuple[mujoco.MjsBody, ...]:
    """Add an arm where each of them stands; their hands. Arms touch each other, none itself."""
    hands = [add_panda(spec, facts, next(iter(unmodelled), None), fingers=scene.fingers)]
    for arm, stand in enumerate(scene.stands[1:], 1):
        own = unmodelled[arm] if arm < len(unmodelled) else None
        other, prefix = _new_spec(), prefix_of(arm)
        add_panda(other, facts, own, fingers=scene.fingers)
        for geom in spec.geoms:
            geom.conaffinity |= ANOTHER_ARM << arm
        for geom in other.geoms:
            geom.contype |= ANOTHER_ARM << arm
        frame = spec.worldbody.add_frame(pos=list(stand[:3]), quat=wxyz(stand[3:]))
        spec.attach(other, prefix=prefix, frame=frame)
        hands.append(spec.body(prefix + "hand"))
    return tuple(hands)


def tried(scene: Scene, seed: int) -> tuple[Array, Array, Any]:
    """What a scene answers after a reset with this seed: where everything is, its goal, whether
    that is a success.
    """
    model = build_model(scene)
    data, parts = mujoco.MjData(model), Parts(model)
    with blamed_on(scene):
        scene.place(model, data, seed)
        mujoco.mj_forward(model, data)
        goal = scene.goal_base_tool(data, np.array(POSE_FLANGE_HAND))
        return np.concatenate([data.qpos, parts.poses(data).ravel()]), goal, scene.success(data)


def size_of(use: Use | None) -> tuple[int, int]:
    """How many `objects`, and numbers `scene_q`, the `WorldState` of a scene holds; no arm is
    opened.
    """
    parts = Parts(build_model(find_scene(use)))
    return len(parts.bodies), len(parts.positions)


def add_stage(spec: mujoco.MjSpec) -> None:
    """A table with its top at z = 0, a floor, and light without shadows (a shadow map costs nine
    times the picture).
    """
    spec.visual.quality.shadowsize = 0
    spec.visual.quality.offsamples = 0
    # of round links; 28 and 16 take twice the time
    spec.visual.quality.numslices, spec.visual.quality.numstacks = 12, 8
    spec.visual.map.znear = 0.005
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.35, 0.35, 0.35]
    sky = mujoco.mjtTexture.mjTEXTURE_SKYBOX
    gradient = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    spec.add_texture(
        name="sky",
        type=sky,
        builtin=gradient,
        rgb1=[0.75, 0.80, 0.86],
        rgb2=[0.35, 0.40, 0.47],
        width=64,
        height=384,
    )
    world, box = spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
    look = {"group": 0, **WORLD_CONTACT}
    world.add_geom(
        name="table",
        type=box,
        size=[0.45, 0.55, 0.02],
        pos=[0.45, 0, -0.02],
        rgba=[0.66, 0.62, 0.56, 1],
        **look,
    )
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    floor = {"contype": 0, "conaffinity": 0, "rgba": [0.42, 0.44, 0.47, 1.0]}
    world.add_geom(name="floor", type=plane, size=[4, 4, 0.1], pos=[0, 0, -0.7], **floor)
    spec.worldbody.add_light(
        pos=[0.9, -0.5, 1.6], dir=[-0.35, 0.4, -1.0], diffuse=[0.55] * 3, castshadow=False
    )
    spec.worldbody.add_light(
        pos=[0.1, 0.8, 1.4], dir=[0.3, -0.6, -1.0], diffuse=[0.25] * 3, castshadow=False
    )


def add_camera(
    body: mujoco.MjsBody,
    name: str,
    *,
    at: Sequence[float],
    look_at: Sequence[float],
    up: Sequence[float],
    fovy: float,
) -> None:
    """Add a camera to a body, at a point of that body's frame, looking at another; `fovy` in
    degrees.
    """
    backward = np.asarray(at, float) - np.asarray(look_at, float)
    backward /= np.linalg.norm(backward)
    right = np.cross(np.asarray(up, float), backward)
    right /= np.linalg.norm(right)
    quat = np.empty(4)
    mujoco.mju_mat2Quat(
        quat, np.stack([right, np.cross(backward, right), backward], axis=1).ravel()
    )
    body.add_camera(name=name, pos=list(at), quat=quat, fovy=fovy)
