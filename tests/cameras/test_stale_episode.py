"""An episode whose camera has no fresh frame any more: it ends behind the last step that was seen;
the arm holds.
"""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor import episodes
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.actor.evaluate import evaluate
from robot_rl.dataset.assembly import Assembler, EpisodeFacts, with_marks
from robot_rl.env.robot import RobotEnv
from robot_rl.learner.replay import Replay
from robot_rl.operator.annotations import truncated
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.types import ArmState, CameraStaleError, Mark, MarkKind, Provenance, Step
from tests.cameras.bench import Mjpeg, be_quick, wait_until

pytestmark = pytest.mark.real_clock

SIZE = (24, 32)
SLOWLY = np.array([0.0, 0.0, -0.3, 0.0, 0.0, 0.0], np.float32)


@pytest.fixture
def camera(monkeypatch):
    be_quick(monkeypatch)
    monkeypatch.setattr(episodes, "LOOK_AGAIN_S", 0.02)
    made = Mjpeg()
    yield made
    made.close()


@pytest.fixture
def env(camera, real_arm):
    """The simulated arm in real time, looked at by a camera that may fail."""
    hardware = config.load_hardware("sim_panda")
    hardware = replace(
        hardware,
        arms=(replace(hardware.arms[0], address=real_arm),),
        cameras=(replace(camera.config, name="wrist"),),
    )
    task = replace(
        config.load_task("peg_insert"), cameras=("wrist",), image_size=SIZE, max_steps=20
    )
    made = RobotEnv(task, hardware)
    yield made
    made.close()


def play(env, camera, gate, after=20, episode=0):
    """The steps of one episode; the camera stalls after so many of them. It is played again where
    the machine itself was late with a frame.
    """
    runner = EpisodeRunner(env, gate=gate)
    while True:
        steps = []
        for step in runner.play(episode, lambda observation: SLOWLY, Intervention(None), seed=1):
            steps.append(step)
            if step.index == after:
                camera.stall(True)
        if camera.stalled or not runner.summary.broken_off:
            return runner.summary, steps


def stands(arm: ArmState) -> bool:
    return arm.holding and bool(np.abs(arm.twist_base_tcp[:3]).max() < 1e-3)


def test_an_episode_ends_behind_the_last_step_that_was_seen_and_goes_on_when_the_camera_is_back(
    env, camera, desk
):
    summary, steps = play(
        env, camera, PauseGate(env, desk, acknowledges=True, stop=lambda: False), after=5
    )
    assert summary.broken_off and not summary.fault and not summary.success
    assert "camera 'wrist'" in summary.reason and "s old" in summary.reason
    assert 5 <= summary.steps <= 12  # a frame is good for half a second
    assert [step.index for step in steps] == list(range(summary.steps + 1))
    # they were sent before anybody knew
    assert not any(step.terminated or step.truncated for step in steps)
    with pytest.raises(CameraStaleError):
        env.step(SLOWLY)
    wait_until(lambda: stands(env.arms[0].refresh()), 5.0, "the arm does not hold")

    unwanted = PauseGate(env, desk, acknowledges=True, stop=lambda: True)
    assert play(env, camera, unwanted, episode=1)[1] == []  # a stop was asked for

    # the arm holds while the camera is awaited, and the next episode is played as if nothing had
    # been
    threading.Timer(0.6, camera.stall, [False]).start()
    stood = env.arms[0].refresh().pose_base_tcp
    told: list[str] = []

    def holds():
        if camera.stalled:
            np.testing.assert_allclose(env.arms[0].refresh().pose_base_tcp, stood, atol=1e-3)
        return False

    begun = time.monotonic()
    gate = PauseGate(env, desk, acknowledges=True, stop=holds, say=told.append)
    summary, steps = play(env, camera, gate, after=math.inf, episode=1)
    assert time.monotonic() - begun > 0.5
    assert told  # said once each
    assert all("camera 'wrist'" in missing for missing in told[::2]) and not any(told[1::2])
    assert (
        not summary.broken_off
        and summary.reason == ""
        and summary.steps == 20
        and steps[-1].truncated
    )


def test_an_evaluation_plays_an_episode_again_that_a_camera_broke_off(env, camera, desk):
    shown = []

    def act(observation):
        shown.append(observation)
        if len(shown) == 5:
            camera.stall(True)
            threading.Timer(1.5, camera.stall, [False]).start()
        return SLOWLY

    gate = PauseGate(env, desk, acknowledges=True, stop=lambda: False)
    done = evaluate(env, act, episodes=1, seed=3, gate=gate)
    assert [row.steps for row in done.episodes] == [20]
    assert len(shown) >= 20 + 5  # more than once, where the machine itself makes the camera late


def made_step(index, episode=0):
    nothing = np.zeros(6, np.float32)
    observation = {"state/tcp_pose": np.full(6, index, np.float32)}
    return Step(episode, index, observation, nothing, nothing, nothing, 0.0, False, False,
                Provenance.POLICY, 0, 0.1 * index, 100.0 + index)  # fmt: skip


@pytest.fixture
def space():
    from robot_rl.types import SpaceSpec

    return SpaceSpec.unnamed({"state/tcp_pose": ((6,), "float32")}, 6)


def test_in_the_log_it_is_truncated_at_its_last_step_with_the_reason(tmp_path, space):
    log = StepLog(tmp_path / "steps.log", space)
    for step in map(made_step, range(4)):
        log.append_step(step)
    log.append_mark(truncated(0, "camera 'wrist': gone"))
    for step in (made_step(0, 1), made_step(1, 1)):
        log.append_step(step)
    assembler = Assembler(log)
    (broken_off,) = [episode for record in log.records() for episode in assembler.add(*record)]
    facts = with_marks(EpisodeFacts.of(broken_off), assembler.marks_of(broken_off.key))
    assert (broken_off.length, broken_off.end) == (3, "cut short")
    assert broken_off.truncated.tolist() == [False, False, True] and not broken_off.terminated.any()
    assert [(mark["kind"], mark["reason"]) for mark in facts.marks] == [
        ("truncated", "camera 'wrist': gone")
    ]
    log.close()


def test_for_learning_it_has_every_transition_and_none_ends_the_return(space):
    replay = Replay(space, capacity=32)
    for step in map(made_step, range(4)):
        replay.append(step)
    replay.apply(Mark(MarkKind.TRUNCATED, 0, reason="gone"))
    replay.append(made_step(4))  # no more of it comes: this is none of its steps
    assert replay.own_transitions == 3
    assert not replay._terminated.any()


def test_a_long_reason_fits_into_a_mark():
    assert len(truncated(3, "x" * 10_000).reason) == 500


def test_the_console_sees_all_of_what_the_policy_sees_a_part_of(env, desk, console):
    EpisodeRunner(env, desk=desk)
    picture = console.picture("wrist")
    assert picture.whole and picture.size == (
        env.cameras["wrist"].whole.shape[1],
        env.cameras["wrist"].whole.shape[0],
    )
    assert picture.size > SIZE[::-1] == env.cameras["wrist"].read().shape[1::-1]
