"""An arm whose loop hangs in mid episode: nothing is recorded of a bench that nobody sees; then it
goes on.
"""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.session import RecordingSession
from robot_rl.env.robot import RobotEnv
from robot_rl.env.states import ArmStates
from robot_rl.machine.clock import ClockKind
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.stream.log import StepLog
from robot_rl.types import ArmStaleError, Mark, MarkKind, Step
from tests.hands import Hand, arm_at

pytestmark = pytest.mark.real_clock

HANGS_S = 2.5
SLOWLY = np.array([0.3, 0.0, 0.1, 0.0, 0.0, 0.0], np.float32)


class Reporting:
    """An arm that says what it is told to say."""

    def __init__(self, clock: ClockKind):
        self.info = type("Info", (), {"name": "fr3", "clock": clock})
        self.says = arm_at(0.0)

    def state(self):
        return self.says


def test_a_state_older_than_two_periods_is_none_and_the_arm_is_named():
    arm = Reporting("real")
    states = ArmStates([arm], period_s=0.1)  # type: ignore[list-item]
    arm.says = replace(arm.says, sequence=1, age_s=0.19)
    assert states.read() == [arm.says]
    arm.says = replace(arm.says, sequence=2, age_s=0.21)
    with pytest.raises(
        ArmStaleError, match=r"arm 'fr3' has no fresh state: its newest is 0\.2 s old"
    ) as caught:
        states.read()
    assert caught.value.arm == "fr3"


def test_a_state_that_does_not_change_grows_old_also_if_its_arm_says_nothing_of_it():
    arm = Reporting("real")
    states = ArmStates([arm], period_s=0.05)  # type: ignore[list-item]
    first = states.read()
    assert states.read() == first, "asked again at once"
    with pytest.raises(ArmStaleError):
        states.read(after=first)  # a step later
    with pytest.raises(ArmStaleError):
        states.read()  # what was none stays none
    arm.says = replace(arm.says, sequence=1)
    assert states.read(after=first) == [arm.says]
    time.sleep(0.11)
    with pytest.raises(ArmStaleError):
        states.read()


def test_in_lockstep_time_stands_still_and_nothing_grows_old():
    states = ArmStates([Reporting("lockstep")], period_s=0.01)  # type: ignore[list-item]
    first = states.read()
    time.sleep(0.03)
    assert states.read(after=first) == first


def loop_of(process) -> int:
    """The process id of the arm's 1 kHz loop."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (loop,) = [
        pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return int(loop)


def test_a_hung_loop_ends_the_episode_behind_its_last_step_and_the_next_one_waits_for_it(
    start_arm, tmp_path, caplog
):
    hardware, arm = config.load_hardware("sim_panda"), start_arm("real")
    bench = replace(hardware, arms=(replace(hardware.arms[0], address=arm.address),))
    env = RobotEnv(replace(config.load_task("peg_insert"), max_steps=15), bench, obs="state")
    loop = loop_of(arm.process)
    hung: list[float] = []

    def act(observation):
        if len(taken) == 6 and not hung:
            hung.append(time.monotonic())
            os.kill(loop, signal.SIGSTOP)
            threading.Timer(HANGS_S, lambda: os.kill(loop, signal.SIGCONT)).start()
        return SLOWLY

    taken: list[Step] = []
    try:
        with StepLog(tmp_path / "log", env.space_spec) as log:
            sitting = RecordingSession(env, Operator(Hand()), log, seed=0)
            first = sitting.play(0, act, Intervention(None), each=taken.append, seed=1)
            assert first.broken_off and "arm 'panda' has no fresh state" in first.reason
            assert first.steps in (5, 6), "the step in which it stopped may still have been seen"
            second = sitting.play(1, act, Intervention(None), seed=2)
            went_on_s = time.monotonic() - hung[0]
            entries = [said for _, said in log.entries()]
    finally:
        os.kill(loop, signal.SIGCONT)
        env.close()
    assert HANGS_S < went_on_s < HANGS_S + 10.0
    assert not second.broken_off and second.steps == 15 and not second.fault
    (mark,) = [said for said in entries if isinstance(said, Mark)]
    assert (mark.kind, mark.episode) == (MarkKind.TRUNCATED, 0) and mark.reason == first.reason
    seen = [
        said.observation["state/tcp_pose"].tobytes() for said in entries if isinstance(said, Step)
    ]
    assert len(set(seen)) == len(seen), "the same state twice"
    assert any("waiting: arm 'panda' has no fresh state" in line for line in caplog.messages)
