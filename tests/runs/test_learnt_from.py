"""A run that begins with what another has learnt."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.agents.rlpd_bc import Config as CopyConfig
from robot_rl.learner.checkpoint import Checkpoint, load_newest
from robot_rl.learner.intake import counted_of
from robot_rl.learner.loop import Learner
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.machine.signals import StopRequest
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.types import ConfigError, DataError
from tests.learner.test_loop import CONFIG, RENEWING, STEPS, learn, make_folder

SMALL = CopyConfig(hidden=(16, 16), batch_size=8, bc_initial_updates=30)
COPYING = replace(CONFIG, algorithm="rlpd_bc", agent=SMALL)
OPTIONS = TrainConfig(name="new", obs="state", steps=STEPS, learner=COPYING)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(config: LearnerConfig = COPYING, obs: str = "state") -> RunFolder:
    """A run that has learnt to its end, in the process of its learner."""
    folder = make_folder(Path("runs/one"), config=config, obs=obs)
    learn(folder)
    return folder


def newest(folder: Path) -> Checkpoint:
    found = load_newest(folder)
    assert found is not None
    return found


def begun(folder: RunFolder) -> Training:
    """The new run's learning, before its first own step."""
    config = folder.read("learner", LearnerConfig)
    training = Training(folder.spaces(), config, seed=1, run_steps=STEPS)
    shown = folder.demos_log.exists()
    demos = counted_of(folder.demos_log, folder.spaces(), folder.settings.id) if shown else []
    training.load_demonstrations(Shown.of(demos), learnt=newest(folder.learnt))
    return training


def test_it_begins_with_the_others_networks_and_counts_its_own_steps_and_updates() -> None:
    one = trained()
    theirs = newest(one.checkpoints)
    new = create_run("peg_insert", replace(OPTIONS, learnt_from="one", demos_from=("one",)))
    assert new.section("learnt_from") == {
        "run": "runs/one", "id": one.settings.id, "task": "peg_insert", "hardware": "sim_panda",
        "step": theirs.counters["env_steps"],
    }  # fmt: skip
    shutil.rmtree(one.path)  # the new run needs the other no more
    training = begun(new)
    ours = training.agent.state_dict()
    for name in (n for n in theirs.agent if n.startswith(("policy.", "critic", "log_"))):
        assert torch.equal(ours[name], theirs.agent[name]), name
    assert training.env_steps == training.governor.updates == training.offline_due == 0


def test_its_learner_goes_on_from_there_and_a_resumed_one_from_what_is_its_own() -> None:
    trained()
    new = create_run("peg_insert", replace(OPTIONS, learnt_from="one", demos_from=("one",)))
    new.learnt.rename("elsewhere")
    with pytest.raises(DataError, match=r"restore it from a copy.*--learnt-from runs/one"):
        Learner(new, StopRequest())  # else it would begin with nothing, unseen
    Path("elsewhere").rename(new.learnt)
    learner, _ = learn(new, until=30)
    assert learner.training.offline_updates == SMALL.bc_initial_updates  # the other's
    rows = [json.loads(row) for row in new.metrics_file.read_text().splitlines()]
    assert rows and all(row["offline_updates"] == SMALL.bc_initial_updates for row in rows)
    shutil.rmtree(new.learnt)  # not looked at once there is a checkpoint of its own
    learner, actor = learn(new)
    assert newest(new.checkpoints).counters["env_steps"] == learner.training.env_steps
    assert actor.versions[-1] == (learner.training.env_steps - 1) // new.settings.block_steps


def test_an_encoder_is_trained_on_with_what_was_shown_here() -> None:
    trained(RENEWING, obs="pixels")
    theirs = newest(Path("runs/one/checkpoints")).agent
    options = replace(OPTIONS, obs="pixels", learner=RENEWING, learnt_from="one", steps=4 * STEPS)
    shown = create_run("peg_insert", replace(options, demos_from=("one",)))
    alone = create_run("peg_insert", replace(options, name="alone", demos=0))
    for folder, same in ((shown, False), (alone, True)):
        ours = begun(folder).agent.state_dict()
        seeing = [n for n in theirs if n.startswith("policy.vision.") and "weight" in n]
        assert seeing
        assert all(torch.equal(ours[n], theirs[n]) for n in seeing) == same
        # what a number of what is seen means stays what critics and policy have learnt it to be
        scaled = [n for n in theirs if "normaliser" in n]
        assert scaled and all(torch.equal(ours[n], theirs[n]) for n in scaled)


def test_of_auto_it_is_the_others_encoder() -> None:
    trained(RENEWING, obs="pixels")
    learner = replace(RENEWING, encoder="auto")
    options = replace(OPTIONS, obs="pixels", learner=learner, learnt_from="one", demos=0)
    folder = create_run("peg_insert", options)
    assert begun(folder).spec.encoder == newest(folder.learnt).spec.encoder


def test_what_does_not_fit_is_refused_with_all_else_and_nothing_is_made() -> None:
    one = trained()
    make_folder(Path("runs/untrained"))
    Path("tasks").mkdir()
    Path("tasks/faster.py").write_text(
        "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
        "TASK = replace(load_task('peg_insert'), name='faster', action_translation=0.01)\n"
    )
    wider = replace(COPYING, agent=RLPDConfig(hidden=(24, 24)), algorithm="rlpd")
    fewer = replace(COPYING, agent=replace(SMALL, critics=3))
    good = replace(OPTIONS, learnt_from="one")
    for task, options, words in (
        ("peg_insert", replace(good, learnt_from="nowhere"), "is not a run"),
        ("peg_insert", replace(good, learnt_from="untrained"), "has learnt nothing yet"),
        ("peg_insert", replace(good, learner=wider), "another policy"),
        ("peg_insert", replace(good, learner=fewer), "other networks"),
        ("peg_insert", replace(good, obs="pixels", learner=CONFIG), "another policy"),
        ("faster", good, "action_translation 0.008, and this one 0.01"),
    ):
        with pytest.raises(ConfigError, match=words) as refused:
            create_run(task, options)
        assert "cannot be begun with" in str(refused.value)
    both = replace(OPTIONS, learnt_from="nowhere", demos_from=("untrained", "neither"))
    with pytest.raises(ConfigError, match=r"begun with(.|\n)*cannot be taken over"):
        create_run("peg_insert", both)
    assert not Path("runs/new").exists()
    weights = next(one.checkpoints.glob("*/agent.safetensors"))
    for path in one.checkpoints.glob("*/agent.safetensors"):
        path.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(ConfigError, match="no whole checkpoint of a learner"):
        create_run("peg_insert", good)


def test_a_task_of_another_name_may_begin_with_it() -> None:
    trained()
    Path("tasks").mkdir()
    Path("tasks/tight.py").write_text(
        "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
        "TASK = replace(load_task('peg_insert'), name='tight', max_steps=50)\n"
    )
    new = create_run("tight", replace(OPTIONS, learnt_from="one", demos=0))
    assert new.section("learnt_from")["task"] == "peg_insert"
    ours, theirs = begun(new).agent.state_dict(), newest(new.learnt).agent
    assert all(torch.equal(ours[n], theirs[n]) for n in theirs if n.startswith("critic"))
