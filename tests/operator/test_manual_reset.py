"""A task that needs a person between two episodes: the arm holds, and says what for, until it hears
that it is done.
"""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.evaluate import evaluate
from robot_rl.actor.loop import ActorConfig
from robot_rl.actor.session import RecordingSession
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.machine.signals import StopRequest
from robot_rl.operator import pause as gates
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.progress import Display
from robot_rl.runs.record import sitting_for
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import OperatorCommand
from tests.hands import Hand
from tests.teleop.benches import wait_until

SENTENCE = "put the stick back into the holder"
TASK = replace(config.load_task("peg_insert"), manual_reset=SENTENCE, max_steps=40)
HARDWARE = config.load_hardware("sim_panda")


@pytest.fixture
def env(lockstep_arm, monkeypatch):
    monkeypatch.setattr(gates, "SETTLED_S", 0.2)
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    yield opened
    opened.close()


@pytest.fixture
def gate(env, desk):
    stop = threading.Event()
    gate = PauseGate(env, desk, acknowledges=False, stop=stop.is_set)
    yield gate, stop
    stop.set()


@contextmanager
def working(work):
    """Do it in a thread, and see that it ends."""
    done: list = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    yield done
    thread.join(30.0)
    assert not thread.is_alive()


def needs_human(console) -> bool:
    facts = console.look().facts
    return facts.get("phase") == "needs a human" and facts["reason"].startswith(SENTENCE)


def test_an_evaluation_waits_for_each_reset_and_keeps_what_it_has_when_it_is_stopped(
    env, desk, gate, console
):
    env.task = replace(env.task, max_steps=3)
    shut, stop = gate
    rows: list = []

    def play():
        still = np.zeros(6, np.float32)
        return evaluate(
            env, lambda seen: still, episodes=9, seed=0, desk=desk, gate=shut, progress=rows.append
        )

    def waits_after(played):
        return len(rows) == played and needs_human(console)

    with working(play) as done:
        for played in (0, 1):
            wait_until(partial(waits_after, played))
            time.sleep(0.1)
            assert waits_after(played), "nobody has said that it is done"
            console.say("start")
        wait_until(partial(waits_after, 2))
        stop.set()
    assert [row.steps for row in done[0].episodes] == [3, 3]


@pytest.mark.parametrize("alone", [True, False])
def test_a_simulated_bench_is_rehearsed_with_a_person_if_the_run_says_so(
    lockstep_arm, tmp_path, alone
):
    settings = RunSettings("peg_insert", "sim_panda", "state", arm_addresses=(lockstep_arm,))
    sections = {"run": settings, "actor": ActorConfig(acknowledge_faults=alone)}
    folder = RunFolder.create(tmp_path / "run", sections)
    with (
        StopRequest() as stop,
        sitting_for(folder, TASK, folder.demos_log, Display(), stop, verb="demo") as sitting,
    ):
        assert sitting.gate is not None and sitting.gate.acknowledges == alone


def test_demonstrations_wait_and_the_arm_holds_until_success_is_said_at_the_device(
    env, desk, gate, console, tmp_path
):
    said, hand = (
        Teleop(Options(), Given(task=env.task, world=env.world, mode="demonstrate")),
        Hand(),
    )
    hand.read = said.read  # type: ignore[method-assign]
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(env, Operator(hand), log, seed=0, desk=desk, gate=gate[0])
        )
        with working(lambda: recorder.record(2)):
            wait_until(lambda: needs_human(console))
            console.say("start")
            wait_until(lambda: recorder.tally.attempts == 1 and needs_human(console))
            before = (log.count, env.arm_states[0].sequence)
            time.sleep(0.3)
            assert (
                log.count,
                env.arm_states[0].sequence,
            ) == before and recorder.tally.attempts == 1, "it moves"
            hand.earlier = [OperatorCommand.SUCCESS]
        assert recorder.tally.attempts == 2
