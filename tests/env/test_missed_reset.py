"""A reset that misses: a person is asked, everywhere alike, and it counts; a simulation tries again
elsewhere.
"""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.resets import rubbing_bench, try_resets
from robot_rl import config
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.episodes import FAILED_RESETS_AT_MOST, EpisodeRunner
from robot_rl.actor.evaluate import evaluate
from robot_rl.actor.outcomes import OutcomeRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.controllers.client import ArmClient
from robot_rl.env import reset
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator import pause as gates
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import ArmFaultError, ArmTarget, Mark, OperatorCommand, ResetMissedError
from tests.hands import Hand
from tests.teleop.benches import wait_until

TASK = replace(config.load_task("peg_insert"), max_steps=40)
HARDWARE = config.load_hardware("sim_panda")
LAW = config.load_hardware("fci_sim").arms[0].reset_compliance
STILL = np.zeros(6, np.float32)


def away(start):
    """A start 50 mm beyond the workspace: as if something were in the way there."""
    _, y, z, *quat = start.pose_base_tool
    return replace(
        start, pose_base_tool=(HARDWARE.arms[0].limits.workspace_high[0] + 0.05, y, z, *quat)
    )


@pytest.fixture
def env(lockstep_arm, monkeypatch):
    monkeypatch.setattr(gates, "SETTLED_S", 0.0)
    monkeypatch.setattr(reset, "PATIENCE", 30)  # control periods
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    yield opened
    opened.close()


@contextmanager
def working(work: Callable[[], object], stop: threading.Event):
    """Do it in a thread, and see that it ends."""
    done: list = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    try:
        yield done
        thread.join(30.0)
        assert done, "it did not go on"
    finally:
        stop.set()
        thread.join(10.0)


def demonstrations(env, desk, gate, log) -> int:
    recorder = DemoRecorder(RecordingSession(env, hand(env), log, seed=0, desk=desk, gate=gate))
    recorder.record(1)
    return recorder.tally.successes


def outcomes(env, desk, gate, log) -> int:
    recorder = OutcomeRecorder(
        RecordingSession(env, hand(env), log, seed=0, desk=desk, gate=gate), per_episode=1
    )
    recorder.record(1, 1)
    return recorder.counts[0]


def evaluation(env, desk, gate, log) -> int:
    skill = Teleop(Options(), Given(task=env.task, world=env.world, mode="demonstrate"))
    done = evaluate(
        env, lambda seen: skill.read(env.arm_states).twist, episodes=1, seed=0, desk=desk, gate=gate
    )  # fmt: skip
    assert done.missed_resets == 2
    return done.successes


def hand(env) -> Operator:
    """The scripted operator at a device that says words as well."""
    return Operator(Teleop(Options(), Given(task=env.task, world=env.world, mode="demonstrate")))


@pytest.mark.parametrize("work", [demonstrations, outcomes, evaluation])
def test_a_person_is_asked_until_the_arm_gets_there_and_it_counts(
    work, env, desk, console, tmp_path
):
    stop = threading.Event()
    gate = PauseGate(env, desk, acknowledges=False, stop=stop.is_set)
    start, env.task = env.task.start, replace(env.task, start=tuple(map(away, env.task.start)))

    def asks_for(missed: int) -> bool:
        facts = console.look().facts
        return facts.get("phase") == "needs a human" and facts.get("missed_resets") == missed

    with (
        StepLog(tmp_path / "log", env.space_spec) as log,
        working(lambda: work(env, desk, gate, log), stop) as done,
    ):
        wait_until(lambda: asks_for(1), timeout_s=20.0)
        reason = console.look().facts["reason"]
        assert (
            "did not arrive" in reason
            and "mm and" in reason
            and "Look at it: is something in its way" in reason
        )
        assert reason.endswith(gates.DONE)
        console.say("start")  # nothing has been mended
        wait_until(lambda: asks_for(2), timeout_s=20.0)
        assert log.count == 0 and not done
        env.task = replace(env.task, start=start)
        console.say("start")
    assert done == [1] and gate.missed_resets == 2


def test_success_at_the_device_says_that_it_is_done_and_the_summary_counts(env, desk):
    device, stop = Hand(), threading.Event()
    asked: list[str] = []  # what was said before is about something else, and is not heard
    gate = PauseGate(env, desk, acknowledges=False, stop=stop.is_set, say=asked.append)
    runner = EpisodeRunner(env, desk=desk, gate=gate)
    start, env.task = (
        env.task.start,
        replace(env.task, start=tuple(map(away, env.task.start)), max_steps=2),
    )

    def play():
        return list(
            runner.play(0, lambda seen: STILL, Intervention(Operator(device), gate=gate), seed=5)
        )

    with working(play, stop) as done:
        wait_until(lambda: bool(asked), timeout_s=20.0)
        env.task = replace(env.task, start=start)
        device.earlier = [OperatorCommand.SUCCESS]
    assert [step.index for step in done[0]] == [0, 1, 2]
    assert (runner.summary.missed_resets, runner.summary.seed) == (1, 6), (
        "another start than the one that missed"
    )


def test_a_stop_while_a_person_is_asked_gives_the_episode_up_and_keeps_those_before(
    env, desk, console, tmp_path
):
    stop, start = threading.Event(), env.task.start
    gate = PauseGate(env, desk, acknowledges=False, stop=stop.is_set)

    def block(row):
        env.task = replace(env.task, start=tuple(map(away, start)))

    env.task = replace(env.task, max_steps=3)
    with working(
        lambda: evaluate(
            env, lambda seen: STILL, episodes=3, seed=0, desk=desk, gate=gate, progress=block
        ),
        stop,
    ) as done:
        wait_until(lambda: console.look().facts.get("phase") == "needs a human", timeout_s=20.0)
        stop.set()
    assert [row.steps for row in done[0].episodes] == [3]


def test_in_simulation_it_is_tried_again_in_other_scenes_and_then_given_up(env, desk, monkeypatch):
    scenes: list[int] = []
    place = env.world.reset

    def noting(seed):
        scenes.append(seed)
        return place(seed)

    monkeypatch.setattr(env.world, "reset", noting)
    gate = PauseGate(env, desk, acknowledges=True, stop=lambda: False)
    runner = EpisodeRunner(env, desk=desk, gate=gate)
    env.task = replace(env.task, start=tuple(map(away, env.task.start)))
    with pytest.raises(
        ResetMissedError, match=r"4 resets in a row, each of another scene.* arm 'panda' is off by"
    ):
        list(runner.play(0, lambda seen: STILL, Intervention(None), seed=5))
    assert (
        len(scenes) == len(set(scenes)) == runner.summary.missed_resets == FAILED_RESETS_AT_MOST + 1
    )


def test_without_a_gate_nobody_would_come_and_it_is_raised(env):
    env.task = replace(env.task, start=tuple(map(away, env.task.start)))
    with pytest.raises(ResetMissedError):
        list(EpisodeRunner(env).play(0, lambda seen: STILL, Intervention(None), seed=5))


class Trips(Teleop):
    """A skilled operator in whose presence the arm faults once on the way to its start.

    They are asked for their words at the gate, and then on the way.
    """

    asked = 0
    env: RobotEnv

    def take_words(self):
        self.asked += 1
        if self.asked == 2:
            self.env.arms[0].command(ArmTarget(np.full(7, np.nan), 0.1))
        return ()


def test_a_fault_on_the_way_in_a_demonstration_waits_until_it_is_acknowledged(
    env, desk, console, tmp_path
):
    stop, device = (
        threading.Event(),
        Trips(Options(), Given(task=env.task, world=env.world, mode="demonstrate")),
    )
    device.env = env
    gate = PauseGate(env, desk, acknowledges=False, stop=stop.is_set)
    with StepLog(tmp_path / "log", env.space_spec) as log:
        recorder = DemoRecorder(
            RecordingSession(env, Operator(device), log, seed=0, desk=desk, gate=gate)
        )

        def record() -> int:
            recorder.record(1)
            return recorder.tally.successes

        with working(record, stop) as done:
            wait_until(
                lambda: "fault TARGET_NOT_FINITE" in str(console.look().facts.get("reason")),
                timeout_s=20.0,
            )
            assert log.count == 0
            somebody = ArmClient(env.hardware.arms[0].address)
            somebody.acknowledge_fault()
            somebody.close()
        assert not [said for _, said in log.entries() if isinstance(said, Mark)]
    assert done == [1] and gate.missed_resets == 1


def test_a_gate_that_acknowledges_takes_a_fault_on_the_way_for_a_miss(env, desk, monkeypatch):
    go, tries = env._resetter.go, iter([True])

    def trips(*goals):
        if next(tries, False):
            raise ArmFaultError("the reset was stopped by fault FORCE: 90 N on the tool")
        return go(*goals)

    monkeypatch.setattr(env._resetter, "go", trips)
    env.task = replace(env.task, max_steps=2)
    runner = EpisodeRunner(
        env, desk=desk, gate=PauseGate(env, desk, acknowledges=True, stop=lambda: False)
    )
    assert len(list(runner.play(0, lambda seen: STILL, Intervention(None), seed=5))) == 3
    assert runner.summary.missed_resets == 1


# -------------------------------------------------------------------------------- friction and load


def test_resets_succeed_with_joints_that_rub_and_a_load_that_nobody_knows_of():
    with rubbing_bench(TASK, friction_nm=1.137, load_kg=0.8, law=LAW) as env:
        came = try_resets(env, 5)
        assert came.succeeded == 5, came.complaints
        assert max(came.seconds) < 4.0
        felt = env.arms[0].refresh().wrench_base_tcp
        assert np.linalg.norm(felt[:3]) < 3.0 and np.linalg.norm(felt[3:]) < 0.5, (
            "of what it stands still with"
        )


def test_without_a_law_of_their_own_they_miss():
    with rubbing_bench(TASK, friction_nm=1.137, load_kg=0.8, law=None) as env:
        assert try_resets(env, 2).succeeded == 0


def test_what_is_no_load_is_not_tared_away():
    """25 N at the tool, which laws of up to 40 N carry to the start and hold there: as if somebody
    leant on it.
    """
    assert LAW is not None
    forty = (4000.0,) * 3 + (150.0,) * 3
    strong = replace(LAW, stiffness=forty)
    task = replace(TASK, compliance=replace(TASK.compliance, stiffness=forty))
    refused = pytest.raises(
        ResetMissedError, match=r"at its start pose, but .* cannot be tared: the tool feels 2\d\."
    )
    with rubbing_bench(task, friction_nm=0.0, load_kg=2.6, law=strong) as env, refused:
        env.reset(seed=0)
