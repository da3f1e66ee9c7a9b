"""Behaviour cloning and HG-DAgger in a training and in the learner's process: what is learnt from,
and when.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import cli
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner.agents import rlpd
from robot_rl.learner.agents.bc import Config as BCConfig
from robot_rl.learner.checkpoint import load_policy
from robot_rl.learner.loop import Learner
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.validation import to_json
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.types import Array, Observation, Provenance, Step
from tests.learner import test_loop, test_training
from tests.learner.test_training import SPACE, demonstrations, reach, success_rate

BC = LearnerConfig(
    algorithm="bc",
    agent=BCConfig(
        hidden=(64, 64),
        batch_size=64,
        bc_initial_updates=400,
        learning_rate=1e-3,
        average_rate=0.02,
    ),
    schedule=test_training.CONFIG.schedule,
    compile=False,
)
HG_DAGGER = replace(BC, algorithm="hg_dagger")


def begun(config: LearnerConfig, updates: int | None = None) -> Training:
    training = Training(SPACE, config, seed=0, run_steps=200)
    training.load_demonstrations(Shown.of(demonstrations()))
    training.clone_behaviour(training.offline_due if updates is None else updates)
    return training


def equal(a: Training, b: Training) -> bool:
    return all(np.array_equal(array, b.policy()[name]) for name, array in a.policy().items())


def episode(author: Provenance, act: Callable[[Observation], Array]) -> list[Step]:
    return list(reach(np.random.default_rng(1), act, 0, author))


def test_cloning_solves_the_small_problem_without_a_step() -> None:
    assert success_rate(begun(BC, updates=0)) < 0.2
    training = begun(BC)
    assert success_rate(training) >= 0.9
    assert (training.offline_due, training.env_steps, training.due()) == (0, 0, 0)
    assert training.metrics()["bc_loss"] > 0.0


def test_hg_dagger_learns_from_corrections_and_not_from_its_own_steps() -> None:
    noise = np.random.default_rng(5)
    own = episode(Provenance.POLICY, lambda seen: noise.uniform(-1, 1, 2))
    corrected = episode(Provenance.HUMAN, lambda seen: -2.0 * seen["state/goal"])
    trainings = []
    for steps in ([], own, corrected):
        training = begun(HG_DAGGER, updates=20)
        training.add(steps)
        training.update(20)
        trainings.append(training)
    nothing, alone, with_corrections = trainings
    assert equal(nothing, alone)
    assert not equal(nothing, with_corrections)


def test_a_training_stopped_while_it_clones_goes_on_exactly() -> None:
    straight, stopped = begun(BC, updates=60), begun(BC, updates=40)
    resumed = Training(SPACE, BC, seed=9, run_steps=200)
    resumed.load_demonstrations(Shown.of(demonstrations()), stopped.checkpoint())
    assert resumed.offline_due == 400 - 40
    resumed.clone_behaviour(20)
    assert equal(straight, resumed)


def test_rlpd_that_begins_from_a_clone_has_its_whole_schedule_before_it() -> None:
    config = test_training.CONFIG
    training = begun(replace(config, agent=replace(config.agent, bc_initial_updates=30)))
    assert (training.offline_updates, training.governor.updates) == (30, 0)
    average = training.agent.average_parameters()
    assert all(np.array_equal(array, average[name]) for name, array in training.policy().items())
    assert not equal(training, begun(config))


def test_a_run_of_behaviour_cloning_needs_no_actor(tmp_path: Path) -> None:
    folder = test_loop.make_folder(tmp_path / "run", config=BC, steps=0)
    learner = Learner(folder, StopRequest())
    try:
        assert learner.prepare()
        learner.run()
    finally:
        learner.close()
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    assert [row["offline_updates"] for row in rows] == [400, 400]
    assert {row["env_steps"] for row in rows} == {0}
    policy = load_policy(folder.path)
    assert policy.spec == learner.training.spec


def test_the_run_of_an_offline_algorithm_has_no_steps_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for algorithm, steps in (("bc", 0), ("hg_dagger", 700)):
        options = TrainConfig(
            obs="state", steps=700, name=algorithm, learner=LearnerConfig(algorithm=algorithm)
        )
        assert create_run("peg_insert", options).settings.steps == steps
    assert cli.main(["train", "--obs", "state", "--learner.algorithm", "bc", "--demos", "0"]) == 2
    assert "demonstrations" in capsys.readouterr().err


def test_a_run_of_before_still_has_its_options(tmp_path: Path) -> None:
    """Behaviour cloning had them beside those of rlpd."""
    learner = to_json(LearnerConfig(algorithm="bc"))
    learner |= {"agent": to_json(rlpd.Config()), "imitation": learner["agent"] | {"batch_size": 7}}
    sections = {"run": RunSettings("peg_insert", "sim_panda"), "learner": learner}
    folder = RunFolder.create(tmp_path / "run", sections)
    assert folder.read("learner", LearnerConfig) == LearnerConfig("bc", BCConfig(batch_size=7))
