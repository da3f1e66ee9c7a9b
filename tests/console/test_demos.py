"""Demonstrations with the gizmo and the console's words: link, device, clutch, arm, log; without a
browser.
"""

from functools import partial
from itertools import groupby

import numpy as np
import pytest

from robot_rl import geometry
from robot_rl.actor.demonstrate import DemoTally
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.operator.intervention import open_intervention
from robot_rl.stream.log import StepLog
from robot_rl.types import MarkKind, Provenance, StoppedError
from tests.console.desk_task import TASK, Recording, hardware_at
from tests.teleop.benches import wait_until

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 30.0  # a shared machine stands still for seconds, once in a while


@pytest.fixture
def record(lockstep_arm, tmp_path):
    started: list[Recording] = []
    hardware = hardware_at(lockstep_arm)

    def start(**options) -> Recording:
        started.append(Recording(hardware, tmp_path / "demos.log", **options))
        return started[-1]

    yield start
    for recording in started:
        recording.close()


def test_five_demonstrations_by_gizmo_are_inserted_and_recorded(record):
    recording = record(wanted=5)
    console = ConsoleLinkClient(recording.desk.address, PATIENCE_S)
    inserted = 0
    for attempt in range(5):
        wait_until(partial(recording.acts_in, attempt), timeout_s=90.0)
        while recording.running and recording.facts["attempts"] == attempt:
            world, arm = recording.env.world.latest, recording.env.arm_states[0]
            console.hold(insertion(arm.target_base_tcp, world.goal_base_tcp))
            if world.success:
                inserted += 1
                console.hold(None)
                console.say("success")
                wait_until(partial(is_over, recording, attempt), timeout_s=60.0)
    recording.finish()
    console.close()
    assert recording.error is None and inserted == 5
    assert (recording.recorder.tally.successes, recording.recorder.tally.attempts) == (5, 5)
    steps = recording.steps()
    assert max(np.abs(step.commanded).max() for step in steps) <= 1.0 + 1e-6


def is_over(recording: Recording, attempt: int) -> bool:
    return recording.facts["attempts"] > attempt or not recording.running


def insertion(target, goal):
    """Where to hold the gizmo: first above the hole and upright, then down, a little deeper than
    the goal.
    """
    error = geometry.pose_error(target, goal)
    aside = np.abs(error) * [1, 1, 0, 1, 1, 1]
    aim = goal.copy()
    aim[2] += -0.004 if (aside < [5e-4, 5e-4, 1, 5e-3, 5e-3, 5e-3]).all() else 0.03
    return aim


def test_a_review_keeps_or_discards_and_a_recording_goes_on_where_it_stopped(record):
    recording = record(wanted=3, review=True)
    console = ConsoleLinkClient(recording.desk.address, PATIENCE_S)

    def attempt(episode: int, verdict: str) -> None:
        wait_until(lambda: recording.acts_in(episode), timeout_s=90.0)
        console.say("success")
        wait_until(lambda: recording.facts.get("phase") == "review", timeout_s=60.0)
        console.say(verdict)
        wait_until(lambda: recording.facts.get("phase") != "review", timeout_s=60.0)

    attempt(0, "discard")
    attempt(1, "success")
    recording.stop.set()
    recording.finish()
    assert isinstance(recording.error, StoppedError)
    assert recording.recorder.tally.successes == 1
    assert [mark.kind for mark in recording.marks()][:1] == [MarkKind.DISCARD]

    again = record(wanted=2, review=True)
    console.close()
    console = ConsoleLinkClient(again.desk.address, PATIENCE_S)
    recording = again
    wait_until(lambda: again.recorder is not None, timeout_s=90.0)
    attempt(recording.recorder.tally.episodes, "success")
    again.finish()
    assert again.error is None
    with StepLog(again.path, again.env.space_spec) as log:
        assert DemoTally.of(log).successes == 2
    console.close()


def test_a_correction_by_gizmo_is_one_segment_and_the_policy_goes_on(lockstep_arm, monkeypatch):
    # beside a training a step may take long
    monkeypatch.setattr("robot_rl.links.console_link.SILENCE_S", 30.0)
    hardware, desk = hardware_at(lockstep_arm), ConsoleLink()
    env, console = (
        RobotEnv(TASK, hardware, obs="state"),
        ConsoleLinkClient(desk.address, PATIENCE_S),
    )
    intervention = open_intervention(env, corrects=True, seed=0, desk=desk)
    runner, authors = EpisodeRunner(env, desk=desk), []
    away = np.array([0.3, 0, 0, 0, 0, 0], np.float32)
    for step in runner.play(
        0,
        lambda observation: away,
        intervention,
        seed=1,
        stop=lambda: runner.summary.steps + 1 >= 30,
    ):
        authors.append(step.provenance)
        target = env.arm_states[0].target_base_tcp
        held = 8 <= step.index < 20 and step.index != 12  # let go for a moment in the middle of it
        console.hold(geometry.pose_move(target, np.array([-0.02, 0, 0, 0, 0, 0])) if held else None)
    for part in (intervention, env, console, desk):
        part.close()
    runs = [(author, len(list(group))) for author, group in groupby(authors[1:])]
    assert [author for author, _ in runs] == [
        Provenance.POLICY,
        Provenance.HUMAN,
        Provenance.POLICY,
    ]
    assert runs[1][1] >= 12 and runner.summary.segments == 1
