"""The environment of a task with two arms and two hands, on either clock."""

import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from robot_rl.env.robot import RobotEnv
from robot_rl.types import DeviceError, Fault, LinkError
from tests.two_arms import TASK, at_free_addresses, served

pytestmark = pytest.mark.real_clock

NAMES = tuple(
    name
    for arm in ("left", "right")
    for name in (*(f"{arm}.{axis}" for axis in ("x", "y", "z", "rz")), f"{arm}_gripper")
)


def action(**numbers):
    """Of the names, with the dot as two underscores; 0 for the others."""
    return np.array([numbers.get(name.replace(".", "__"), 0.0) for name in NAMES], np.float32)


@pytest.fixture(scope="module")
def env():
    with served("lockstep") as bench, closing(RobotEnv(TASK, bench, obs="state")) as env:
        yield env


def test_both_arms_travel_to_their_starts_together_and_are_one_policys(env):
    assert env.space_spec.actions.names == NAMES
    assert env.space_spec.actions.arms == ["left", "right"]
    observation, _ = env.reset(seed=3)
    for state, start in zip(env.arm_states, env.starts, strict=True):
        np.testing.assert_allclose(state.pose_base_tcp[:3], start[:3], atol=0.002)
    assert env.arm_states[0].t == env.arm_states[1].t < 2.0, "not one after the other"
    for name in ("left", "right"):
        np.testing.assert_allclose(observation[f"state/{name}/tcp_pose"], 0.0, atol=1e-6)
        assert observation[f"state/{name}/gripper"].tolist() == [1.0, 0.0, 0.0]


def test_a_step_moves_each_arm_and_each_hand_as_its_own_numbers_say(env):
    env.reset(seed=3)
    before = np.array([state.pose_base_tcp[:3] for state in env.arm_states])
    asked = action(left__x=1.0, right__y=-1.0, right__rz=0.5, left_gripper=-1.0)
    for step in range(5):
        observation, _, _, _, info = env.step(asked)
        assert env.arm_states[0].t == env.arm_states[1].t
        begun = replaced(asked, left_gripper=-1.0 if step == 0 else 0.0)
        np.testing.assert_allclose(info["executed"], begun, atol=0.01)
    moved = np.array([state.pose_base_tcp[:3] for state in env.arm_states]) - before
    # the tool points down: its x is the base's, its y the other way
    assert moved[0, 0] > 0.02 and abs(moved[0, 1]) < 0.005
    assert moved[1, 1] > 0.02 and abs(moved[1, 0]) < 0.005
    assert observation["state/left/gripper"][0] < 0.6 < observation["state/right/gripper"][0]


def replaced(numbers, **changes):
    there = dict(zip(NAMES, numbers.tolist(), strict=True)) | changes
    return np.array([there[name] for name in NAMES])


def test_one_success_is_that_of_both(env):
    env.reset(seed=3)
    results = [env.step(action(left__z=-1.0)) for _ in range(12)]
    assert not any(terminated for _, _, terminated, _, _ in results)
    while not (last := env.step(action(right__z=-1.0)))[2]:
        assert not last[3], "the time limit"
    assert last[1] == 1.0 and last[4]["success"]


def test_the_same_seed_is_the_same_episode(env):
    runs = []
    for _ in range(2):
        env.reset(seed=8)
        seen = [env.step(action(left__x=0.7, right__z=-0.4, right_gripper=-1.0))[0] for _ in "abc"]
        runs.append(np.concatenate([np.ravel(value) for value in seen[-1].values()]))
    np.testing.assert_array_equal(runs[0], runs[1])


def test_the_goal_is_seen_from_each_tool(env):
    """It is where the first one's tool is; the other one sees it across the table."""
    observation, _ = env.reset(seed=3)
    np.testing.assert_allclose(observation["state/left/sim_goal"], 0.0, atol=0.01)
    left, right = (state.pose_base_tcp[:3] for state in env.arm_states)
    apart = np.linalg.norm(left - (np.array([1.0, 0.0, 0.0]) + right * (-1.0, -1.0, 1.0)))
    seen = np.linalg.norm(observation["state/right/sim_goal"][:3])
    assert seen == pytest.approx(apart, abs=0.01)


def test_a_fault_of_one_arm_ends_the_episode_and_waits_for_somebody(env):
    env.reset(seed=3)
    env._targets = [np.full(7, np.nan), env._targets[1]]
    _, _, terminated, truncated, info = env.step(action())
    assert truncated and not terminated
    assert info["faults"] == [Fault.TARGET_NOT_FINITE, Fault.NONE]
    with pytest.raises(DeviceError, match="arm 'left' holds because of fault TARGET_NOT_FINITE"):
        env.reset(seed=4)
    env.acknowledge_faults()
    env.reset(seed=4)


@pytest.mark.slow
def test_on_the_real_clock_both_go_their_way_and_a_killed_process_is_named(monkeypatch):
    bench = at_free_addresses()
    command = [sys.executable, "-m", "tests.two_arms", "real"]
    process = subprocess.Popen([*command, *(arm.address for arm in bench.arms)])
    try:
        with closing(RobotEnv(replace(TASK, max_steps=200), bench, obs="state")) as env:
            env.reset(seed=3)
            before = np.array([state.pose_base_tcp[:3] for state in env.arm_states])
            for _ in range(6):
                env.step(action(left__x=1.0, right__y=-1.0, right_gripper=-1.0))
            moved = np.array([state.pose_base_tcp[:3] for state in env.arm_states]) - before
            assert moved[0, 0] > 0.01 and moved[1, 1] > 0.01
            process.kill()
            process.wait(20)
            for arm in env.arms:
                monkeypatch.setattr(arm._link, "_timeout_s", 0.5)
            with pytest.raises(LinkError, match="no arm process answered"):
                env.step(action())
    finally:
        process.kill()
        process.wait(20)
