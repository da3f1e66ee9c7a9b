"""A hand that wanders with what it has laid down, beside the simulation's own truth."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl.actor.exploration import CarryingExplorer
from robot_rl.config import tighten
from robot_rl.geometry import pose_delta, pose_inverse, pose_move, pose_multiply
from robot_rl.sim.grasping import tcp_pose
from robot_rl.sim.scenes._bar import LEFT, RIGHT
from robot_rl.types import CLOSE, STAY, OperatorCommand
from tests.sim.pair import PAIR, PairPlayer


def explorer_of(player: PairPlayer, seed: int, **changed: Any) -> CarryingExplorer:
    wander = player.task.wander
    assert wander is not None and wander.carries and wander.arm == RIGHT
    wander = replace(wander, **changed)
    limits = tighten(PAIR.arms[RIGHT].limits, player.task.limits)
    return CarryingExplorer(player.task, wander, limits, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [1000, 1001, 1002, 1003])
def test_where_the_tool_is_tells_where_the_bar_is(seed):
    player = PairPlayer("handover", seed=4)
    assert player.play(seed) == OperatorCommand.SUCCESS
    data, explorer = player.data, explorer_of(player, seed)

    def bar() -> np.ndarray:
        return data.joint("bar").qpos[[0, 1, 2, 4, 5, 6, 3]].copy()

    laid, tool, still = bar(), tcp_pose(data, RIGHT), tcp_pose(data, LEFT)
    steps = player.task.defaults["wander_steps"]
    opened, states, off = tool, player.states(), list[np.ndarray]()
    explorer.begin_episode(states[RIGHT])
    for _ in range(steps):
        holds = player.drivers[RIGHT].fingers.grasped
        if not holds:
            tool = tcp_pose(data, RIGHT)
            np.testing.assert_allclose(bar(), laid, atol=1e-3, err_msg="it is pushed")
        move, order = explorer.act(states[RIGHT], holds=holds)
        states = player.act(states, [np.zeros(6), move], (0.0, order))
        assert not explorer.over
        if holds and not off:
            assert move[2] < 0.0 and np.abs(move[:2]).max() < 0.3 * -move[2], "not straight up"
        if holds:
            # the way from here to where the tool took hold is the bar's way back to where it lay
            back = pose_multiply(tool, pose_inverse(tcp_pose(data, RIGHT)))
            off.append(pose_delta(laid, pose_multiply(back, bar())))
    assert len(off) > 0.7 * steps
    taken = pose_delta(opened, tool)
    assert -0.008 < taken[0] < 0.032
    assert abs(taken[1]) < 0.002 and np.abs(taken[3:]).max() < 0.02
    away = np.array(off)
    assert np.abs(away[:, :2]).max() < 0.002, "it slips in the hand"
    assert np.abs(away[:, 5]).max() < 0.03
    assert np.linalg.norm(pose_delta(still, tcp_pose(data, LEFT))[:3]) < 0.002


def test_it_takes_hold_anywhere_in_the_box_that_the_task_states():
    player = PairPlayer("handover", seed=4)
    arm, explorer, places = player.begin(1000)[RIGHT], explorer_of(player, 0), list[float]()
    for _ in range(200):
        explorer.begin_episode(arm)
        target, order = arm.target_base_tcp, STAY
        while order != CLOSE:
            now = replace(arm, target_base_tcp=target)
            move, order = explorer.act(now)
            target = pose_move(target, move * player.task.action_scale)
        places.append(pose_delta(arm.target_base_tcp, target)[0])
    assert min(places) == pytest.approx(-0.006, abs=0.002)
    assert max(places) == pytest.approx(0.030, abs=0.002)


def test_it_is_over_where_the_hand_has_closed_on_nothing_or_lost_what_it_had():
    player = PairPlayer("handover", seed=4)
    arm = player.begin(1000)[RIGHT]
    explorer = explorer_of(player, 0, takes_from=(0.0, 0.0, 0.0), takes_to=(0.0, 0.0, 0.0))
    for lasts in (0, 5):
        explorer.begin_episode(arm)
        orders, moves = list[float](), list[np.ndarray]()
        while not explorer.over:
            move, order = explorer.act(arm, holds=len(orders) < lasts)
            moves.append(move)
            orders.append(order)
        assert len(orders) == (lasts + 1 if lasts else 15)
        assert {float(order) for order in orders[:-1]} == ({0.0} if lasts else {-1.0})
        assert [bool(move.any()) for move in moves] == [i < lasts for i in range(len(moves))]


def test_while_its_fingers_open_it_stands_and_has_not_arrived():
    """Where a task holds an arm whose fingers move: it closed where it had let go, always."""
    player = PairPlayer("handover", seed=4)
    arm, explorer = player.begin(1000)[RIGHT], explorer_of(player, 0)
    explorer.begin_episode(arm)
    for _ in range(30):
        move, order = explorer.act(arm, stands=True)
        assert not move.any() and order == STAY and not explorer.over
    move, order = explorer.act(arm)
    assert move.any() and order == STAY
