"""`robot-rl runs`: which runs there are, of what, how far each has come and how well it does; from
their own files.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robot_rl.config.evaluation_files import KINDS, evaluation_file, parts_of
from robot_rl.config.run_folder import RunFolder, is_run
from robot_rl.dataset.counts import EPISODES
from robot_rl.machine.small_files import Tail, is_number, read_json
from robot_rl.runs.progress import Newest
from robot_rl.runs.report import METRICS
from robot_rl.types import ConfigError, DataError

NEWEST = 1 << 16
"""Bytes at the end of a table that are read."""


@dataclass(frozen=True)
class RunFacts:
    """A run in a line. `t_wall` is when it was last written to [s]; `steps` are those of `of_steps`
    it has made, demonstrations included; `evaluations` are (sampled or not, successes, episodes).
    `problem`: it cannot be read."""

    name: str
    t_wall: float
    task: str = ""
    hardware: str = ""
    obs: str = ""
    seed: int = 0
    demos: int = 0
    steps: int = 0
    of_steps: int = 0
    evaluations: tuple[tuple[bool, int, int], ...] = ()
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        found = [
            {"sampled": s, "successes": good, "episodes": n} for s, good, n in self.evaluations
        ]
        return {**asdict(self), "evaluations": found}


def runs_in(folder: Path) -> list[RunFacts]:
    """The runs of a folder, the one that was last written to at the end."""
    found = [facts_of(path) for path in folder.glob("*") if is_run(path)]
    return sorted(found, key=lambda run: run.t_wall)


def facts_of(path: Path) -> RunFacts:
    """What the files of a run say of it. Nothing raises: what cannot be read is a problem of that
    run.
    """
    t_wall = max(file.lstat().st_mtime for file in path.iterdir() if os.path.lexists(file))
    try:
        run = RunFolder(path)
        demos = run.demos() if run.demos_file.exists() else {"successes": 0, "steps": 0}
        tables = ((run.metrics_file, METRICS), (run.episodes_file, EPISODES))
        own = max(
            Tail(file, Newest, numbers, at_most=NEWEST, newest=NEWEST).read().env_steps
            for file, numbers in tables
        )
        evaluations = tuple(_evaluations(path))
    except (ConfigError, DataError) as error:
        return RunFacts(path.name, t_wall, problem=str(error))
    settings = run.settings
    return RunFacts(
        path.name, t_wall, settings.task, settings.hardware, settings.obs, settings.seed, demos["successes"],
        demos["steps"] + own, demos["steps"] + settings.own_steps(demos["steps"]), evaluations,
    )  # fmt: skip


def _evaluations(path: Path) -> Iterator[tuple[bool, int, int]]:
    """Of the newest policy, sampled and greedy: the evaluation of both, else that of one kind."""
    found: dict[bool, tuple[int, int]] = {}
    for kind in (None, *KINDS):
        summary = evaluation_file(path, kind)
        for sampled, said in parts_of(read_json(summary)) if summary.exists() else ():
            if is_number(said.get("successes")) and is_number(said.get("episodes")):
                found.setdefault(sampled, (int(said["successes"]), int(said["episodes"])))
    for sampled in sorted(found, reverse=True):
        yield sampled, *found[sampled]


HEADINGS = ["run", "last written", "task", "hardware", "obs", "seed", "demos", "steps", "success"]


def table(runs: list[RunFacts]) -> Any:
    """The runs as a table for a terminal."""
    from rich.table import Table

    out = Table()
    for heading in HEADINGS:
        out.add_column(
            heading,
            justify="right" if heading in ("seed", "demos", "steps") else "left",
            overflow="fold",
        )
    for run in runs:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.t_wall))
        if run.problem:
            out.add_row(run.name, when, f"cannot be read: {run.problem}")
            continue
        said = [f"{good} of {n}, {KINDS[sampled]}" for sampled, good, n in run.evaluations]
        numbers = (str(run.seed), str(run.demos), f"{run.steps} of {run.of_steps}")
        out.add_row(run.name, when, run.task, run.hardware, run.obs, *numbers, "; ".join(said))
    return out
