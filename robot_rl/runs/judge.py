"""A run's learned judge: its own copy of a classifier that there is, or outcomes and a training."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from robot_rl.config import (
    CLASSIFIERS,
    Task,
    classifier_of,
    judge_inputs,
    make_options,
    stages_of,
)
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.runs.progress import Display
from robot_rl.runs.record import record_outcomes
from robot_rl.runs.report import summarise_outcomes
from robot_rl.types import StoppedError

if TYPE_CHECKING:
    from robot_rl.classifier.options import ClassifierConfig

PER_EPISODE = 10
"""Positives of an episode."""
STEPS_PER_POSITIVE = 7
"""Control steps that a positive takes the scripted operator, about, near misses included."""


def is_lacking(task: Task) -> bool:
    """Whether the task's judge, or that of its way back, is learnt, and has yet to be."""
    return bool(_lacking(task))


def _lacking(task: Task) -> list[tuple[bool, Task]]:
    """The ways of the task whose judge has yet to be learnt, and whether each is the way back."""
    ways = (False, True) if task.backward is not None else (False,)
    halves = [(way, task.half(way)) for way in ways]
    folders = [classifier_of(half) for _, half in halves]
    return [
        each
        for each, folder in zip(halves, folders, strict=True)
        if folder is not None and not versions_in(folder)
    ]


def collecting_steps(task: Task, outcomes: tuple[int, int]) -> int:
    """Control steps that outcomes will take, about, if the task's judge has yet to be learnt; twice
    as many of a task with a way back.
    """
    ways = 1 if task.backward is None else 2
    return ways * max(STEPS_PER_POSITIVE * outcomes[0], outcomes[1]) if is_lacking(task) else 0


def copy_classifier(task: Task) -> Callable[[Path, RunSettings], None]:
    """What puts the task's classifier into the folder of a new run, if there is one: the version
    that the task names, or the newest; and the newest of each stage before it, which has to be
    there. Raises as `classifier.files.load`.
    """

    def fill(path: Path, settings: RunSettings) -> None:
        for half in (task.half(False), task.half(True)):
            for stage in stages_of(half):
                _copy_version(stage, 0, path)
            source = classifier_of(half)
            if source is not None and versions_in(source):
                _copy_version(source, int(half.reward.options.get("version", 0)), path)

    return fill


def _copy_version(source: Path, version: int, run: Path) -> None:
    """Put a version of a classifier into a run, unless it has one."""
    target = run / CLASSIFIERS / source.name
    if versions_in(target):
        return
    from robot_rl.classifier.files import load

    version = load(source, version).version
    target.mkdir(parents=True, exist_ok=True)
    for file in files_of(source, version).values():
        shutil.copyfile(file, target / file.name)


def prepare_judge(
    folder: RunFolder, display: Display, stop: StopRequest, processes: Supervisor
) -> None:
    """See to it that the run has its learned judge, if its task's is one: collect outcomes and
    train it on them. Goes on where an earlier sitting stopped.
    """
    lacking = _lacking(folder.load_task())
    if not lacking:
        return
    names = " and ".join(f"'{half.reward.options['name']}'" for _, half in lacking)
    display.say(f"there is no classifier {names} yet: the operator shows successes and failures")
    positives, negatives = folder.settings.outcomes
    record_outcomes(
        folder, display, stop, processes,
        positives=positives, negatives=negatives, per_episode=PER_EPISODE,
    )  # fmt: skip
    summarise_outcomes(folder)
    for backward, half in lacking:
        train_judge(folder, half, display, stop, backward=backward)


def train_judge(
    folder: RunFolder, task: Task, display: Display, stop: StopRequest, *, backward: bool = False
) -> None:
    """Train the classifier of a task, or of one way of it, on the run's outcomes, and say what it is
    worth.
    """
    from robot_rl.classifier.score import predicates_of
    from robot_rl.classifier.training import train
    from robot_rl.classifier.worth import sentences

    options = replace(options_for(task), backward=backward)

    def progress(done: int, most: int) -> None:
        display.show("classifier", done, most)
        if stop.is_set():
            raise StoppedError("stopped")

    target = classifier_of(task)
    assert target is not None, "only a classifier is trained"
    made = train(
        target, [folder.outcomes_log], options, seed=folder.settings.seed, progress=progress,
        predicates=predicates_of([task]),
    )  # fmt: skip
    for sentence in sentences("held out", made.metrics["test"], options.bound):
        display.say(sentence)


def options_for(task: Task) -> "ClassifierConfig":
    """How the task's classifier is trained: what its file says of it, the rest as usual."""
    from robot_rl.classifier.options import ClassifierConfig

    said = make_options("rewards", task.reward)
    cameras = tuple(judge_inputs(task).cameras)
    return ClassifierConfig(cameras=cameras, crops=said.crops, size=said.size, numbers=said.numbers)
