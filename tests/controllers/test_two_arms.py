"""Arms that stand in one world: one clock, and everything else each for itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zmq

from robot_rl.controllers.served_arm import open_arms
from robot_rl.controllers.server import serve_each
from robot_rl.controllers.setup import DEFAULT_LEASH, ArmSetup
from robot_rl.links.sockets import new_socket
from robot_rl.types import ArmTarget, ConfigError, DeviceError, Fault
from tests.two_arms import BENCH, SCENE, TASK

PERIOD_S = 0.05


@pytest.fixture
def arms():
    opened = open_arms(BENCH.arms, SCENE, "lockstep")
    for arm, config in zip(opened, BENCH.arms, strict=True):
        arm.configure(setup_of(config))
    return opened


def setup_of(config, **changes):
    tcp = np.array(config.pose_flange_tcp)
    limits = replace(config.limits, **changes)
    return ArmSetup(tcp, TASK.compliance, limits, *DEFAULT_LEASH)


def target(arm, dz=0.0, period_s=PERIOD_S, lease_periods=3.0):
    pose = arm.state().pose_base_tcp.copy()
    pose[2] += dz
    return ArmTarget(pose, period_s, lease_periods, arm.state().t)


def times(arms):
    return [round(arm.state().t, 6) for arm in arms]


def heights(arms):
    return np.array([arm.state().pose_base_tcp[2] for arm in arms])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_time_goes_by_once_each_arm_has_its_target(arms, order):
    first, second = (arms[i] for i in order)
    before = heights(arms)
    for period in range(1, 6):
        waits = first.command(target(first, 0.01))
        assert times(arms) == 2 * [round((period - 1) * PERIOD_S, 6)] and not waits.holding
        second.command(target(second, -0.01))
        assert times(arms) == 2 * [round(period * PERIOD_S, 6)]
    moved = heights(arms) - before
    assert moved[order[0]] > 0.002 and moved[order[1]] < -0.002


def test_a_program_that_moves_one_arm_alone_sees_it_a_period_late_and_never_waits(arms):
    left, right = arms
    before = heights(arms)
    seen = [round(left.command(target(left, 0.01)).t, 6) for _ in range(5)]
    assert seen == [round(i * PERIOD_S, 6) for i in range(5)]
    moved = heights(arms) - before
    assert moved[0] > 0.002 and abs(moved[1]) < 1e-4 and right.state().holding


def test_an_arm_that_nobody_has_set_up_is_not_waited_for():
    left, right = open_arms(BENCH.arms, SCENE, "lockstep")
    right.configure(setup_of(BENCH.arms[1]))
    assert right.command(target(right, 0.01)).t == pytest.approx(PERIOD_S)
    assert left.state().t == pytest.approx(PERIOD_S) and left.state().holding


def test_a_hold_stops_its_arm_and_lets_the_other_go_on_as_it_was_told(arms):
    left, right = arms
    for arm in arms:
        arm.command(target(arm, 0.02, lease_periods=10.0))
    held = left.hold()
    assert held.holding and np.abs(held.dq).max() < 0.05 and held.t > PERIOD_S
    assert not right.state().holding and right.state().t == held.t


def test_a_period_that_is_none_is_refused_and_waits_for_nothing(arms):
    left, right = arms
    with pytest.raises(ConfigError, match="period_s is 100"):
        left.command(target(left, period_s=100.0))
    right.command(target(right))
    assert times(arms) == [0.0, 0.0]


@pytest.mark.parametrize("asked", [0, 1])
def test_a_reset_by_either_arm_is_one_of_the_world_and_of_both_loops(arms, asked):
    home = [arm.state().q.copy() for arm in arms]
    for _ in range(4):
        for arm in arms:
            arm.command(target(arm, 0.02))
    arms[0].command(target(arms[0]))  # which waits for the other's, and is forgotten
    truth = arms[asked].reset(7)
    for arm, q in zip(arms, home, strict=True):
        state = arm.state()
        np.testing.assert_allclose(state.q, q, atol=1e-9)
        assert state.holding and not state.dq.any() and arm.resets == 1
    np.testing.assert_array_equal(truth.q, arms[0].world().q)
    assert arms[1].world().seed == 7
    t = times(arms)
    arms[1].command(target(arms[1]))
    assert times(arms) == t, "the first arm's target of before the reset counts no more"


def test_a_fault_of_one_arm_is_its_own(arms):
    left, right = arms
    nowhere = replace(target(left), pose_base_tcp=np.full(7, np.nan))
    before = heights(arms)
    for _ in range(5):
        state = left.command(nowhere)
        right.command(target(right, 0.01))
    assert state.fault == Fault.TARGET_NOT_FINITE and left.state().holding
    assert right.state().fault == Fault.NONE and heights(arms)[1] - before[1] > 0.002
    assert left.acknowledge().fault == Fault.NONE


def test_each_arm_has_limits_of_its_own(arms):
    left = arms[0]
    low = BENCH.arms[0].limits.workspace_high[:2]
    left.configure(setup_of(BENCH.arms[0], workspace_high=(*low, 0.201)))
    for _ in range(20):
        for arm in arms:
            arm.command(target(arm, 0.01))
    assert heights(arms)[0] < 0.2025 and heights(arms)[1] > 0.215


def test_each_arm_measures_in_its_own_base_and_both_tell_of_one_world(arms):
    left, right = (arm.state().pose_base_tcp for arm in arms)
    np.testing.assert_allclose(left, right, atol=1e-9)
    truths = [arm.world() for arm in arms]
    np.testing.assert_array_equal(truths[0].q, truths[1].q)
    np.testing.assert_array_equal(truths[0].scene_q, truths[1].scene_q)


def test_a_loop_that_dies_after_one_of_its_arms_was_served_is_in_the_black_box_of_each():
    class Served:
        def __init__(self, dead):
            self.dead, self.told, self.socket = dead, [], new_socket(zmq.ROUTER)

        def serve_once(self, timeout_ms):
            if self.dead:
                raise DeviceError("the arm's loop has died")

        def loop_died(self, error):
            self.told.append(str(error))

    servers: list[Any] = [Served(dead=False), Served(dead=True)]
    with pytest.raises(DeviceError):
        serve_each(servers, 1)
    assert [server.told for server in servers] == 2 * [["the arm's loop has died"]]
    for server in servers:
        server.socket.close()
