"""An evaluation is seen in the console: who acts, how far it is, its own arms; and the page's stop
ends it.
"""

import csv
import threading
import time

import pytest

from robot_rl.config.evaluation_files import evaluation_file
from robot_rl.console.model import ConsoleModel, Snapshot, Sources
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.runs import evaluate
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.types import StoppedError
from tests.helpers import wait_until

FEW = 1_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run whose policy has learnt nothing."""
    monkeypatch.chdir(tmp_path)
    made = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    made.demos_file.write_text('{"successes": 0, "attempts": 0, "steps": 0}')
    policy = LivePolicy(PolicySpec.from_space(made.spaces(), "none"), {})
    monkeypatch.setattr(evaluate, "load_policy", lambda checkpoints, step: policy)
    return made


@pytest.mark.slow
def test_an_evaluation_is_seen_as_such_and_ends_with_the_pages_stop(folder):
    sources, came_to = Sources.of_run(folder), []
    evaluation = threading.Thread(target=lambda: came_to.append(evaluate.evaluate_run(folder, FEW)))
    evaluation.start()
    watch, seen = ConsoleModel(sources), list[Snapshot]()

    def two_are_done() -> bool:
        seen.append(watch.look())
        view, (arm,) = seen[-1].view, seen[-1].arms
        return view is not None and view.facts.get("evaluated", 0) >= 2 and arm is not None

    wait_until(two_are_done, timeout_s=60.0)
    view = seen[-1].view
    assert view is not None and view.step is not None
    facts, step = view.facts, view.step
    assert (facts["verb"], facts["wanted"]) == ("eval", FEW) and 0 <= facts["succeeded"] <= facts[
        "evaluated"
    ]
    assert step["author"] == "policy" and not seen[-1].problems
    assert watch.arm_addresses == facts["arms"] != [arm.address for arm in sources.hardware.arms]
    console = ConsoleLinkClient(folder.settings.desk_address)
    console.say("stop")
    evaluation.join(60.0)
    assert 2 <= came_to[0]["episodes"] < came_to[0]["asked"] == FEW
    console.close()
    watch.close()


def test_beside_a_training_which_has_the_desk_an_evaluation_is_not_seen(folder):
    training = ConsoleLink(folder.settings.desk_address)
    beside = evaluate.open_desk(folder)
    assert beside.address != training.address
    beside.close()
    training.close()


def test_a_stop_before_the_first_episode_is_over_leaves_what_was_there(folder):
    summary = evaluation_file(folder.path)
    summary.write_text("of another day")
    begun = time.monotonic()
    with pytest.raises(StoppedError):
        evaluate.evaluate_run(folder, FEW, stop=lambda: time.monotonic() > begun + 0.5)
    assert summary.read_text() == "of another day"


@pytest.mark.slow
def test_it_is_sampled_then_greedy_on_the_same_starts_or_one_alone(folder, monkeypatch):
    sampled, act = [], LivePolicy.act

    def noting(policy, observation, **options):
        sampled.append(not options["greedy"])
        return act(policy, observation, **options)

    monkeypatch.setattr(LivePolicy, "act", noting)
    said = evaluate.evaluate_run(folder, 1)
    assert sampled == sorted(sampled, reverse=True) and {*sampled} == {True, False}
    assert [said[kind]["episodes"] for kind in ("sampled", "greedy")] == [1, 1]
    assert said["successes"] == said["sampled"]["successes"]
    with (folder.path / said["folder"] / "episodes.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert [row["sampled"] for row in rows] == ["True", "False"]
    assert rows[0]["seed"] == rows[1]["seed"]
    sampled.clear()
    (only,) = evaluate.parts_of(evaluate.evaluate_run(folder, 1, sampled=False))
    assert only[0] is False
    assert not any(sampled) and (folder.path / "evaluation-greedy.json").exists()
