"""What the scripted operator shows a classifier, and what it leaves to one to say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.outcomes import OutcomeRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator.mapping import Operator
from robot_rl.sim.socket import Socket
from robot_rl.stream.log import StepLog
from robot_rl.teleop import human_like, scripted
from robot_rl.teleop._habits import HOLDS_STEPS
from robot_rl.teleop._near_misses import Plan
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import OperatorCommand, Use
from tests.teleop.test_scripted import StillWorld, arm_at

TASK = config.load_task("peg_insert")
HARDWARE = config.load_hardware("sim_panda")
IN_THE_HOLE = np.zeros(6)


@pytest.mark.parametrize("kind", [scripted, human_like])
def test_every_other_episode_is_a_success_and_the_others_never_are(lockstep_arm, tmp_path, kind):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    env = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    teleop = kind.Teleop(kind.Options(), Given(task=TASK, world=env.world, mode="collect", seed=1))
    with StepLog(tmp_path / "log", env.space_spec) as log:
        sitting = RecordingSession(env, Operator(teleop), log, seed=0)
        recorder = OutcomeRecorder(sitting, per_episode=5)
        recorder.record(positives=18, negatives=120)
        steps = list(log.read())
    env.close()
    labels = [episode.labels for episode in recorder.episodes.values()]
    shown = [any(each) for each in labels]
    assert all(a != b for a, b in pairwise(shown)) and len(shown) >= 6
    assert all(len(each) < 60 for each in labels), "no episode waits for its time limit"
    failures = [step.observation["state/sim_goal"] for step in steps if not shown[step.episode]]
    beside = [np.hypot(*goal[:2]) > 0.04 and abs(goal[2]) < 0.01 for goal in failures]
    assert any(beside), "as low as the goal, beside the socket: no height tells them apart"


def test_a_success_that_is_taken_back_has_failed_when_the_tool_is_out_however_long_the_hand_rests():
    plan = Plan(Socket.of(TASK.scene), np.random.default_rng(0))
    taken_back = 0
    for _ in range(20):
        plan.begin_episode()
        within = [plan.step(IN_THE_HOLE, True) for _ in range(40)]
        if (shown := within[-1]) is not None and shown.name == "withdrawn":
            was_over = plan.is_over
            plan.step(IN_THE_HOLE, False)
            assert (was_over, plan.is_over) == (False, True)
            taken_back += 1
    assert taken_back == 2


def test_it_leaves_the_word_to_a_learned_judge_for_some_steps_and_no_longer():
    """Who collects what such a judge learns from says it at once: ten frames of each success were
    labelled failures, and the judge missed 86 of 88 successes.
    """
    words = []
    demonstrates = Given(task=TASK, mode="demonstrate")
    for judge, given in [
        ("simulator", demonstrates),
        ("classifier", demonstrates),
        ("classifier", replace(demonstrates, mode="collect")),
    ]:
        world = StillWorld()
        world.latest = replace(StillWorld.latest, success=True)
        task = replace(TASK, reward=Use(judge))
        teleop = Teleop(Options(), replace(given, task=task, world=world))
        teleop.begin_episode()
        said = [teleop.read([arm_at(0.0, 0.0, 0.0)]) for _ in range(HOLDS_STEPS + 2)]
        words.append([event.outcome == OperatorCommand.SUCCESS for event in said])
        assert all(event.active for event in said), "it holds the tool in place meanwhile"
    assert all(words[0]) and all(words[2])
    assert words[1] == [False] * HOLDS_STEPS + [True, True]
