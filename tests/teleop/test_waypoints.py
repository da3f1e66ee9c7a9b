"""The operator who plays phases: it finds the phase that fits, and shows successes and near misses
in turn.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.fixture import FIXTURE, upright
from robot_rl.sim.grasping import opening
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase, fitting, is_order, way_left
from robot_rl.teleop import _waypoints
from robot_rl.teleop._missed_phases import NearMiss
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import ConfigError, DeviceError, OperatorCommand, Use
from tests.sim.player import Player

ALL = np.ones(6)
SQUARE = [
    Phase("over", upright(0.5, 0.0, 0.10)),
    Phase("down", upright(0.5, 0.0, 0.02)),
    Phase("aside", upright(0.4, 0.0, 0.02), near_rad=0.1),
    Phase("up", upright(0.4, 0.0, 0.10)),
]


@pytest.mark.parametrize(
    ("x", "z", "name"),
    [
        (0.55, 0.20, "over"),
        (0.50, 0.10, "down"),
        (0.50, 0.06, "down"),
        (0.51, 0.06, "over"),  # beside the way
        (0.45, 0.02, "aside"),
        (0.40, 0.02, "up"),
        (0.40, 0.09, "up"),
    ],
)
def test_the_latest_phase_on_whose_way_the_tool_is_fits(x, z, name):
    assert SQUARE[fitting(SQUARE, [upright(x, 0.0, z)], ALL)].name == name


def test_a_phase_that_is_done_is_passed_over_and_one_that_is_not_ready_does_not_fit():
    here = upright(0.40, 0.0, 0.02)
    unready = [*SQUARE[:3], replace(SQUARE[3], ready=False)]
    assert SQUARE[fitting(unready, [here], ALL)].name == "aside"
    done = [SQUARE[0], replace(SQUARE[1], done=True), *SQUARE[2:]]
    assert SQUARE[fitting(done, [upright(0.5, 0.0, 0.06)], ALL)].name == "aside"
    assert fitting([replace(phase, done=True) for phase in SQUARE], [here], ALL) == 3


@pytest.mark.parametrize(("task", "above_m"), [("pick_cube", 0.007), ("usb_insert", 0.004)])
def test_nobody_lifts_what_is_between_open_fingers(task, above_m):
    """Not yet down, an operator goes on down, and does not close the hand on the way up."""
    player = Player(task)
    player.begin(11)
    phases = {phase.name: phase for phase in player.operator._phases.at(player.latest)}
    above = phases["down"].pose.copy()
    above[2] += above_m
    state = player.go(above, 60)

    def now() -> tuple[str, dict[str, Phase]]:
        way = player.operator._phases.at(player.latest)
        fits = way[fitting(way, [state.pose_base_tcp], player.operator._free)]
        return fits.name, {phase.name: phase for phase in way}

    fits, way = now()
    assert fits == "down" and way["close"].ready and not way["lift"].ready
    for _ in range(12):
        state = player.act(state, np.zeros(6), -1.0)
    assert now()[0] == "lift"


def test_a_phase_that_leaves_the_hand_as_it_is_is_no_order():
    orders = (1, 0, -1, -1, 1)
    way = [Phase("on", upright(0.5, 0.0, 0.1), gripper=order) for order in orders]
    assert [is_order(way, i) for i in range(5)] == [False, False, True, False, True]


def test_an_axis_that_the_task_holds_neither_counts_nor_is_aimed_along():
    flat = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    tilted = upright(0.5, 0.0, 0.06)
    tilted[3:] = [np.cos(0.15), 0.0, 0.0, np.sin(0.15)]
    assert fitting(SQUARE, [tilted], ALL) == 0 and fitting(SQUARE, [tilted], flat) == 1
    assert way_left(SQUARE, 1, [tilted], ALL) > way_left(SQUARE, 1, [tilted], flat)
    player = Player("drawer")
    player.operator._free = flat
    assert not player.operator.read([player.begin(3)]).twist[3:5].any()


def test_it_plays_on_where_a_policy_is_stuck_and_leaves_alone_one_that_gets_on():
    player = Player("drawer", "correct", patience_steps=5, finishes=1.0)
    assert player.play(11) == OperatorCommand.SUCCESS
    assert player.drove.index(True) in (5, 6)
    # hooked already: the first thing it does is to pull
    state = player.begin(11)
    behind = list(player.operator._phases.at(player.latest))[:2]
    for phase in behind:
        state = player.go(phase.pose, 20)
    player.operator.begin_episode()
    said = [player.operator.read([state]) for _ in range(7)]
    assert not said[4].active and said[6].active
    assert said[6].twist[0] < -0.5 and abs(said[6].twist[2]) < 0.3


def watch_fingers(player, monkeypatch) -> list[float]:
    """How far they are apart [m] after each of its steps from now on."""
    opened: list[float] = []
    act = player.act

    def watched(*given):
        state = act(*given)
        opened.append(opening(player.driver._data))
        return state

    monkeypatch.setattr(player, "act", watched)
    return opened


def test_it_hands_back_what_a_hand_has_taken_hold_of(monkeypatch):
    """The policy is to learn what comes behind, too; else only those who grasp ever get there."""
    player = Player("pick_cube", "correct", patience_steps=5, finishes=1.0)
    opened = watch_fingers(player, monkeypatch)
    assert player.play(11) == OperatorCommand.SUCCESS
    opened = opened[1 - len(player.drove) :]
    turns = np.flatnonzero(np.diff(player.drove)) + 1
    assert len(turns) == 3, "taken, handed back, and taken again to lift"
    assert opened[turns[0]] > 0.07 and max(opened[turns[1] - 1], opened[turns[2]]) < 0.045


@pytest.mark.parametrize("was_shut", [True, False])
def test_a_hand_that_it_has_opened_it_hands_back_when_it_has_taken_hold(was_shut, monkeypatch):
    """Given back above the cube, an opened hand teaches to let go; one that was open is helped for as
    long as ever.
    """
    player = Player("pick_cube", "correct", patience_steps=5, finishes=0.0, segment_steps=(3, 3))
    opened = watch_fingers(player, monkeypatch)
    state = player.begin(11)
    for _ in range(12 * was_shut):
        state = player.act(state, np.zeros(6), -1.0)
    assert (opened[-1] < 0.01) == was_shut
    opened.clear()
    player.go_on(state, 120)
    first, last = np.flatnonzero(np.diff(player.drove))[:2]
    if was_shut:
        assert last - first > 20 and 0.035 < opened[last] < 0.045
    else:
        assert last - first == 3 and opened[last] > 0.07


def test_an_arm_on_its_way_out_is_fetched_back():
    player = Player("drawer", "correct", far_m=0.03)
    state = player.begin(2)
    player.operator.begin_episode()
    assert not player.operator.read([state]).active
    away = state.pose_base_tcp.copy()
    away[:3] += [-0.03, 0.06, 0.05]
    assert player.operator.read([player.go(away, 12)]).active


def test_while_outcomes_are_collected_every_other_episode_is_a_success():
    player = Player("ram_press", "collect", seed=5)
    words = [player.play(seed) for seed in range(6)]
    assert words == [OperatorCommand.FAILURE, OperatorCommand.SUCCESS] * 3


@pytest.mark.parametrize("task", ["drawer", "pick_cube"])
def test_what_is_shown_as_a_near_miss_is_none_by_the_truth(task):
    """Also where the way follows what the hand moves. One that became a success is called one."""
    player = Player(task, "collect", seed=5)
    for seed in range(9):
        word = player.play(seed)
        assert player.latest.success == (word == OperatorCommand.SUCCESS)


def test_beside_its_goal_the_whole_way_is_a_near_miss_where_the_scene_says_so():
    """A cable that is pulled down beside its clips; a cube that is lifted elsewhere is lifted."""
    for task, least in (("cable_clip", 0.008), ("pick_cube", 0.0)):
        player = Player(task, "collect", seed=5)
        player.begin(0)
        phases = player.operator._phases.at(player.latest)
        drawn = [m for _ in range(50) for m in player.operator._misses.draw(phases)]
        beside = [float(np.hypot(*miss.aside[:2])) for miss in drawn if miss.all_beside]
        assert bool(beside) == bool(least) == any(miss.phase == 0 for miss in drawn)
        assert all(least <= far <= 4.0 * least for far in beside)
        assert sum(miss.phase == len(phases) - 1 for miss in drawn) > 15


@pytest.mark.parametrize(
    "first",
    [
        NearMiss(3, 1.0, np.array([0.0, 0.02, 0.0, 0.0, 0.0, 0.0]), 4, all_beside=True),
        NearMiss(0, 0.5, np.zeros(6), 1, cuts_to=2),
    ],
    ids=["beside", "hardly lifted"],
)
def test_a_cable_that_came_down_beside_a_clip_is_not_in_it_when_the_hand_is_in_line(first):
    player = Player("cable_clip", "collect", seed=5)
    begin = player.operator.begin_episode

    def begin_episode():
        words = begin()
        player.operator._misses.planned = [first, NearMiss(3, 1.0, np.zeros(6), 4)]
        return words

    player.operator.begin_episode = begin_episode
    state = player.begin(1)
    assert player.go_on(state, 120) == OperatorCommand.FAILURE
    data = player.driver._data
    fixture = pose_inverse(pose_of(data.body(FIXTURE)))
    tip = pose_multiply(fixture, pose_of(data.site("tip")))
    assert abs(tip[1]) < 0.002 and tip[2] < 0.015 and not player.latest.success


def test_a_scene_without_phases_and_without_a_socket_is_refused():
    task = replace(config.load_task("peg_insert"), scene=Use("empty"))
    world = Player("ram_press")
    with pytest.raises(DeviceError, match=r"'empty' offers no `phases`"):
        Teleop(Options(), Given(task=task, world=world))
    assert isinstance(world.operator, _waypoints.Teleop)
    with pytest.raises(DeviceError, match="simulated arm"):
        Teleop(Options(), Given(task=world.task, world=None))
    with pytest.raises(ConfigError, match=r"empty.py: its `phases` are fewer than 2"):
        _waypoints.Teleop(Options(), Given(task=task, world=world))
