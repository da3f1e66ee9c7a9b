"""Taking over and letting go, through the arm's real process in lockstep: no jump, one segment,
words as marks.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.actor.demonstrate import DemoRecorder, DemoTally
from robot_rl.actor.episodes import UNMOVED, EpisodeRunner
from robot_rl.actor.session import RecordingSession
from robot_rl.interfaces import Given
from robot_rl.learner.replay import Replay
from robot_rl.operator.annotations import OperatorMarks
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator, open_operator
from robot_rl.operator.pause import STOPPED, PauseGate
from robot_rl.stream.episodes import counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.stream.motion import moves
from robot_rl.teleop import human_like
from robot_rl.teleop.human_like import HumanHabits
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.tools.benchmark import lockstep_env
from robot_rl.types import (
    Mark,
    MarkKind,
    OperatorCommand,
    Provenance,
    StoppedError,
    TeleopEvent,
    TeleopMapping,
    Use,
)
from tests.hands import OPEN, Hand
from tests.teleop.benches import SpaceMouseBench, until_says

TASK = config.load_task("peg_insert")
HARDWARE = config.load_hardware("sim_panda")
SCALE = np.array([TASK.action_translation] * 3 + [TASK.action_rotation] * 3)
FEEL = TeleopMapping(engage=0.15, release=0.08, release_s=0.3)
DOWNWARDS = np.array([0.0, 0.0, 0.4, 0.0, 0.0, 0.1], np.float32)  # [-1, 1]: a policy on its way


@pytest.fixture(scope="module")
def one_env():
    with lockstep_env(TASK, HARDWARE, "state") as env:
        yield env


@pytest.fixture
def env(one_env):
    one_env.task = replace(TASK, max_steps=16)
    one_env.reward = config.make("rewards", TASK.reward, Given(world=one_env.world))
    return one_env


def play(env, hand, *, seed=0, feel=FEEL, **options):
    """The steps of an episode, the targets in force after each, and the runner."""
    runner, targets, steps = EpisodeRunner(env), [], []
    intervention = Intervention(Operator(hand if isinstance(hand, Hand) else Hand(hand, feel)))
    for step in runner.play(0, lambda observation: DOWNWARDS, intervention, seed=seed, **options):
        steps.append(step)
        targets.append(env.arm_states[0].target_base_tcp.copy())
    return steps, targets, runner


TREMBLE = st.lists(
    st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6).map(lambda twist: np.array(twist)),
    min_size=3,
    max_size=8,
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), TREMBLE, st.integers(0, 2), st.sampled_from(["base", "tool"]))
def test_takeover_and_release_do_not_jump_and_make_one_segment(env, before, twists, pause, frame):
    """Each target in force is the one before, moved by the commanded action and by nothing else,
    whoever acts.
    """
    twists[0][0] = 1.0  # the hand takes hold
    twists[-1][1] = -1.0
    hand = [OPEN] * before + [TeleopEvent(True, twist, frame) for twist in twists[:-1]]
    hand += [TeleopEvent(True, np.full(6, 0.01), frame)] * pause + [
        TeleopEvent(True, twists[-1], frame)
    ]
    steps, targets, runner = play(
        env, [replace(said, twist=0.5 * said.twist) for said in hand], seed=before
    )
    for last, target, step in zip(targets, targets[1:], steps[1:], strict=False):
        np.testing.assert_allclose(
            geometry.pose_delta(last, target) / SCALE, step.commanded, atol=1e-6
        )
        np.testing.assert_allclose(step.executed, step.commanded, atol=1e-6)
    runs = [author for author, _ in groupby(step.provenance for step in steps[1:])]
    assert runs.count(Provenance.HUMAN) == 1 and runner.summary.segments == 1


def test_an_operator_who_takes_hold_and_does_nothing_stops_the_target_where_it_is(env):
    # a clutch of its own, closed
    device = Hand([OPEN] * 3 + [TeleopEvent(True, np.zeros(6))] * 5, TeleopMapping())
    steps, targets, _ = play(env, device)
    assert [step.provenance for step in steps[1:9]] == [Provenance.POLICY] * 3 + [
        Provenance.HUMAN
    ] * 5
    for target in targets[4:9]:
        np.testing.assert_allclose(target, targets[3], atol=1e-12)
    assert np.linalg.norm(targets[3][:3] - targets[0][:3]) > 0.005, "it was on its way"


def test_a_push_on_a_spacemouse_moves_the_arm_that_way(env, monkeypatch):
    bench = SpaceMouseBench(monkeypatch)
    # the operator stands to the right of the robot: ahead of them is its y
    operator = open_operator(
        replace(HARDWARE, teleop=Use("spacemouse", {"axes": ["-y", "x", "z", "-ry", "rx", "rz"]}))
    )
    intervention = Intervention(operator)
    env.reset(seed=3)
    intervention.begin_episode()
    before = env.arm_states[0].target_base_tcp.copy()
    bench.hold()
    until_says(operator.device, lambda said: said.twist.any())
    for _ in range(3):
        action, author = intervention.decide(DOWNWARDS, env.arm_states)
        assert author == Provenance.HUMAN
        env.step(action)
    operator.close()
    moved = geometry.pose_error(before, env.arm_states[0].target_base_tcp)
    np.testing.assert_allclose(moved[[0, 2]], 0.0, atol=0.0005)
    # at full deflection the leash is short
    assert 0.85 < moved[1] / (3 * TASK.action_translation) <= 1.0


@pytest.mark.parametrize("word", [OperatorCommand.STOP, OperatorCommand.DISCARD])
def test_a_word_that_ends_the_episode_truncates_it_at_once_with_a_reason(env, word):
    steps, _, runner = play(env, [OPEN, OPEN, replace(OPEN, outcome=word)])
    assert len(steps) == 4 and steps[-1].truncated and not steps[-1].terminated
    assert (
        runner.summary.reason
        == f"{'stopped' if word == OperatorCommand.STOP else 'discarded'} by the operator"
    )
    assert runner.summary.discarded == (word == OperatorCommand.DISCARD)


@pytest.mark.parametrize(
    ("word", "reward"), [(OperatorCommand.SUCCESS, 1.0), (OperatorCommand.FAILURE, 0.0)]
)
def test_the_reward_that_asks_the_operator_hears_them_while_the_policy_acts(env, word, reward):
    env.reward = config.make("rewards", Use("operator"), Given(world=env.world))
    steps, _, runner = play(env, [OPEN, OPEN, replace(OPEN, outcome=word)])
    assert len(steps) == 4 and steps[-1].terminated and not steps[-1].truncated
    assert (
        steps[-1].reward == reward
        and steps[-1].provenance == Provenance.POLICY
        and runner.summary.reason == ""
    )


def test_a_device_lost_in_a_correction_truncates_the_episode_and_the_arm_holds(env):
    moving, lost = TeleopEvent(True, np.full(6, 0.5)), replace(OPEN, problem="the device is gone")
    steps, targets, runner = play(env, [OPEN, moving, lost])
    assert len(steps) == 4 and steps[-1].truncated and steps[-1].provenance == Provenance.HUMAN
    assert runner.summary.reason == "the device is gone"
    np.testing.assert_allclose(targets[-1], targets[-2], atol=1e-12)


# -------------------------------------------------------------------------------------------- marks


def kinds(marks):
    return [(mark.kind, mark.episode) for mark in marks]


@pytest.mark.parametrize("source", ["device", "console"])
@pytest.mark.parametrize(
    ("how", "said", "expected"),
    [
        ({}, [OperatorCommand.UNDO], [MarkKind.DISCARD]),
        (
            {"success": True},
            [OperatorCommand.START, OperatorCommand.PAUSE, OperatorCommand.STOP],
            [],
        ),
        ({}, [OperatorCommand.DISCARD, OperatorCommand.DISCARD], [MarkKind.DISCARD]),
        ({}, [OperatorCommand.DISCARD, OperatorCommand.UNDO], [MarkKind.DISCARD, MarkKind.UNDO]),
        ({"discarded": True}, [OperatorCommand.UNDO], [MarkKind.UNDO]),
        (
            {"failed": True},
            [OperatorCommand.UNDO, OperatorCommand.DISCARD],
            [],
        ),  # nothing to take back
        ({}, [OperatorCommand.SUCCESS, OperatorCommand.FAILURE], []),  # a program judges
        (
            {"success": False},
            [OperatorCommand.SUCCESS, OperatorCommand.SUCCESS],
            [MarkKind.SUCCESS],
        ),
        ({"success": True}, [OperatorCommand.SUCCESS, OperatorCommand.FAILURE], [MarkKind.FAILURE]),
        (
            {"success": True, "discarded": True},
            [OperatorCommand.FAILURE, OperatorCommand.UNDO],
            [MarkKind.UNDO],
        ),
    ],
)
def test_what_is_said_of_an_episode_that_is_over_is_a_mark_at_once(source, how, said, expected):
    heard = list[Mark]()
    marks, intervention = told(heard)
    marks.end(4)
    marks.end(5, **how)
    for word in said:
        intervention.events.put(word, source)
    intervention.listen()
    assert kinds(heard) == [(kind, 5) for kind in expected]


def told(heard):
    """The operator's marks, told to a list, and what takes the events."""
    marks = OperatorMarks(heard.append)
    return marks, Intervention(None, marks=marks)


@pytest.mark.parametrize(
    ("word", "about"), [(OperatorCommand.UNDO, 4), (OperatorCommand.DISCARD, 5)]
)
def test_an_event_of_an_episode_that_is_gone_is_about_what_was_meant_then(word, about):
    heard = list[Mark]()
    marks, intervention = told(heard)
    intervention.events.put(OperatorCommand.UNDO, "console")
    intervention.listen()  # there was none yet
    marks.end(4)
    intervention.events.episode = 5
    for said in (word, OperatorCommand.SUCCESS):
        intervention.events.put(said, "console")
    intervention.events.episode = None
    marks.end(5)
    intervention.listen()
    intervention.events.episode = 6
    intervention.decide(DOWNWARDS, ())
    assert (
        kinds(heard) == [(MarkKind.DISCARD, about)] and intervention.outcome == OperatorCommand.NONE
    )


class ChangesTheirMind(Teleop):
    """Discards the second demonstration while it goes on, and takes the third back once it is over."""

    attempts = 0

    def begin_episode(self):
        self.attempts += 1
        super().begin_episode()
        return [OperatorCommand.UNDO] if self.attempts == 4 else []

    def read(self, arms):
        said = super().read(arms)
        return replace(said, outcome=OperatorCommand.DISCARD) if self.attempts == 2 else said


def test_discarded_demonstrations_are_recorded_again_and_none_is_deleted(env, tmp_path):
    env.task = replace(env.task, max_steps=40)
    path = tmp_path / "demos.log"
    with StepLog(path, env.space_spec) as log:
        operator = Operator(
            ChangesTheirMind(Options(), Given(task=env.task, world=env.world, mode="demonstrate"))
        )
        recorder = DemoRecorder(RecordingSession(env, operator, log, seed=0))
        recorder.record(3)
        entries = list(log.entries())
        assert DemoTally.of(log).successes == recorder.tally.successes == 3
    marks = [said for _, said in entries if isinstance(said, Mark)]
    assert kinds(marks) == [(MarkKind.DISCARD, 1), (MarkKind.DISCARD, 2)]
    assert recorder.tally.attempts == 5
    counted = counted_steps(entries)
    assert {step.episode for step in counted} == {0, 3, 4}
    assert sum(step.terminated for step in counted) == 3


class NobodyMoves(Exception):
    pass


class Late(Teleop):
    """Takes hold after a while, and moves later still; meanwhile says what `says` has for a
    reading, counted from 1.

    A stop is taken back at the second look at the words after that.
    """

    def __init__(self, env, late=60, says=None):
        super().__init__(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))
        self.late, self.says, self.readings, self.begun, self.looks = late, says or {}, 0, 0, 0

    def begin_episode(self):
        self.begun += 1
        return super().begin_episode()

    def take_words(self):
        self.looks -= 1
        return [OperatorCommand.STOP] if self.looks == 0 else []

    def read(self, arms):
        self.readings += 1
        if self.readings > self.late:
            return super().read(arms)
        word = self.says.get(self.readings, OperatorCommand.NONE)
        self.looks = 3 if word == OperatorCommand.STOP else self.looks
        problem = "unplugged" if self.readings == 9 else ""
        return replace(OPEN, active=self.readings > self.late // 2, outcome=word, problem=problem)


def test_a_demonstration_begins_with_the_operators_first_motion_and_its_clock_with_it(
    env, tmp_path
):
    env.task = replace(env.task, max_steps=40)
    hand, waited = Late(env, late=60), list[float]()
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        sitting = RecordingSession(env, Operator(hand), log, seed=0)
        summary, _ = sitting.drive(0, idle=waited.append)
        steps = list(log.read())
    np.testing.assert_allclose(waited, [0.1 * i for i in range(1, 61)])
    assert summary.success and summary.steps == len(steps) - 1 < env.task.max_steps < len(waited)
    assert [step.index for step in steps] == list(range(len(steps)))
    assert moves(steps[1].commanded) and steps[1].t_monotonic - steps[
        0
    ].t_monotonic == pytest.approx(0.1)


def test_a_wait_for_the_operator_that_is_given_up_leaves_nothing_but_what_was_said_at_once(
    env, tmp_path
):
    heard = list[Mark]()

    def give_up(waited_s):
        if waited_s > 3.0:
            assert kinds(heard) == [(MarkKind.DISCARD, 0)]
            raise NobodyMoves

    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        hand = Late(env, late=0)
        sitting = RecordingSession(env, Operator(hand), log, seed=0)
        sitting.heard = heard.append
        sitting.drive(0)
        steps = log.count
        hand.late, hand.says = 10_000, {hand.readings + 5: OperatorCommand.DISCARD}
        with pytest.raises(NobodyMoves):
            sitting.drive(1, idle=give_up)
        later = [said for _, said in log.entries()][steps:]
    assert (
        kinds([said for said in later if isinstance(said, Mark)]) == [(MarkKind.DISCARD, 0)]
        and len(later) == 1
    )


def test_an_undo_while_the_gate_is_shut_is_in_the_log_when_the_program_is_stopped_there(
    env, desk, console, tmp_path
):
    heard = list[Mark]()
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        gate = PauseGate(env, desk, acknowledges=True, stop=lambda: bool(heard))
        sitting = RecordingSession(
            env, Operator(Late(env, late=0)), log, seed=0, desk=desk, gate=gate
        )
        sitting.heard = heard.append
        sitting.drive(0)
        for word in ("pause", "undo"):
            console.say(word)
        with pytest.raises(StoppedError):
            sitting.pass_gate()
        marks = [said for _, said in log.entries() if isinstance(said, Mark)]
    assert kinds(marks) == kinds(heard) == [(MarkKind.DISCARD, 0)]


PHASES = ["resetting", "waiting", "acting", "resetting", "waiting", "acting"]
"""Of an episode that is stopped while its operator is awaited; "acting" is also what a gate says
when it opens.
"""


def test_a_stop_while_the_operator_is_awaited_shuts_the_gate_and_a_start_begins_the_wait_anew(
    env, desk, tmp_path
):
    env.task = replace(env.task, max_steps=40)
    hand = Late(env, late=20, says={5: OperatorCommand.SUCCESS, 7: OperatorCommand.STOP})
    phases, reasons = [], []

    def tell(phase, reason):
        phases.append(phase)
        reasons.append(reason)

    desk.tell = tell
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        gate = PauseGate(env, desk, acknowledges=True, stop=lambda: False)
        summary, _ = RecordingSession(env, Operator(hand), log, seed=0, desk=desk, gate=gate).drive(
            0
        )
        steps = list(log.read())
    assert hand.begun == 2 and [phase for phase, _ in groupby(phases)] == PHASES
    assert {UNMOVED, "unplugged", STOPPED, ""} == {*reasons}
    assert summary.success
    assert [step.index for step in steps] == list(range(summary.steps + 1)) and moves(
        steps[1].commanded
    )


def test_a_human_like_operator_rests_in_its_demonstrations_and_none_of_that_is_imitated(
    env, tmp_path
):
    env.task = replace(env.task, max_steps=60)
    hand = human_like.Teleop(
        HumanHabits(rests=0.1), Given(task=env.task, world=env.world, mode="demonstrate")
    )
    waited, replay = list[float](), Replay(env.space_spec, 200)
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        sitting = RecordingSession(env, Operator(hand), log, seed=0)
        assert all(sitting.drive(episode, idle=waited.append)[0].success for episode in range(2))
        steps = list(log.read())
    for step in steps:
        replay.append(step)
    rests = [step for step in steps if step.index > 0 and not step.commanded.any()]
    assert (
        {step.provenance for step in steps} == {Provenance.DEMO}
        and len(rests) > 5
        and max(waited) > 0.9
    )
    # critics see these successes among the demonstrations
    said_still = sum(step.reward > 0.0 for step in rests)
    assert replay.own_transitions == len(rests) - said_still
    assert replay.demo_transitions == len(steps) - 2 - replay.own_transitions
    drawn = replay.gather(replay.draw(np.random.default_rng(0), ("demonstrations",), 200))
    imitated = drawn["demo"].bool()
    assert imitated.any() and (drawn["action"][imitated].abs().amax(1) > 0.01).all()
    assert (drawn["reward"][~imitated] > 0.0).all()
