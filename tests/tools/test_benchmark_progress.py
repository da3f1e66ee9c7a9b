"""The benchmark of progress models: what it runs, and when a run counts as having come to 95 %."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import progress
from benchmarks.ablation import Job
from benchmarks.progress import KINDS, TASKS, Options, jobs_of, minutes_to, summarise
from robot_rl import cli
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.runs import create
from robot_rl.types import ConfigError


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(job: Job, helped: str) -> None:
    """What a training leaves of what is read: 10 own steps an episode, of each whether it was
    "h"elped, or alone, or "c"ut short; 100 steps before.
    """
    settings = RunSettings(job.arguments[0], "sim_panda", obs="state", seed=job.seed)
    folder = RunFolder.create(job.folder, {"run": settings})
    job.write_note(1800.0)
    rows = [
        {
            "env_steps": 10 * n, "steps": 10, "human_steps": 3 * (each == "h"), "segments": 0,
            "success": each != "c", "reason": "stopped" if each == "c" else "",
        }
        for n, each in enumerate(helped, 1)
    ]  # fmt: skip
    folder.episodes_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cost = {"env_steps": 100 + 10 * len(helped), "wall_minutes": 2.0}
    cost["robot_minutes"] = cost["env_steps"] / 600.0
    folder.training_file.write_text(json.dumps(cost))
    part = {"successes": 90, "episodes": 100, "sampled": True, **cost}
    evaluation = {"sampled": part, "greedy": {**part, "sampled": False}}
    (job.folder / "evaluation.json").write_text(json.dumps(evaluation))


@pytest.mark.parametrize(
    ("episodes", "steps", "reached"),
    [
        ("a" * 19 + "h", 100 + 200, True),  # at the twentieth, and 19 of 20 will do
        ("a" * 19, 100 + 190, False),  # too few to say
        ("ah" * 5 + "a" * 30, 100 + 280, True),  # the last that was helped is the one of 20
        ("ah" * 20, 100 + 400, False),
        ("a" * 10 + "c" * 5 + "a" * 10, 100 + 250, True),  # what was cut short says nothing
        ("a" * 20 + "h" * 20, 100 + 200, True),  # the first time counts
    ],
)
def test_the_first_twenty_episodes_that_nobody_helped_are_the_moment(
    episodes: str, steps: int, reached: bool
) -> None:
    (job,) = jobs_of(Options(only=("none",), tasks=("peg_insert",), seeds=(0,)))
    trained(job, episodes)
    minutes, came_so_far = minutes_to(RunFolder(job.folder))
    assert minutes == pytest.approx(steps / 600.0) and came_so_far == reached


def test_the_table_says_what_was_not_reached_and_stands_between_its_markers() -> None:
    options = Options(seeds=(0, 1), out=Path("docs"))
    with pytest.raises(ConfigError, match="no run in runs/progress is evaluated"):
        summarise(options)
    jobs = {(j.arguments[0], j.variant.name, j.seed): j for j in jobs_of(options)}
    trained(jobs["peg_insert", "none", 0], "a" * 500)
    trained(jobs["peg_insert", "none", 1], "h" * 500)
    trained(jobs["peg_enter", "rewind", 1], "a" * 500)
    Path("docs").mkdir()
    Path("docs/rewards.md").write_text("# Head\n")
    for _ in range(2):
        text = summarise(options)
    page = Path("docs/rewards.md").read_text()
    assert page.startswith("# Head\n") and page.count(text) == 1
    assert "| `peg_insert` | `none` | 0.5, - | >4.5 | 180 of 200 |" in text
    assert "| `peg_enter` | `rewind` | , 0.5 | 0.5 | 90 of 100 |" in text
    assert "3 runs of `python -m benchmarks.progress --obs state`" in text
    # a row of another time stays, and other observations have a table of their own
    assert summarise(Options(seeds=(2,), out=Path("docs"))) == text
    pixels = Options(obs="pixels", only=("none",), tasks=("peg_enter",), out=Path("docs"))
    trained(jobs_of(pixels)[0], "a" * 500)
    assert "1 runs of `python -m benchmarks.progress --obs pixels`" in summarise(pixels)
    assert text in Path("docs/rewards.md").read_text()


def test_every_training_is_one_that_train_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, create.TrainConfig]] = []
    monkeypatch.setattr(
        create, "create_run", lambda task, options, *verb: seen.append((task, options))
    )
    monkeypatch.setattr("robot_rl.cli.runs.carry_on", lambda folder: None)
    for job in jobs_of(Options(seeds=(1,), steps=900)):
        assert cli.main(job.command(50)) == 0
    asked = [(task, options.learner.progress) for task, options in seen]
    assert asked == [(task, kind) for task in TASKS for kind in KINDS]
    assert {(o.seed, o.obs, o.judge, o.steps) for _, o in seen} == {(1, "state", "simulator", 900)}


def test_a_kind_or_task_that_is_none_is_said_with_those_there_are() -> None:
    for options in (Options(only=("rewound",)), Options(tasks=("reach",))):
        with pytest.raises(ConfigError, match=re.escape("is not compared; ")):
            progress.run(options)
