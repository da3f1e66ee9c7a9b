"""A task that undoes itself: it goes there and back in one scene that nobody lays out in between,
and a person comes only when the arm does not get on.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.evaluate import evaluate
from robot_rl.actor.session import RecordingSession
from robot_rl.actor.work import work
from robot_rl.classifier.frames import read_frames
from robot_rl.config import Backward
from robot_rl.config.run_settings import RunSettings
from robot_rl.controllers.server import serve
from robot_rl.dataset.outcomes import labelled_episodes
from robot_rl.env.robot import RobotEnv
from robot_rl.env.turns import Turns
from robot_rl.interfaces import Given, Reward
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.judge import collecting_steps, copy_classifier, is_lacking
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import DIRECTION, ConfigError, RewardResult, SpaceSpec, Use
from tests.classifier.synthetic import EYES, SPACE, by_height, step
from tests.teleop.benches import wait_until

STILL = np.zeros(6, np.float32)
TASKS = {"drawer_open_close": "sim_panda", "pick_cube_put_back": "sim_hand"}


@contextmanager
def bench(task: Any, address: str) -> Iterator[Any]:
    """The task in lockstep; `layouts` is a list of the seeds that everything was laid out with."""
    hardware, stop = config.load_hardware(TASKS[task.name]), threading.Event()
    arm = replace(hardware.arms[0], address=address)
    serving = threading.Thread(target=serve, args=(arm, task.scene, "lockstep", stop.is_set))
    serving.start()
    env: Any = RobotEnv(task, replace(hardware, arms=(arm,), teleop=None), obs="state")
    reset, env.layouts = env.world.reset, []
    env.world.reset = lambda seed: (env.layouts.append(seed), reset(seed))[1]
    try:
        yield env
    finally:
        env.close()
        stop.set()
        serving.join(20.0)


@pytest.mark.parametrize(
    ("name", "episodes"), [("drawer_open_close", 4), ("pick_cube_put_back", 3)]
)
def test_there_and_back_alternate_and_each_begins_in_what_the_last_has_left(
    name, episodes, address, tmp_path
):
    with (
        bench(config.load_task(name), address) as env,
        StepLog(tmp_path / "demos.log", env.space_spec) as log,
    ):
        given = Given(task=env.task, world=env.world, mode="demonstrate")
        operator = Operator(Teleop(Options(), given), actions=env.space_spec.actions)
        sitting = RecordingSession(env, operator, log, seed=7)
        left: Any = None
        for number in range(episodes):
            begun: list[Any] = []

            def first(step, begun=begun):
                if step.index == 0:
                    begun.append(env.world.latest)

            summary, _ = sitting.drive(number, each=first)
            (world,) = begun
            assert summary.success and summary.backward == (number % 2 == 1)
            assert not world.success, "what was done is to be undone"
            if (
                left is not None and name == "drawer_open_close"
            ):  # the hook may brush it as it leaves
                assert abs(world.scene_q[0] - left.scene_q[0]) < 0.02
            elif left is not None and world.backward:
                assert world.scene_q[2] > 0.05, "the cube is still in the hand"
            elif left is not None:
                np.testing.assert_allclose(world.scene_q[:2], left.scene_q[:2], atol=2e-3)
            left = env.world.latest
        assert len(env.layouts) == 1
        ways: dict[int, set[float]] = {}
        for step in log.read():
            ways.setdefault(step.episode, set()).add(float(step.observation[DIRECTION][0]))
    assert ways == {number: {-1.0 if number % 2 else 1.0} for number in range(episodes)}


def test_where_the_arm_does_not_get_on_it_makes_room_and_waits_for_a_person(address, desk, console):
    task: Any = config.load_task("drawer_open_close")
    task = replace(task, max_steps=3, backward=replace(task.backward, failures_at_most=2))
    came_to: list[Any] = []
    said: list[str] = []
    with bench(task, address) as env:
        gate = PauseGate(
            env, desk, acknowledges=False, stop=lambda: len(came_to) == 5, say=said.append
        )
        job = threading.Thread(
            target=work,
            args=(env, lambda seen: STILL),
            kwargs={"episodes": 0, "desk": desk, "gate": gate, "each": came_to.append},
        )
        job.start()

        def waits(played):
            facts = console.look().facts
            asks = task.backward.manual_reset in facts.get("reason", "")
            return len(came_to) == played and facts.get("phase") == "needs a human" and asks

        for played in (0, 2, 4):
            wait_until(lambda played=played: waits(played))
            if played:
                away = env.arm_states[0].pose_base_tcp[:3] - task.start[0].pose_base_tool[:3]
                assert np.linalg.norm(away) < 0.01, "it is out of the way"
                assert "2 episodes in a row have failed to open the drawer" in said[-1]
            assert len(env.layouts) == played // 2
            console.say("start")
        job.join(60.0)
        assert not job.is_alive()
    assert not any(each.backward or each.success for each in came_to)


def test_what_leaves_the_reach_of_the_arm_ends_the_turns(address):
    task = replace(config.load_task("pick_cube_put_back"), max_steps=2)
    with bench(task, address) as env:
        env.reset(seed=0)
        env.turns.end_episode(success=True, cut=False)
        assert env.turns.backward and not env.turns.asks
        env.world.latest.objects[:, 0] = 0.80
        env.turns.end_episode(success=True, cut=False)
        assert env.turns.asks.startswith("something has left the reach of the arm: put the cube")
        env.reset(seed=1)
        assert not env.turns.backward and len(env.layouts) == 2 and not env.turns.asks


class Foretold(Reward):
    """Says at the end of each episode what was foretold of it."""

    def __init__(self, successes):
        self._successes = iter(successes)

    def begin_episode(self):
        self._success = next(self._successes)

    def judge(self, observation, arms, outcome):
        return RewardResult(float(self._success), True, self._success)


def test_an_evaluation_counts_each_way_for_itself_and_each_success_is_undone(address):
    with bench(config.load_task("drawer_open_close"), address) as env:
        env.reward = Foretold([False, True, False, True, True, True])
        found = evaluate(env, lambda seen: STILL, episodes=3, seed=3)
    assert [row.success for row in found.episodes] == [False, True, True]
    assert [(row.episode, row.success) for row in found.backward] == [
        (1, False),
        (1, True),
        (2, True),
    ]
    figures = found.figures()
    assert (figures["successes"], figures["episodes"]) == (2, 3)
    assert (figures["backward"]["successes"], figures["backward"]["episodes"]) == (2, 3)
    assert len(env.layouts) == 1


def test_without_a_way_back_every_episode_is_laid_out_and_no_policy_hears_of_ways():
    task, hardware = config.load_task("drawer"), config.load_hardware("sim_panda")
    turns = Turns(task, hardware, None)
    for success in (True, False, True):
        assert turns.begin() and not turns.backward and not turns.asks
        turns.end_episode(success=success, cut=False)
    assert DIRECTION not in config.spaces(task, hardware, "pixels").observations
    assert turns.observe() == {} and task.half(True) is task


def test_each_way_has_its_own_judge_which_another_may_stand_in_for(monkeypatch):
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    task = config.load_task("drawer_open_close")
    names = [task.half(way).reward.options["name"] for way in (False, True)]
    assert names == ["drawer_open", "drawer_closed"]
    true = config.with_judge(task, "simulator")
    assert true.half(False).reward == true.half(True).reward == Use("simulator")
    moved = config.with_classifiers(task, "there")
    assert {moved.half(way).reward.options["folder"] for way in (False, True)} == {"there"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"reward": Use("simulatr")}, r"backward\.reward\.name = 'simulatr'"),
        ({"manual_reset": ""}, r"backward\.manual_reset.*wanted what a person does"),
        ({"failures_at_most": 0}, r"backward\.failures_at_most"),
        ({"keeps_grip": True}, r"backward\.keeps_grip.*moves no gripper"),
        ({"start": ()}, r"backward\.start.*0 start poses"),
        ({"retreat": (0.5, 0.0, 0.0)}, r"backward\.retreat"),
    ],
)
def test_a_way_back_that_cannot_be_is_refused_by_name(change, complaint):
    task: Any = config.load_task("drawer_open_close")
    hardware = config.load_hardware("sim_panda")
    with pytest.raises(ConfigError, match=complaint):
        config.check_fit(replace(task, backward=replace(task.backward, **change)), hardware)


def test_a_scene_without_a_way_back_cannot_simulate_one():
    back = Backward("undo it", (), Use("simulator"), "undo it")
    task = replace(config.load_task("ram_press"), backward=back, manual_reset="put it back")
    with pytest.raises(ConfigError, match=r"scene 'ram_press' has no `way_back`") as refused:
        config.check_fit(task, config.load_hardware("sim_panda"))
    assert "say it in backward.manual_reset" in str(refused.value)


def test_a_classifier_learns_from_the_frames_of_its_own_way(tmp_path):
    both = SpaceSpec.unnamed({**SPACE.observations, DIRECTION: ((1,), "float32")}, 1)
    with StepLog(tmp_path / "outcomes.log", both) as log:
        for episode, way in enumerate((1.0, -1.0, -1.0)):
            for index in range(3):
                seen = dict(step(episode, index).observation)
                seen[DIRECTION] = np.array([way], np.float32)
                log.append_step(step(episode, index, observation=seen, terminated=index == 2))
    for backward, episodes in ((False, 1), (True, 2)):
        eyes = replace(EYES, backward=backward)
        assert len(read_frames([tmp_path / "outcomes.log"], eyes)) == episodes
    with StepLog(tmp_path / "outcomes.log", both) as log:
        assert [each.backward for each in labelled_episodes(log).values()] == [False, True, True]


def test_both_judges_are_lacking_until_each_has_been_learnt(tmp_path, monkeypatch):
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    monkeypatch.chdir(tmp_path)
    task = config.load_task("drawer_open_close")
    assert collecting_steps(task, (200, 1000)) == 2 * 1400
    for name, lacking in (("drawer_open", True), ("drawer_closed", False)):
        by_height(tmp_path / "classifiers" / name)
        assert is_lacking(task) == lacking
    copy_classifier(task)(tmp_path / "run", RunSettings("drawer_open_close", "sim_panda"))
    copied = {path.parent.name for path in (tmp_path / "run" / "classifiers").rglob("*.json")}
    assert copied == {"drawer_open", "drawer_closed"}


def test_an_encoder_that_predicts_the_goal_is_told_which_way_it_goes():
    task = config.load_task("drawer_open_close")
    space = config.spaces(task, config.load_hardware("sim_panda"), "pixels")
    assert (DIRECTION, 1) in PolicySpec.from_space(space, "goal").told_state
