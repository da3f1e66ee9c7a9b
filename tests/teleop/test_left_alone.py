"""A simulated operator who corrects leaves alone what goes well, also where it goes another way than
its own.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.interfaces import Given
from robot_rl.teleop.scripted import OperatorHabits, Teleop
from robot_rl.types import OperatorCommand, Use
from tests.sim.player import Player


@pytest.mark.parametrize("task", ["pick_cube", "usb_insert"])
def test_a_policy_whose_hand_takes_its_time_to_close_is_not_interrupted(task):
    player = Player(task, "correct", seed=5)
    judged = replace(player.task, reward=Use("simulator"))
    other = Teleop(OperatorHabits(), Given(task=judged, world=player, mode="demonstrate", seed=11))
    for seed in (300, 302, 306):
        state, lying_m = player.begin(seed), player.latest.scene_q[2]
        other.begin_episode()
        player.operator.begin_episode()
        for _ in range(player.task.max_steps):
            watching, does = player.operator.read([state]), other.read([state])
            assert not watching.active
            if player.latest.scene_q[2] > lying_m + 0.005:
                break
            state = player.act(state, does.twist, does.gripper)
        assert player.latest.scene_q[2] > lying_m + 0.005, "it is not in the hand"


@pytest.mark.parametrize(("phase", "waits"), [("carry", 0), ("slide", 25), ("press", 25)])
def test_an_arm_is_let_try_for_longer_at_the_opening_than_elsewhere(phase, waits):
    player = Player("usb_insert", seed=5)
    state, operator = player.begin(3), player.operator
    names = [each.name for each in operator._phases.at(player.latest)]
    operator.begin_episode()
    steps = 0
    while steps < 3:
        said = operator.read([state])
        steps += operator._index == names.index(phase)
        state = player.act(state, said.twist, said.gripper)
    operator._mode = "correct"
    operator.begin_episode()
    drove = [operator.read([state]).active for _ in range(60)]
    assert drove.index(True) == OperatorHabits().patience_steps + 1 + waits


def test_a_drawer_that_an_unsteady_hand_pulls_is_left_to_it():
    player, pull = Player("drawer", seed=5), np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    unsteady = np.array([0.0, 0.3, 0.2, 0.8, 0.8, 0.8])
    for seed in (0, 1, 2):
        rng, state = np.random.default_rng([seed, 78]), player.begin(seed)
        player.operator._mode = "demonstrate"
        player.operator.begin_episode()
        while not is_behind_the_bar(player):
            state = player.act(state, player.operator.read([state]).twist)
        player.operator._mode = "correct"
        player.operator.begin_episode()
        for _ in range(40):
            watching = player.operator.read([state])
            assert not watching.active
            if watching.outcome == OperatorCommand.SUCCESS:
                break
            state = player.act(state, np.clip(pull + unsteady * rng.normal(0, 1, 6), -1.0, 1.0))
        assert player.latest.success


def is_behind_the_bar(player: Player) -> bool:
    """Whether the operator is through with getting there."""
    return bool(player.operator._index == 2)
