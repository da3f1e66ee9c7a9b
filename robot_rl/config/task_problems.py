"""What is wrong with a task file beyond its types, alone and on a bench: told before anything
moves.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from robot_rl.config.compliance import compliance_problems, leash_problems, posture_problems
from robot_rl.config.judge import judge_problems
from robot_rl.config.kinds import driver_here, name_problems, option_problems
from robot_rl.config.limits import is_unit, outside, tightened
from robot_rl.config.ranges import Range, beyond
from robot_rl.machine.validation import Problem, nearest
from robot_rl.types import AXES, ArmLimits, Compliance
from robot_rl.types.files import SHARED

if TYPE_CHECKING:
    from robot_rl.types.files import ArmConfig, Backward, Hardware, StartPose, Task, Wander

NO_WANDER = (
    "has no `wander`: after a demonstration the arm does not move about the goal, and an encoder"
    " learns where that is from the demonstrations alone"
)
"""What is said of a task without one, behind its name."""

RANGES = {
    "rate_hz": Range(1.0, 200.0, "Hz"),
    "max_steps": Range(1, 100_000),
    "image_size": Range(8, 1024, "pixels"),
    "action_translation": Range(0.0, 0.1, "m", above=True),
    "action_rotation": Range(0.0, 0.5, "rad", above=True),
}
"""What can be meant. An action is a step of 1 to 200 a second: more than 10 cm or 30 degrees is a
slip of the unit.
"""

MAX_DRIFT = Range(0.05, math.pi, "rad")
"""Less than a move in joint space misses by, and every reset would begin with one."""

FASTEST_ACTION = 4.0
"""Times `max_reference_speed` is the most that actions may ask for: the reference falls behind, and
the leash catches the target, so that most of the action would mean nothing."""

WANDER = {
    "height": Range(0.01, 0.3, "m"),
    "aside": Range(0.0, 0.3, "m"),
    "near_aside": Range(0.0, 1.0),
}
"""What an arm may be let do by itself: the first centimetre is where most of the poses are."""

_TOOL = Range(-1.0, 1.0, "m")
_REACH = Range(-3.0, 3.0, "m")
_WAY_OUT = Range(-0.2, 0.2, "m")
_HALF_WIDTH = (Range(0.0, 1.0, "m"), Range(0.0, math.pi, "rad"))


def task_problems(task: "Task") -> Iterator[Problem]:
    """What is wrong with a task by itself, with where in the file it stands."""
    for name, allowed in RANGES.items():
        yield from beyond((name,), getattr(task, name), allowed)
    leash = list(leash_problems(task.leash_translation, task.leash_rotation))
    yield from leash
    if not leash:
        yield from _leash_problems(task)
    yield from beyond(("pose_tcp_tool",), task.pose_tcp_tool[:3], _TOOL)
    if not is_unit(task.pose_tcp_tool[3:]):
        yield (
            ("pose_tcp_tool",),
            f"= {list(task.pose_tcp_tool)} does not end in a unit quaternion xyzw",
        )
    for i, start in enumerate(task.start):
        yield from _pose_problems(start, "start", i)
    yield from _action_problems(task)
    yield from beyond(("retreat",), task.retreat, _WAY_OUT)
    if task.backward is not None:
        yield from _backward_problems(task, task.backward)
    if task.max_drift is not None:
        yield from beyond(("max_drift",), task.max_drift, MAX_DRIFT)
    if task.wander is not None:
        yield from _wander_problems(task.wander)
        yield from _wanderer_problems(task.wander, task)
    for i, around in enumerate(task.look_around):
        yield from _pose_problems(around, "look_around", i)
    if task.look_around and len(task.look_around) != len(task.start):
        yield (
            ("look_around",),
            f"is for {len(task.look_around)} arms, and the task is for {len(task.start)}",
        )
    for asked in ("hold_while_gripping", "reopen_empty", "observe_grasp"):
        if getattr(task, asked) and "moved" not in task.grippers:
            yield (asked,), "is about hands that the task moves: none of `grippers` is 'moved'"
    for name, law in _laws(task):
        for place, message in compliance_problems(law):
            yield (name, *place), message
    for i, camera in enumerate(task.cameras):
        if camera in task.cameras[:i]:
            yield ("cameras", i), f"= {camera!r}: cameras {task.cameras} name one twice"
    for name, kind in (("reward", "rewards"), ("scene", "sim/scenes")):
        if (use := getattr(task, name)) is not None:
            for message in name_problems(kind, use.name):
                yield (name, "name"), message
            for place, message in option_problems(kind, use):
                yield (name, "options", *place), message


def _pose_problems(start: "StartPose", *place: str | int) -> Iterator[Problem]:
    """What is wrong with a pose and its ranges, which stand at a place of the task's file."""
    yield from beyond((*place, "pose_base_tool"), start.pose_base_tool[:3], _REACH)
    if not is_unit(start.pose_base_tool[3:]):
        wrong = f"= {list(start.pose_base_tool)} does not end in a unit quaternion xyzw"
        yield (*place, "pose_base_tool"), wrong
    yield from beyond((*place, "translation"), start.translation, _HALF_WIDTH[0])
    yield from beyond((*place, "rotation"), start.rotation, _HALF_WIDTH[1])


def _action_problems(task: "Task") -> Iterator[Problem]:
    """What actions move: axes that there are, and what is done with each arm's gripper."""
    for i, axis in enumerate(task.axes):
        if axis not in AXES:
            yield ("axes", i), f"= {axis!r}: allowed: {nearest(axis, AXES)}"
        elif axis in task.axes[:i]:
            yield ("axes", i), f"= {axis!r} stands there twice"
    if not task.axes:
        yield ("axes",), f"is empty: wanted some of {', '.join(AXES)}"
    if task.wander is not None:
        along = [axis for axis, way in zip(AXES, task.wander.way_out, strict=False) if way]
        if held := [axis for axis in along if axis not in task.axes]:
            what = f"leads along {', '.join(held)}, which the task's axes do not free"
            yield ("wander", "way_out"), f"= {list(task.wander.way_out)} {what}"


def _backward_problems(task: "Task", back: "Backward") -> Iterator[Problem]:
    """What is wrong with a task's way back by itself, and with what does not go together with it."""
    for place, message in task_problems(task.half(True)):
        if place[0] in SHARED:
            yield ("backward", *place), message
    yield from beyond(("backward", "failures_at_most"), back.failures_at_most, Range(1, 1_000))
    if not back.manual_reset:
        wanted = 'what a person does so that the task can begin anew ("close the drawer")'
        yield ("backward", "manual_reset"), f"is empty: wanted {wanted}"
    if task.manual_reset:
        why = "with a way back nobody is asked before each episode: say it in backward.manual_reset"
        yield ("manual_reset",), f"= {task.manual_reset!r}: {why}"
    for name in ("wander", "look_around"):
        if getattr(task, name):
            yield (name,), "does not go together with a way back: leave one of them out"
    if back.keeps_grip and "moved" not in task.grippers:
        yield ("backward", "keeps_grip"), "= True, and the task moves no gripper"
    scene = driver_here("sim/scenes", task.scene.name) if task.scene is not None else None
    if scene is not None and scene.way_back is None:
        why = f"scene {scene.__module__.rpartition('.')[2]!r} has no `way_back` (docs/scenes.md)"
        yield ("backward",), f"cannot be simulated: {why}"


def _wander_problems(wander: "Wander") -> Iterator[Problem]:
    """The size of what the arm does by itself."""
    for name, allowed in WANDER.items():
        yield from beyond(("wander", name), getattr(wander, name), allowed)
    for name in ("way_out", "takes_from", "takes_to"):
        yield from beyond(("wander", name), getattr(wander, name), _WAY_OUT)
    yield from beyond(("wander", "rotation"), wander.rotation, _HALF_WIDTH[1])
    if wander.lowest is not None:
        yield from beyond(("wander", "lowest"), wander.lowest, _REACH)
    if not any(wander.way_out):
        yield (
            ("wander", "way_out"),
            "= (0, 0, 0): wanted the way by which the tool leaves the goal [m]",
        )


def _wanderer_problems(wander: "Wander", task: "Task") -> Iterator[Problem]:
    """Whether there is an arm, and a hand, that wanders."""
    if wander.arm not in range(max(1, len(task.start))):
        yield (
            ("wander", "arm"),
            f"= {wander.arm}: the task is for {len(task.start)} arms, from 0 on",
        )
    elif wander.carries and task.grippers[wander.arm : wander.arm + 1] != ("moved",):
        yield ("wander", "carries"), "= True, and the task does not move the gripper of that arm"
    elif not wander.carries and any((*wander.takes_from, *wander.takes_to)):
        yield ("wander", "carries"), "= False, and takes_from and takes_to say where it takes hold"


def _laws(task: "Task") -> list[tuple[str, Compliance]]:
    """The compliances of a task, by field."""
    laws = (("compliance", task.compliance), ("reset_compliance", task.reset_compliance))
    return [(name, law) for name, law in laws if law is not None]


def _leash_problems(task: "Task") -> Iterator[Problem]:
    """The leash against what an action moves, and against the clip, whose force it has to let
    through.
    """
    law = task.compliance
    for name, part in (("translation", slice(0, 3)), ("rotation", slice(3, 6))):
        leash, action = getattr(task, f"leash_{name}"), getattr(task, f"action_{name}")
        clip = max((*law.error_clip[part], *law.error_clip_minus[part]), default=0.0)
        if leash < clip:
            why = (
                f"the largest error_clip of the compliance, {clip:g}, or the full force is never"
                " reached"
            )
            yield (f"leash_{name}",), f"= {leash:g}: wanted at least {why}"
        if leash < action and action in RANGES[f"action_{name}"]:
            why = f"leash_{name}, {leash:g}: the target goes no further ahead of the arm"
            yield (f"action_{name}",), f"= {action:g}: wanted at most {why}"


def fit_problems(task: "Task", hardware: "Hardware") -> Iterator[Problem]:
    """What is wrong with a task, which is sound by itself, on a bench."""
    cameras = [camera.name for camera in hardware.cameras]
    for i, name in enumerate(task.cameras):
        if name not in cameras:
            hint = nearest(name, cameras)
            yield (
                ("cameras", i),
                f"= {name!r}: camera {name!r} is not in hardware {hardware.name!r}; it has: {hint}",
            )
    yield from judge_problems(task, hardware)
    if task.backward is not None:
        for place, message in fit_problems(task.half(True), hardware):
            if place[0] in SHARED:
                yield ("backward", *place), message
    if len(task.start) != len(hardware.arms):
        arms = f"the {len(hardware.arms)} arms of hardware {hardware.name!r}"
        names = ", ".join(repr(arm.name) for arm in hardware.arms)
        wanted = f"wanted one for each ({names})"
        yield ("start",), f"has {len(task.start)} start poses for {arms}: {wanted}"
    elif task.grippers and len(task.grippers) != len(hardware.arms):
        arms = f"the {len(hardware.arms)} arms of hardware {hardware.name!r}"
        yield ("grippers",), f"has {len(task.grippers)} words for {arms}: wanted one for each"
    else:
        yield from _gripper_problems(task, hardware)
    for i, arm in enumerate(hardware.arms):
        limits, problems = tightened(arm.limits, task.limits)
        for place, message in problems:
            yield ("limits", *place), f"{message} (arm {arm.name!r})"
        if not problems:
            yield from _arm_problems(task, i, arm, limits)


def _gripper_problems(task: "Task", hardware: "Hardware") -> Iterator[Problem]:
    """What a task does with the grippers, against those of the bench."""
    for i, arm in enumerate(hardware.arms):
        use, gripper = task.gripper(i), hardware.gripper_of(arm)
        if use == "moved" and gripper is None:
            why = f"which in hardware {hardware.name!r} has no gripper that moves"
            yield (
                ("grippers",),
                f"says 'moved' of arm {arm.name!r}, {why}: say 'held' or 'none' of it, or add one to"
                " the hardware's `grippers:`",
            )
        if use == "none" and gripper is not None:
            why = f"which in hardware {hardware.name!r} has the gripper {gripper.name!r}"
            yield (
                ("grippers",),
                f"says 'none' of arm {arm.name!r}, {why}: say 'held' or 'moved' of it, or use a"
                " hardware file without it",
            )


def _arm_problems(task: "Task", i: int, arm: "ArmConfig", limits: ArmLimits) -> Iterator[Problem]:
    """A task against one arm and the limits in force there."""
    if i < len(task.start):
        start = task.start[i]
        if where := outside(limits, start.pose_base_tool, start.translation, start.rotation):
            at = ", ".join(f"{x:g}" for x in start.pose_base_tool[:3])
            yield (
                ("start", i),
                f"at {at} m: the start range leaves the workspace of arm {arm.name!r} {where}",
            )
    for name, law in _laws(task):
        for place, message in compliance_problems(law, limits):
            yield (name, *place), f"{message} (arm {arm.name!r})"
    for action, limit, unit in (
        ("action_translation", "max_reference_speed", "m/s"),
        ("action_rotation", "max_reference_rotation_speed", "rad/s"),
    ):
        asked, most = getattr(task, action) * task.rate_hz, getattr(limits, limit)
        if asked > FASTEST_ACTION * most:
            speed = f"at rate_hz {task.rate_hz:g} that is {asked:.4g} {unit}"
            bound = (
                f"wanted at most {FASTEST_ACTION:g} times {limit} of arm {arm.name!r}, {most:g}"
                f" {unit}"
            )
            yield (action,), f"= {getattr(task, action):g}: {speed}; {bound}"
    if task.max_drift is not None:
        yield from _drift_problems(task, arm, limits)


def _drift_problems(task: "Task", arm: "ArmConfig", limits: ArmLimits) -> Iterator[Problem]:
    """The way home in joint space, before a reset."""
    driver = driver_here("controllers/arms", arm.driver)
    if driver is not None and driver.mode == "pose":
        why = f"arm {arm.name!r} (driver {arm.driver!r}) follows poses and has no joint-space moves"
        yield ("max_drift",), f"= {task.max_drift:g}: {why}: leave max_drift out"
    for place, message in posture_problems((), arm.home, limits):
        joint = int(place[-1]) + 1
        yield (
            ("max_drift",),
            f"leads home, and joint {joint} of arm {arm.name!r} has its home {message}",
        )
