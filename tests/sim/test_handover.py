"""The way of the bar: it goes from hand to hand, and from wherever it has got to."""

import math
from functools import cache

import mujoco
import numpy as np
import pytest

from robot_rl.geometry import pose_delta, pose_inverse, pose_move, pose_multiply
from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import is_held, opening, tcp_pose, touching
from robot_rl.sim.panda import FINGERS, prefix_of
from robot_rl.sim.phases import fitting, next_places
from robot_rl.sim.scenes._bar import BAR, GRASPED_M, LEFT, RIGHT, axis, is_on_mark, place_on
from robot_rl.sim.scenes._handover_places import (
    ALONG_WITHIN_M,
    GRIP_M,
    HEIGHT_M,
    MEETING_LEFT,
    MEETING_RIGHT,
    MET_M,
    TAKEN_M,
    meeting,
    taken_m,
)
from robot_rl.teleop._missed_phases import NearMiss
from robot_rl.types import OperatorCommand
from tests.sim.pair import Moment, PairPlayer

SEEDS = (1000, 1001)  # on which nobody has tuned anything
LYING = BAR[2] / 2


@pytest.fixture
def player() -> PairPlayer:
    """Whose hand is as unsteady in a test whatever was played before."""
    return PairPlayer("handover", seed=4)


def test_the_operator_hands_it_over_and_the_hands_keep_apart(player):
    for seed in SEEDS:
        assert player.play(seed) == OperatorCommand.SUCCESS
        assert player.took < player.task.max_steps * 0.7
        # links 96 mm thick above each hand: 4 cm of air
        assert player.near_m > 0.096 + 0.04
        assert abs(player.data.body("bar").xpos[2] - LYING) < 0.001


def test_each_arm_holds_it_in_turn_and_it_falls_where_nobody_does(player):
    model, data = player.drivers[0]._model, player.data
    holders: list[set[int]] = []
    states = player.begin(7)
    player.operator.begin_episode()
    player.took = 0
    while holders[-1:] != [{RIGHT}]:
        states, _ = player.follow(states)
        held = {arm for arm in (LEFT, RIGHT) if is_held(model, data, "bar", arm)}
        if held and [held] != holders[-1:]:
            holders.append(held)
        assert data.body("bar").xpos[2] > LYING - 0.001, "it never sinks into the table"
        assert player.took < 300
    assert holders == [{LEFT}, {RIGHT}] and data.body("bar").xpos[2] > 0.1
    assert touching(model, data, "bar") == {prefix_of(RIGHT) + finger for finger in FINGERS}
    for _ in range(8):
        states = player.act(states, np.zeros((2, 6)), (1.0, 1.0))
    assert data.body("bar").xpos[2] < 0.02 and opening(data, RIGHT) > 0.07
    assert not player.latest.success


def number_of(player, name: str) -> int:
    """Of the last phase of this name."""
    return max(i for i, p in enumerate(player.operator._phases.at(player.latest)) if p.name == name)


def pose_in(player, name: str):
    """The pose `(7,)` of the last phase of this name, as things stand."""
    return player.operator._phases.at(player.latest)[number_of(player, name)].pose


@cache
def moments() -> dict[str, Moment]:
    """When the operator came to the last phase of each name, of one episode."""
    player, found = PairPlayer("handover", seed=4), dict[str, Moment]()
    states, word, player.took = player.begin(1000), OperatorCommand.NONE, 0
    player.operator.begin_episode()
    while word == OperatorCommand.NONE:
        states, word = player.follow(states)
        phases = player.operator._phases.at(player.latest)
        last = {phase.name: i for i, phase in enumerate(phases)}
        reached = (name for name, i in last.items() if player.operator._index >= i)
        found = dict.fromkeys(reached, player.moment()) | found
    return found


def follow_to(player, name: str, seed: int = 1000):
    """The states when the operator comes to the last phase of this name."""
    states, player.took = player.begin_at(seed, moments()[name]), 0
    player.operator.begin_episode()
    player.operator._index = number_of(player, name)
    return states


def turn_in_hand(player, arm: int, turn) -> None:
    """The bar by a pose `(7,)` about where an arm has it, along the scene's axes."""
    bar = player.data.joint("bar")
    held = np.array([*tcp_pose(player.data, arm)[:3], 0.0, 0.0, 0.0, 1.0])
    seen = pose_multiply(pose_inverse(held), bar.qpos[[0, 1, 2, 4, 5, 6, 3]])
    bar.qpos = pose_multiply(pose_multiply(held, turn), seen)[[0, 1, 2, 6, 3, 4, 5]]


def lay_down(player, states, steps=100) -> OperatorCommand:
    """What the operator says within so many steps."""
    word, until = OperatorCommand.NONE, player.took + steps
    while word == OperatorCommand.NONE and player.took < until:
        states, word = player.follow(states)
    return word


@pytest.mark.parametrize("askew", [-0.2, 0.2])
def test_a_bar_that_hangs_askew_is_laid_down_too(player, askew):
    states = follow_to(player, "over")
    turn = np.array([0.0, 0.0, 0.0, 0.0, math.sin(askew / 2), 0.0, math.cos(askew / 2)])
    turn_in_hand(player, RIGHT, turn)
    assert lay_down(player, states) == OperatorCommand.SUCCESS


@pytest.mark.parametrize("along", [-0.012, 0.012])
def test_a_bar_that_is_held_elsewhere_is_laid_down_where_any_other_is(player, along):
    """Not the hand is to be over the mark: 12 mm are more than half of the room at its ends."""
    states, bar = follow_to(player, "over"), player.data.joint("bar")
    bar.qpos[:3] += along * player.data.body("bar").xmat.reshape(3, 3)[:, 0]
    assert lay_down(player, states) == OperatorCommand.SUCCESS
    off = player.data.body("bar").xpos - player.data.body("mark").xpos
    assert np.abs(off[:2]).max() < 0.006


@pytest.mark.parametrize(
    ("high", "far"), [(0.022, 0.08), (0.014, 0.08), (-0.014, 0.08), (0.0, 0.105), (0.0, 0.045)]
)
def test_the_right_hand_is_never_opened_where_the_bar_would_fall(player, high, far):
    """Near the palm, by the fingertips, at the bar's end or near its middle: it goes on with it."""
    states, bar = follow_to(player, "over"), player.data.joint("bar")
    nearer = place_on(player.data, RIGHT)[0] - far
    bar.qpos[:3] += [0.0, 0.0, high] + nearer * axis(player.data)
    player.refresh()
    assert fitting_now(player, states) in ("withdraw", "over")
    player.operator._index, word = -1, OperatorCommand.NONE
    while word == OperatorCommand.NONE and player.took < 120:
        high_up = player.data.body("bar").xpos[2] > 2 * BAR[2]
        states, word = player.follow(states)
        assert not high_up or player._choices[RIGHT] < 0.0
    assert word == OperatorCommand.SUCCESS


def test_over_the_mark_a_hand_goes_down_from_where_the_bar_has_room_there(player):
    """To be nearer is worth no correction; on its way down it comes nearer."""
    states = follow_to(player, "lay down")
    aside = pose_in(player, "over") + [0.009, 0.009, 0.0, 0.0, 0.0, 0.0, 0.0]
    states = player.go([states[LEFT].target_base_tcp, aside], 25)
    player.operator._index = -1
    player.follow(states)
    assert player.operator._index == number_of(player, "lay down")


@pytest.mark.parametrize("turned", [-0.11, 0.11])
def test_a_bar_that_lies_askew_on_the_marks_edge_is_not_let_go_of(player, turned):
    """Though its middle is as near as it has to be, where it lies straight."""
    states = follow_to(player, "lay down")
    aside = math.copysign(0.016, turned)
    askew = pose_move(pose_in(player, "open"), np.array([0.0, aside, 0.0, 0.0, 0.0, turned]))
    states = player.go([states[LEFT].target_base_tcp, askew], 35)
    assert not is_on_mark(player.data) and opening(player.data, RIGHT) < BAR[1] + GRASPED_M
    player.operator._index = -1
    assert lay_down(player, states) == OperatorCommand.SUCCESS


def seen_by_right(player, pose):
    """A pose `(7,)` of the scene, from the base of the right arm."""
    return pose_multiply(pose_inverse(np.array(player.scene.stands[RIGHT])), pose)


def take_over(player, states, steps=160) -> float:
    """Let an operator who comes now go on until the right hand alone has the bar; the largest force
    [N] that the right hand feels meanwhile.
    """
    player.operator._index, pressed, until = -1, 0.0, player.took + steps
    while player.took < until and opening(player.data, LEFT) < 0.07:
        states, _ = player.follow(states)
        pressed = max(pressed, float(np.linalg.norm(states[RIGHT].wrench_base_tcp[:3])))
    assert opening(player.data, RIGHT) < BAR[1] + GRASPED_M
    return pressed


def fitting_now(player, states) -> str:
    """The phase in which an operator would take over now."""
    way = player.operator._phases.at(player.latest)
    return str(way[fitting(way, [s.pose_base_tcp for s in states], player.operator._free)].name)


@pytest.mark.parametrize(
    ("aside", "turned", "steps"),
    [((0.03, 0.0), 0.0, 40), ((0.03, -0.03), 0.2, 60), ((-0.03, 0.10), 0.5, 140)],
    ids=["slid to its place", "askew", "carried there"],
)
def test_a_bar_that_lies_beside_the_mark_the_right_hand_puts_there_by_itself(
    player, aside, turned, steps
):
    """The left one does not get there, and would begin from the beginning. A person slides it over."""
    states, bar = follow_to(player, "open"), player.data.joint("bar")
    for _ in range(8):
        states = player.act(states, np.zeros((2, 6)), (1.0, 1.0))
    assert player.latest.success
    states = player.go([s.target_base_tcp + [0, 0, 0.1, 0, 0, 0, 0] for s in states], 15)
    bar.qpos[:2] += aside
    bar.qpos[3:] = [math.cos(turned / 2), 0.0, 0.0, math.sin(turned / 2)]
    player.operator._forget()
    states, stood = player.act(states, np.zeros((2, 6))), tcp_pose(player.data, LEFT)
    assert not player.latest.success and fitting_now(player, states) == "wait"
    assert lay_down(player, states, steps) == OperatorCommand.SUCCESS
    assert np.linalg.norm((tcp_pose(player.data, LEFT) - stood)[:3]) < 0.005


def test_around_a_bar_that_it_has_laid_beside_the_mark_a_hand_closes_again(player):
    states = follow_to(player, "lay down")
    beside = pose_in(player, "open") + [0.03, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    states = player.go([states[LEFT].target_base_tcp, beside], 35)
    for _ in range(8):
        states = player.act(states, np.zeros((2, 6)), (1.0, 1.0))
    assert not is_on_mark(player.data) and fitting_now(player, states) == "take"
    player.operator._index = -1
    assert lay_down(player, states, 40) == OperatorCommand.SUCCESS


def test_where_the_left_hand_gets_to_the_bar_that_takes_it_up(player):
    """What has fallen on its way begins anew."""
    states, bar = follow_to(player, "wait"), player.data.joint("bar")
    states = player.act(states, np.zeros((2, 6)), (1.0, 1.0))
    bar.qpos[:3] = [0.50, 0.0, LYING]
    bar.qpos[3:] = [1.0, 0.0, 0.0, 0.0]
    states = player.act(states, np.zeros((2, 6)))
    phases = player.operator._phases.at(player.latest)
    at = fitting(phases, [s.pose_base_tcp for s in states], player.operator._free)
    assert phases[at].arm == LEFT and at < number_of(player, "wait")


def test_whose_turn_it_is_follows_from_what_a_policy_sees_until_the_right_hand_has_the_bar(player):
    """From whether the left one has lifted it, and from where the right one stands."""
    for seed in range(1000, 1003):
        states, player.took = player.begin(seed), 0
        player.operator.begin_episode()
        while opening(player.data, RIGHT) > BAR[1] + GRASPED_M:
            away = np.linalg.norm(tcp_pose(player.data, RIGHT)[:3] - meeting(player.data)[:3])
            height = player.data.body("bar").xpos[2]
            phases = player.operator._phases.at(player.latest)
            states, _ = player.follow(states)
            phase = phases[player.operator._index]
            if height < HEIGHT_M - 0.03 or (away < 0.005 and phase.name != "take"):
                assert phase.arm == LEFT
            elif height > HEIGHT_M - 0.01 and away > 0.03:
                assert phase.arm == RIGHT


@pytest.mark.parametrize("away", [(-0.01, 0.025, 0.02), (0.01, -0.025, -0.02)])
def test_a_right_hand_that_waits_beside_its_place_gets_there_while_the_bar_comes(player, away):
    """A policy that is shown hands which wait as far off as they have come stops there as well, and the
    other one waits for it."""
    states, stands = follow_to(player, "bring"), MEETING_RIGHT + [*away, 0.0, 0.0, 0.0, 0.0]
    states = player.go([states[LEFT].target_base_tcp, seen_by_right(player, stands)], 25)
    assert fitting_now(player, states) == "bring"
    assert take_over(player, states) < 15.0
    place, fingers = meeting(player.data), tcp_pose(player.data, RIGHT)
    np.testing.assert_allclose(fingers[:3], place[:3], atol=0.008)


@pytest.mark.parametrize("aside", [-0.08, 0.08])
def test_a_right_hand_that_waits_elsewhere_is_sent_there_before_the_bar_is_brought(player, aside):
    assert abs(aside) > MET_M[1]
    states = follow_to(player, "bring")
    elsewhere = seen_by_right(player, MEETING_RIGHT + [0.02, aside, 0.0, 0.0, 0.0, 0.0, 0.0])
    states = player.go([states[LEFT].target_base_tcp, elsewhere], 25)
    assert fitting_now(player, states) == "wait"
    assert take_over(player, states) < 15.0


@pytest.mark.parametrize("aside", [-0.06, 0.06])
def test_from_beside_the_right_hand_comes_around_the_end_of_the_bar(player, aside):
    """Straight on, a finger pushes it out of line."""
    states, bar = follow_to(player, "take"), player.data.body("bar")
    beside = seen_by_right(player, MEETING_RIGHT + [0.0, aside, 0.0, 0.0, 0.0, 0.0, 0.0])
    held = states[LEFT].target_base_tcp
    ahead = beside + [-0.06, 0.0, 0.08, 0.0, 0.0, 0.0, 0.0]
    for pose in (ahead, beside + [0.0, 0.0, 0.08, 0.0, 0.0, 0.0, 0.0], beside):
        states = player.go([held, pose], 25)
    before, until = bar.xmat.copy(), player.took + 80
    player.operator._index = -1
    while opening(player.data, RIGHT) > 0.05 and player.took < until:
        states, _ = player.follow(states)
        turned = math.acos(
            min(1.0, float(before.reshape(3, 3)[:, 0] @ bar.xmat.reshape(3, 3)[:, 0]))
        )
        assert turned < 0.1
    assert opening(player.data, RIGHT) < 0.05


@pytest.mark.parametrize("turned", [-0.17, 0.17])
def test_where_the_bars_end_is_in_the_way_of_a_finger_the_left_hand_takes_it_back(player, turned):
    """Brought before the right hand was at its place: that pressed on the end, for 224 steps, in what
    fitted when it began."""
    states, bar = follow_to(player, "bring"), player.data.joint("bar")
    bar.qpos[:3] += 0.014 * axis(player.data)
    ahead = upright(0.41, 0.08 * turned, HEIGHT_M, turned)
    away = seen_by_right(player, MEETING_RIGHT + [0.035, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    back = ahead - [0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for pose in (back, ahead):
        states = player.go([pose, away], 25)
    player.operator._index = number_of(player, "wait")
    assert lay_down(player, states, 120) == OperatorCommand.SUCCESS


@pytest.mark.parametrize("turned", [-0.3, 0.3])
def test_a_bar_that_has_been_turned_in_the_left_hand_is_brought_straight(player, turned):
    """The bar is aimed, and not the hand that holds it."""
    states = follow_to(player, "bring")
    turn_in_hand(
        player, LEFT, np.array([0, 0, 0, 0, 0, math.sin(turned / 2), math.cos(turned / 2)])
    )
    assert take_over(player, states) < 15.0


@pytest.mark.parametrize("along", [-0.012, 0.012])
def test_a_bar_that_is_held_elsewhere_comes_as_far_between_the_fingers_as_any_other(player, along):
    states, bar = follow_to(player, "bring"), player.data.joint("bar")
    bar.qpos[:3] += along * player.data.body("bar").xmat.reshape(3, 3)[:, 0]
    take_over(player, states)
    assert abs(place_on(player.data, RIGHT)[0] - taken_m(player.data)) < 0.01


def test_the_right_hand_takes_the_bar_in_each_scene_elsewhere(player):
    """A policy that is always shown one hold does not look where the bar is in the hand."""
    held = []
    for seed in range(1000, 1005):
        take_over(player, follow_to(player, "wait", seed))
        held.append(place_on(player.data, RIGHT)[0])
    assert TAKEN_M[0] - 0.004 < min(held) and max(held) < TAKEN_M[1] + 0.004
    assert np.ptp(held) > 0.5 * np.ptp(TAKEN_M)


def test_the_left_hand_comes_down_in_each_scene_elsewhere_and_slides_to_the_bars_end(player):
    """An encoder that is shown low hands only where they close takes where the hand is for its goal."""
    down, closes = list[float](), list[float]()
    for seed in range(1000, 1006):
        states, player.took = player.begin(seed), 0
        player.operator.begin_episode()
        for name, found in (("along", down), ("close", closes)):
            while player.operator._index < number_of(player, name):
                states, _ = player.follow(states)
                assert player.took < 200
            found.append(place_on(player.data, LEFT)[0])
            assert place_on(player.data, LEFT)[1] < 0.008
    assert np.ptp(down) > 0.03 and ALONG_WITHIN_M[0] - 0.006 < min(down)
    assert max(down) < ALONG_WITHIN_M[1] + 0.006
    np.testing.assert_allclose(closes, GRIP_M, atol=0.006)


@pytest.mark.parametrize("aside", [0.034, -0.034])
def test_a_hand_that_stands_on_the_bar_with_a_finger_is_led_up_before_it_comes_in_line(
    player, aside
):
    """Shown to slide across it a millimetre above, a policy presses a finger on the bar to the end."""
    states, bar = follow_to(player, "down"), player.data.body("bar")
    across = np.cross([0.0, 0.0, 1.0], axis(player.data))

    def beside_m() -> float:
        return abs(float((tcp_pose(player.data, LEFT)[:3] - bar.xpos) @ across))

    high, low = (
        states[LEFT].target_base_tcp + np.array([*(aside * across)[:2], up, 0.0, 0.0, 0.0, 0.0])
        for up in (0.02, -0.03)
    )
    for pose, steps in ((high, 15), (low, 10)):
        states = player.go([pose, states[RIGHT].target_base_tcp], steps)
    stands = tcp_pose(player.data, LEFT)[2]
    assert stands > BAR[2] + 0.007 and beside_m() > 0.02, "its finger does not stand on the bar"
    player.operator._index, heights = -1, list[float]()
    while beside_m() > 0.008:
        states, _ = player.follow(states)
        heights.append(tcp_pose(player.data, LEFT)[2])
        assert len(heights) < 40
    assert heights[-1] > stands + 0.008, "nothing is between its fingertips and the bar"
    assert lay_down(player, states, steps=200) == OperatorCommand.SUCCESS


@pytest.mark.parametrize(("along", "low"), [(-0.02, 0.0), (0.018, 0.0), (0.0, 0.01)])
def test_a_hold_that_serves_as_well_is_left_as_it_is(player, along, low):
    """Nearer to the middle, at the end, or a little too high: to take hold anew is not worth it."""
    states, bar = follow_to(player, "bring"), player.data.joint("bar")
    bar.qpos[:3] += along * player.data.body("bar").xmat.reshape(3, 3)[:, 0] - [0.0, 0.0, low]
    player.refresh()
    assert fitting_now(player, states) in ("wait", "bring")
    take_over(player, states)


@pytest.mark.parametrize("aside", [(0.013, 0.025, 0.02), (-0.013, -0.025, -0.02)])
def test_where_the_hands_would_come_too_near_the_right_one_takes_it_further_out(player, aside):
    """The left one holds the bar near its middle, and wherever the right one waits they are kept apart."""
    states, bar = follow_to(player, "bring"), player.data.joint("bar")
    bar.qpos[:3] -= 0.024 * player.data.body("bar").xmat.reshape(3, 3)[:, 0]
    stands = MEETING_RIGHT + [*aside, 0.0, 0.0, 0.0, 0.0]
    states = player.go([states[LEFT].target_base_tcp, seen_by_right(player, stands)], 20)
    player.operator._index = -1
    assert lay_down(player, states) == OperatorCommand.SUCCESS


@pytest.mark.parametrize("tipped", [0.4, 0.8])
def test_a_bar_that_has_tipped_in_the_hand_is_taken_anew(player, tipped):
    """Its end hangs lower than the left hand can get higher."""
    states = follow_to(player, "bring")
    turn = np.array([0.0, math.sin(tipped / 2), 0.0, math.cos(tipped / 2)])
    turn_in_hand(player, LEFT, np.array([0.0, 0.0, 0.0, *turn]))
    mujoco.mj_forward(player.drivers[LEFT]._model, player.data)
    player.refresh()
    assert fitting_now(player, states) in ("over", "in line", "down")
    player.operator._index, until = -1, player.took + 200
    assert put_down(player, states) != "opened in the air"
    assert lay_down(player, player.states(), until - player.took) == OperatorCommand.SUCCESS


def put_down(player, states, steps=60) -> str:
    """What becomes of a bar that the left hand has, and is to take anew."""
    for _ in range(steps):
        if opening(player.data, LEFT) > BAR[1] + 2 * GRASPED_M:
            low = player.data.body("bar").xpos[2] < LYING + 0.004
            return "opened on the table" if low else "opened in the air"
        states, _ = player.follow(states)
    return "held on to"


@pytest.mark.parametrize("above", [0.014, 0.016])
def test_what_fingertips_have_is_put_down_before_it_is_taken_anew(player, above):
    """Who is shown that a hand opens in the air drops bars that it holds well."""
    states, bar = follow_to(player, "bring"), player.data.joint("bar")
    bar.qpos[2] -= above
    player.operator._forget()
    player.refresh()
    assert fitting_now(player, states) == "down"
    assert put_down(player, states) == "opened on the table"
    assert lay_down(player, player.states(), steps=200) == OperatorCommand.SUCCESS


def test_fingertips_alone_are_no_hold(player):
    """A bar that they have tips on the way: who closes them too high is corrected there."""
    states = follow_to(player, "close")
    high = states[LEFT].target_base_tcp + [0.0, 0.0, 0.016, 0.0, 0.0, 0.0, 0.0]
    states = player.go([high, states[RIGHT].target_base_tcp], 10)
    assert fitting_now(player, states) == "down"
    for _ in range(10):
        states = player.act(states, np.zeros((2, 6)), (-1.0, 0.0))
    assert opening(player.data, LEFT) < BAR[1] + GRASPED_M
    assert fitting_now(player, states) == "down"


def test_once_both_have_the_bar_the_left_hand_lets_go_where_it_is(player):
    states = follow_to(player, "let go")
    aside = [state.target_base_tcp + [0.0, y, 0.0, 0.0, 0.0, 0.0, 0.0]
             for state, y in zip(states, (0.09, -0.09), strict=True)]  # fmt: skip
    states = player.go(aside, 25)
    here = states[LEFT].pose_base_tcp
    assert here[1] > 0.065 and opening(player.data, RIGHT) < BAR[1] + GRASPED_M
    np.testing.assert_allclose(pose_in(player, "let go")[:3], here[:3], atol=1e-3)


@pytest.mark.parametrize("height", [0.0, 0.006, 0.012])
def test_a_bar_that_is_let_go_a_little_above_the_mark_is_no_reason_to_take_over(player, height):
    states = follow_to(player, "open")
    higher = states[RIGHT].target_base_tcp + [0.0, 0.0, height, 0.0, 0.0, 0.0, 0.0]
    states = player.go([states[LEFT].target_base_tcp, higher], 8)
    for _ in range(9):
        states = player.act(states, np.zeros((2, 6)), (0.0, 1.0))
        assert fitting_now(player, states) == "open"
    assert player.latest.success


def test_where_each_hand_goes_next_is_where_it_takes_hold_or_lets_go_then(player):
    """What a policy that learns from state is told: else it could not know where bar and mark lie.
    As long as the fingers are open it is the bar, also around it, then where that is handed over.
    """
    where = next_places(player.task.scene, player.task.axes)
    assert where is not None
    player.operator.begin_episode()
    states, player.took, word = player.begin(11), 0, OperatorCommand.NONE
    told, tools, open_at = [], [], []
    while word == OperatorCommand.NONE and player.took < 300:
        tools.append([state.pose_base_tcp for state in states])
        told.append(where(player.latest, tools[-1]))
        open_at.append([opening(player.data, arm) for arm in (LEFT, RIGHT)])
        states, word = player.follow(states)
    moves = np.abs(np.diff(open_at, axis=0)) > 0.002
    for arm in (LEFT, RIGHT):
        begins = np.flatnonzero(moves[1:, arm] & ~moves[:-1, arm]) + 1
        assert len(begins) == 2, "it takes hold, and lets go"
        for step in begins:
            offs = [pose_delta(tools[step][arm], each[arm]) for each in told[step - 10 : step + 1]]
            assert (
                min(np.linalg.norm(off[:3]) + 0.05 * np.linalg.norm(off[3:]) for off in offs) < 0.01
            )
    assert np.allclose(told[0][LEFT], told[5][LEFT], atol=1e-3), "it stays while the bar lies"
    widths = np.array(open_at)[:, LEFT]
    taken, gone = np.flatnonzero(widths < BAR[1] + GRASPED_M)[[0, -1]]
    opened = widths[:taken] > 0.079
    assert np.ptp([each[LEFT][:3] for each in told[: opened.sum()]], axis=0).max() < 0.002
    carried = [np.linalg.norm(told[i][LEFT][:3] - tools[i][LEFT][:3]) for i in (taken + 10, gone)]
    assert carried[0] > 0.05 and carried[1] < 0.005, "to where it is handed over"


def test_while_outcomes_are_collected_it_shows_a_bar_that_was_let_go_beside_the_mark():
    player, word = PairPlayer("handover", "collect", seed=5), OperatorCommand.NONE
    states, player.took = player.begin(0), 0
    player.operator.begin_episode()  # every other one is a near miss
    opens = number_of(player, "open")
    player.operator._misses.planned = [NearMiss(opens, 1.0, np.array([0.05, 0, 0, 0, 0, 0]), opens)]
    while word == OperatorCommand.NONE and player.took < player.task.max_steps:
        before = opening(player.data, RIGHT)
        states, word = player.follow(states)
        begun = player.operator._misses._let_go
        assert not begun or opening(player.data, RIGHT) > before - 0.001, "it is not taken again"
    bar, mark = player.data.body("bar").xpos, player.data.body("mark").xpos
    assert word == OperatorCommand.FAILURE and not player.latest.success
    assert bar[2] < LYING + 0.001 and 0.03 < np.linalg.norm(bar[:2] - mark[:2]) < 0.06
    assert min(opening(player.data, arm) for arm in (LEFT, RIGHT)) > 0.07


def test_phases_are_seen_from_each_arms_own_base(player):
    phases = player.operator._phases.at(player.reset(1))
    by_name = {phase.name: phase for phase in phases}
    seen = pose_multiply(np.array(player.scene.stands[RIGHT]), by_name["wait"].pose)
    np.testing.assert_allclose(seen, meeting(player.data), atol=1e-9)
    held = np.linalg.norm(seen[:3] - MEETING_LEFT[:3])
    assert held == pytest.approx(GRIP_M + taken_m(player.data))
    assert seen[2] == HEIGHT_M
    assert [phase.arm for phase in phases] == [0] * 6 + [1, 0, 0, 1, 0, 0, 1, 1, 1]
