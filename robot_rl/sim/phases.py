"""The way to a task's success as waypoints: what a scene offers to a scripted operator.

A scene says them as they stand now, `Scene.phases(data)`, so that a pose may follow a body that
moves, and a phase may be over, or impossible, because of how things stand.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np

from robot_rl.geometry import pose_delta, pose_inverse, pose_multiply
from robot_rl.interfaces import Scene
from robot_rl.machine.validation import nearest
from robot_rl.sim.hand import MAX_WIDTH
from robot_rl.sim.parts import Parts, pose_of
from robot_rl.sim.stage import blamed_on, build_model, find_scene
from robot_rl.types import AXES, Array, ConfigError, Use, WorldState

TRYING_M = 0.02
OPEN_M = 0.9 * MAX_WIDTH
"""Fingers that are further apart are open [m]; what a hand holds is thinner."""
BODY, SITE = mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_SITE


@dataclass(frozen=True)
class Phase:
    """One waypoint: where the tool goes, and when that is over.

    `pose (7,)` is the pose of the tool that the task controls, seen from the body or site `at` ("":
    from the base). The phase is over when the tool is within `near_m` [m] and `near_rad` [rad] of
    it and has been there for `steps` control steps, or when it feels `force_n` [N]. `gripper` is
    said all the while: 1 opens, -1 closes, 0 leaves it.

    Of several arms `arm` is the one that moves. The others stand still, or are kept at their own last
    pose (`stays`), and what is said to their grippers is what their own last phase said, or, before
    that, their first one.
    """

    name: str
    pose: Array
    at: str = ""
    gripper: int = 0
    near_m: float = 0.003
    near_rad: float = 0.03
    steps: int = 0
    force_n: float = math.inf
    done: bool = False
    """Over because of how things stand: it is passed over."""
    ready: bool = True
    """Whether things allow it: one that lifts a cube needs the cube between the fingers. Behind a
    phase that closes them one that keeps them shut waits for that, too."""
    pace: float = 1.0
    """The most of full speed that it is done at."""
    unsteady: float = 1.0
    """Share of the hand's unsteadiness: little where there is little room."""
    arm: int = 0
    """The number of the arm that it is for."""
    stays: bool = False
    """Behind it its arm is kept at the pose while others move, up to its own next phase: it waits with an
    eye on its place, and does not stand as far off as it has come."""
    beside_m: float = 0.0
    """Of the last one: so far aside its whole way is none, as that of a cable beside its clip, and
    neither is one that is cut short. 0: it is one there, too."""
    tries: int = 0
    """So many control steps longer an arm that is ready for it is let try within `TRYING_M` of its
    pose before it is corrected: it searches for an opening there."""


class Phases:
    """The phases of a scene at a state of the world; a model of its own tells where bodies and
    sites are.
    """

    def __init__(self, scene: Scene):
        """Raises ConfigError as the scene itself does, or if it offers no way of two phases."""
        self._scene = scene
        self._model = build_model(scene)
        self._data = mujoco.MjData(self._model)
        self._bases = [pose_inverse(np.array(stand, float)) for stand in scene.stands]
        self.arms = len(self._bases)
        self._parts = [Parts(self._model, arm) for arm in range(self.arms)]
        self._count = len(self._now())
        if self._count < 2:
            raise ConfigError(
                f"{inspect.getfile(type(scene))}: its `phases` are fewer than 2: a scripted"
                " operator needs the way to success (docs/scenes.md)"
            )

    def at(self, world: WorldState) -> list[Phase]:
        """All phases, each with its pose in the base of its arm; of the way back where that is looked
        at. Raises ConfigError for what a phase cannot be.
        """
        self._parts[0].take_over(self._data, world)
        phases = self._now(world.backward)
        if not world.backward and len(phases) != self._count:
            raise ConfigError(
                f"{inspect.getfile(type(self._scene))}: its `phases` are {len(phases)} now and were"
                f" {self._count} at first: answer with the same ones at all times, and say"
                " `done=True` of what is over and `ready=False` of what cannot be yet"
            )
        return phases

    def stand(self, choices: Sequence[int]) -> bool:
        """Whether the fingers of each arm are, where `at` has last looked, as the choices of its gripper
        want them: all the way open, or not. Also where nothing is said to them.
        """
        return all(self._stands(arm, choice) for arm, choice in enumerate(choices))

    def _stands(self, arm: int, choice: int) -> bool:
        is_open = self._parts[arm].width(self._data) > OPEN_M
        return choice == 0 or is_open == (choice > 0)

    def _now(self, backward: bool = False) -> list[Phase]:
        scene = self._scene.way_back if backward else self._scene
        with blamed_on(self._scene):
            mujoco.mj_kinematics(self._model, self._data)
            said = scene.phases(self._data)
        for number, phase in enumerate(said):
            if problem := self._problem(phase, number == len(said) - 1):
                where = inspect.getfile(type(self._scene))
                raise ConfigError(f"{where}: phase {phase.name!r}: {problem}")
        placed = [replace(phase, pose=self._from_base(phase), at="") for phase in said]
        return [
            replace(phase, ready=phase.ready and self._may_hold(placed, i))
            for i, phase in enumerate(placed)
        ]

    def _may_hold(self, phases: Sequence[Phase], index: int) -> bool:
        """Whether a phase need not wait for fingers: behind one that closes them, nobody lifts what is
        between open ones.
        """
        phase, last = phases[index], before(phases, index)
        closed_before = last is not None and last.gripper == phase.gripper == -1
        return not closed_before or self._stands(phase.arm, -1)

    def _problem(self, phase: Phase, is_last: bool) -> str:
        """What a phase says that it cannot be; "" if nothing."""
        if np.shape(phase.pose) != (7,) or not np.isfinite(phase.pose).all():
            return (
                "pose must be 7 numbers, x, y, z [m] and a quaternion xyzw, as"
                f" `robot_rl.sim.fixture.upright` makes them; it is {phase.pose!r}"
            )
        if phase.at and self._place(phase.at) is None:
            names = [self._model.body(i).name for i in range(1, self._model.nbody)]
            names += [self._model.site(i).name for i in range(self._model.nsite)]
            return f"at: no body and no site has this name: {nearest(phase.at, names)}"
        if phase.gripper not in (-1, 0, 1):
            return f"gripper is {phase.gripper!r}; -1 closes, 0 leaves it, 1 opens"
        if phase.arm not in range(self.arms):
            return f"arm is {phase.arm!r}; the scene is for {self.arms}, counted from 0"
        if phase.beside_m and not is_last:
            return "beside_m is for the last phase, whose whole way may be aside"
        return ""

    def _from_base(self, phase: Phase) -> Array:
        seen = pose_multiply(self._pose(phase.at), phase.pose)
        pose: Array = pose_multiply(self._bases[phase.arm], seen) if phase.arm else seen
        return pose

    def _pose(self, name: str) -> Array:
        """The pose `(7,)` in the scene of a body, or else of a site, of this name."""
        place = self._place(name) if name else None
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]) if place is None else pose_of(place)

    def _place(self, name: str) -> Any:
        """The body, or else the site, of this name; None if there is neither."""
        for kind, named in ((BODY, self._data.body), (SITE, self._data.site)):
            if mujoco.mj_name2id(self._model, kind, name) >= 0:
                return named(name)
        return None


def next_places(
    use: Use | None, axes: Sequence[str]
) -> Callable[[WorldState, Sequence[Array]], list[Array]] | None:
    """Tells where each arm of a scene goes next, as things stand: where its hand takes hold or lets go,
    at last where its way ends, as goal-relative pretraining makes it of an episode that has been
    (`learner/goal_frames.py`). An arm that has no way stays where it is. None where the scene says none.

    It is called with the tools `(7,)`, which the task moves along `axes`, each in the base of its arm,
    and answers with as many poses. Raises ConfigError as `Phases`.
    """
    scene = find_scene(use)
    if type(scene).phases is Scene.phases:
        return None
    way, free = Phases(scene), np.isin(AXES, axes).astype(float)

    def places(world: WorldState, tools: Sequence[Array]) -> list[Array]:
        phases = way.at(world)
        index, found = fitting(phases, tools, free), list[Array]()
        for arm in range(len(tools)):
            own = [i for i, phase in enumerate(phases) if phase.arm == arm]
            ahead = [i for i in own if i >= index and is_order(phases, i)] or own[-1:]
            found.append(phases[ahead[0]].pose if ahead else tools[arm])
        return found

    return places


def off_the_way(start: Array, end: Array, tool: Array, free: Array) -> tuple[float, float]:
    """How far [m] a tool `(7,)` is beside the straight way from `start` to `end`, and how far [rad]
    it is turned against `end`; `free (6,)` are the axes that count, 1 or 0.
    """
    back, here = pose_delta(end, start) * free, pose_delta(end, tool) * free
    length = float(back[:3] @ back[:3])
    share = np.clip(back[:3] @ here[:3] / length, 0.0, 1.0) if length else 0.0
    beside = float(np.linalg.norm(here[:3] - share * back[:3]))
    return beside, float(np.linalg.norm(here[3:] - share * back[3:]))


def before(phases: Sequence[Phase], index: int) -> Phase | None:
    """The phase of the same arm that comes before this one; None if it is the arm's first."""
    return _last_of(phases, index, phases[index].arm)


def staying(phases: Sequence[Phase], index: int, arm: int) -> Phase | None:
    """The phase at whose pose an arm stays in the one at `index`, which is another arm's; None where it
    stands still.
    """
    last = _last_of(phases, index, arm)
    return last if last is not None and last.stays else None


def _last_of(phases: Sequence[Phase], index: int, arm: int) -> Phase | None:
    return next((phase for phase in reversed(phases[:index]) if phase.arm == arm), None)


def is_there(phase: Phase, tool: Array, free: Array) -> bool:
    """Whether a tool `(7,)` is where the phase wants it, along the axes `free (6,)`, 1 or 0."""
    off = pose_delta(phase.pose, tool) * free
    near, straight = np.linalg.norm(off[:3]), np.linalg.norm(off[3:])
    return bool(near < phase.near_m and straight < phase.near_rad)


def tries(phases: Sequence[Phase], tools: Sequence[Array]) -> int:
    """The most `tries` of a phase that is ready, and near whose end the tool of its arm is, of
    `tools (arms, 7)`.
    """
    offs = [np.linalg.norm(phase.pose[:3] - tools[phase.arm][:3]) for phase in phases]
    near = [p.tries for p, off in zip(phases, offs, strict=True) if p.ready and off < TRYING_M]
    return max(near, default=0)


def is_order(phases: Sequence[Phase], index: int) -> bool:
    """Whether a hand takes hold or lets go in this phase, which it has not in the one before."""
    last = before(phases, index)
    return last is not None and phases[index].gripper not in (0, last.gripper)


def fitting(phases: Sequence[Phase], tools: Sequence[Array], free: Array) -> int:
    """The index of the latest phase that things as they are allow: that is ready, and on whose way
    the tool of its arm stands, of `tools (arms, 7)`; an arm's first phase may begin anywhere. The
    first one that is not done, if none is.
    """
    for index in range(len(phases) - 1, 0, -1):
        phase, last = phases[index], before(phases, index)
        if phase.ready and (last is None or _is_on_way(last, phase, tools[phase.arm], free)):
            return after_done(phases, index)
    return after_done(phases, 0)


def _is_on_way(last: Phase, phase: Phase, tool: Array, free: Array) -> bool:
    aside, turned = off_the_way(last.pose, phase.pose, tool, free)
    return aside < 1.5 * last.near_m and turned < 1.5 * last.near_rad


def after_done(phases: Sequence[Phase], index: int) -> int:
    """The first phase from `index` on that is not done; the last one has no other after it."""
    while index < len(phases) - 1 and phases[index].done:
        index += 1
    return index


def grippers(phases: Sequence[Phase], index: int, arms: int) -> list[int]:
    """What is said to the gripper of each arm in a phase."""
    said = [0] * arms
    for phase in (*reversed(phases), *phases[: index + 1]):
        said[phase.arm] = phase.gripper
    return said


def way_left(phases: Sequence[Phase], index: int, tools: Sequence[Array], free: Array) -> float:
    """How far it is from the arms' tools `(arms, 7)` over the phases from `index` on [m]; a radian
    counts for 50 mm.
    """
    legs = list[Array]()
    for arm, tool in enumerate(tools):
        stops = [tool, *(phase.pose for phase in phases[index:] if phase.arm == arm)]
        legs += [pose_delta(b, a) * free for a, b in pairwise(stops)]
    return float(sum(np.linalg.norm(leg[:3]) + 0.05 * np.linalg.norm(leg[3:]) for leg in legs))
