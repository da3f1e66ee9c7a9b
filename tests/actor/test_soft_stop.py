"""A soft stop on the way to a start pose: the arm holds at once, and the way begins anew when somebody says so."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.env import RobotEnv
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.actor.evaluate import evaluate
from robot_rl.actor.gate import Gate
from robot_rl.actor.handover import Operator
from robot_rl.actor.intervene import Intervention
from robot_rl.types import Outcome
from tests.hands import Hand
from tests.teleop.benches import wait_until

TASK = config.load_task("peg_insert")
FAR = replace(TASK.start[0], pose_base_tool=(0.42, -0.15, 0.25, 1.0, 0.0, 0.0, 0.0))  # more than a second from home
HOLDS_WITHIN_S = 0.5


@pytest.fixture
def env(start_arm):
    hardware = config.load_hardware("sim_panda")
    arm = replace(hardware.arms[0], address=start_arm("real").address)
    opened = RobotEnv(replace(TASK, start=(FAR,), max_steps=2), replace(hardware, arms=(arm,)), obs="state")
    yield opened
    opened.close()


class Reset:
    """An episode that is about to begin, in a thread of its own; `speed` is how fast the tool went, by time."""

    def __init__(self, env, desk, hand):
        self.stop = threading.Event()
        gate = Gate(env, desk, acknowledges=True, stop=self.stop.is_set)
        runner, intervention = EpisodeRunner(env, desk=desk, gate=gate), Intervention(Operator(hand), desk=desk)
        still = np.zeros(6, np.float32)
        self.steps: list = []
        self.speed: list[tuple[float, float]] = []
        arm = env.arms[0]
        ask = arm._ask

        def noting(*asked):
            state = ask(*asked)
            self.speed.append((time.monotonic(), float(np.linalg.norm(state.twist_base_tcp[:3]))))
            return state

        arm._ask = noting
        self.thread = threading.Thread(
            target=lambda: self.steps.extend(runner.play(0, lambda observation: still, intervention, seed=1))
        )
        self.thread.start()

    @property
    def moves(self) -> bool:
        return bool(self.speed) and self.speed[-1][1] > 0.08

    def holds_since(self, said_t: float) -> bool:
        """Whether it has been watched for long enough after the stop, and stood still but for an ebbing tremble."""
        later = [speed for t, speed in self.speed if t > said_t + HOLDS_WITHIN_S]
        return len(later) > 10 and max(later) < 0.02


@pytest.mark.parametrize("at", ["the desk", "the device"])
def test_the_arm_holds_at_once_and_the_way_begins_anew_after_start(env, desk, console, at):
    hand = Hand()
    reset = Reset(env, desk, hand)
    wait_until(lambda: reset.moves, timeout_s=20.0)
    said_t = time.monotonic()
    if at == "the desk":
        for word in ("stop", "pause"):  # as the page's button says it
            console.say(word)
    else:
        hand.earlier = [Outcome.STOP]
    wait_until(lambda: reset.holds_since(said_t), timeout_s=10.0)
    facts = console.look().facts
    assert facts["phase"] == "waiting" and "by the operator" in facts["reason"]
    assert not reset.steps and reset.thread.is_alive()
    console.say("start")
    reset.thread.join(30.0)
    assert [step.index for step in reset.steps] == [0, 1, 2] and not reset.steps[-1].terminated
    np.testing.assert_allclose(env.arm_states[0].pose_base_tcp[:2], FAR.pose_base_tool[:2], atol=0.025)


def test_a_run_that_is_stopped_meanwhile_has_no_such_episode(env, desk, console):
    reset = Reset(env, desk, Hand())
    wait_until(lambda: reset.moves, timeout_s=20.0)
    console.say("stop")
    wait_until(lambda: console.look().facts["phase"] == "waiting", timeout_s=10.0)
    reset.stop.set()
    reset.thread.join(10.0)
    assert not reset.thread.is_alive() and not reset.steps


def test_an_evaluation_ends_with_the_episodes_before(env, desk, console):
    done: list = []

    def stop() -> None:
        wait_until(lambda: done, timeout_s=30.0)
        console.say("stop")

    stopping = threading.Thread(target=stop)
    stopping.start()
    still = np.zeros(6, np.float32)
    result = evaluate(env, lambda observation: still, episodes=50, seed=0, desk=desk, progress=done.append)
    stopping.join()
    assert 1 <= len(result.episodes) < 5
