"""The process that keeps a run's learned judge up with its operator: fits it again after so many
words, and has each new version look at the episodes that older ones have judged.

It only reads the run's log. What is to be done follows from the log (`stream/relabels.py`), and what
is done stands in `refits.jsonl` before it is begun and in `relabels.jsonl` behind it: killed at any
moment and started again, it goes on where it was.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.interfaces import Given, Reward
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import JsonLines, read_lines
from robot_rl.machine.versions import versions_in
from robot_rl.stream.episodes import EpisodeOf, Relabel, episode_of
from robot_rl.stream.log import StepLog
from robot_rl.stream.relabels import Portion, Refits, RelabelReader, row_of
from robot_rl.types import ConfigError, DataError, OperatorCommand, Step, StoppedError, Use

log = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5


class Judge(Protocol):
    """A learned judge of this run, as the process works with it."""

    def versions(self) -> Sequence[int]:
        """Those that are there, oldest first."""

    def fit(self, records: int) -> None:
        """Fit the next version to so many records of the run's log, and write it. DataError where
        that cannot be done.
        """

    def first_success(self, version: int, steps: Sequence[Step]) -> int | None:
        """The index of the step at which a version fires first in an episode, or None."""


def follow_run(run: Path) -> None:
    """Follow a run whose task has a learned judge. ConfigError for another."""
    folder = RunFolder(run)
    if folder.judge is None:
        raise ConfigError(f"the judge of {run} does not learn: there is nothing to fit again")
    with StopRequest() as stop:
        follow(folder, LearnedJudge(folder, folder.judge), stop)


def follow(folder: RunFolder, judge: Judge, stop: StopRequest) -> None:
    """Follow the run's log until a stop is asked for."""
    follower = Follower(folder, judge)
    try:
        while not stop.is_set():
            with stop.at_once():  # what is begun will be begun again
                follower.look()
            time.sleep(LOOK_EVERY_S)
    except StoppedError:
        return
    finally:
        follower.close()


class Follower:
    """What is due in a run's log is done, and written down.

    ```
    follower = Follower(folder, judge)
    follower.look()                     # again and again: what is new in the log is read
    ```
    """

    def __init__(self, folder: RunFolder, judge: Judge):
        self._folder, self._judge = folder, judge
        self._space = folder.spaces()
        self._refits = Refits(folder.settings.block_steps)
        self._relabels = JsonLines(folder.relabels_file)
        self._decisions = JsonLines(folder.refits_file)
        self._reader = RelabelReader(folder.relabels_file)
        self._done: dict[int, int] = {}  # versions, by the records that they belong to
        self._written: set[tuple[EpisodeOf, int]] = set()  # by which version

    def look(self) -> None:
        """Read on in the log, and do what is due."""
        if not self._folder.steps_log.exists():
            return
        with self._log() as steps:
            for identity, said in steps.entries(self._refits.records):
                self._refits.hear(identity, said)
                if self._refits.due:
                    self._refits.done(self._do(steps))

    def close(self) -> None:
        """Let go of the files."""
        self._relabels.close()
        self._decisions.close()

    def _log(self) -> StepLog:
        return StepLog(
            self._folder.steps_log, self._space, read_only=True, run=self._folder.settings.id
        )

    def _do(self, steps: StepLog) -> int:
        """Do what is due at this record of the log, if that is not done; returns the version."""
        records = self._refits.records
        self._read()
        if records in self._done:
            return self._done[records]
        version = self._fitted() if self._refits.fit_due else self._refits.version
        stale = self._refits.stale(version)
        self._tell(version, records, len(stale))
        wanted = {key: at for key, at in stale.items() if (key, version) not in self._written}
        for about, episode in episodes(steps, wanted, records):
            fires = self._judge.first_success(version, episode)
            self._relabels.append(row_of(about, Relabel(version, fires)))
        self._read()
        if missing := [key for key in stale if (key, version) not in self._written]:
            raise DataError(
                f"{self._folder.relabels_file} cannot be written ({len(missing)} lines are missing):"
                " make room on that disk, or make it writable, then start again"
            )
        self._tell(version, records, 0)
        return version

    def _fitted(self) -> int:
        """The version that is fitted at this record; it keeps the one that there is where it cannot.

        Which one it will be is written down before: a version that is there already is not made
        twice.
        """
        decided = {row["records"]: row["version"] for row in read_lines(
            self._folder.refits_file, ("records", "version"))}  # fmt: skip
        newest = max(self._judge.versions(), default=self._refits.version)
        version = decided.get(self._refits.records, newest + 1)
        if self._refits.records not in decided:
            self._decisions.append({"version": version, "records": self._refits.records})
        if version in self._judge.versions():
            return int(version)
        try:
            self._judge.fit(self._refits.records)
        except (ConfigError, DataError) as error:
            log.warning("the judge is not fitted again, and stays as it is: %s", error)
            return self._refits.version
        return int(version)

    def _read(self) -> None:
        """Take note of what the file of relabels says by now."""
        for line in self._reader.lines():
            if not isinstance(line, Portion):
                self._written.add((line[0], line[1].version))
            elif line.left == 0:
                self._done[line.records] = line.version

    def _tell(self, version: int, records: int, left: int) -> None:
        self._relabels.append({"version": version, "records": records, "left": left})


def episodes(
    steps: StepLog, wanted: Mapping[EpisodeOf, int], end: int
) -> Iterator[tuple[EpisodeOf, list[Step]]]:
    """The steps of whole episodes of a log, which lie before record `end`; `wanted` are their first
    records.

    One of each process is in memory at a time.
    """
    held: dict[tuple[str, int], tuple[EpisodeOf, list[Step]]] = {}
    start = min(wanted.values(), default=end)
    for identity, said in steps.entries(start, end):
        key = episode_of(identity.stream, said)
        if not isinstance(said, Step):
            continue
        if identity.stream in held and held[identity.stream][0] != key:
            yield held.pop(identity.stream)
        if key in wanted:
            held.setdefault(identity.stream, (key, []))[1].append(said)
    yield from held.values()


class LearnedJudge:
    """The classifier of a run, and its versions in the run's folder.

    A version looks at an episode as it did, or would have done, at the bench: as the task's reward,
    frame by frame.
    """

    def __init__(self, folder: RunFolder, judge: Path):
        self._folder, self._path = folder, judge
        self._reward: Reward | None = None

    def versions(self) -> Sequence[int]:
        """Those that are there, oldest first."""
        return versions_in(self._path)

    def fit(self, records: int) -> None:
        """Fit the next version: made as the newest one, of the same sources and so much of the run's
        log. What is said later is the next fit's, so that a run in lockstep repeats.
        """
        from robot_rl.classifier import files, training  # they load torch
        from robot_rl.classifier.score import predicates_of

        about = files.load(self._path).about
        own = self._folder.path.resolve()
        others = [path for path in map(Path, about.sources) if path.exists()]
        sources = [path for path in others if path.resolve() != own]
        seed = self._folder.settings.seed
        ends = {self._folder.steps_log.resolve(): records}
        training.train(
            self._path, [*sources, own], about.options, seed=seed, ends=ends,
            predicates=predicates_of([self._folder.load_task()]),
        )  # fmt: skip

    def first_success(self, version: int, steps: Sequence[Step]) -> int | None:
        """The index of the step at which a version fires first in an episode, or None."""
        if self._reward is None:
            task = self._folder.load_task()
            own = {**task.reward.options, "folder": str(self._path.parent)}
            self._reward = config.make("rewards", Use(task.reward.name, own), Given(task=task))
        if self._reward.version != version:
            self._reward.load(version)
        self._reward.begin_episode()
        for step in steps:
            if (
                step.index
                and self._reward.judge(step.observation, (), OperatorCommand.NONE).success
            ):
                return step.index
        return None
