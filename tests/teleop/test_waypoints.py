"""The operator who plays phases: it finds the phase that fits, and shows successes and near misses
in turn.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.interfaces import Given
from robot_rl.sim.fixture import upright
from robot_rl.sim.phases import Phase, fitting, way_left
from robot_rl.teleop import _waypoints
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


def test_beside_its_goal_the_whole_last_phase_is_a_near_miss_where_the_scene_says_so():
    """A cable that is pulled down beside its clips; a cube that is lifted elsewhere is lifted."""
    for task, least in (("cable_clip", 0.005), ("pick_cube", 0.0)):
        player = Player(task, "collect", seed=5)
        player.begin(0)
        phases = player.operator._phases.at(player.latest)
        last = [m for _ in range(50) for m in player.operator._draw(phases)]
        last = [miss for miss in last if miss.phase == len(phases) - 1]
        whole = [float(np.hypot(*miss.aside[:2])) for miss in last if miss.share == 1.0]
        assert len(last) > 15 and bool(whole) == bool(least)
        assert all(least <= far <= 4.0 * least for far in whole)


def test_a_scene_without_phases_and_without_a_socket_is_refused():
    task = replace(config.load_task("peg_insert"), scene=Use("empty"))
    world = Player("ram_press")
    with pytest.raises(DeviceError, match=r"'empty' offers no `phases`"):
        Teleop(Options(), Given(task=task, world=world))
    assert isinstance(world.operator, _waypoints.Teleop)
    with pytest.raises(DeviceError, match="simulated arm"):
        Teleop(Options(), Given(task=world.task, world=None))
    with pytest.raises(ConfigError, match=r"'empty': its `phases` are fewer than 2"):
        _waypoints.Teleop(Options(), Given(task=task, world=world))
