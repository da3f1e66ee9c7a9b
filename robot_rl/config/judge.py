"""What a task's judge looks at beside what the policy sees: from the files alone, without opening
anything.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from robot_rl.config.kinds import NAMES_ARE, driver_here, is_name, make_options, name_problems
from robot_rl.config.ranges import Range
from robot_rl.machine.validation import Problem, nearest
from robot_rl.types import JUDGE_NUMBERS, ConfigError, JudgeInputs, Use

if TYPE_CHECKING:
    from robot_rl.types.files import Hardware, ObsKind, Task

JUDGE = "judge/"
LEARNED = "classifier"
"""The reward that is learnt from outcomes."""
TRUTH = "simulator"
"""The reward that is exact: what the simulated world says."""
CLASSIFIERS = "classifiers"
"""The folder of learned judges, where a user works and in a run."""
OVERRIDE = "ROBOT_RL_JUDGE"
"""This variable of the environment names a reward that stands in for every learned one."""
SIZES = Range(8, 1024, "pixels")


def with_judge(task: "Task", name: str = "") -> "Task":
    """The task with another judge, a file of `rewards` without options; "": its own, or in the
    place of a learned one what the environment says. Raises ConfigError if there is no such file.
    """

    def other(own: Use) -> Use:
        wanted = name or (os.environ.get(OVERRIDE, "") if own.name == LEARNED else "")
        if not wanted or own.name == wanted:
            return own
        for problem in name_problems("rewards", wanted):
            raise ConfigError(f"judge {problem}")
        return Use(wanted)

    return _each_judge(task, other)


def labels_by(hardware: "Hardware") -> str:
    """Whose word the labels of outcomes are, a file of `rewards`: the operator's. The scripted one
    has no eyes but the simulator's, so there they are its truth.
    """
    scripted = hardware.teleop is not None and hardware.teleop.name == "scripted"
    return TRUTH if scripted else "operator"


def with_classifiers(task: "Task", folder: str) -> "Task":
    """The task with its learned judge, if it has one, in this folder of classifiers."""

    def moved(own: Use) -> Use:
        return own if own.name != LEARNED else Use(LEARNED, {**own.options, "folder": folder})

    return _each_judge(task, moved)


def _each_judge(task: "Task", change: Callable[[Use], Use]) -> "Task":
    """The task with its judge changed, and that of its way back; itself if nothing is."""
    own, back = change(task.reward), task.backward
    if back is not None and (of_back := change(back.reward)) is not back.reward:
        return replace(task, reward=own, backward=replace(back, reward=of_back))
    return task if own is task.reward else replace(task, reward=own)


def classifier_of(task: "Task") -> Path | None:
    """The folder of the task's classifier and its versions; None: its judge is not learnt. Raises
    ConfigError for what cannot be the name of a folder.
    """
    if task.reward.name != LEARNED:
        return None
    return _folder_of(task, task.reward.options.get("name", ""))


def stages_of(task: "Task") -> list[Path]:
    """The folders of the classifiers that have to fire before it. ConfigError as `classifier_of`."""
    stages = task.reward.options.get("stages", ()) if task.reward.name == LEARNED else ()
    return [_folder_of(task, name) for name in stages]


def _folder_of(task: "Task", name: object) -> Path:
    if not is_name(str(name)):
        raise ConfigError(f"a classifier cannot be called {name!r:.100}: {NAMES_ARE}")
    return Path(str(task.reward.options.get("folder", CLASSIFIERS))) / str(name)


def judge_inputs(task: "Task") -> JudgeInputs:
    """What the task's judge asks for, and that of its way back; nothing where this machine lacks a
    package that it needs.
    """
    if task.backward is not None:
        there, back = judge_inputs(task.half(False)), judge_inputs(task.half(True))
        numbers = tuple(dict.fromkeys((*there.numbers, *back.numbers)))
        return JudgeInputs({**back.cameras, **there.cameras}, numbers)
    found = driver_here("rewards", task.reward.name)
    if found is None:
        return JudgeInputs()
    asked = found.inputs(make_options("rewards", task.reward), task)
    if not isinstance(asked, JudgeInputs):
        raise ConfigError(
            f"reward {task.reward.name!r}: inputs returned {asked!r:.60}; it returns a"
            " `robot_rl.types.JudgeInputs`"
        )
    return asked


def judge_problems(task: "Task", hardware: "Hardware") -> Iterator[Problem]:
    """What is wrong with what the judge asks for, on a bench."""
    asked, cameras = judge_inputs(task), [camera.name for camera in hardware.cameras]
    for name, size in asked.cameras.items():
        if name not in cameras:
            hint = nearest(name, cameras)
            yield (
                ("reward",),
                f"looks through camera {name!r}, which is not in hardware {hardware.name!r}; it"
                f" has: {hint}",
            )
        if name in JUDGE_NUMBERS:
            yield ("reward",), f"looks through camera {name!r}, which is the name of a number"
        if len(size) != 2 or any(type(side) is not int or side not in SIZES for side in size):
            yield (
                ("reward",),
                f"wants pictures of {tuple(size)!r:.40} of camera {name!r}: wanted height and"
                f" width, {SIZES.low} to {SIZES.high} pixels",
            )
    for name in asked.numbers:
        if name not in JUDGE_NUMBERS:
            hint = nearest(name, JUDGE_NUMBERS)
            yield ("reward",), f"asks for {name!r}, and there is: {hint}"
        elif name == "width" and "moved" not in task.grippers:
            yield ("reward",), "asks for a gripper's width, and the task moves no gripper"


def judge_spaces(
    task: "Task", hardware: "Hardware", obs: "ObsKind"
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of each `judge/...`, pictures before numbers.

    What the policy sees at the same size is not seen twice: there `image/NAME` serves.
    """
    asked = judge_inputs(task)
    seen = task.cameras if obs == "pixels" else ()
    spaces: dict[str, tuple[tuple[int, ...], str]] = {
        JUDGE + name: ((*size, 3), "uint8")
        for name, size in sorted(asked.cameras.items())
        if name not in seen or tuple(size) != tuple(task.image_size)
    }
    sizes = dict.fromkeys(JUDGE_NUMBERS, len(hardware.arms)) | {
        "width": task.grippers.count("moved")
    }
    return spaces | {JUDGE + name: ((sizes[name],), "float32") for name in asked.numbers}
