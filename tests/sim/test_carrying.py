"""A hand that wanders with what it has laid down, beside the simulation's own truth."""

import numpy as np
import pytest

from robot_rl.actor.exploration import CarryingExplorer
from robot_rl.config import tighten
from robot_rl.geometry import pose_delta, pose_inverse, pose_multiply
from robot_rl.sim.grasping import tcp_pose
from robot_rl.sim.scenes._bar import LEFT, RIGHT
from robot_rl.types import OperatorCommand
from tests.sim.pair import PAIR, PairPlayer


def explorer_of(player: PairPlayer, seed: int) -> CarryingExplorer:
    wander = player.task.wander
    assert wander is not None and wander.carries and wander.arm == RIGHT
    limits = tighten(PAIR.arms[RIGHT].limits, player.task.limits)
    return CarryingExplorer(player.task, wander, limits, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [1000, 1001])
def test_where_the_tool_is_tells_where_the_bar_is(seed):
    player = PairPlayer("handover", seed=4)
    assert player.play(seed) == OperatorCommand.SUCCESS
    data, explorer = player.data, explorer_of(player, seed)

    def bar() -> np.ndarray:
        return data.joint("bar").qpos[[0, 1, 2, 4, 5, 6, 3]].copy()

    laid, tool, still = bar(), tcp_pose(data, RIGHT), tcp_pose(data, LEFT)
    states, off, carried = player.states(), list[np.ndarray](), 0
    explorer.begin_episode(states[RIGHT])
    for _ in range(player.task.defaults["wander_steps"]):
        holds = player.drivers[RIGHT].fingers.grasped
        moves = [np.zeros(6), explorer.act(states[RIGHT], holds=holds)]
        states = player.act(states, moves, (0.0, explorer.order(holds=holds)))
        carried += holds
        assert not explorer.over
        # the way from here to where the tool was is the bar's way back to where it lay
        back = pose_multiply(tool, pose_inverse(tcp_pose(data, RIGHT)))
        off.append(pose_delta(laid, pose_multiply(back, bar())))
    assert carried > 0.7 * len(off)
    away = np.array(off)
    assert np.abs(away[:, :2]).max() < 0.002, "it slips in the hand"
    assert np.abs(away[:, 5]).max() < 0.03
    assert np.linalg.norm(pose_delta(still, tcp_pose(data, LEFT))[:3]) < 0.002


def test_it_is_over_where_the_hand_has_closed_on_nothing_or_lost_what_it_had():
    player = PairPlayer("handover", seed=4)
    states, explorer = player.begin(1000), explorer_of(player, 0)
    for lasts in (0, 5):
        explorer.begin_episode(states[RIGHT])
        orders, moves = list[float](), list[np.ndarray]()
        while not explorer.over:
            holds = len(orders) < lasts
            moves.append(explorer.act(states[RIGHT], holds=holds))
            orders.append(explorer.order(holds=holds))
        assert len(orders) == (lasts + 1 if lasts else 15)
        assert {float(order) for order in orders[:-1]} == ({0.0} if lasts else {-1.0})
        assert [bool(move.any()) for move in moves] == [i < lasts for i in range(len(moves))]
