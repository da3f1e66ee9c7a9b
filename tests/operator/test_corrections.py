"""A correction of one arm, or of a gripper, leaves the policy the rest: what is carried out, recorded
and replayed.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.actor.episodes import FIRST, EpisodeRunner
from robot_rl.dataset.archive import Archive, archive
from robot_rl.learner.replay import Replay
from robot_rl.machine.clock import LockstepClock
from robot_rl.operator import mapping
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Crew, Operator, open_operator
from robot_rl.stream import motion
from robot_rl.stream.log import StepLog
from robot_rl.types import (
    AXES,
    CLOSE,
    STAY,
    ActionSpec,
    ConfigError,
    OperatorCommand,
    Provenance,
    RecordId,
    SpaceSpec,
    TeleopEvent,
    TeleopMapping,
    Use,
)
from tests.hands import OPEN, Hand, arm_at, still
from tests.helpers import SPACE, make_step

PANDA = config.load_hardware("sim_panda")
GRIPPED = ActionSpec(("arm.x", "hand"), (1,))
ARMS = ActionSpec(("left.x", "left.rz", "left hand", "right.x", "right.rz", "right hand"), (2, 5))
LEFT, RIGHT = [0, 1], [3, 4]
HUMAN, POLICY = Provenance.HUMAN, Provenance.POLICY
STATES = [arm_at(0.0), arm_at(0.0)]
PROPOSED = np.array([0.1, -0.2, 1.0, 0.3, 0.4, -1.0], np.float32)


def crew(*hands: list[TeleopEvent], **feel) -> Intervention:
    """Operators of the left and the right arm."""
    members = [
        Operator(Hand(hand, TeleopMapping(**feel)), arm=i, actions=ARMS)
        for i, hand in enumerate(hands)
    ]
    intervention = Intervention(Crew(members))
    intervention.begin_episode()
    return intervention


SAID = st.builds(
    lambda active, twist, gripper: TeleopEvent(active, np.full(6, twist), "tool", gripper),
    st.booleans(), st.floats(-1.0, 1.0), st.sampled_from([-1.0, 0.0, 1.0]),
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.tuples(SAID, SAID), min_size=1, max_size=5))
def test_each_number_is_the_policys_or_that_of_the_operator_who_has_hold_of_it(said):
    intervention = crew(*map(list, zip(*said, strict=True)), engage=0.2, release=0.2)
    for events in said:
        action, author = intervention.decide(PROPOSED, STATES)
        theirs = np.zeros(6, bool)
        for event, axes, hand in zip(events, (LEFT, RIGHT), (2, 5), strict=True):
            theirs[axes] = event.active and abs(event.twist[0]) >= 0.2
            theirs[hand] = event.gripper != 0.0
        np.testing.assert_array_equal(action[~theirs], PROPOSED[~theirs])
        spoken = np.repeat([event.twist[0] for event in events], 3).astype(np.float32)
        spoken[[2, 5]] = [event.gripper for event in events]
        np.testing.assert_array_equal(action[theirs], spoken[theirs])
        assert author == (HUMAN if theirs.any() else POLICY)
        if intervention.corrected is None:
            assert theirs.all() or not theirs.any()
        else:
            np.testing.assert_array_equal(intervention.corrected, theirs)


def test_an_arm_that_is_held_leaves_its_gripper_to_the_policy_and_a_button_leaves_it_the_arm():
    closes = TeleopEvent(False, np.zeros(6), gripper=CLOSE)
    intervention = crew([still(0.5), closes, OPEN], [])
    commanded = [intervention.decide(PROPOSED, STATES)[0].tolist() for _ in range(3)]
    rest = PROPOSED.tolist()
    assert commanded == [[0.5, 0.5, *rest[2:]], [*rest[:2], CLOSE, *rest[3:]], rest]
    assert intervention.segments == 1


def test_words_of_two_operators_in_one_step_are_both_heard():
    words = OperatorCommand.SUCCESS, OperatorCommand.DISCARD
    intervention = crew(*([replace(OPEN, outcome=word)] for word in words))
    intervention.decide(PROPOSED, STATES)
    assert intervention.outcome == OperatorCommand.SUCCESS and intervention.discarded


@pytest.mark.parametrize("loses", ["held", "free"])
def test_a_device_that_is_lost_ends_the_episode_where_its_own_arm_was_held(loses):
    lost = replace(OPEN, problem="the device is gone")
    left = [still(0.5), still(0.5) if loses == "free" else lost]
    intervention = crew(left, [OPEN, lost if loses == "free" else still(0.5)])
    intervention.decide(PROPOSED, STATES)
    action, author = intervention.decide(PROPOSED, STATES)
    assert (author, intervention.ends) == (HUMAN, lost.problem if loses == "held" else "")
    np.testing.assert_array_equal(action[RIGHT], [0, 0] if loses == "held" else PROPOSED[RIGHT])
    assert bool(action.any()) == (loses == "free"), "else all arms hold"


class Both(Hand):
    """A program that drives both arms, and says what the right one does."""

    all_arms = True
    name = "both"

    def read(self, arms):
        assert len(arms) == 2
        return {"right": super().read(arms)}


def test_a_program_that_drives_all_arms_says_an_event_for_each_by_name():
    operator = Operator(Both([still(0.5)]), actions=ARMS)
    np.testing.assert_array_equal(operator.read(STATES).given, [False] * 3 + [True, True, False])
    strangers = ActionSpec(("a.x", "b.x"))
    with pytest.raises(ConfigError, match="both drives right, and the arms are a, b"):
        Operator(Both(), actions=strangers).read(STATES)


def test_each_arm_has_a_device_of_its_own(monkeypatch):
    monkeypatch.setattr(config, "driver", lambda kind, name: Hand)
    monkeypatch.setattr(mapping, "options_class", lambda kind, driver: TeleopMapping)
    monkeypatch.setattr(Hand, "feel", TeleopMapping(), raising=False)
    monkeypatch.setattr(Hand, "__init__", lambda self, options, given: None)
    said = {"panda": still(0.25), "right": still(0.5)}
    arms = (PANDA.arms[0], replace(PANDA.arms[0], name="right"))
    more = (Use("keyboard", {"arm": "right"}),)
    bench = replace(PANDA, arms=arms, teleop=Use("spacemouse"), more_teleop=more)
    operator = open_operator(bench)
    assert isinstance(operator, Crew)
    for member, event in zip(operator._members, said.values(), strict=True):
        monkeypatch.setattr(member.device, "read", lambda arms, event=event: event, raising=False)
    assert operator.read(STATES).action.tolist() == [0.25] * 6 + [0.5] * 6


# ---------------------------------------------------------------------- two arms, log and replay


class TwoArms:
    """Arms with a hand each that are at once where they are told to be; a hand takes every order."""

    space_spec = SpaceSpec({"state/x": ((2,), "float32")}, ARMS)
    cameras: ClassVar[dict] = {}
    period_s, clock, reward = 0.1, LockstepClock(), SimpleNamespace(version=0)
    turns = SimpleNamespace(backward=False, asks="", end_episode=lambda success, cut: None)

    def reset(self, *, seed, options):
        self.arm_states, self.steps = [arm_at(0.0), arm_at(0.0)], 0
        return self._seen(), {}

    def step(self, action):
        self.steps += 1
        before = [state.target_base_tcp for state in self.arm_states]
        poses = [geometry.pose_move(*each) for each in zip(before, ARMS.moves(action), strict=True)]
        self.arm_states = [arm_at(0.1 * self.steps, pose) for pose in poses]
        moves = [geometry.pose_delta(*each) for each in zip(before, poses, strict=True)]
        info = {
            "executed": ARMS.pick(np.array(moves), ARMS.choices(action)),
            "faults": [],
            "hand_faults": [],
        }
        return self._seen(), 0.0, False, self.steps == 12, info | FIRST | {"success": False}

    def _seen(self):
        x = [state.target_base_tcp[0] for state in self.arm_states]
        return {"state/x": np.array(x, np.float32)}


def play(*hands):
    """The steps of an episode of a policy that moves both arms and hands, and its summary."""
    rng, runner = np.random.default_rng(7), EpisodeRunner(cast(Any, TwoArms()))

    def act(observation):
        return rng.uniform(-1.0, 1.0, 6).astype(np.float32)

    return list(runner.play(0, act, crew(*hands), seed=1)), runner.summary


def test_what_one_arm_is_made_to_do_changes_no_number_of_the_other(tmp_path):
    """And log, archive and replay say, of each step, which numbers were corrected."""
    alone, _ = play([], [])
    closes = TeleopEvent(False, np.zeros(6), gripper=CLOSE)
    left = [OPEN, *[still(0.2)] * 3, *[OPEN] * 3, still(0.2), still(0.0), OPEN, closes]
    steps, summary = play(left, [])
    arm, hand = [2, 3, 4, 8, 9], [11]
    theirs = [step.index for step in steps if step.provenance == HUMAN]
    assert theirs == [*arm, *hand]
    assert (summary.human_steps, summary.segments) == (6, 3)
    for step, other in zip(steps, alone, strict=True):
        np.testing.assert_array_equal(step.commanded[3:], step.proposed[3:])
        np.testing.assert_array_equal(step.executed[3:], other.executed[3:])
        mask = [step.index in arm] * 2 + [step.index in hand] + [False] * 3
        np.testing.assert_array_equal(motion.given(step), mask)
        np.testing.assert_array_equal(step.commanded == step.proposed, ~motion.given(step))

    path, folder = tmp_path / "steps.log", tmp_path / "archive"
    with StepLog(path, TwoArms.space_spec) as log:  # written up to the middle, and gone on with
        for step in steps[:5]:
            log.append_step(step, RecordId("actor", 1, step.index))
    replays = [Replay(TwoArms.space_spec, 40) for _ in range(2)]
    with StepLog(path, TwoArms.space_spec) as log:
        for step in steps[5:]:
            log.append_step(step, RecordId("actor", 1, step.index))
        for live, logged in zip(steps, log.read(), strict=True):
            np.testing.assert_array_equal(motion.given(live), motion.given(logged))
            replays[0].append(live)
            replays[1].append(logged)
        archive(log, folder)
    (episode,) = Archive(folder).episodes()
    np.testing.assert_array_equal(episode.corrected, [motion.given(step) for step in steps[1:]])
    for replay in replays:
        batch = replay.gather(replay.transitions())
        np.testing.assert_array_equal(batch["corrected"], episode.corrected)
        # holding an arm where it is shows nothing; what shows is a correction, and experience
        assert np.flatnonzero(batch["demo"]).tolist() == [1, 2, 3, 7, 10]
        assert replay.count("corrections") == 5 and replay.own_transitions == len(steps) - 1


def test_a_policys_motion_beside_a_hand_that_rests_is_no_correction():
    moving, rests = np.full(4, 0.5, np.float32), np.array([True, True, False, False])
    step = make(moving * ~rests, corrected=rests)
    spec = ActionSpec.unnamed(4)
    assert not motion.shows(step, spec) and motion.shows(replace(step, corrected=None), spec)
    assert motion.shows(replace(step, corrected=~rests), spec)


def test_a_button_that_is_held_on_shows_nothing_more_than_its_press():
    order = np.array([0.0, CLOSE], np.float32)
    press = make(order, executed=order)
    held = make(order, executed=np.array([0.0, STAY], np.float32))
    assert [motion.shows(step, GRIPPED) for step in (press, held)] == [True, False]


def test_an_arm_that_stands_while_its_fingers_close_shows_the_order_and_no_standing():
    told = np.array([0.5, CLOSE], np.float32)
    begins = make(told, executed=np.array([0.0, CLOSE], np.float32))
    closing = make(told, executed=np.array([1e-5, STAY], np.float32))
    held = make(told, executed=np.array([0.5, STAY], np.float32))
    steps = begins, closing, held
    masks = [motion.imitated(step, GRIPPED).tolist() for step in steps]
    assert masks == [[False, True], [False, True], [True, True]]
    assert [motion.shows(step, GRIPPED) for step in steps] == [True, False, True]


def test_of_two_arms_the_one_that_does_not_obey_shows_nothing_and_the_one_that_waits_does():
    two = ActionSpec(("left.x", "left.hand", "right.x", "right.hand"), (1, 3))
    told = np.array([0.5, STAY, 0.5, CLOSE], np.float32)
    step = make(told, executed=np.array([0.5, STAY, 0.0, CLOSE], np.float32))
    assert motion.imitated(step, two).tolist() == [True, True, False, True]
    waits = np.array([0.5, STAY, 0.0, STAY], np.float32)
    assert motion.imitated(make(waits, executed=waits), two).all()


def make(commanded, **changes):
    return replace(make_step(), **{"commanded": commanded, "executed": commanded, **changes})


def test_a_space_of_one_arm_without_a_gripper_has_no_such_column():
    """There a person gives all numbers or none, and batches are what they were."""
    assert "corrected" not in Replay(SPACE, 2).columns
    two = replace(
        SPACE, actions=ActionSpec(tuple(f"{arm}.{axis}" for arm in "ab" for axis in AXES))
    )
    assert Replay(two, 2).columns["corrected"].shape == (2, 12)
