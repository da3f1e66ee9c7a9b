"""What is seen is of a moment ago: simulated, recorded, and nothing else is late."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry, interfaces
from robot_rl.config.run_settings import LONGEST_DELAY_S
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.types import ArmTarget, Array, ConfigError

pytestmark = pytest.mark.real_clock

TASK = config.load_task("peg_insert")
HARDWARE = config.load_hardware("sim_panda")
DOWN = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], np.float32)
STEPS = 14
MakeEnv = Callable[..., RobotEnv]


@pytest.fixture
def make_env(lockstep_arm) -> Iterator[MakeEnv]:
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened: list[RobotEnv] = []

    def make(delay_s: float = 0.0, obs="state") -> RobotEnv:
        task = replace(TASK, observe_place=True)
        opened.append(RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs=obs, delay_s=delay_s))
        return opened[-1]

    yield make
    for env in opened:
        env.close()


def moves() -> Array:
    """Aside and turning at changing speed, then down onto whatever is there: free motion, contact."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(-1.0, 1.0, (STEPS // 2, 6)), np.tile(DOWN, (STEPS // 2, 1))])


def played(env: RobotEnv, seed: int = 3) -> tuple[list[dict], list, list]:
    """What was observed in an episode, what the arm did, and how old what was seen was."""
    observed, did, ages = [env.reset(seed=seed)[0]], [], []
    for move in moves():
        observation, *_, info = env.step(move)
        observed.append(observation)
        did.append([info["executed"], env.arm_states[0].q, env.arm_states[0].wrench_base_tcp])
        ages.append(info["seen_age_s"])
    return observed, did, ages


def test_a_delay_changes_what_is_seen_and_not_how_the_arm_moves(make_env):
    _, did, ages = played(make_env())
    _, did_too, ages_too = played(make_env(0.06))
    for one, other in zip(did, did_too, strict=True):
        for number, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(number, same)
    assert ages == [0.0] * STEPS and ages_too == pytest.approx([0.06] * STEPS)


def test_what_is_seen_a_period_late_is_what_was_seen_in_time_one_step_before(gl, make_env):
    """The pictures alone: what is felt is felt in time. Whatever number of milliseconds went before."""
    arm = make_env().arms[0]
    arm.command(ArmTarget(arm.refresh().pose_base_tcp, 0.003))
    in_time, *_ = played(make_env(obs="pixels"))
    late, *_ = played(make_env(TASK.rate_hz**-1, obs="pixels"))
    for before, then, now in zip(in_time[1:-1], in_time[2:], late[2:], strict=True):
        for name in ("image/wrist", "image/front"):
            np.testing.assert_array_equal(now[name], before[name], err_msg=name)
        for name in ("tcp_pose", "tcp_twist", "tcp_wrench", "target_offset", "place"):
            np.testing.assert_array_equal(now[f"state/{name}"], then[f"state/{name}"], err_msg=name)
    differ = [
        (one["image/wrist"] != other["image/wrist"]).any()
        for one, other in zip(in_time[1:], late[1:], strict=True)
    ]
    assert any(differ), "nothing was late"


def test_the_goal_is_seen_from_where_the_tool_was(make_env):
    """Wherever an arm was, the goal from there is one place; and it was there, so long ago."""
    for delay_s, late_steps in ((0.0, 0), (0.03, 0), (0.1, 1), (0.2, 2)):
        env = make_env(delay_s)
        env.reset(seed=5)
        tools = [env.arm_states[0].pose_base_tcp]
        for move in moves():
            observation = env.step(move)[0]
            assert env.world is not None
            tool = env.seen_states[0].pose_base_tcp
            seen = geometry.pose_move(tool, observation["state/sim_goal"].astype(np.float64))
            np.testing.assert_allclose(seen, env.world.latest.goal_base_tcp, atol=1e-5)
            tools.append(env.arm_states[0].pose_base_tcp)
            if (
                delay_s != 0.03 and len(tools) > late_steps
            ):  # before, it was on its way to the start
                np.testing.assert_allclose(tool, tools[-1 - late_steps], atol=1e-5)


def test_what_was_in_another_scene_is_not_seen_in_this_one(lockstep_arm):
    with closing(WorldClient(lockstep_arm)) as world, closing(ArmClient(lockstep_arm)) as arm:
        first = world.reset(1)
        world.ago(0.1)
        env_arm = arm.refresh()
        assert env_arm.fault == 0
        second = world.reset(2)
        seen = world.ago(LONGEST_DELAY_S)
        assert (first.goal_base_tcp != second.goal_base_tcp).any()
        np.testing.assert_array_equal(seen.goal_base_tcp, second.goal_base_tcp)
        assert seen.seed == 2


@pytest.mark.parametrize("age_s", [-0.1, 1.0, float("nan"), float("inf")])
def test_what_the_arm_does_not_remember_is_refused_with_what_may_be_asked(lockstep_arm, age_s):
    with closing(ArmClient(lockstep_arm)) as arm, pytest.raises(ConfigError, match=r"0 to 0\.9"):
        arm.ago(age_s, arm.refresh())


@pytest.mark.parametrize("delay_s", [-0.01, 0.6, float("nan")])
def test_a_delay_that_is_none_is_refused(make_env, delay_s):
    with pytest.raises(ConfigError, match=r"allowed: 0 to 0\.5"):
        make_env(delay_s)


class LateCamera(interfaces.Camera):
    """A stranger's: black frames that were taken `age_s` before they are read."""

    age_s = 0.15

    def read(self) -> Array:
        self.taken_t = time.monotonic() - self.age_s
        return np.zeros((128, 128, 3), np.uint8)

    def close(self) -> None:
        pass


def test_on_the_real_clock_an_arm_remembers_and_the_age_of_what_is_seen_is_told(start_arm):
    """Where its tool was, beside what somebody else saw of it meanwhile, within a millimetre or two
    where it has gone on by a centimetre; and how old a stranger's frames were when they were acted on.
    """
    arm = start_arm("real")
    bench = replace(HARDWARE, arms=(replace(HARDWARE.arms[0], address=arm.address),))
    with pytest.raises(ConfigError, match="real clock"):
        RobotEnv(TASK, bench, obs="state", delay_s=0.05)
    env = RobotEnv(replace(TASK, max_steps=30), bench, obs="state")
    heights: list[tuple[float, float]] = []
    done = threading.Event()

    def watch() -> None:
        with closing(ArmClient(arm.address)) as client:
            while not done.is_set():
                state = client.refresh()
                heights.append((time.monotonic() - state.age_s, float(state.pose_base_tcp[2])))
                time.sleep(0.002)

    watching = threading.Thread(target=watch)
    watching.start()
    gone_on, missed = [], []
    try:
        env.cameras["wrist"] = LateCamera(None, Given())
        env.reset(seed=0)
        for step in range(16):
            env.cameras["wrist"].read()
            up = 1.0 if step < 8 else -1.0
            _, *_, info = env.step(np.array([0.0, 0.0, -up, 0.0, 0.0, 0.0]))
            if step < 3:
                continue
            (now,), asked = env.arm_states, time.monotonic()
            then = env.arms[0].ago(LateCamera.age_s, now).pose_base_tcp[2]
            times, seen = np.array(heights).T
            missed.append(then - np.interp(asked - LateCamera.age_s, times, seen))
            gone_on.append(abs(now.pose_base_tcp[2] - then))
            assert info["seen_age_s"] >= LateCamera.age_s
    finally:
        done.set()
        watching.join()
        env.close()
    assert max(gone_on) > 0.006
    assert np.median(np.abs(missed)) < 0.002
