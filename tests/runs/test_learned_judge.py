"""A run whose judge has yet to be learnt: outcomes, the classifier, demonstrations; what stands in
their way.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from robot_rl import config
from robot_rl.classifier import files, training
from robot_rl.classifier.options import ClassifierConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.outcomes import labelled_episodes
from robot_rl.machine.versions import versions_in
from robot_rl.runs import judge, train
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.runs.remote import own_folder
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, DataError, Provenance, StoppedError, Use
from tests.classifier.synthetic import by_height
from tests.helpers import make_step

TASK = """
from dataclasses import replace
from robot_rl.config import load_task
from robot_rl.types import Use
seen = {"cameras": {"wrist": (32, 32)}, "height_below": 0.001}
TASK = replace(load_task("peg_insert"), name="tiny", reward=Use("classifier", {"name": "in", **seen}))
"""
OPTIONS = TrainConfig(name="run", obs="state", demos=2, outcomes=(26, 60))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a task that is judged by a classifier; one is trained in no time."""
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "tiny.py").write_text(TASK)
    small = ClassifierConfig(cameras=("wrist",), size=32, steps=50)
    monkeypatch.setattr(judge, "options_for", lambda task: small)
    monkeypatch.setattr(training, "HALF", 16)
    monkeypatch.setattr(judge, "PER_EPISODE", 5)
    return tmp_path


def logged(folder: RunFolder) -> tuple[int, list[bool]]:
    """Control steps in the log of outcomes, and of each episode whether it shows success."""
    with StepLog(folder.outcomes_log, folder.spaces(), read_only=True) as log:
        episodes = labelled_episodes(log).values()
        return sum(len(e.labels) - 1 for e in episodes), [any(e.labels) for e in episodes]


@pytest.mark.slow
def test_outcomes_come_first_then_the_classifier_then_what_it_judges(place, gl, monkeypatch):
    folder = create_run("tiny", OPTIONS)
    assert folder.settings.steps == 5_000 + 7 * 26, "the steps of the outcomes come on top"

    # stopped while it trains: what was collected stays
    def stop(*_):
        raise StoppedError("stopped")

    with monkeypatch.context() as patched, pytest.raises(StoppedError):
        patched.setattr(training.Fitter, "fit", stop)
        train.demo(folder)
    assert not folder.demos_file.exists() and not versions_in(folder.path / "classifiers" / "in")
    collected, shown = logged(folder)
    assert shown.count(True) >= 5 and shown.count(False) >= 5, "failures of their own as well"
    train.demo(folder)
    assert logged(folder)[0] == collected
    own = folder.path / "classifiers" / "in"
    assert versions_in(own) == [1] and not (place / "classifiers").exists()
    counts = json.loads(folder.demos_file.read_text())
    assert counts["successes"] == 2 and counts["attempts"] == 2, "it holds still for the judge"
    with StepLog(folder.demos_log, folder.spaces(), read_only=True) as log:
        steps = list(log.read())
    assert counts["steps"] == collected + sum(step.index > 0 for step in steps)
    assert steps[0].observation["judge/wrist"].shape == (32, 32, 3)
    assert {n for n in steps[0].observation if n.startswith("image/")} == set()

    # a run that comes later takes what there is, as it is
    (place / "classifiers").mkdir()
    own.rename(place / "classifiers" / "in")
    later = create_run("tiny", replace(OPTIONS, name="later"))
    assert later.settings.steps == 5_000 and versions_in(later.path / "classifiers" / "in") == [1]
    ours = later.load_task().reward.options["folder"]
    assert ours == str((later.path / "classifiers").resolve())
    (place / "classifiers" / "in" / "v0001.safetensors").write_bytes(b"torn")
    with pytest.raises(DataError, match="damaged"):
        create_run("tiny", replace(OPTIONS, name="none"))


def test_another_judge_for_a_run_is_its_own_and_stays(place):
    folder = create_run("tiny", replace(OPTIONS, judge="simulator"))
    assert folder.load_task().reward.name == "simulator" and folder.edited() == []
    assert folder.settings.steps == 5_000 and not judge.is_lacking(folder.load_task())
    assert not any(name.startswith("judge/") for name in folder.spaces().observations)
    assert RunFolder(folder.path).settings.judge == "simulator"
    assert config.load_task("tiny").reward.name == "classifier"
    with pytest.raises(ConfigError, match=r"judge = 'simulatr'"):
        create_run("tiny", replace(OPTIONS, name="other", judge="simulatr"))
    with pytest.raises(ConfigError, match="at least one of each"):
        create_run("tiny", replace(OPTIONS, name="other", outcomes=(0, 5)))


@pytest.mark.parametrize(("first", "second"), [("simulator", ""), ("", "simulator")])
def test_demonstrations_recorded_for_another_judge_are_refused_with_what_to_do(
    place, first, second
):
    folder = create_run("tiny", replace(OPTIONS, judge=first))
    with StepLog(folder.demos_log, folder.spaces(), run=folder.settings.id) as log:
        log.append_step(make_step(0, folder.spaces(), provenance=Provenance.DEMO))
    wanted = replace(OPTIONS, name="other", judge=second, demos_from=(str(folder.path),))
    with pytest.raises(ConfigError, match=r"what the judge looks at \(judge/.*--judge"):
        create_run("tiny", wanted)


@pytest.mark.parametrize("learnt", [True, False])
def test_a_robot_that_joins_takes_the_learners_judge_and_its_own_where_that_has_none(place, learnt):
    theirs = by_height(place / "theirs", gain=3.0).about.weights_sha256
    folder = create_run("tiny", OPTIONS)
    here = by_height(place / "classifiers" / "in").about.weights_sha256
    described = {"name": "run", "sections": folder.sections}

    def fetch(judge: Path) -> None:
        if learnt:
            shutil.copytree(place / "theirs", judge)

    own = own_folder(described, "tcp://gpu@127.0.0.1:5560", "", fetch)
    assert own.judge == (own.path / "classifiers" / "in").resolve()
    assert files.load(own.judge).about.weights_sha256 == (theirs if learnt else here)


def test_what_a_task_says_of_its_judge_is_what_is_trained(monkeypatch):
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    options = judge.options_for(config.load_task("cable_clip"))
    assert options.size == 128 and set(options.crops) == {"front", "wrist"}
    assert judge.options_for(config.load_task("peg_insert")).size == 0, "the usual"
    task = config.load_task("cable_clip")
    small = Use("classifier", {**task.reward.options, "size": 8})
    with pytest.raises(ConfigError, match="size is 8; it must be from 32 to 512 pixels"):
        judge.options_for(replace(task, reward=small))
