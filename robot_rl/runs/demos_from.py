"""Demonstrations of other runs for a new one: looked at before anything is made, then copied as
they are, with what was marked in the newest of them for the guide.

A record keeps its identity, so that whose demonstration it is can always be told, and one that two
runs hold (because one of them began with the other's) is taken once. All of a log is taken:
attempts that failed and wandering as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_rl.actor.demonstrate import DemoTally
from robot_rl.config import Task
from robot_rl.config.guide_marks import GuideMarks, read_marks, write_marks
from robot_rl.config.judge import JUDGE
from robot_rl.config.run_folder import DEMOS_LOG, GUIDE_FILE, RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.dataset.assembly import EpisodeKey
from robot_rl.machine.sync import remove_file, sync_path
from robot_rl.stream import records
from robot_rl.stream.episodes import newest_by_key
from robot_rl.stream.log import StepLog, read_space
from robot_rl.types import ActorStream, ConfigError, RobotRLError, SpaceSpec

ACTION_FIELDS = (
    "rate_hz",
    "axes",
    "action_translation",
    "action_rotation",
    "pose_tcp_tool",
)
"""Of a task: what an action of a demonstration means. The rest of a task may differ."""
AT_ONCE = 64


@dataclass
class Origins:
    """Demonstrations to be taken over: of which runs, and what they come to together."""

    runs: list[RunFolder] = field(default_factory=list)
    tally: DemoTally = field(default_factory=DemoTally)
    said: list[dict[str, Any]] = field(default_factory=list)
    """Of each run, what the new one's config keeps."""
    marks: list[GuideMarks] = field(default_factory=list)
    """What was marked for the guide, in the order of the runs."""


def look_at(paths: Sequence[Path], task: Task, space: SpaceSpec) -> Origins:
    """Read the demonstrations of these runs, to the last record. Raises ConfigError with what is
    wrong with each.
    """
    origins, problems = Origins(), list[str]()
    seen: dict[ActorStream, int] = {}
    for path in paths:
        try:
            folder = RunFolder(path)
            _require_task(folder, task)
            _add(origins, folder, space, seen)
        except RobotRLError as error:
            problems.append(f"the demonstrations of '{path}' cannot be taken over: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    return origins


def _require_task(folder: RunFolder, task: Task) -> None:
    if folder.settings.task != task.name:
        raise ConfigError(
            f"they are of task {folder.settings.task!r}, and this run's is {task.name!r}"
        )
    require_same_actions(folder.load_task(), task)


def require_same_actions(theirs: Task, ours: Task) -> None:
    """Raise ConfigError where an action of another run is not the same move in this one."""
    for name in ACTION_FIELDS:
        if getattr(theirs, name) != getattr(ours, name):
            was, now = getattr(theirs, name), getattr(ours, name)
            raise ConfigError(
                f"their task has {name} {was}, and this one {now}: the actions in them mean another"
                " move"
            )


def _require_judge(folder: RunFolder, space: SpaceSpec) -> None:
    """Their frames hold what this run's judge looks at, and no other's."""
    theirs = read_space(folder.demos_log).observations
    differ = sorted(theirs.keys() ^ space.observations.keys())
    if differ and all(name.startswith(JUDGE) for name in differ):
        raise ConfigError(
            f"they and this run differ in what the judge looks at ({', '.join(differ)}): name the"
            " judge that they were recorded with (--judge), or record new ones with: robot-rl demo"
        )


def _add(
    origins: Origins, folder: RunFolder, space: SpaceSpec, seen: dict[ActorStream, int]
) -> None:
    """Count one run's demonstrations to the others; `seen` is written."""
    if not folder.demos_log.exists():
        raise ConfigError("it has none")
    _require_judge(folder, space)
    own, marks = DemoTally(), read_marks(folder.guide_file)
    with StepLog(folder.demos_log, space, read_only=True, run=folder.settings.id) as log:
        for identity, said in log.entries():
            own.add(identity.stream, said)
            if identity.seq > seen.get(identity.stream, -1):
                origins.tally.add(identity.stream, said)
        taken, streams = log.count, list(log.positions)
        seen |= {stream: max(seq, seen.get(stream, -1)) for stream, seq in log.positions.items()}
    if not own.successes:
        raise ConfigError(f"none of its {own.attempts} attempts counts as a demonstration")
    settings = folder.settings
    origins.runs.append(folder)
    origins.said.append({
        "run": str(folder.path), "id": settings.id, "hardware": settings.hardware, "seed": settings.seed,
        "demonstrations": own.successes, "attempts": own.attempts, "steps": own.steps, "records": taken,
        "processes": [f"{actor}/{epoch:x}" for actor, epoch in streams],
    })  # fmt: skip
    if marks is not None:
        origins.marks.append(marks)


def copier(origins: Origins, space: SpaceSpec) -> Callable[[Path, RunSettings], None]:
    """What puts them into the folder of a new run, as its log of demonstrations, whole or not at
    all; before it the marks for the guide, if they are of the newest.
    """

    def fill(path: Path, settings: RunSettings) -> None:
        target = path / DEMOS_LOG
        if target.exists():
            raise ConfigError(
                f"{target} is there already, of a run that has no config: choose another --name"
            )
        draft = path / f"{DEMOS_LOG}.copying"
        remove_file(draft)  # of a copy that was broken off
        try:
            with StepLog(draft, space, run=settings.id) as log:
                for folder in origins.runs:
                    _copy(folder, log)
                if origins.marks:
                    _keep_marks(origins.marks, log, path / GUIDE_FILE)
            draft.rename(target)
        except BaseException:
            remove_file(draft)
            if origins.marks:
                (path / GUIDE_FILE).unlink(missing_ok=True)
            raise
        sync_path(path)

    return fill


def _copy(folder: RunFolder, log: StepLog) -> None:
    """Append what the log does not have yet. An episode that is not over does not count: it is not
    continued here.
    """
    before, batch = dict(log.positions), list[records.Record]()
    with StepLog(folder.demos_log, log.space, read_only=True, run=folder.settings.id) as source:
        for kind, identity, payload in source.records():
            if identity.seq > before.get(identity.stream, -1):
                batch.append(records.frame(kind, identity, payload))
            if len(batch) == AT_ONCE:
                log.append_records(batch)
                batch = []
        log.append_records(batch)
        unfinished = DemoTally.of(source).unfinished
    if unfinished is not None:
        log.append_mark(unfinished)


def _keep_marks(marks: Sequence[GuideMarks], log: StepLog, path: Path) -> None:
    """Write the marks that are of the log's newest demonstration, those of the last run if several
    have some.
    """
    newest = [str(EpisodeKey(*key)) for key in newest_by_key(log.entries, most=1)]
    if own := [each for each in marks if each.demonstration in newest]:
        write_marks(path, own[-1])
