"""Which arms of a hardware file one process serves, and where simulated ones stand in their world."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from robot_rl.config.kinds import driver_here, make
from robot_rl.config.limits import quat_angle
from robot_rl.machine.validation import Problem
from robot_rl.types import Use

if TYPE_CHECKING:
    from robot_rl.types.files import ArmConfig, Hardware, Task

SAME_PLACE = (0.001, 0.002)
"""[m], [rad]: what is nearer is one stand."""


def arms_by_process(hardware: "Hardware") -> list[tuple["ArmConfig", ...]]:
    """The arms of a file, in its order, by the process that serves them: each has one of its own,
    but for those of a driver whose arms stand in one world.
    """
    numbered = enumerate(hardware.arms)
    processes = groupby(numbered, lambda it: it[1].driver if _is_shared(it[1]) else it[0])
    return [tuple(arm for _, arm in arms) for _, arms in processes]


def _is_shared(arm: "ArmConfig") -> bool:
    driver = driver_here("controllers/arms", arm.driver)
    return driver is not None and bool(driver.one_world)


def scene_of(task: "Task | None", hardware: "Hardware") -> Use | None:
    """The scene that simulated arms of a bench stand in: the task's. Without one an empty table,
    which for several arms in one world has a stand where the file has each of them.
    """
    if task is not None and task.scene is not None:
        return task.scene
    if len(hardware.arms) == 1 or len(arms_by_process(hardware)) > 1:
        return None
    names = [arm.name for arm in hardware.arms]
    return Use("empty", {"stands": _stands_of(hardware), "arms": names})


def _stands_of(hardware: "Hardware") -> list[list[float]]:
    """The base `(7,)` of each arm, seen from the first one's."""
    bases = [arm.pose_bench_base for arm in hardware.arms]
    return [seen_from(bases[0], base) for base in bases]


def seen_from(pose: Sequence[float], other: Sequence[float]) -> list[float]:
    """Another pose `(7,)` [m, xyzw] in the frame of this one."""
    x, y, z, w = pose[3:]
    back = (-x, -y, -z, w)
    apart = (*(b - a for a, b in zip(pose[:3], other[:3], strict=True)), 0.0)
    place = _multiply(_multiply(back, apart), (x, y, z, w))[:3]
    return [*place, *_multiply(back, other[3:])]


def _multiply(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """The product of two quaternions xyzw."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]


def unused_problems(hardware: "Hardware") -> Iterator[Problem]:
    """What a hardware file may hold for `robot-rl check`, and no task can use yet."""
    if len(arms_by_process(hardware)) > 1:
        what = (
            "is a second arm, and a task moves several only where they stand in one simulated"
            " world (driver mujoco): give each arm a hardware file of its own"
        )
        yield ("arms", 1), what


def stand_problems(task: "Task", hardware: "Hardware") -> Iterator[Problem]:
    """A scene's stands against the simulated arms of a bench: as many, at the same places."""
    use = task.scene
    drivers = [driver_here("controllers/arms", arm.driver) for arm in hardware.arms]
    if not all(driver is not None and driver.simulated for driver in drivers):
        return
    if use is None and len(hardware.arms) > 1:
        yield (
            ("scene",),
            f"= None: the {_arms(len(hardware.arms))} of {hardware.name!r} stand in one",
        )
    if use is None or driver_here("sim/scenes", use.name) is None:
        return
    scene: Any = make("sim/scenes", use)
    arms, stands = hardware.arms, [[float(x) for x in stand] for stand in scene.stands]
    if len(stands) != len(arms):
        names = ", ".join(repr(arm.name) for arm in arms)
        yield (
            ("scene",),
            f"= {use.name!r} is for {_arms(len(stands))}, and hardware {hardware.name!r} has"
            f" {_arms(len(arms))} ({names})",
        )
        return
    for i, (arm, stand, base) in enumerate(zip(arms, stands, _stands_of(hardware), strict=True)):
        if (
            math.dist(stand[:3], base[:3]) > SAME_PLACE[0]
            or quat_angle(stand[3:], base[3:]) > SAME_PLACE[1]
        ):
            there, here = ([round(x, 4) + 0.0 for x in pose] for pose in (stand, base))
            yield (
                ("scene",),
                f"= {use.name!r} has its stand {i + 1} at {there}, seen from the first, and"
                f" hardware {hardware.name!r} has arm {arm.name!r} at {here} (pose_bench_base):"
                " wanted the same",
            )


def _arms(count: int) -> str:
    return f"{count} arm" + "s" * (count > 1)


def loop_problems(hardware: "Hardware") -> Iterator[Problem]:
    """Arms of one world with a loop on different cores: they have one together."""
    numbers = {arm.name: i for i, arm in enumerate(hardware.arms)}
    for first, *others in arms_by_process(hardware):
        for arm in others:
            if arm.loop_cpu != first.loop_cpu:
                yield (
                    ("arms", numbers[arm.name], "loop_cpu"),
                    f"= {arm.loop_cpu}: the arms of one simulated world have one loop, and arm"
                    f" {first.name!r} says {first.loop_cpu}",
                )
