"""Recording demonstrations: every attempt is kept, the good ones count, and a broken-off recording
goes on.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.demonstrate import DemoRecorder, DemoTally
from robot_rl.actor.session import RecordingSession
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.episodes import counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import Mark, MarkKind, Provenance, StoppedError, TeleopEvent

TASK = replace(config.load_task("peg_insert"), max_steps=40)
WANDER = 50  # steps; no time limit of the task ends them
HARDWARE = config.load_hardware("sim_panda")


class Clumsy(Teleop):
    """Moves a hair, and then nothing, in every second attempt."""

    attempts = 0

    def begin_episode(self):
        self.attempts += 1
        return super().begin_episode()

    def read(self, arms):
        reading = super().read(arms)
        return reading if self.attempts % 2 else TeleopEvent(True, np.full(6, 0.02))


class Crash(Exception):
    pass


def test_failed_attempts_stay_in_the_log_and_a_recording_goes_on_after_a_crash(
    lockstep_arm, tmp_path
):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    env = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")

    def crash_after(attempts_wanted):
        def progress(done, attempts):
            if attempts == attempts_wanted:
                raise Crash

        return progress

    path = tmp_path / "demos.log"
    with StepLog(path, env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(
                env,
                Operator(Clumsy(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))),
                log,
                seed=0,
            )
        )
        with suppress(Crash):
            recorder.record(3, wander_steps=WANDER, progress=crash_after(2))
        broken_off = next(log.read())
        # the next one has just begun
        log.append_step(replace(broken_off, episode=recorder.tally.episodes))
    with StepLog(path, env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(
                env,
                Operator(Clumsy(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))),
                log,
                seed=0,
            )
        )
        assert recorder.tally.successes == 1
        recorder.record(3, wander_steps=WANDER)
        tally = DemoTally.of(log)
        marks = [said for _, said in log.entries() if isinstance(said, Mark)]
        counted = counted_steps(log.entries())
        everything = list(log.read())
    env.close()
    assert tally.successes == recorder.tally.successes == 3
    assert tally.attempts == recorder.tally.attempts == 6  # good, bad, broken off, good, bad, good
    assert [mark.kind for mark in marks] == [MarkKind.DISCARD] * 3
    assert tally.steps == sum(step.index > 0 for step in everything)
    assert [step.episode for step in everything if step.index == 0] == list(range(tally.episodes))
    demos = [step for step in counted if step.provenance == Provenance.DEMO]
    assert sum(step.index == 0 for step in demos) == sum(step.terminated for step in demos) == 3
    assert (
        sum(step.provenance == Provenance.SCRIPT and step.index > 0 for step in counted)
        == 3 * WANDER
    )


def test_before_each_demonstration_the_arm_looks_around_in_its_scene(
    lockstep_arm, tmp_path, monkeypatch
):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    task = replace(TASK, look_around=(replace(TASK.start[0], translation=(0.03, 0.03, 0.02)),))
    env = RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs="state")
    teleop = Teleop(Options(), Given(task=task, world=env.world, mode="demonstrate"))
    sockets: list[np.ndarray] = []
    reset = env.reset

    def watched(**given):
        observation, info = reset(**given)
        assert env.world is not None
        sockets.append(env.world.latest.goal_base_tcp.copy())
        return observation, info

    monkeypatch.setattr(env, "reset", watched)
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        recorder = DemoRecorder(RecordingSession(env, Operator(teleop), log, seed=0))
        recorder.record(2, wander_steps=10)
        assert recorder.tally.successes == recorder.tally.attempts == 2
        recorded = list(log.read())
    env.close()
    authors = [step.provenance for step in recorded if step.index == 0]
    assert authors == [Provenance.LOOK, Provenance.DEMO, Provenance.SCRIPT] * 2
    assert sum(step.provenance == Provenance.LOOK for step in recorded) == 2 * 11
    for look, demo, wander in (sockets[:3], sockets[3:]):
        np.testing.assert_allclose(look, demo, atol=1e-9)
        np.testing.assert_allclose(look, wander, atol=1e-9)
    assert np.linalg.norm(sockets[0] - sockets[3]) > 1e-4


def test_a_stop_truncates_the_attempt_that_goes_on_and_it_does_not_count(
    lockstep_arm, desk, tmp_path
):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    env = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    teleop = Teleop(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        gate = PauseGate(env, desk, acknowledges=True, stop=lambda: len(list(log.read())) > 5)
        recorder = DemoRecorder(
            RecordingSession(env, Operator(teleop), log, seed=0, desk=desk, gate=gate)
        )
        with pytest.raises(StoppedError):
            recorder.record(3)
        steps, marks = (
            list(log.read()),
            [said for _, said in log.entries() if isinstance(said, Mark)],
        )
    env.close()
    assert [step.index for step in steps] == list(range(7)) and steps[-1].truncated
    assert recorder.tally.successes == 0 and [mark.kind for mark in marks] == [MarkKind.DISCARD]
