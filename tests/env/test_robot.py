"""The environment, on an arm process that really runs: gymnasium's own checks, ends of episodes,
faults.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from robot_rl import config, interfaces
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.types import ArmFaultError, Fault, RewardResult

TASK = config.load_task("peg_insert")
HARDWARE = config.load_hardware("sim_panda")
NOTHING = np.zeros(6, np.float32)
MakeEnv = Callable[..., RobotEnv]


@pytest.fixture
def make_env(lockstep_arm) -> Iterator[MakeEnv]:
    """`make_env(obs="state", max_steps=5)`: the environment with some of the task changed."""
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened: list[RobotEnv] = []

    def make(obs="state", render_mode=None, **changes) -> RobotEnv:
        hardware = replace(HARDWARE, arms=(arm,))
        opened.append(
            RobotEnv(replace(TASK, **changes), hardware, obs=obs, render_mode=render_mode)
        )
        return opened[-1]

    yield make
    for env in opened:
        env.close()


def check(env: RobotEnv) -> None:
    """Gymnasium's checks; what it merely advises about is for environments of another kind."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(spec|Box observation space|Casting input)")
        check_env(env, skip_close_check=True)


def test_it_passes_gymnasiums_own_checks_from_state(make_env):
    check(make_env("state"))


def test_it_passes_gymnasiums_own_checks_from_pixels(gl, make_env):
    env = make_env("pixels", render_mode="rgb_array", observe_gravity=True)
    check(env)
    assert env.reset(seed=0)[0]["state/projected_gravity"][2] > 0.9, "the tool points down"
    assert env.render().shape == (128, 256, 3)


def test_a_time_limit_truncates_and_does_not_terminate(make_env):
    env = make_env(max_steps=4)
    env.reset(seed=0)
    ends = [env.step(NOTHING)[1:4] for _ in range(4)]
    assert ends == [(0.0, False, False)] * 3 + [(0.0, False, True)]


def test_success_terminates_and_does_not_truncate_even_at_the_time_limit(make_env):
    from robot_rl.interfaces import Given
    from robot_rl.teleop.scripted import Options, Teleop

    def insert(env):
        env.reset(seed=1)
        teleop = Teleop(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))
        teleop.begin_episode()
        for steps in range(1, 101):
            _, reward, terminated, truncated, _ = env.step(teleop.read(env.arm_states).twist)
            if terminated or truncated:
                return steps, reward, terminated, truncated
        raise AssertionError("neither success nor time limit within 100 steps")

    steps, *end = insert(make_env())
    assert end == [1.0, True, False]
    assert insert(make_env(max_steps=steps)) == (steps, 1.0, True, False)
    assert insert(make_env(max_steps=steps - 1)) == (steps - 1, 0.0, False, True)


def test_in_free_space_the_executed_action_is_the_commanded_one(make_env):
    env, rng = make_env(), np.random.default_rng(0)
    env.reset(seed=3)
    for _ in range(20):
        action = rng.uniform(-0.4, 0.4, 6).astype(np.float32)
        _, _, _, _, info = env.step(action)
        np.testing.assert_allclose(info["executed"], action, atol=1e-5)


def test_what_the_leash_takes_away_is_not_among_the_executed(make_env):
    env = make_env()
    env.reset(seed=3)
    # onto rim or table: the arm stops, the target too
    down = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], np.float32)
    executed = [env.step(down)[4]["executed"][2] for _ in range(25)]
    assert max(executed) == pytest.approx(1.0, abs=1e-3)
    assert executed[-1] == pytest.approx(0.0, abs=0.05)


def test_an_action_outside_the_space_is_clipped_to_it(make_env):
    env = make_env()
    env.reset(seed=3)
    _, _, _, _, info = env.step(np.array([0.0, 0.0, -7.0, 0.0, 0.0, 0.0]))
    assert info["executed"][2] >= -1.0 - 1e-5


def test_a_translation_does_not_leak_into_a_rotation(make_env):
    """serl 5.1: with mixed frames a straight move turns the tool in its own eyes."""
    env = make_env()
    env.reset(seed=5)
    for _ in range(8):
        observation, *_, info = env.step(np.array([0.8, -0.5, -0.3, 0.0, 0.0, 0.0], np.float32))
        np.testing.assert_allclose(info["executed"][3:], 0.0, atol=1e-5)
    assert np.abs(observation["state/tcp_pose"][:3]).min() > 0.005
    assert np.abs(observation["state/tcp_pose"][3:]).max() < 0.01  # what a moving arm gives way


def test_an_episode_repeats_exactly_for_a_seed(make_env):
    env = make_env()

    def play():
        rng = np.random.default_rng(1)
        first, _ = env.reset(seed=9)
        return [first] + [env.step(rng.uniform(-1.0, 1.0, 6))[0] for _ in range(15)]

    for a, b in zip(play(), play(), strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_an_episode_that_keeps_its_pose_begins_there_and_nobody_judges_it(make_env):
    env = make_env()
    env.reset(seed=2)
    for _ in range(3):
        env.step(np.full(6, 0.3, np.float32))
    pose = env.arm_states[0].pose_base_tcp
    observation, _ = env.reset(options={"keep_pose": True})
    np.testing.assert_allclose(observation["state/tcp_pose"], NOTHING, atol=1e-12)
    np.testing.assert_array_equal(env.arm_states[0].pose_base_tcp, pose)


def test_simulated_time_passes_by_one_period_per_step(make_env):
    env = make_env()
    env.reset(seed=0)
    before = env.clock.now()
    for _ in range(5):
        env.step(NOTHING)
    assert env.clock.now() - before == pytest.approx(0.5)


class Costly(interfaces.Reward):
    """Each step costs."""

    def judge(self, observation, arms, outcome):
        return RewardResult(-1.0)


@pytest.mark.parametrize("costs", [False, True])
def test_a_fault_of_a_motion_is_a_failure_and_lasts_until_it_is_acknowledged(make_env, costs):
    """Where steps cost something an end would be a gain: there it is none."""
    # what pressing comes to: the blow of touching is more
    env = make_env(limits={"max_force": 20.0})
    env.reward = Costly(None, Given()) if costs else env.reward
    env.reset(seed=3)
    down = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], np.float32)
    for _ in range(30):
        _, reward, terminated, truncated, info = env.step(down)
        if terminated or truncated:
            break
    assert (reward, terminated, truncated) == (-float(costs), not costs, costs)
    assert info["faults"] == [Fault.FORCE] and not info["success"]
    with pytest.raises(ArmFaultError, match="arm 'panda' holds because of fault FORCE"):
        env.reset(seed=4)
    env.acknowledge_faults()
    env.reset(seed=4)
    assert env.step(NOTHING)[4]["faults"] == [Fault.NONE]
