"""The cube: it lies anywhere, can be picked up and dropped, and nothing else counts as a success."""

import math

import numpy as np
import pytest

from robot_rl.geometry import pose_delta, pose_multiply
from robot_rl.sim.grasping import hold_on, nearest_yaw, tcp_pose
from robot_rl.sim.scenes.pick_cube import Scene as PickCube
from robot_rl.sim.stage import find_scene, tried
from robot_rl.types import ConfigError, OperatorCommand, Use
from tests.sim.picking import Still
from tests.sim.player import Player

SEEDS = range(1000, 1005)  # on which nobody has tuned anything
LYING = 0.02


@pytest.fixture
def player() -> Player:
    """Whose hand is as unsteady in a test whatever was played before."""
    return Player("pick_cube", seed=3)


def test_the_operator_picks_it_up_wherever_it_lies(player):
    done = [player.play(seed) == OperatorCommand.SUCCESS for seed in SEEDS]
    assert sum(done) >= len(SEEDS) - 1


def test_the_operator_turns_the_hand_just_above_the_cube(player):
    """If near by all that is shown were in line, an encoder would take what is near for that."""
    for seed in SEEDS:
        state, turned = player.begin(seed), list[tuple[float, float]]()
        player.operator.begin_episode()
        phases = player.operator._phases.at(player.latest)
        while not phases[3].ready:
            assert len(turned) < player.task.max_steps
            off = pose_delta(phases[2].pose, state.pose_base_tcp)
            turned.append((abs(off[2]), abs(off[5])))
            said = player.operator.read([state])
            state = player.act(state, said.twist, said.gripper)
            phases = player.operator._phases.at(player.latest)
        near = max(yaw for height, yaw in turned if height < 0.045)
        assert near > 0.9 * turned[0][1] - 0.02


def test_a_cube_that_is_dropped_can_be_picked_up_again(player):
    assert player.play(7) == OperatorCommand.SUCCESS
    state = player.arm.state()
    assert player.latest.success and player.latest.objects[0, 2] > 0.1 + LYING
    for _ in range(7):
        state = player.act(state, np.zeros(6), 1.0)
    assert not player.latest.success and abs(player.latest.objects[0, 2] - LYING) < 0.001
    assert player.go_on(state, 100) == OperatorCommand.SUCCESS


def test_a_cube_that_is_held_off_its_middle_is_not_put_down_again(player, monkeypatch):
    """A policy takes hold of it otherwise than the operator would."""
    around, aside = PickCube._around, np.array([0.016, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    monkeypatch.setattr(PickCube, "_around", lambda *args: pose_multiply(around(*args), aside))
    assert player.play(8) == OperatorCommand.SUCCESS
    assert abs(hold_on(player.driver._data, "cube")[:2]).max() > 0.013


def test_the_seed_lays_it_anywhere_in_40_by_40_cm_at_any_yaw():
    still = Still("pick_cube")
    laid = []
    for seed in range(300):
        still.scene.place(still.model, still.data, seed)
        laid.append(still.data.joint("cube").qpos.copy())
    places, quats = np.array(laid)[:, :3], np.array(laid)[:, 3:]
    away = places[:, :2] - [0.5, 0.0]
    assert np.abs(away).max(axis=0).min() > 0.19 and np.abs(away).max() <= 0.2
    yaws = 2.0 * np.arctan2(quats[:, 3], quats[:, 0])
    assert yaws.min() < -3.0 and yaws.max() > 3.0 and (places[:, 2] == LYING).all()


def test_a_success_is_a_cube_in_the_fingers_high_enough_and_nothing_else():
    still = Still("pick_cube")
    held = tcp_pose(still.data)
    assert held[2] > 0.1 + LYING, "the arm is at home"
    pinched = 0.0398

    def cube(x=0.0, y=0.0, z=0.0, **how) -> bool:
        pose = held.copy()
        pose[:3] += (x, y, z)
        return still.success_with("cube", pose, **how)

    assert cube(width=pinched)
    assert not cube(width=0.08), "between the open fingers, flying"
    assert not cube(0.0, 0.0, 0.1, width=pinched), "above the hand, flying"
    assert not cube(0.0, 0.0005, 0.0, width=0.0405), "on one finger"
    assert not cube(0.0, 0.0, 0.0, width=pinched, velocity=np.array([0, 0, 0.3, 0, 0, 0]))
    on_top = held.copy()
    on_top[2] -= 0.009 + LYING - 0.0002
    assert not still.success_with("cube", on_top, width=0.0), "touched by shut fingers from above"
    below = held.copy()
    below[2] = LYING
    assert not still.success_with("cube", below, width=0.0), "on the table, the hand high"


def test_the_goal_is_around_the_cube_as_high_as_it_is_to_be_whatever_the_tool():
    _, goal, success = tried(find_scene(Use("pick_cube")), 3)
    assert not success and goal[2] == pytest.approx(0.0 + LYING + 0.1 + 0.1034)
    tilt = pose_multiply(goal, np.array([0, 0, 1.0, 0, 0, 0, 1]))[:3] - goal[:3]
    np.testing.assert_allclose(tilt, [0, 0, -1], atol=1e-9)


def test_a_hand_takes_hold_at_the_nearest_of_the_yaws_that_are_alike():
    quarter = math.pi / 2
    for yaw, hand in np.random.default_rng(0).uniform([-4, -0.8], [4, 0.8], (100, 2)):
        chosen = nearest_yaw(yaw, quarter, hand)
        turns = (chosen - yaw) / quarter
        assert (
            abs(turns - round(turns)) < 1e-9 and abs(chosen) <= quarter / 2 + abs(hand) / 2 + 1e-9
        )
        # committed: once the hand is there, it stays the one
        assert nearest_yaw(yaw, quarter, chosen) == pytest.approx(chosen)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cube_m": 40}, r"cube_m = 40: wanted 0.01 to 0.07 m; 40 mm are 0.04 m"),
        ({"cube_rgb": (255.0, 0.0, 0.0)}, "red, green and blue"),
        ({"edge_m": 0.04}, "edge_m"),
    ],
)
def test_a_cube_that_cannot_be_is_refused(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        find_scene(Use("pick_cube", options))
