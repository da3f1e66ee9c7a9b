"""What a device says becomes what the arm does: in bounds, along the right axes, one segment for a
trembling hand.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from robot_rl import config, geometry
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator, Steering, open_operator
from robot_rl.types import (
    AXES,
    CLOSE,
    STAY,
    ActionSpec,
    ConfigError,
    DeviceError,
    OperatorCommand,
    Provenance,
    TeleopEvent,
    TeleopMapping,
    Use,
)
from tests.hands import DOWN, OPEN, Hand, arm_at, still

HARDWARE = config.load_hardware("sim_panda")
SHARE = st.floats(-1.0, 1.0, allow_subnormal=False)
TWIST = st.lists(SHARE, min_size=6, max_size=6).map(np.array)
QUAT = (
    st.lists(SHARE, min_size=4, max_size=4).map(np.array).filter(lambda q: np.linalg.norm(q) > 0.1)
)
FEEL = st.builds(
    TeleopMapping,
    deadband=st.floats(0.0, 0.5),
    speed=st.floats(0.05, 1.0),
    axes=st.permutations(AXES).flatmap(
        lambda axes: st.tuples(*(st.sampled_from([axis, f"-{axis}", f"+{axis}"]) for axis in axes))
    ),
    scale=st.tuples(*[st.floats(0.0, 3.0)] * 6),
    frame=st.sampled_from(["base", "tool", None]),
)


def pose(quat) -> np.ndarray:
    return np.concatenate([[0.5, 0.0, 0.1], quat / np.linalg.norm(quat)])


# ----------------------------------------------------------------------------------------- steering


@given(TWIST)
def test_a_twist_in_the_tools_frame_is_the_action_to_the_last_bit_unless_the_feel_says_otherwise(
    twist,
):
    action = Steering(TeleopMapping()).action(TeleopEvent(True, twist, "tool"), DOWN)
    np.testing.assert_array_equal(action, twist)


@given(FEEL, TWIST, QUAT)
def test_an_action_stays_within_the_speed_whatever_the_feel(feel, twist, quat):
    action = Steering(feel).action(TeleopEvent(True, twist), pose(quat))
    assert np.abs(action).max() <= feel.speed * (1.0 + 1e-12)


@given(TWIST, QUAT)
def test_a_twist_in_the_base_frame_moves_the_target_along_the_bases_axes(twist, quat):
    """However the tool is turned: the position goes where the hand pushes, and turns about where
    the hand turns.
    """
    # else it is made shorter
    assume(np.linalg.norm(twist[:3]) <= 1.0 and np.linalg.norm(twist[3:]) <= 1.0)
    target = pose(quat)
    moved = geometry.pose_move(
        target, 0.01 * Steering(TeleopMapping()).action(TeleopEvent(True, twist, "base"), target)
    )
    np.testing.assert_allclose(geometry.pose_error(target, moved), 0.01 * twist, atol=1e-9)


@given(TWIST, QUAT, st.floats(1.0, 3.0))
def test_what_is_too_fast_is_made_shorter_and_keeps_its_direction(twist, quat, scale):
    feel = TeleopMapping(scale=(scale,) * 6)
    asked = geometry.rotate_spatial(geometry.quat_conjugate(pose(quat)[3:]), scale * twist)
    action = Steering(feel).action(TeleopEvent(True, twist), pose(quat))
    for got, wanted in ((action[:3], asked[:3]), (action[3:], asked[3:])):
        np.testing.assert_allclose(
            got * np.linalg.norm(wanted), wanted * np.linalg.norm(got), atol=1e-9
        )


def test_a_slow_pace_is_as_much_slower_and_takes_hold_all_the_same():
    operator = Operator(Hand([still(1.0, pace=0.1)], FELT))
    reading = operator.read([arm_at(0.0)])
    assert reading.engaged
    np.testing.assert_allclose(reading.action, np.full(6, 0.1))


def test_axes_signs_and_scales_are_the_hardware_files():
    feel = TeleopMapping(
        axes=("-y", "x", "+z", "rx", "-rz", "ry"), scale=(1.0, 1.0, 0.5, 0.0, 1.0, 1.0)
    )
    twist = np.array([0.1, 0.2, 0.4, 0.9, 0.5, 0.6])
    np.testing.assert_allclose(
        Steering(feel).action(TeleopEvent(True, twist, "tool"), DOWN),
        [-0.2, 0.1, 0.2, 0, -0.6, 0.5],
    )


@given(st.floats(0.0, 0.9), SHARE, SHARE)
def test_the_dead_band_takes_nothing_for_none_and_sets_in_from_zero(deadband, one, other):
    def act(share):
        return Steering(TeleopMapping(deadband=deadband)).action(
            TeleopEvent(True, np.full(6, share), "tool"), DOWN
        )[0]

    assert act(one) == -act(-one)
    assert (act(one) == 0.0) == (abs(one) <= deadband)
    assert act(1.0) == pytest.approx(1.0)
    low, high = sorted([one, other])
    assert 0.0 <= act(high) - act(low) <= (high - low) / (1.0 - deadband) + 1e-12


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"deadband": 1.0}, "deadband = 1.0: wanted 0 to less than 1"),
        (
            {"engage": 0.1, "release": 0.2},
            r"engage is 0.1 and release 0.2; wanted 0 <= release <= engage <= 1",
        ),
        ({"speed": 0.0}, "speed = 0: wanted more than 0, at most 1"),
        (
            {"axes": ["x"] * 5},
            r"axes = \['x', 'x', 'x', 'x', 'x'\]: wanted six of x, y, z, rx, ry, rz",
        ),
        ({"axes": ["x", "y", "z", "rx", "ry", "yaw"]}, "wanted six of x, y, z, rx, ry, rz"),
        (
            {"scale": [1.0] * 5 + [-1.0]},
            "wanted six factors, none below 0: the signs stand in axes",
        ),
        (
            {"speed": "fast"},
            r"hardware 'sim_panda': teleop.options: speed = \"fast\": wanted a valid number",
        ),
        (
            {"deadbnad": 0.1},
            r"deadbnad is not a known key; allowed: .*\(did you mean 'deadband'\?\)",
        ),
        ({"mode": "correct"}, "mode is not a known key"),
        ({"arm": "left"}, "arm = 'left' is not in the file; it has: panda"),
    ],
)
def test_a_mistake_in_the_options_is_told(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        open_operator(replace(HARDWARE, teleop=Use("scripted", options)))


def test_a_bench_without_a_device_and_a_device_without_its_arm_are_told():
    with pytest.raises(
        ConfigError,
        match=(
            r"names no teleop device; add `teleop: \{name: NAME\}`.* gamepad, human_like, keyboard"
        ),
    ):
        open_operator(replace(HARDWARE, teleop=None))
    with pytest.raises(DeviceError, match="'scripted' needs a simulated arm"):
        open_operator(HARDWARE)


def test_with_several_arms_the_device_drives_the_one_that_the_file_names():
    arms = (HARDWARE.arms[0], replace(HARDWARE.arms[0], name="left"))
    feel = TeleopMapping(arm="left")
    operator = Operator(Hand([still(0.5)]), feel, arm=[arm.name for arm in arms].index(feel.arm))
    action = operator.read([arm_at(0.0), arm_at(0.0)]).action
    np.testing.assert_array_equal(action, [0.0] * 6 + [0.5] * 6)


GRIPS = ActionSpec(("panda.x", "panda.rz", "hand"), (2,))


def test_an_operator_moves_what_the_task_frees_and_the_gripper_by_its_button():
    closes = TeleopEvent(False, np.zeros(6), gripper=-0.7)
    operator = Operator(Hand([still(0.5), closes, OPEN], FELT), actions=GRIPS)
    readings = [operator.read([arm_at(PERIOD_S * step)]) for step in range(3)]
    np.testing.assert_allclose([reading.action for reading in readings[:2]],
                               [[0.5, 0.5, STAY], [0.0, 0.0, CLOSE]])  # fmt: skip
    assert readings[1].engaged, "the button alone takes hold"
    assert not readings[2].action.any()


def test_a_button_of_a_gripper_is_nothing_without_a_gripper_or_the_dead_mans_button():
    button = TeleopEvent(False, np.zeros(6), gripper=1.0)
    nobody = Operator(Hand([button], FELT), actions=ActionSpec(("panda.x",)))
    assert not nobody.read([arm_at(0.0)]).engaged
    device = Hand([still(0.5), button], replace(FELT, release_s=10.0))
    device.controls = {"tr": "deadman"}
    operator = Operator(device, actions=GRIPS)
    assert operator.read([arm_at(0.0)]).action.any()
    assert not operator.read([arm_at(PERIOD_S)]).action.any()


# ------------------------------------------------------------------------------------------- clutch

ENGAGE, RELEASE, RELEASE_S, PERIOD_S = 0.15, 0.08, 0.3, 0.1
FELT = TeleopMapping(engage=ENGAGE, release=RELEASE, release_s=RELEASE_S)
HELD = st.floats(RELEASE, 1.0)
PAUSE = st.lists(st.floats(0.0, RELEASE, exclude_max=True), max_size=2)  # shorter than RELEASE_S


def authors(
    hand: list[TeleopEvent], feel: TeleopMapping, steps_after: int = 10
) -> tuple[str, Intervention]:
    """Who acts at each step, p or h, and at last the operator has let go."""
    intervention = Intervention(Operator(Hand(hand, feel)))
    intervention.begin_episode()
    letters = [
        intervention.decide(np.ones(6, np.float32), [arm_at(PERIOD_S * step)])[1]
        for step in range(len(hand) + steps_after)
    ]
    return "".join("h" if author == Provenance.HUMAN else "p" for author in letters), intervention


@given(st.floats(ENGAGE, 1.0), st.lists(st.tuples(PAUSE, HELD), max_size=12))
def test_a_hand_that_trembles_makes_one_segment(first, rest):
    """Whatever it does in between, as long as no pause below the release threshold lasts for the
    release time.
    """
    deflections = [first, *(share for pause, held in rest for share in [*pause, held])]
    hand = [TeleopEvent(True, np.array([share, 0, 0, 0, 0, 0])) for share in deflections]
    decided, intervention = authors(hand, FELT)
    assert intervention.segments == 1
    assert decided == "h" * decided.count("h") + "p" * decided.count("p")
    assert decided.count("h") >= len(hand)


@given(st.lists(st.tuples(st.booleans(), SHARE), max_size=30))
def test_a_dead_mans_button_that_flickers_makes_one_segment_and_moves_nothing_while_it_is_open(
    presses,
):
    hand = [
        TeleopEvent(pressed, np.array([share, 0, 0, 0, 0, 0]))
        for pressed, share in [(True, 1.0), *presses]
    ]
    device = Hand(hand, TeleopMapping(release_s=10.0))
    device.controls = {"tr": "deadman"}
    operator = Operator(device)
    for step, said in enumerate(hand):
        reading = operator.read([arm_at(PERIOD_S * step)])
        assert reading.engaged and (said.active or not reading.action.any())


@given(st.lists(st.floats(0.0, ENGAGE, exclude_max=True), max_size=30))
def test_a_hand_that_only_rests_on_the_device_does_not_take_over(shares):
    hand = [TeleopEvent(True, np.array([share, 0, 0, 0, 0, 0])) for share in shares]
    decided, intervention = authors(hand, FELT)
    assert intervention.segments == 0 and set(decided) == {"p"}


def test_after_the_release_time_it_is_another_segment():
    def segments(pause_steps):
        hand = [still(0.5), *[still(0.0)] * pause_steps, still(0.5)]
        return authors(hand, FELT)[1].segments

    assert [segments(steps) for steps in (0, 2, 6)] == [1, 1, 2]


def test_nobody_has_hold_of_the_arm_when_an_episode_begins():
    slightly = 0.5 * (ENGAGE + RELEASE)  # enough to keep hold, not to take it
    operator = Operator(Hand([still(0.5), still(slightly), still(slightly)], FELT))
    assert [operator.read([arm_at(0.1 * step)]).engaged for step in range(2)] == [True, True]
    operator.begin_episode()
    assert not operator.read([arm_at(0.2)]).engaged


def test_an_arm_whose_clock_begins_anew_does_not_keep_the_clutch_closed():
    operator = Operator(Hand([still(0.5)], FELT))
    assert operator.read([arm_at(1000.0)]).engaged
    assert not operator.read([arm_at(0.0)]).engaged


# ------------------------------------------------------------------------- words, and a lost device


def decide(intervention: Intervention) -> tuple[np.ndarray, Provenance]:
    return intervention.decide(np.ones(6, np.float32), [arm_at(0.0)])


@pytest.mark.parametrize(
    ("word", "outcome", "ends", "discarded"),
    [
        (OperatorCommand.SUCCESS, OperatorCommand.SUCCESS, "", False),
        (OperatorCommand.FAILURE, OperatorCommand.FAILURE, "", False),
        (OperatorCommand.UNDO, OperatorCommand.NONE, "", False),
        (OperatorCommand.STOP, OperatorCommand.NONE, "stopped by the operator", False),
        (OperatorCommand.DISCARD, OperatorCommand.NONE, "discarded by the operator", True),
    ],
)
@pytest.mark.parametrize("locked_out", [False, True])
def test_a_word_is_heard_while_the_policy_acts(word, outcome, ends, discarded, locked_out):
    intervention = Intervention(
        Operator(Hand([OPEN, replace(OPEN, outcome=word)])), locked_out=locked_out
    )
    intervention.begin_episode()
    decide(intervention)
    assert decide(intervention)[1] == Provenance.POLICY
    assert (intervention.outcome, intervention.ends, intervention.discarded) == (
        outcome,
        ends,
        discarded,
    )
    assert intervention.on_last == ([word] if word == OperatorCommand.UNDO else [])


def test_what_is_said_between_two_episodes_is_about_the_one_before():
    hand = Hand()
    intervention = Intervention(Operator(hand))
    hand.earlier = [
        OperatorCommand.SUCCESS,
        OperatorCommand.UNDO,
        OperatorCommand.DISCARD,
        OperatorCommand.FAILURE,
    ]
    intervention.begin_episode()
    decide(intervention)
    assert intervention.on_last == [OperatorCommand.UNDO, OperatorCommand.DISCARD]
    assert (
        intervention.outcome == OperatorCommand.NONE
        and not intervention.ends
        and not intervention.discarded
    )


def test_a_device_lost_in_a_correction_ends_the_episode_and_the_policy_does_not_go_on():
    lost = replace(OPEN, problem="the device is gone")
    intervention = Intervention(Operator(Hand([OPEN, still(0.5), lost])))
    intervention.begin_episode()
    assert [decide(intervention)[1] for _ in range(2)] == [Provenance.POLICY, Provenance.HUMAN]
    action, author = decide(intervention)
    assert (
        author == Provenance.HUMAN
        and not action.any()
        and intervention.ends == "the device is gone"
    )


def test_a_device_lost_while_nobody_holds_it_leaves_the_policy_alone():
    lost = replace(OPEN, problem="the device is gone")
    intervention = Intervention(Operator(Hand([lost, lost, still(0.5)])))
    intervention.begin_episode()
    assert [decide(intervention)[1] for _ in range(3)] == [
        Provenance.POLICY,
        Provenance.POLICY,
        Provenance.HUMAN,
    ]
    assert not intervention.ends
