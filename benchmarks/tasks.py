"""Every task of this repository as a new user would run it: trained from pixels, judged by the
classifier that its run trains, evaluated by the simulator's truth. Results: docs/tasks.md.

    python -m benchmarks.tasks                    runs what is not there yet; Ctrl-C, then again: goes on
    python -m benchmarks.tasks --list             names the trainings, and how far each is
    python -m benchmarks.tasks --tasks drawer ram_press --seeds 0 1 2
    python -m benchmarks.tasks --summarise        the page of what is there

The page has a row for each run that is evaluated, and what the task's cameras see.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ablation
from benchmarks.ablation import ROOT, Job, Trainings, Variant, job_of, played, state_of
from benchmarks.ablation_page import put_between
from robot_rl import config
from robot_rl.config.evaluation_files import evaluation_file
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.machine.validation import nearest
from robot_rl.tools.tasks import draw
from robot_rl.types import ConfigError, RobotRLError

TASKS = (
    "peg_insert", "pick_cube", "usb_insert", "ram_press", "drawer", "cable_clip", "handover",
)  # fmt: skip
AS_THEY_ARE = Variant("defaults", "as the task's file says")


@dataclass(frozen=True)
class Options:
    """tasks: these alone. seeds: of the trainings. steps: of each; 0: as many as its task says.
    episodes: of each evaluation. jobs: trainings at a time; with more than one the wall times are
    upper bounds. name: of the folder in runs/. out: of page and pictures. list, summarise: run
    nothing.
    """

    tasks: tuple[str, ...] = TASKS
    seeds: tuple[int, ...] = (0,)
    steps: int = 0
    episodes: int = 100
    jobs: int = 1
    name: str = "tasks"
    out: Path = ROOT / "docs"
    list: bool = False
    summarise: bool = False


def jobs_of(options: Options) -> list[Job]:
    """All trainings, seed by seed. Raises ConfigError for a task that there is not."""
    for task in set(options.tasks) - set(TASKS):
        raise ConfigError(f"{task!r} is not among them; there are: {nearest(task, TASKS)}")
    return [
        job_of(
            AS_THEY_ARE,
            seed,
            ablation.Options(
                task=task, steps=options.steps, episodes=options.episodes, name=options.name
            ),
        )
        for seed in options.seeds
        for task in options.tasks
    ]


COLUMNS = (
    "task", "seed", "sampled", "95 % interval", "greedy", "classifier: false successes, misses",
    "robot min", "wall min", "corrections", "revision",
)  # fmt: skip


def row_of(job: Job) -> str:
    """A line of the table, of a run that is evaluated."""
    whole = json.loads(evaluation_file(job.folder).read_text())
    sampled, said = whole["sampled"], whole.get("classifier", {})
    low, high = wilson_interval(sampled["successes"], sampled["episodes"])
    judged = "{fires} in {failures}, {misses} in {successes}".format(**said) if said else ""
    revision = RunFolder(job.folder).section("code")["revision"]
    return (
        f"| `{job.arguments[0]}` | {job.seed} | {sampled['successes']} of {sampled['episodes']}"
        f" | {low:.1%} to {high:.1%} | {whole['greedy']['successes']} | {judged}"
        f" | {whole['robot_minutes']:.1f} | {whole['wall_minutes']:.1f}"
        f" | {whole['interventions']} | {revision} |"
    )


def pictures(tasks: Sequence[str], folder: Path) -> list[str]:
    """A line of Markdown for each task with what its cameras see, drawn anew; without headless
    OpenGL, what is lacking.
    """
    lines = []
    for name in tasks:
        task = config.load_task(name)
        try:
            picture = draw(task, task.hardware, folder)
            shown = f"![{name}](img/{picture.name})"
        except RobotRLError as error:
            shown = f"({error})"
        lines += [f"**`{name}`**: {task.description}.", "", shown, ""]
    return lines


def summarise(options: Options) -> str:
    """Write the table of all runs that are there into OUT/tasks.md; returns it. Raises ConfigError
    if there are none.
    """
    done = sorted(
        (job for job in jobs_of(options) if job.is_done),
        key=lambda job: (TASKS.index(job.arguments[0]), job.seed),
    )
    if not done:
        raise ConfigError(f"no run in runs/{options.name} is evaluated yet")
    rows = [row_of(job) for job in done]
    command = f"{len(done)} runs of `python -m benchmarks.tasks`: each is `robot-rl train TASK --seed SEED`."
    head = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    text = "\n".join([*head, *rows, "", command])
    names = list(dict.fromkeys(job.arguments[0] for job in done))
    shown = "\n".join(pictures(names, options.out / "img"))
    page = options.out / "tasks.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    before = page.read_text() if page.exists() else "# What is learnt, and how well\n"
    page.write_text(put_between(put_between(before, "tasks", text), "pictures", shown))
    return text


def run(options: Options) -> int:
    """Train what is not there yet, then write the page. Returns an exit code."""
    jobs = jobs_of(options)
    if options.list:
        for job in jobs:
            print(f"{job.arguments[0]:<16} seed {job.seed}  {state_of(job)}")
        return 0
    failed: list[Job] = []
    if not options.summarise:
        failed = Trainings(options.episodes).run(jobs, options.jobs)
    for job in failed:
        print(f"failed: {job.folder}; the same command tries it again", file=sys.stderr)
    print(summarise(options))
    return 1 if failed else 0


def main() -> int:
    return played(run, Options, __doc__, "tasks")


if __name__ == "__main__":
    sys.exit(main())
