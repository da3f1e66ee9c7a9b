"""Demonstrations and runs belong to the user: taken over, moved away, trained further, and never
written over.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config.evaluation_files import EvaluationFiles
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.schedule import ScheduleConfig, UtdSchedule
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import write_json
from robot_rl.runs.changes import change_options, options_of
from robot_rl.runs.create import TrainConfig, create_run, require_training
from robot_rl.runs.evaluate import is_whole_evaluation
from robot_rl.runs.progress import Display
from robot_rl.runs.record import record_demos
from robot_rl.stream.episodes import counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.tools import check
from robot_rl.types import ConfigError, Provenance, Step, Use
from tests.learner.test_loop import DEMO_STEPS, make_folder, make_step

OPTIONS = TrainConfig(name="new", obs="state")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def identities(folder: RunFolder) -> list:
    with StepLog(folder.demos_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        return [
            (identity, said.episode, said.index)
            for identity, said in log.entries()
            if isinstance(said, Step)
        ]


def test_demonstrations_of_several_runs_are_taken_over_each_once_as_they_are() -> None:
    one, two = make_folder(Path("runs/one")), make_folder(Path("runs/two"))
    first = create_run("peg_insert", replace(OPTIONS, name="first", demos_from=("one",)))
    both = create_run(
        "peg_insert", replace(OPTIONS, name="both", demos_from=("first", "two", "one"))
    )
    assert identities(both) == identities(one) + identities(two)
    assert (
        both.settings.demos == both.demos()["successes"] == 4
        and both.demos()["steps"] == 2 * DEMO_STEPS
    )
    said = both.section("demos_from")["runs"]
    assert [each["id"] for each in said] == [run.settings.id for run in (first, two, one)]


def test_an_episode_that_its_run_has_not_ended_yet_does_not_count_in_the_new_one() -> None:
    one = make_folder(Path("runs/one"))
    with StepLog(one.demos_log, one.spaces()) as log:
        log.append_step(make_step(one.spaces(), 2, 0, np.zeros(6, "f4"), Provenance.DEMO))
    new = create_run("peg_insert", replace(OPTIONS, demos_from=("one",)))
    with StepLog(new.demos_log, new.spaces(), read_only=True) as log:
        assert {step.episode for step in counted_steps(log.entries())} == {0, 1}


def test_demonstrations_that_do_not_fit_are_refused_all_at_once_and_nothing_is_made() -> None:
    make_folder(Path("runs/seen"), obs="pixels")
    damaged = make_folder(Path("runs/damaged"))
    damaged.demos_log.write_bytes(damaged.demos_log.read_bytes()[:9000])
    Path("tasks").mkdir()
    Path("tasks/other.py").write_text(
        "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
        "TASK = replace(load_task('peg_insert'), name='other')\n"
    )
    create_run("other", replace(OPTIONS, name="other"))
    with pytest.raises(ConfigError) as refused:
        create_run(
            "peg_insert", replace(OPTIONS, demos_from=("seen", "damaged", "other", "nowhere"))
        )
    lines = str(refused.value).splitlines()
    for word, line in zip(
        ("space", "damaged/demos.log", "of task 'other'", "is not a run"), lines, strict=True
    ):
        assert word in line
    assert not Path("runs/new").exists()


def test_a_run_goes_by_its_own_task_and_says_that_the_file_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("tasks").mkdir()
    text = (
        "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
        "TASK = replace(load_task('peg_insert'), name='mine', max_steps=STEPS)\n"
    )
    Path("tasks/mine.py").write_text(text.replace("STEPS", "60"))
    folder = create_run("mine", OPTIONS)
    assert folder.edited() == []
    Path("tasks/mine.py").write_text(text.replace("STEPS", "70"))
    (said,) = RunFolder(folder.path).edited()
    assert "(max_steps)" in said and "--demos-from" in said
    Path("tasks/mine.py").unlink()
    bench = config.load_hardware("sim_panda")
    monkeypatch.setattr(config, "load_hardware", lambda name: replace(bench, teleop=Use("browser")))
    (said,) = RunFolder(folder.path).edited()
    assert "(teleop)" in said and said.endswith(
        "another device with --resume runs/new --teleop NAME"
    )
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    moved = RunFolder(folder.path.rename("elsewhere"))
    assert moved.load_task().max_steps == 60 and moved.edited() == []
    assert (
        moved.load_task() == folder.load_task() and moved.load_hardware() == folder.load_hardware()
    )


def test_what_needs_no_bench_is_refused_before_there_is_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for options, words in (
        (replace(OPTIONS, steps=120), "20 demonstrations take 20 of them or more"),
        (
            replace(OPTIONS, obs="pixels", steps=2_120),
            "20 demonstrations with 100 steps of wandering each take 2020",
        ),
        (
            replace(OPTIONS, learner=LearnerConfig(encoder_weights="none.safetensors")),
            "there is no file",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            create_run("peg_insert", options)
    task, bench = config.load_task("peg_insert"), config.load_hardware("sim_panda")
    monkeypatch.setattr(config, "load_hardware", lambda name: replace(bench, teleop=None))
    with pytest.raises(ConfigError, match="names no teleop device"):
        create_run("peg_insert", OPTIONS)
    monkeypatch.setattr(config, "load_task", lambda name: replace(task, reward=Use("operator")))
    with pytest.raises(
        ConfigError, match=r"reward 'operator' .* needs the operator's word, .* no teleop device"
    ):
        create_run("peg_insert", replace(OPTIONS, demos=0))
    monkeypatch.setattr(config, "load_task", lambda name: replace(task, scene=None))
    with pytest.raises(ConfigError, match="no simulated scene"):
        create_run("peg_insert", OPTIONS)
    assert not Path("runs").exists()


def test_what_is_wrong_with_the_options_of_a_new_run_is_told_at_once() -> None:
    learner = LearnerConfig(encoder_weights="none.safetensors")
    with pytest.raises(ConfigError) as refused:
        create_run(
            "peg_insert", replace(OPTIONS, steps=50, demos_from=("nowhere",), learner=learner)
        )
    first, second, third = str(refused.value).splitlines()
    assert (
        "'runs/nowhere' is not a run" in first
        and "there is no file" in second
        and "--steps 50" in third
    )


def test_no_demonstrations_need_nobody_and_no_bench() -> None:
    folder = create_run("peg_insert", replace(OPTIONS, demos=0))
    record_demos(folder, Display(), StopRequest(), Supervisor(folder.logs))
    assert (
        folder.demos() == {"successes": 0, "attempts": 0, "steps": 0} and folder.demos_log.exists()
    )


def test_the_verb_that_makes_a_run_is_the_one_that_goes_on_with_it() -> None:
    create_run("peg_insert", OPTIONS, "demo")
    with pytest.raises(ConfigError, match="robot-rl demo --resume runs/new"):
        create_run("peg_insert", OPTIONS, "demo")


def test_a_run_whose_demonstrations_took_all_its_steps_is_not_trained() -> None:
    folder = create_run("peg_insert", replace(OPTIONS, steps=150))
    folder.write_demos({"successes": 20, "attempts": 20, "steps": 60})
    with pytest.raises(
        ConfigError,
        match=r"taken 60 of them.*100 own steps.*more than 160.*--resume runs/new --steps",
    ):
        require_training(folder)


def test_before_anything_is_learnt_every_option_of_the_learning_may_change_and_the_change_is_kept() -> (
    None
):
    folder = create_run("peg_insert", OPTIONS)
    options = options_of(folder)
    changed = replace(
        options,
        steps=9_000,
        seed=4,
        eval_episodes=7,
        learner=replace(options.learner, camera_features=9),
    )
    change_options(folder, changed)
    again = RunFolder(folder.path)
    assert options_of(again) == changed
    (entry,) = again.section("history")["changes"]
    assert entry["changed"] == {
        "seed": [0, 4], "steps": [5_000, 9_000], "eval_episodes": [100, 7], "learner.camera_features": [0, 9],
    }  # fmt: skip
    with pytest.raises(
        ConfigError, match="--obs cannot change in runs/new: its demonstrations hold"
    ):
        change_options(again, replace(changed, obs="pixels"))


def test_what_is_learnt_may_get_longer_and_learn_at_another_ratio_but_not_with_another_critic() -> (
    None
):
    folder = create_run("peg_insert", OPTIONS)
    folder.write_demos({"successes": 20, "attempts": 20, "steps": 300})
    (folder.checkpoints / "step_00004700").mkdir(parents=True)
    options = options_of(folder)
    learner = replace(options.learner, device="cuda", schedule=ScheduleConfig(utd=8.0))
    change_options(folder, replace(options, steps=6_000, learner=learner))
    assert options_of(RunFolder(folder.path)) == replace(options, steps=6_000, learner=learner)
    for wrong, words in (
        (
            replace(options, learner=replace(learner, agent=replace(learner.agent, critics=2))),
            "agent.critics cannot",
        ),
        (replace(options, steps=4_000, learner=learner), "has made 5000 already"),
    ):
        with pytest.raises(ConfigError, match=words):
            change_options(folder, wrong)


@pytest.mark.parametrize("utd", [1.0, 4.0, 8.0])
def test_another_ratio_counts_from_where_it_was_set(utd: float) -> None:
    before = UtdSchedule(ScheduleConfig(utd=4.0))
    before.count(before.due(400))
    after = UtdSchedule(ScheduleConfig(utd=utd))
    after.updates, after.forgiven = before.updates, before.forgiven
    after.keep(before.allowed(400), 400)
    assert after.due(400) == 0 and after.due(410) == 10 * utd


def test_each_evaluation_has_files_of_its_own_and_one_that_is_whole_stays_the_runs_own() -> None:
    run = Path("run")
    folders = [EvaluationFiles.begin(run).folder.name for _ in range(3)]
    assert (
        folders
        == ["001", "002", "003"]
        == [files.folder.name for files in EvaluationFiles.all_of(run)]
    )
    file = run / "evaluation.json"
    assert not is_whole_evaluation(file, 500)
    for said, whole in (((500, 9, 9), True), ((500, 5, 9), False), ((400, 9, 9), False)):
        write_json(file, dict(zip(("env_steps", "episodes", "asked"), said, strict=True)))
        assert is_whole_evaluation(file, 500) == whole


def test_a_check_for_a_task_misses_the_operators_device_as_a_run_would() -> None:
    bench = replace(config.load_hardware("sim_panda"), teleop=None)
    missed = [
        finding
        for finding in check._check_files(bench, config.load_task("peg_insert"))
        if not finding.right
    ]
    assert [finding.what for finding in missed] == ["operator's device"] and "teleop:" in missed[
        0
    ].advice


def test_a_check_says_that_the_arm_will_not_wander() -> None:
    bench, task = config.load_hardware("sim_panda"), config.load_task("peg_insert")
    for wander in (task.wander, None):
        said = [
            f for f in check._check_files(bench, replace(task, wander=wander)) if "motion" in f.what
        ]
        assert len(said) == (wander is None) and all(
            f.right and "has no `wander`" in f.advice for f in said
        )
