"""What was recorded, wherever it lies: a run's logs, one log, or an archive, listed and read in the
same way.

Everything is read as it is now, also while it is being written; nothing is ever changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from robot_rl.config.evaluation_files import EvaluationFiles
from robot_rl.config.run_folder import RunFolder, is_run
from robot_rl.dataset.archive import Archive, is_archive
from robot_rl.dataset.assembly import Assembler, Episode, EpisodeFacts, EpisodeKey, with_marks
from robot_rl.stream.log import StepLog, read_space
from robot_rl.types import ConfigError, DataError, SpaceSpec


class Recording(Protocol):
    """One log or archive. `name` is its last part; `context` is what is known of how it came about,
    as plain JSON.

    ```
    for facts in recording.facts(): ...       # all episodes, in order; marks included
    # the same ones with their arrays, one in memory at a time
    for episode in recording.episodes(): ...
    recording.load(facts.key)                 # one of them; DataError if it is not there
    ```
    """

    name: str
    space: SpaceSpec
    context: Mapping[str, Any]

    def facts(self) -> list[EpisodeFacts]: ...

    def episodes(self) -> Iterator[Episode]: ...

    def load(self, key: EpisodeKey) -> Episode: ...


class LogRecording:
    """The episodes of a log: those that are complete in the order in which they ended, then the
    unfinished ones.
    """

    def __init__(self, path: Path, context: Mapping[str, Any], name: str = ""):
        self.name = name or path.stem
        self.context = context
        self.log = open_log(path)
        self.space = self.log.space

    def facts(self) -> list[EpisodeFacts]:
        assembler = Assembler(self.log, self.name, images=False)
        facts = [EpisodeFacts.of(episode) for episode in _assembled(self.log, assembler)]
        return [
            with_marks(each, assembler.marks_of(each.key), assembler.relabel_of(each.key))
            for each in facts
        ]

    def episodes(self) -> Iterator[Episode]:
        return _assembled(self.log, Assembler(self.log, self.name))

    def load(self, key: EpisodeKey) -> Episode:
        for episode in self.episodes():
            if episode.key == key:
                return episode
        raise DataError(f"episode {key} is not in log {self.log.path}")


def open_recordings(path: Path) -> list[Recording]:
    """What lies at a path: a run folder (its logs), a `.log` file, or an archive.

    Raises ConfigError if it is none of them.
    """
    if path.is_file():
        return [LogRecording(path, run_context(path.parent))]
    if is_archive(path):
        return [Archive(path)]
    if is_run(path):
        return list(run_logs(path))
    raise ConfigError(
        f"'{path}' is neither a run folder nor a .log file nor an archive. They are listed by:"
        " robot-rl runs"
    )


def run_logs(run: Path) -> list[LogRecording]:
    """The logs of a run that have been begun: demonstrations, outcomes, its own steps, then its
    evaluations.
    """
    folder = RunFolder(run)
    context = run_context(run)
    logs = (folder.demos_log, folder.outcomes_log, folder.steps_log)
    named = [("", path) for path in logs]
    named += [
        (f"evaluation-{files.folder.name}", files.log) for files in EvaluationFiles.all_of(run)
    ]
    recordings = [LogRecording(path, context, name) for name, path in named if path.exists()]
    if not recordings:
        raise DataError(f"run {run} has recorded nothing yet")
    return recordings


def run_context(run: Path) -> dict[str, Any]:
    """What an export will want to know of a run: task, hardware, rate, code, instruction. Empty if
    it is no run.
    """
    if not is_run(run):
        return {}
    folder = RunFolder(run)
    settings = asdict(folder.settings)
    context = {name: settings[name] for name in ("task", "hardware", "obs", "clock", "seed")}
    context["code"] = folder.sections.get("code", {})
    try:
        task = folder.load_task()
    except ConfigError:  # its file lies on another machine
        return context
    return context | {"instruction": task.description, "rate_hz": task.rate_hz}


def open_log(path: Path) -> StepLog:
    """A log for reading, which may be growing."""
    return StepLog(path, read_space(path), read_only=True)


def _assembled(log: StepLog, assembler: Assembler) -> Iterator[Episode]:
    for record in log.records():
        yield from assembler.add(*record)
    yield from assembler.unfinished()
