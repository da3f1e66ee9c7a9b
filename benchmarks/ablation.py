"""What each ingredient of the main job contributes: many trainings, one table, one picture.
Results: docs/ablation.md.

    python -m benchmarks.ablation --obs pixels         runs what is not there yet; Ctrl-C, then again: goes on
    python -m benchmarks.ablation --list               names the variants, and how far each is
    python -m benchmarks.ablation --only rlpd bc --seeds 0
    python -m benchmarks.ablation --only rlpd --sampled  evaluates them with the policies' own noise, too
    python -m benchmarks.ablation --summarise          table and picture of what is there
    python -m benchmarks.ablation --task pick_cube --obs state --judge simulator --only rlpd separate-hand
"""

import json
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.ablation_page import Result, Score, write_page
from robot_rl.config.evaluation_files import evaluation_file, parts_of
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.validation import nearest
from robot_rl.types import ConfigError

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = (sys.executable, "-m", "robot_rl")
ObsKind = Literal["pixels", "state"]

END_TO_END = (
    "--learner.encoder",
    "end_to_end",
    "--learner.schedule.utd",
    "1",
    "--learner.agent.batch-size",
    "64",
)
UTDS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Variant:
    """One row: what `robot-rl train` is told besides task, seed and steps; `rlpd` learns where it
    does not say otherwise. `pixels`: from pixels, besides that.

    `obs`: where it makes sense. `weights`: whether it needs the file with the published weights of
    the ResNet-10.
    """

    name: str
    what: str
    arguments: tuple[str, ...] = ()
    pixels: tuple[str, ...] = ()
    obs: tuple[ObsKind, ...] = ("pixels", "state")
    weights: bool = False


VARIANTS = tuple(
    variant
    if "--learner.algorithm" in variant.arguments
    else replace(variant, arguments=("--learner.algorithm", "rlpd", *variant.arguments))
    for variant in (
        Variant(
            "rlpd",
            f"20 demonstrations, corrections, BC term, {ScheduleConfig().utd:g} updates per step",
        ),
        Variant("human-like", "an operator who works as a person does", ("--teleop", "human-like")),
        Variant("no-corrections", "nobody corrects", ("--actor.no-corrections",)),
        Variant(
            "no-demos", "no demonstrations; from pixels end to end", ("--demos", "0"), END_TO_END
        ),
        Variant(
            "no-human",
            "neither demonstrations nor corrections; from pixels end to end",
            ("--demos", "0", "--actor.no-corrections"),
            END_TO_END,
        ),
        Variant("no-bc-term", "without the BC term", ("--learner.agent.bc-weight", "0")),
        Variant(
            "bc-init",
            "begins from behaviour cloning",
            ("--learner.agent.bc-initial-updates", "20000"),
        ),
        Variant(
            "rlpd-bc",
            "begins as a copy of the operator, is held to it, and does not shake",
            ("--learner.algorithm", "rlpd_bc"),
        ),
        Variant("bc", "behaviour cloning of the 20 demonstrations", ("--learner.algorithm", "bc")),
        Variant(
            "bc-100",
            "behaviour cloning of 100 demonstrations",
            ("--learner.algorithm", "bc", "--demos", "100"),
        ),
        Variant(
            "hg-dagger",
            "behaviour cloning with corrections (HG-DAgger)",
            ("--learner.algorithm", "hg_dagger"),
        ),
        Variant(
            "separate-hand",
            "hands moved by a DQN of their own, as HIL-SERL's",
            ("--learner.agent.hand", "separate"),
        ),
        Variant(
            "end-to-end",
            "small CNN trained by the critics, 1 update per step, batch 64",
            END_TO_END,
            obs=("pixels",),
        ),
        Variant(
            "random-encoder",
            "small CNN as it was initialised, frozen",
            (
                "--learner.pretrain.learning-rate",
                "0",
                "--learner.pretrain.epochs",
                "1",
                "--wander-steps",
                "0",
            ),
            obs=("pixels",),
        ),
        Variant(
            "resnet10",
            "ResNet-10 as HIL-SERL",
            ("--learner.encoder", "resnet10"),
            obs=("pixels",),
            weights=True,
        ),
        *(
            Variant(
                f"utd-{utd}",
                f"{utd} update{'s' * (utd > 1)} per step",
                ("--learner.schedule.utd", f"{utd}"),
            )
            for utd in UTDS
            if utd != ScheduleConfig().utd
        ),
    )
)


@dataclass(frozen=True)
class Job:
    """One training: a variant with a seed, its arguments, and the run's folder below `runs/`; or,
    `sampled`, a second evaluation of what it has learnt, with the policy's own noise."""

    variant: Variant
    seed: int
    arguments: tuple[str, ...]
    folder: Path
    sampled: bool = False

    @property
    def evaluation(self) -> dict[str, Any] | None:
        """What it came to; None if it is not evaluated yet, or not to the end."""
        for kind in (None, self.sampled):
            file = evaluation_file(self.folder, kind)
            parts = parts_of(json.loads(file.read_text())) if file.exists() else ()
            for sampled, row in parts:
                whole = row["episodes"] == row.get("asked", row["episodes"])
                if sampled == self.sampled and whole:
                    return dict(row)
        return None

    @property
    def is_done(self) -> bool:
        return self.evaluation is not None

    @property
    def note(self) -> Path:
        """What this program keeps of the run: its arguments, and the seconds of each sitting."""
        return self.folder / "ablation.json"

    def command(self, episodes: int) -> list[str]:
        """How to begin it, or to go on with it. Raises ConfigError if its folder is of a run with
        other arguments.
        """
        if self.note.exists() and json.loads(self.note.read_text())["arguments"] != list(
            self.arguments
        ):
            raise ConfigError(
                f"'{self.folder}' was made with other arguments: move it away, or choose another"
                " --name"
            )
        if self.sampled:
            return ["eval", str(self.folder), "--episodes", f"{episodes}", "--sampled"]
        if (self.folder / "config.json").exists():
            return ["train", "--resume", str(self.folder), "--eval-episodes", str(episodes)]
        return ["train", *self.arguments, "--name", str(self.folder.relative_to("runs"))]

    def write_note(self, seconds: float | None = None) -> None:
        """Take down the arguments, and a sitting of so many seconds."""
        sittings = json.loads(self.note.read_text())["sittings_s"] if self.note.exists() else []
        sittings += [] if seconds is None else [round(seconds, 1)]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.note.write_text(
            json.dumps({"arguments": self.arguments, "sittings_s": sittings}, indent=2) + "\n"
        )


@dataclass(frozen=True)
class Options:
    """obs: what the policy sees. only: these variants. seeds: of the trainings. steps: of each; 0:
    the task's default. judge: in place of the task's own; "simulator" is the truth. episodes: of
    each evaluation. jobs: trainings at a time; with more than one the wall times are upper bounds.
    sampled: evaluate what is trained once more, with the policies' own noise. weights: file with
    the published weights of the ResNet-10. name: of the folder in runs/. out: of page and picture.
    list, summarise: run nothing.
    """

    obs: ObsKind = "pixels"
    only: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    task: str = "peg_insert"
    steps: int = 0
    judge: str = ""
    episodes: int = 100
    jobs: int = 1
    sampled: bool = False
    weights: str = ""
    name: str = "ablation"
    out: Path = ROOT / "docs"
    list: bool = False
    summarise: bool = False


def jobs_of(options: Options, say: Callable[[str], None] = print) -> list[Job]:
    """All trainings, seed by seed, so that a first table has a number of each variant early."""
    names = [variant.name for variant in VARIANTS]
    for name in options.only:
        if name not in names:
            raise ConfigError(f"{name!r} is no variant; there are: {nearest(name, names)}")
    chosen = [v for v in VARIANTS if v.name in (options.only or names) and options.obs in v.obs]
    for variant in [v for v in chosen if v.weights and not options.weights]:
        say(
            f"{variant.name} is left out: it needs the published weights; say where they are with"
            " --weights"
        )
        chosen.remove(variant)
    return [job_of(variant, seed, options) for seed in options.seeds for variant in chosen]


def job_of(variant: Variant, seed: int, options: Options) -> Job:
    """The training of a variant with a seed."""
    arguments = [
        options.task,
        "--obs",
        options.obs,
        "--seed",
        f"{seed}",
        "--eval-episodes",
        f"{options.episodes}",
    ]
    arguments += ["--steps", f"{options.steps}"] if options.steps else []
    arguments += ["--judge", options.judge] if options.judge else []
    arguments += variant.arguments + (variant.pixels if options.obs == "pixels" else ())
    arguments += ["--learner.encoder-weights", options.weights] if variant.weights else []
    folder = (
        Path("runs") / options.name / f"{options.task}-{options.obs}" / f"{variant.name}-{seed}"
    )
    return Job(variant, seed, tuple(arguments), folder)


class Trainings:
    """Runs jobs as processes, `at_once` at a time; a Ctrl-C stops them in order, and they can go on
    later. `evaluated` is called with each that came to its end.

    ```
    failed = Trainings(episodes=100).run(jobs, at_once=2)
    ```
    """

    def __init__(
        self,
        episodes: int,
        program: Sequence[str] = PROGRAM,
        say: Callable[[str], None] = print,
        evaluated: Callable[[Job], object] = lambda job: None,
    ):
        self._episodes, self._program, self._say = episodes, program, say
        self._evaluated = evaluated
        self._running: dict[Job, tuple[subprocess.Popen, float]] = {}

    def run(self, jobs: Iterable[Job], at_once: int = 1) -> list[Job]:
        """Run what is not done yet; returns what came to no evaluation, with the end of its log
        said.
        """
        jobs = list(jobs)
        for job in jobs:
            job.command(self._episodes)  # what does not fit is refused before anything starts
        waiting = deque(job for job in jobs if not job.is_done)
        total, failed = len(waiting), list[Job]()
        with StopRequest() as stop:
            while waiting or self._running:
                if stop.is_set():
                    self._stop()
                    raise KeyboardInterrupt
                while waiting and len(self._running) < at_once:
                    self._start(waiting.popleft(), f"{total - len(waiting)} of {total}")
                time.sleep(0.2)
                failed += [job for job in self._ended() if not job.is_done]
        return failed

    def _stop(self) -> None:
        for process, _ in self._running.values():
            process.send_signal(signal.SIGINT)
        for process, _ in self._running.values():
            process.wait()
        self._ended()

    def _start(self, job: Job, which: str) -> None:
        command = [*self._program, *job.command(self._episodes)]
        self._say(f"{which}: {job.folder}")
        job.write_note()
        with (job.folder / "ablation.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[job] = (process, time.monotonic())

    def _ended(self) -> list[Job]:
        """Those that have ended since the last look."""
        ended = [job for job, (process, _) in self._running.items() if process.poll() is not None]
        for job in ended:
            process, begun = self._running.pop(job)
            job.write_note(time.monotonic() - begun)
            if job.is_done:
                self._evaluated(job)
            else:
                tail = (job.folder / "ablation.log").read_text(errors="replace").splitlines()[-5:]
                self._say(
                    "\n  ".join([
                        (f"{job.folder} ended with code {process.returncode}, without evaluation:"),
                        *tail,
                    ])
                )
        return ended


def results_of(jobs: Sequence[Job]) -> list[Result]:
    """The variants of which at least one seed is evaluated, in their order."""
    done = [job for job in jobs if job.is_done]
    each = [
        (variant, [job for job in done if job.variant.name == variant.name]) for variant in VARIANTS
    ]
    return [_result(variant, runs) for variant, runs in each if runs]


def _result(variant: Variant, jobs: Sequence[Job]) -> Result:
    rows = [row for job in jobs if (row := job.evaluation)]
    configs = [json.loads((job.folder / "config.json").read_text()) for job in jobs]
    sittings = [
        s
        for job in jobs
        if job.note.exists()
        for s in json.loads(job.note.read_text())["sittings_s"]
    ]

    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in rows]))

    return Result(
        variant.name,
        variant.what,
        score_of(jobs),
        score_of([replace(job, sampled=True) for job in jobs]),
        mean("env_steps"),
        mean("robot_minutes"),
        mean("wall_minutes"),
        mean("interventions"),
        sum(sittings) / 3600.0,
        frozenset(config["code"]["revision"] for config in configs),
    )


def score_of(jobs: Sequence[Job]) -> Score:
    """Of those that are evaluated."""
    rows = {job.seed: row for job in jobs if (row := job.evaluation)}
    return Score(
        {seed: row["successes"] for seed, row in rows.items()},
        sum(r["episodes"] for r in rows.values()),
    )


def summarise(jobs: Sequence[Job], options: Options) -> str:
    """Write the table into OUT/ablation.md and the picture beside it; returns the table."""
    results = results_of(jobs)
    if not results:
        raise ConfigError(f"no run in runs/{options.name} is evaluated yet")
    return write_page(
        results, options.seeds, options.out / "ablation.md", f"{options.task}-{options.obs}"
    )


def state_of(job: Job) -> str:
    if row := job.evaluation:
        return f"{row['successes']} of {row['episodes']}"
    return "begun" if (job.folder / "config.json").exists() else "-"


def run(options: Options) -> int:
    """Train what is not there yet, then write table and picture. Returns an exit code."""
    jobs = jobs_of(options)
    if options.list:
        for job in jobs:
            print(
                f"{job.variant.name:<16} seed {job.seed}  {state_of(job):<12}"
                f" {' '.join(job.arguments)}"
            )
        return 0
    failed: list[Job] = []
    if not options.summarise:
        trainings = Trainings(options.episodes)
        failed = trainings.run(jobs, options.jobs)
        if options.sampled:
            failed += trainings.run(
                [replace(job, sampled=True) for job in jobs if job.is_done], options.jobs
            )
    everything = jobs_of(
        replace(options, only=(), weights=options.weights or "-"), say=lambda text: None
    )
    print(summarise(everything, options))
    return 1 if failed else 0


def played(run: Callable[[Any], int], options: type, description: str | None, name: str) -> int:
    """The exit code of a benchmark of trainings: its options from the command line, its end in words."""
    import tyro

    try:
        return run(tyro.cli(options, description=description))
    except ConfigError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: stopped and saved; the same command goes on", file=sys.stderr)
        return 130


def main() -> int:
    return played(run, Options, __doc__, "ablation")


if __name__ == "__main__":
    sys.exit(main())
