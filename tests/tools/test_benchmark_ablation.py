"""The ablation's bookkeeping: what is run, gone on with and left alone, and what the table makes of
it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import ablation
from benchmarks.ablation import VARIANTS, Job, Options, Trainings, jobs_of, results_of, summarise
from benchmarks.ablation_page import Score, put_between, table
from robot_rl import cli
from robot_rl.learner.options import LearnerConfig
from robot_rl.runs import create
from robot_rl.types import ConfigError

STAND_IN = """
import json, sys, time
from pathlib import Path
verb, *arguments = sys.argv[1:]
if verb == "eval":
    assert arguments[1:] == ["--episodes", "100", "--sampled"]
    (Path(arguments[0]) / "evaluation-sampled.json").write_text(
        json.dumps({"successes": 99, "episodes": 100, "sampled": True}))
    sys.exit()
path = Path(arguments[1]) if arguments[0] == "--resume" else Path("runs") / arguments[arguments.index("--name") + 1]
begins = not (path / "config.json").exists()
assert begins == (arguments[0] != "--resume")
(path / "config.json").write_text(json.dumps({"code": {"revision": "abc"}}))
print("said", arguments[0])
if path.name.startswith("utd") and begins:
    sys.exit(3)
evaluation = {"successes": 90, "episodes": 100, "env_steps": 5000, "robot_minutes": 8.0, "wall_minutes": 3.0,
              "interventions": 70}
(path / "evaluation.json").write_text(json.dumps(evaluation))
"""
"""In place of robot-rl: writes what a training leaves. One of another update ratio is broken off
the first time.
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trainings(said: list[str]) -> Trainings:
    return Trainings(100, [sys.executable, "-c", STAND_IN], said.append)


def evaluated(job: Job, successes: int, revision: str = "abc") -> None:
    """What a training and its evaluation leave of what the table reads."""
    job.write_note(1800.0)
    (job.folder / "config.json").write_text(json.dumps({"code": {"revision": revision}}))
    numbers = {
        "env_steps": 5000,
        "robot_minutes": 8.0,
        "wall_minutes": 3.0,
        "interventions": 70 + job.seed,
    }
    (job.folder / "evaluation.json").write_text(
        json.dumps({"successes": successes, "episodes": 100} | numbers)
    )


def test_what_is_evaluated_is_left_alone_and_what_was_broken_off_goes_on() -> None:
    jobs = jobs_of(Options(obs="state", only=("rlpd", "bc", "utd-1"), seeds=(0, 1)))
    evaluated(jobs[0], 12)
    evaluated(jobs[1], 12)
    (jobs[1].folder / "evaluation.json").write_text(
        json.dumps({"successes": 3, "episodes": 5, "asked": 100})
    )
    said: list[str] = []
    heard: list[Job] = []
    program = [sys.executable, "-c", STAND_IN]
    failed = Trainings(100, program, said.append, heard.append).run(jobs, at_once=3)
    assert {*heard} == {*jobs} - {*failed, jobs[0]}  # each that came to its end, one by one
    assert [job.folder.name for job in failed] == ["utd-1-0", "utd-1-1"]
    assert any("ended with code 3" in line and "said" in line for line in said)
    assert jobs[0].evaluation and jobs[0].evaluation["successes"] == 12
    assert jobs[1].evaluation and jobs[1].evaluation["successes"] == 90  # a stop had cut it short
    assert trainings(said).run(jobs) == []
    assert all(job.is_done for job in jobs)
    sittings = {
        job.folder.name: len(json.loads(job.note.read_text())["sittings_s"]) for job in jobs
    }
    assert (sittings["bc-1"], sittings["bc-0"], sittings["utd-1-0"]) == (1, 2, 2)
    before = len(said)
    assert trainings(said).run(jobs) == []
    assert len(said) == before  # nothing is started


def test_what_is_trained_is_evaluated_with_its_noise_too_if_asked_for() -> None:
    jobs = jobs_of(Options(obs="state", only=("rlpd",), seeds=(0, 1)))
    again = [replace(job, sampled=True) for job in jobs]
    for job in jobs:
        evaluated(job, 90 + job.seed)
    said: list[str] = []
    assert trainings(said).run(again[1:]) == [] and trainings(said).run(again[1:]) == []
    assert len(said) == 1
    (rlpd,) = results_of(jobs)
    assert (rlpd.greedy, rlpd.sampled) == (Score({0: 90, 1: 91}, 200), Score({1: 99}, 100))
    assert "| 90, 91 | 99 of 100 | 94.6 to 99.8 % | -, 99 |" in table([rlpd], (0, 1))


def test_a_stop_reaches_the_trainings_and_is_passed_on() -> None:
    """The program's own Ctrl-C: the processes it started end too, and nothing else begins."""
    script = (
        "import sys\nfrom benchmarks.ablation import Options, Trainings, jobs_of\n"
        "wait = \"import pathlib, time; pathlib.Path('begun').touch(); time.sleep(60)\"\n"
        "Trainings(1, [sys.executable, '-c', wait], print).run(jobs_of(Options(obs='state')))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(ablation.ROOT)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60.0
    while not Path("begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(20.0) != 0
    folders = [path.parent.name for path in Path("runs").rglob("ablation.json")]
    assert folders == ["rlpd-0"]
    assert len(json.loads(next(Path("runs").rglob("ablation.json")).read_text())["sittings_s"]) == 1


def test_a_folder_of_other_arguments_is_refused_before_anything_starts() -> None:
    evaluated_with = jobs_of(Options(obs="state", only=("bc",), seeds=(0,)))
    evaluated_with[0].write_note()
    said: list[str] = []
    with pytest.raises(ConfigError, match="other arguments"):
        trainings(said).run(jobs_of(Options(obs="state", steps=300, seeds=(0,))))
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("obs", ["pixels", "state"])
def test_every_variant_is_a_run_that_train_accepts_and_that_differs(
    obs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command line reads the arguments of each; two variants never mean the same run."""
    seen: list[tuple[create.TrainConfig, str]] = []
    monkeypatch.setattr(
        create, "create_run", lambda task, options, *verb: seen.append((options, task))
    )
    monkeypatch.setattr("robot_rl.cli.runs.carry_on", lambda folder: None)
    jobs = jobs_of(Options(obs=obs, seeds=(1,), steps=900, weights="weights.safetensors"))  # type: ignore[arg-type]
    assert {job.variant.name for job in jobs} == {v.name for v in VARIANTS if obs in v.obs}
    for job in jobs:
        assert cli.main(job.command(50)) == 0
        options, task = seen[-1]
        assert (task, options.obs, options.seed, options.steps, options.eval_episodes) == (
            "peg_insert", obs, 1, 900, 100)  # fmt: skip
        assert Path("runs") / options.name == job.folder
    bare = [str(replace(options, name="")) for options, _ in seen]
    assert len(set(bare)) == len(jobs)
    named = {job.variant.name: options for job, (options, _) in zip(jobs, seen, strict=True)}
    assert named["rlpd"].learner == named["no-corrections"].learner
    assert named["rlpd"].learner.agent == replace(LearnerConfig("rlpd").agent, discount=0.95)
    assert not named["no-corrections"].actor.corrections
    assert named["no-demos"].demos == 0


def test_without_the_published_weights_that_variant_is_left_out_and_said_so() -> None:
    said: list[str] = []
    names = {job.variant.name for job in jobs_of(Options(obs="pixels"), said.append)}
    assert "resnet10" not in names
    assert len(said) == 1
    assert "--weights" in said[0]
    with pytest.raises(ConfigError, match="did you mean 'hg-dagger'"):
        jobs_of(Options(only=("hg_dagger",)))


def test_the_table_pools_the_seeds_and_counts_what_it_cost() -> None:
    jobs = jobs_of(Options(obs="state", only=("rlpd", "bc")))
    for job, successes in zip(jobs, (100, 40, 96, 50, 98, 0), strict=True):
        if successes:
            evaluated(job, successes, revision="abc" if job.seed else "abd")
    rlpd, bc = results_of(jobs)
    assert (rlpd.greedy, rlpd.greedy.total) == (Score({0: 100, 1: 96, 2: 98}, 300), 294)
    assert rlpd.greedy.interval == pytest.approx((95.7, 99.1), abs=0.1)
    assert (bc.greedy, bc.sampled, rlpd.corrections) == (
        Score({0: 40, 1: 50}, 200),
        Score({}, 0),
        71.0,
    )
    text = table([rlpd, bc], (0, 1, 2))
    assert "| 294 of 300 | 95.7 to 99.1 % | 100, 96, 98 | | | | 5,000 | 8.0 | 3.0 | 71 |" in text
    assert "| 40, 50, - |" in text
    assert text.endswith(
        "5 runs, 2.5 hours of wall time one after another, evaluations included; revision abc, abd."
    )


def test_page_and_picture_are_written_and_written_anew() -> None:
    options = Options(obs="state", only=("rlpd",), out=Path("docs"))
    jobs = jobs_of(options)
    with pytest.raises(ConfigError, match="no run"):
        summarise(jobs, options)
    Path("docs").mkdir()
    page = Path("docs/ablation.md")
    page.write_text("# Head\n\nWords.\n")
    for successes in (80, 90):
        evaluated(jobs[0], successes)
        summarise(jobs, options)
        assert page.read_text().startswith("# Head\n\nWords.\n")
        assert page.read_text().count("| `rlpd` |") == 1
        assert f"| {successes} of 100 |" in page.read_text()
    assert (Path("docs/img/ablation-peg_insert-state.png")).stat().st_size > 5_000


def test_what_stands_around_the_markers_stays() -> None:
    page = put_between("before\n<!-- a: begin -->\nold\n<!-- a: end -->\nafter\n", "a", "new")
    assert page == "before\n<!-- a: begin -->\nnew\n<!-- a: end -->\nafter\n"
    assert put_between("", "a", "new") == "<!-- a: begin -->\nnew\n<!-- a: end -->\n"
