"""The page of all tasks: what it runs is what a user would run, and a row for each run there is."""

import json
from pathlib import Path

import pytest

from benchmarks import tasks
from benchmarks.ablation import Job
from benchmarks.tasks import TASKS, Options, jobs_of, summarise
from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.types import ConfigError

OPTIONS = Options(tasks=("drawer", "ram_press"), out=Path("docs"))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "pictures", lambda names, folder: [" and ".join(names)])


def trained(job: Job, successes: int) -> None:
    settings = RunSettings(job.arguments[0], "sim_panda", seed=job.seed)
    RunFolder.create(job.folder, {"run": settings, "code": {"revision": "abc1234"}})
    cost = {"robot_minutes": 20.0, "wall_minutes": 25.0, "interventions": 40}
    part = {"successes": successes, "episodes": 100, **cost}
    whole = {"sampled": {**part, "sampled": True}, "greedy": {**part, "sampled": False}, **cost}
    whole["classifier"] = {"fires": 1, "failures": 9, "misses": 2, "successes": 191}
    (job.folder / "evaluation.json").write_text(json.dumps(whole))


def test_each_task_runs_as_its_own_file_says_and_nothing_else() -> None:
    for job in jobs_of(Options(seeds=(0, 1))):
        _, *said = job.arguments
        assert said == ["--obs", "pixels", "--seed", f"{job.seed}", "--eval-episodes", "100"]
    with pytest.raises(ConfigError, match=r"'drawr' is not among them; there are: .*drawer"):
        jobs_of(Options(tasks=("drawr",)))
    assert set(TASKS) <= set(config.task_names())


def test_the_page_has_the_runs_that_are_evaluated_and_keeps_what_stands_around_them() -> None:
    with pytest.raises(ConfigError, match="no run in runs/tasks is evaluated yet"):
        summarise(OPTIONS)
    drawer, press = jobs_of(OPTIONS)
    trained(drawer, 97)
    summarise(OPTIONS)
    page = Path("docs", "tasks.md")
    page.write_text(page.read_text() + "\nA sentence of ours.\n")
    trained(press, 40)
    assert "| `ram_press` | 0 | 40 of 100 | 30.9% to 49.8% | 40 |" in summarise(OPTIONS)
    told = page.read_text()
    assert "| `drawer` | 0 | 97 of 100 |" in told and "| 1 in 9, 2 in 191 | 20.0 |" in told
    assert "A sentence of ours." in told and "ram_press and drawer" in told
    assert told.count("| `drawer` |") == 1
