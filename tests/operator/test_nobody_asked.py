"""The arm makes no motion that nobody has asked for; a recording that leads nowhere is given up
with its reasons.
"""

import threading
import time
from dataclasses import replace

import pytest

from robot_rl import config
from robot_rl.actor import setbacks
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator import pause as gates
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import GivenUpError, OperatorCommand, Provenance, Use
from tests.hands import OPEN, Hand, still
from tests.operator.test_manual_reset import working
from tests.teleop.benches import wait_until

TASK = replace(config.load_task("peg_insert"), max_steps=40)
HARDWARE = config.load_hardware("sim_panda")
COUNT = 8


@pytest.fixture
def env(lockstep_arm, monkeypatch):
    monkeypatch.setattr(gates, "SETTLED_S", 0.2)
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    yield opened
    opened.close()


class Person(Hand):
    """Drives as the scripted operator does, and still holds the device when asked whether the arm
    may wander.

    While it wanders they rest, or take hold after `patience` looks.
    """

    patience = 1000

    def __init__(self, env: RobotEnv, desk):
        super().__init__()
        self._drives, self._desk = (
            Teleop(Options(), Given(task=env.task, world=env.world, mode="demonstrate")),
            desk,
        )
        self.holds, self._word = True, OperatorCommand.NONE
        self._agreed, self._left = False, 0

    def begin_episode(self):
        self._left, self._agreed = self.patience * self._agreed, False
        return ()

    def read(self, arms):
        if not is_asked(self._desk):
            self._left = max(0, self._left - 1)
            return OPEN if self._left else self._drives.read(arms)
        return still(0.5) if self.holds else OPEN

    def take_words(self):
        if not is_asked(self._desk):
            return ()
        self.reports += 1
        word, self._word = self._word, OperatorCommand.NONE
        return [word]

    def answer(self, word: OperatorCommand) -> None:
        """Say it, once the question has stood for a while, and wait until it was heard."""
        time.sleep(2.0 * gates.SETTLED_S)
        self._agreed = word != OperatorCommand.FAILURE
        heard, self._word = self.reports, word
        wait_until(lambda: self.reports > heard + 1 or not is_asked(self._desk))


def is_asked(desk, motion="by itself") -> bool:
    return desk._facts.get("phase") == "needs a human" and motion in desk._facts["reason"]


def test_the_arm_wanders_only_where_the_person_has_let_go_and_says_so(env, desk, console, tmp_path):
    """The first time they hold the device, then say success at it; then failure; then start in the
    console.
    """
    person, stop = Person(env, desk), threading.Event()
    gate = PauseGate(env, desk, acknowledges=True, stop=stop.is_set)
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(env, Operator(person), log, seed=0, desk=desk, gate=gate)
        )
        with working(lambda: recorder.record(3, wander_steps=COUNT)):
            try:
                wait_until(lambda: is_asked(desk))
                stood = (log.count, env.arm_states[0].sequence)
                person.answer(OperatorCommand.SUCCESS)
                assert (
                    log.count,
                    env.arm_states[0].sequence,
                ) == stood, "it moves though the device is held"
                person.holds = False
                person.answer(OperatorCommand.SUCCESS)
                wait_until(lambda: recorder.tally.successes == 2 and is_asked(desk))
                person.answer(OperatorCommand.FAILURE)
                wait_until(lambda: recorder.tally.successes == 3 and is_asked(desk))
                person.answer(OperatorCommand.NONE)
                console.say("start")
                wait_until(
                    lambda: recorder.tally.episodes == 5 and recorder.tally.unfinished is None
                )
            finally:
                stop.set()
        steps = [step for step in log.read() if step.index > 0]
    wandering = [step.episode for step in steps if step.provenance == Provenance.SCRIPT]
    assert wandering == [1] * COUNT + [4] * COUNT


def test_a_hand_that_takes_hold_ends_what_the_arm_does_by_itself_and_it_holds_until_they_let_it_go_on(
    env, desk, tmp_path
):
    person, stop = Person(env, desk), threading.Event()
    person.holds, person.patience = False, 4
    gate = PauseGate(env, desk, acknowledges=True, stop=stop.is_set)
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(env, Operator(person), log, seed=0, desk=desk, gate=gate)
        )
        with working(lambda: recorder.record(2, wander_steps=COUNT)):
            try:
                wait_until(lambda: is_asked(desk, "moves about the goal"))
                person.answer(OperatorCommand.SUCCESS)
                wait_until(lambda: is_asked(desk, "next start"))
                stood = (log.count, env.arm_states[0].sequence)
                person.answer(OperatorCommand.FAILURE)
                wait_until(lambda: is_asked(desk, "next start"))
                assert (
                    log.count,
                    env.arm_states[0].sequence,
                ) == stood, "it moves though nobody let it"
                person.answer(OperatorCommand.SUCCESS)
                wait_until(lambda: is_asked(desk, "moves about the goal"))
                person.answer(OperatorCommand.FAILURE)
                wait_until(lambda: recorder.tally.successes == 2)
            finally:
                stop.set()
        wandered = [
            step for step in log.read() if step.index > 0 and step.provenance == Provenance.SCRIPT
        ]
    assert len(wandered) == 4 and wandered[-1].truncated
    assert wandered[2].commanded.any() and not wandered[-1].commanded.any()


def record(env, desk, device, path, **task):
    env.task = replace(TASK, max_steps=3, **task)
    gate = PauseGate(env, desk, acknowledges=True, stop=lambda: False)
    with StepLog(path, env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(env, Operator(device), log, seed=0, desk=desk, gate=gate)
        )
        with pytest.raises(GivenUpError) as error:
            recorder.record(1)
        return recorder.tally, str(error.value)


def test_a_recording_that_leads_nowhere_is_given_up_and_says_why(env, desk, tmp_path, monkeypatch):
    scripted = Teleop(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))
    tally, why = record(env, desk, scripted, tmp_path / "a.log")
    assert tally.attempts == 10 and tally.steps == 30
    assert why.startswith(
        "10 attempts in a row have failed; reward 'simulator' never fired; nearest to the goal"
    )
    assert "the scripted operator knows insertions alone" in why
    tally, why = record(
        env, desk, Hand(still() for _ in range(31)), tmp_path / "b.log", reward=Use("simulator")
    )
    assert tally.attempts == 10 and "operator knows" not in why
    monkeypatch.setattr(setbacks, "IDLE_AT_MOST_S", 2.0)
    tally, why = record(env, desk, Hand(), tmp_path / "c.log")
    assert tally.attempts == tally.steps == 0
    assert why.startswith("nobody has moved the arm for 2 s: hand said nothing")
