"""A soft stop on the way to a start pose: the arm holds at once, and the way begins anew when
somebody says so.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.env.robot import RobotEnv
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.types import OperatorCommand
from tests.hands import Hand
from tests.teleop.benches import wait_until

pytestmark = pytest.mark.real_clock

TASK = config.load_task("peg_insert")
# more than a second from home
FAR = replace(TASK.start[0], pose_base_tool=(0.42, -0.15, 0.25, 1.0, 0.0, 0.0, 0.0))
HOLDS_WITHIN = 500  # cycles of the arm's loop, half a second of its own time


@pytest.fixture
def env(real_arm):
    hardware = config.load_hardware("sim_panda")
    arm = replace(hardware.arms[0], address=real_arm)
    opened = RobotEnv(
        replace(TASK, start=(FAR,), max_steps=2), replace(hardware, arms=(arm,)), obs="state"
    )
    yield opened
    opened.close()


class Reset:
    """An episode that is about to begin, in a thread of its own, and a word that is said in the
    middle of the way.

    That thread says it itself, once, as soon as the arm is fast: another one may come late, when
    the way is over. `speed` is how fast the tool went, by the cycle of the arm's loop; `said` is
    the cycle of the word.
    """

    def __init__(self, env, desk, hand, word):
        self.stop = threading.Event()
        gate = PauseGate(env, desk, acknowledges=True, stop=self.stop.is_set)
        runner = EpisodeRunner(env, desk=desk, gate=gate)
        intervention = Intervention(Operator(hand), desk=desk, gate=gate)
        still = np.zeros(6, np.float32)
        self.steps: list = []
        self.speed: list[tuple[int, float]] = []
        self.said = -1
        arm = env.arms[0]
        ask = arm._ask

        def noting(*asked):
            state = ask(*asked)
            self.speed.append((state.sequence, float(np.linalg.norm(state.twist_base_tcp[:3]))))
            if self.said < 0 and self.speed[-1][1] > 0.08:
                word()
                self.said = state.sequence
            return state

        arm._ask = noting
        self.thread = threading.Thread(
            target=lambda: self.steps.extend(
                runner.play(0, lambda observation: still, intervention, seed=1)
            )
        )
        self.thread.start()

    @property
    def holds(self) -> bool:
        """Whether it has been watched for long enough after the word, and stood still but for an
        ebbing tremble.
        """
        later = [speed for cycle, speed in self.speed if cycle > self.said + HOLDS_WITHIN]
        return self.said >= 0 and len(later) > 10 and max(later) < 0.02


@pytest.mark.parametrize("at", ["the desk", "the device"])
def test_the_arm_holds_at_once_and_the_way_begins_anew_after_start(env, desk, console, at):
    hand = Hand()

    def say() -> None:
        if at == "the device":
            hand.earlier = [OperatorCommand.STOP]
            return
        for word in ("stop", "pause"):  # as the page's button says it
            console.say(word)

    reset = Reset(env, desk, hand, say)
    wait_until(lambda: reset.holds, timeout_s=60.0)
    facts = console.look().facts
    assert facts["phase"] == "waiting" and "by the operator" in facts["reason"]
    assert not reset.steps and reset.thread.is_alive()
    console.say("start")
    reset.thread.join(120.0)
    assert reset.steps and reset.steps[0].index == 0 and not reset.steps[-1].terminated
    np.testing.assert_allclose(
        env.arm_states[0].pose_base_tcp[:2], FAR.pose_base_tool[:2], atol=0.025
    )


def test_a_run_that_is_stopped_meanwhile_has_no_such_episode(env, desk, console):
    reset = Reset(env, desk, Hand(), lambda: console.say("stop"))
    wait_until(lambda: reset.holds, timeout_s=60.0)
    assert console.look().facts["phase"] == "waiting"
    reset.stop.set()
    reset.thread.join(60.0)
    assert not reset.thread.is_alive() and not reset.steps
