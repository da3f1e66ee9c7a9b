"""Whether a learned progress model saves robot time: the same trainings without one, and with each
kind (`--learner.progress`). The simulator's truth judges. Results: docs/rewards.md, whose table has
a run as soon as it is evaluated.

    python -m benchmarks.progress --obs state      runs what is not there yet; Ctrl-C, then again: goes on
    python -m benchmarks.progress --list           names the trainings, and how far each is
    python -m benchmarks.progress --only none rewind --tasks peg_insert --seeds 0 1
    python -m benchmarks.progress --summarise      the table of what is there

Minutes to 95 % are robot minutes, demonstrations and wandering included, until 19 of the last 20
episodes of the training succeeded without help. A run that does not come so far counts as all of
its minutes, and its mean is marked with ">".
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np

from benchmarks import ablation
from benchmarks.ablation import (
    ROOT,
    Job,
    ObsKind,
    Trainings,
    Variant,
    job_of,
    played,
    score_of,
    state_of,
)
from benchmarks.ablation_page import put_between
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.counts import EPISODES, WINDOW, Progress
from robot_rl.learner import potential
from robot_rl.machine.small_files import read_lines
from robot_rl.machine.validation import nearest
from robot_rl.types import ConfigError

KINDS: tuple[str, ...] = get_args(potential.Progress)
WANTED = 0.95
TASKS: dict[str, tuple[str, ...]] = {
    "peg_enter": ("--steps", "3000"),
    "peg_insert": ("--steps", "4500"),
    "ram_press": ("--steps", "4500"),
}
"""What `robot-rl train` is told of each beside that."""


@dataclass(frozen=True)
class Options:
    """obs: what the policy sees. only: these kinds. tasks: these alone. seeds: of the trainings.
    steps: of each; 0: as many as the task wants. episodes: of each evaluation. jobs: trainings at a
    time. name: of the folder in runs/. out: of the page. list, summarise: run nothing.
    """

    obs: ObsKind = "state"
    only: tuple[str, ...] = KINDS
    tasks: tuple[str, ...] = tuple(TASKS)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 0
    episodes: int = 100
    jobs: int = 1
    name: str = "progress"
    out: Path = ROOT / "docs"
    list: bool = False
    summarise: bool = False


def jobs_of(options: Options) -> list[Job]:
    """All trainings, seed by seed, so that a first table has a number of each kind early."""
    for asked, there in ((options.only, KINDS), (options.tasks, tuple(TASKS))):
        for name in set(asked) - set(there):
            raise ConfigError(f"{name!r} is not compared; there are: {nearest(name, there)}")
    return [
        _job(task, kind, seed, options)
        for seed in options.seeds
        for task in options.tasks
        for kind in options.only
    ]


def _job(task: str, kind: str, seed: int, options: Options) -> Job:
    steps = ("--steps", f"{options.steps}") if options.steps else ()
    arguments = ("--judge", "simulator", *TASKS[task], *steps, "--learner.progress", kind)
    of_ablation = ablation.Options(
        obs=options.obs, task=task, episodes=options.episodes, name=options.name
    )
    return job_of(Variant(kind, kind, arguments), seed, of_ablation)


def minutes_to(folder: RunFolder) -> tuple[float, bool]:
    """Robot minutes until the wanted rate, and whether it came so far; if not, all minutes.

    What was before the training (demonstrations, wandering) counts.
    """
    progress = Progress()
    for row in read_lines(folder.episodes_file, EPISODES):
        progress.add(row)
    whole = json.loads(folder.training_file.read_text())
    before = whole["env_steps"] - progress.env_steps
    per_step = whole["robot_minutes"] / max(1, whole["env_steps"])
    for point in progress.curve:
        if point.number >= WINDOW and point.figures.without_help >= WANTED:
            return per_step * (before + point.env_steps), True
    return float(whole["robot_minutes"]), False


def row_of(task: str, kind: str, jobs: Sequence[Job], seeds: Sequence[int]) -> str:
    """A line of the table, of the trainings that are evaluated."""
    found = {job.seed: minutes_to(RunFolder(job.folder)) for job in jobs}
    each = ", ".join(
        "" if seed not in found else f"{found[seed][0]:.1f}" if found[seed][1] else "-"
        for seed in seeds
    )
    least = ">" * (not all(reached for _, reached in found.values()))
    mean = np.mean([minutes for minutes, _ in found.values()])
    sampled = score_of([replace(job, sampled=True) for job in jobs]).cells(seeds)
    wall = np.mean([row["wall_minutes"] for job in jobs if (row := job.evaluation)])
    return f"| `{task}` | `{kind}` | {each} | {least}{mean:.1f} {sampled}| {wall:.1f} |"


HEAD = """\
| task | `progress` | robot min to 95 %, per seed | mean | sampled | 95 % interval | per seed | wall min |
|---|---|---|---|---|---|---|---|"""


def table(jobs: Sequence[Job], options: Options) -> str:
    """Markdown: a row for each task and kind of which a seed is evaluated. Raises ConfigError if
    there is none.
    """
    done = [job for job in jobs if job.is_done]
    if not done:
        raise ConfigError(f"no run in runs/{options.name} is evaluated yet")
    rows = []
    for task in TASKS:
        for kind in KINDS:
            these = [j for j in done if (j.arguments[0], j.variant.name) == (task, kind)]
            if these:
                rows.append(row_of(task, kind, these, options.seeds))
    revisions = {RunFolder(job.folder).section("code")["revision"] for job in done}
    end = (
        f"{len(done)} runs of `python -m benchmarks.progress --obs {options.obs}`; revision"
        f" {', '.join(sorted(revisions))}."
    )
    return "\n".join([HEAD, *rows, "", end])


def summarise(options: Options) -> str:
    """Write the table of all that is there into OUT/rewards.md; returns it."""
    there = Path("runs", options.name).glob(f"*-{options.obs}/*-*")
    seeds = {int(path.name.rpartition("-")[2]) for path in there}
    whole = replace(options, only=KINDS, tasks=tuple(TASKS), seeds=tuple(sorted(seeds)))
    text = table(jobs_of(whole), whole)
    page = options.out / "rewards.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        put_between(page.read_text() if page.exists() else "", f"progress-{options.obs}", text)
    )
    return text


def run(options: Options) -> int:
    """Train what is not there yet, then write the table. Returns an exit code."""
    jobs = jobs_of(options)
    if options.list:
        for job in jobs:
            print(f"{job.arguments[0]:<16} {job.variant.name:<11} seed {job.seed}  {state_of(job):<12}"
                  f" {' '.join(job.arguments)}")  # fmt: skip
        return 0
    failed: list[Job] = []
    if not options.summarise:
        trainings = Trainings(options.episodes, evaluated=lambda job: summarise(options))
        failed = trainings.run(jobs, options.jobs)
    for job in failed:
        print(f"failed: {job.folder}; the same command tries it again", file=sys.stderr)
    print(summarise(options))
    return 1 if failed else 0


def main() -> int:
    return played(run, Options, __doc__, "progress")


if __name__ == "__main__":
    sys.exit(main())
