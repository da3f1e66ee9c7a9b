"""Tasks whose hand moves, whole: environment, hand, operator and log, in simulated time."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.classifier.score import predicates_of
from robot_rl.controllers.server import serve
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator.mapping import Operator
from robot_rl.sim.scenes.pick_cube import OVER_M
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop

HARDWARE = config.load_hardware("sim_hand")
DEMOS = 1


@pytest.fixture(params=["pick_cube", "usb_insert"])
def env(request, address):
    task, stop = config.load_task(request.param), threading.Event()
    arm = replace(HARDWARE.arms[0], address=address)
    serving = threading.Thread(target=serve, args=(arm, task.scene, "lockstep", stop.is_set))
    serving.start()
    try:
        env = RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs="state")
        yield env
        env.close()
    finally:
        stop.set()
        serving.join(20.0)


def told_from_where_it_was_taken(episode):
    """`state/grasp` is the tool's way since its hand took hold, and zeros before."""
    taken = next(step for step in episode if step.observation["state/gripper"][2])
    for step in episode:
        held = step.observation["state/gripper"][2]
        poses = [
            geometry.pose_from_vector(each.observation["state/tcp_pose"]) for each in (taken, step)
        ]
        way = geometry.pose_delta(*poses) if held else np.zeros(6)
        np.testing.assert_allclose(step.observation["state/grasp"], way, atol=1e-4)


def test_demonstrations_are_recorded_with_the_choices_that_were_begun(env, tmp_path, monkeypatch):
    assert env.space_spec.actions.names == ("panda.x", "panda.y", "panda.z", "panda.rz", "hand")
    given = Given(task=env.task, world=env.world, mode="demonstrate")
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        operator = Operator(Teleop(Options(), given), actions=env.space_spec.actions)
        recorder = DemoRecorder(RecordingSession(env, operator, log, seed=2000))
        recorder.record(DEMOS)
        steps = list(log.read())
    assert (recorder.tally.successes, recorder.tally.attempts) == (DEMOS, DEMOS)
    for episode in range(DEMOS):
        mine = [step for step in steps if step.episode == episode]
        choices = np.array([step.executed[-1] for step in mine[1:]])
        toggles = choices[choices != 0.0]
        assert toggles.tolist() == [-1.0], "the hand is open at the start: it closes once"
        assert mine[-1].terminated and mine[-1].reward == 1.0
        assert mine[-1].observation["state/gripper"][2] == 1.0, "it holds something"
        if env.task.observe_grasp:
            told_from_where_it_was_taken(mine)
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    predicates = predicates_of([config.load_task(env.task.name)])
    width = 0.08 * mine[-1].observation["state/gripper"][:1]
    # a cube is judged a little higher than where it is lifted for certain, and carried there
    further_m = OVER_M if env.task.name == "pick_cube" else 0.0
    height = env.arm_states[0].pose_base_tcp[2:3] + further_m
    assert predicates.allow({"judge/width": width, "judge/height": height})
    assert not predicates.allow({"judge/width": 0.0 * width, "judge/height": height})
