"""A policy at work: the safety of a training, another bench, and no trace but the log."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.episodes import EpisodeSummary
from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode
from robot_rl.actor.work import work as play
from robot_rl.env.robot import RobotEnv
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.operator.pause import PauseGate
from robot_rl.runs import evaluate, work
from robot_rl.runs.arms import at_bench
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.runs.progress import Display
from robot_rl.types import ConfigError, Use

HARDWARE = config.load_hardware("sim_panda")
TASK = replace(config.load_task("peg_insert"), max_steps=4, reward=Use("operator"))


@pytest.fixture
def env(lockstep_arm):
    """A bench without a device, and a task that an operator judges."""
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(TASK, replace(HARDWARE, arms=(arm,), teleop=None), obs="state")
    yield opened
    opened.close()


def test_nobody_has_to_judge_who_is_there_may_and_a_stop_of_the_operator_holds_until_start(
    env, desk, console
):
    acted, waited = [], []
    came_to: list[EpisodeSummary] = []

    def act(observation):
        acted.append(observation)
        if len(acted) == 6:  # in the second episode
            console.say("success")
        if len(acted) == 8:  # in the third
            console.say("stop")
            console.say("pause")
        return np.zeros(6, np.float32)

    def say(reason):
        waited.append(reason)
        if reason:
            console.say("start")

    gate = PauseGate(env, desk, acknowledges=True, stop=lambda: len(came_to) == 5, say=say)
    play(env, act, episodes=0, desk=desk, gate=gate, each=came_to.append)
    assert [(each.steps, each.success) for each in came_to] == [
        (4, False),
        (2, True),
        (2, False),
        (4, False),
        (4, False),
    ]
    assert came_to[2].reason == "stopped by the operator" and len(waited) == 2 and not waited[1]
    assert len(acted) == 16, "it acted while the gate was shut, or after the stop"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run from state at `sim_panda`, whose policy has learnt nothing, and a second bench,
    `other`.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hardware_configs").mkdir()
    original = config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml"
    (tmp_path / "hardware_configs" / "other.yaml").write_text(original.read_text())
    made = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    made.write_demos({"successes": 0, "attempts": 0, "steps": 0})
    policy = LivePolicy(PolicySpec.from_space(made.spaces(), "none"), {})
    for module in (evaluate, work):
        monkeypatch.setattr(module, "load_policy", lambda checkpoints, step=None: policy)
    return made


@pytest.mark.slow
def test_a_policy_works_at_another_bench_and_leaves_no_trace_in_its_run(folder):
    before = {path: path.read_bytes() for path in Path("runs/run").iterdir() if path.is_file()}
    with Display() as display:
        assert len(work.let_work(folder, "other", episodes=2, display=display)) == 2
    assert {
        path: path.read_bytes() for path in Path("runs/run").iterdir() if path.is_file()
    } == before
    assert (
        at_bench(folder, "other").load_hardware().name == "other"
        and folder.settings.hardware == "sim_panda"
    )


def test_an_evaluation_at_another_bench_stands_beside_that_at_its_own(folder, monkeypatch):
    asked = []
    done = Evaluation(0, 1, (EvaluationEpisode(0, 1, True, 8, 0.8, False),))

    def play(moved, *_):
        asked.append(moved.load_hardware().name)
        return {True: done, False: done}, evaluate.EvaluationFiles.begin(moved.path)

    monkeypatch.setattr(evaluate, "_evaluate", play)
    assert evaluate.evaluate_run(folder, 1, hardware="other")["hardware"] == "other"
    assert (
        Path("runs/run/evaluation-at-other.json").exists()
        and not Path("runs/run/evaluation.json").exists()
    )
    assert asked == ["other"]


def test_a_bench_with_other_spaces_is_refused_with_the_differences(tmp_path, monkeypatch):
    for both in ("unused_problems", "stand_problems"):  # as if the scene had two stands
        monkeypatch.setattr(f"robot_rl.config.files.{both}", lambda *_: ())
    monkeypatch.chdir(tmp_path)
    text = (config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml").read_text()
    arm, cameras, rest = text.partition("cameras:")
    (tmp_path / "hardware_configs").mkdir()
    for bench, second in (("pair", "left"), ("others", "right")):
        twin = arm.partition("arms:")[2].replace(
            "name: panda", f"name: {second}\n    address: local://{second}"
        )
        (tmp_path / "hardware_configs" / f"{bench}.yaml").write_text(
            f"{arm}{twin}\n{cameras}{rest}"
        )
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "both.py").write_text(
        "from dataclasses import replace\nfrom robot_rl.config import load_task\nONE ="
        ' load_task("peg_insert")\nTASK = replace(ONE, name="both", start=2 * ONE.start,'
        " grippers=2 * ONE.grippers, wander=None)\n"
    )
    folder = create_run("both", TrainConfig(name="run", obs="state", hardware="pair"))
    with pytest.raises(
        ConfigError, match=r"observes state/left/.* and there is state/right/.* instead"
    ):
        at_bench(folder, "others")
    with pytest.raises(ConfigError, match="2 start poses for the 1 arms of hardware 'sim_panda'"):
        at_bench(folder, "sim_panda")
