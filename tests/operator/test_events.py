"""What an operator says of an episode that is over reaches the learner at once: between two, and
after the last one.
"""

import threading
from dataclasses import replace

import pytest

from robot_rl import config
from robot_rl.actor.loop import Actor, ActorConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner import loop
from robot_rl.learner.loop import Learner
from robot_rl.links.events import MOST
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.signals import StopRequest
from robot_rl.operator import intervention
from robot_rl.operator.mapping import Operator
from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, MarkKind, OperatorCommand, Step, Use
from tests.hands import Hand
from tests.learner.test_loop import CONFIG
from tests.teleop.benches import wait_until

LENGTH = 5
TASK = replace(config.load_task("peg_insert"), max_steps=LENGTH, reward=Use("operator"))


@pytest.fixture
def folder(lockstep_arm, tmp_path):
    """A run of two episodes without demonstrations, which makes no updates."""
    steps, weights, calls, learner, actor, desk = free_addresses(6)
    settings = RunSettings(
        task="peg_insert", hardware="sim_panda", obs="state", clock="real", steps=2 * LENGTH, demos=0,
        arm_addresses=(lockstep_arm,), steps_address=steps, weights_address=weights,
        calls_address=calls, learner_status_address=learner, actor_status_address=actor, desk_address=desk,
    )  # fmt: skip
    learning = replace(CONFIG, schedule=replace(CONFIG.schedule, start_steps=1_000))
    sections = {"run": settings, "actor": ActorConfig(), "learner": learning, "task": TASK}
    made = RunFolder.create(tmp_path / "run", sections)
    StepLog(made.demos_log, made.spaces()).close()
    made.write_demos({"successes": 0, "attempts": 0, "steps": 0})
    return made


@pytest.mark.parametrize("source", ["device", "console"])
def test_it_is_in_the_replay_before_the_next_episode_begins_and_before_the_actor_ends(
    folder, monkeypatch, source
):
    monkeypatch.setattr(loop, "QUIET_S", 5.0)
    hand, stop = Hand(), StopRequest()
    monkeypatch.setattr(intervention, "open_operator", lambda *_, **options: Operator(hand))
    learner = Learner(folder, stop)

    def learn() -> None:
        if learner.prepare():
            learner.run()

    learning = threading.Thread(target=learn)
    learning.start()
    actor = Actor(folder, stop)
    events, report = actor._desk.events, actor._report

    def say(*words: OperatorCommand) -> None:
        if source == "device":
            hand.earlier = [*words]
            return
        for word in words:
            events.put(word, "console")

    def report_and_speak(summary) -> None:
        report(summary)
        if summary.episode == 0:
            events.put(OperatorCommand.PAUSE, "console")
        else:
            say(OperatorCommand.SUCCESS)

    actor._report = report_and_speak  # type: ignore[method-assign]
    acting = threading.Thread(target=actor.run)
    acting.start()
    replay = learner.training.memory.replay
    try:
        wait_until(lambda: actor._gate.shut and replay.own_transitions == LENGTH, timeout_s=60.0)
        say(OperatorCommand.UNDO)
        wait_until(lambda: replay.own_transitions == 0, timeout_s=60.0)
        say(OperatorCommand.UNDO)
        wait_until(lambda: replay.own_transitions == LENGTH, timeout_s=60.0)
        say(*[OperatorCommand.DISCARD] * MOST)
        wait_until(lambda: replay.own_transitions == 0, timeout_s=60.0)
        assert actor._gate.shut and actor._episode == 1
        events.put(OperatorCommand.START, "console")
        wait_until(lambda: not learning.is_alive(), timeout_s=120.0)
    finally:
        stop._asked = True
        for thread in (acting, learning):
            thread.join(60.0)
        actor.close()
        learner.close()
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        said = [record for _, record in log.entries()]
    steps = [one for one in said if isinstance(one, Step)]
    marks = [one for one in said if isinstance(one, Mark)]
    first = [(kind, 0) for kind in (MarkKind.DISCARD, MarkKind.UNDO, MarkKind.DISCARD)]
    assert [(mark.kind, mark.episode) for mark in marks] == [*first, (MarkKind.SUCCESS, 1)]
    assert [step.episode for step in steps] == [0] * (LENGTH + 1) + [1] * (LENGTH + 1)
    assert (
        replay.own_transitions == LENGTH and learner.training.memory.replay._terminated.sum() == 1
    )
