"""What a judge looks at: its own pictures and numbers, for nobody else; in the log they are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.env.robot import RobotEnv
from robot_rl.learner import columns
from robot_rl.learner.replay import Replay
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.operator.intervention import Intervention
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, Use

TASK = replace(config.load_task("peg_insert"), max_steps=3, image_size=(48, 48))
HARDWARE = config.load_hardware("sim_panda")
LOOKER = """
from dataclasses import dataclass
from robot_rl import interfaces
from robot_rl.types import JudgeInputs, RewardResult

@dataclass(frozen=True)
class Options:
    cameras: tuple[str, ...] = ("front",)
    size: tuple[int, int] = (40, 56)
    numbers: tuple[str, ...] = ("height", "force")

class Reward(interfaces.Reward):
    def __init__(self, options, given):
        self.seen = []
    @classmethod
    def inputs(cls, options, task):
        return JudgeInputs({name: options.size for name in options.cameras}, options.numbers)
    def judge(self, observation, arms, outcome):
        self.seen.append(observation)
        return RewardResult(0.0)
"""


@pytest.fixture
def looker(tmp_path, monkeypatch):
    """A stranger's reward, in a folder outside the package: `looker(size=...)` is a task's."""
    (tmp_path / "rewards").mkdir()
    (tmp_path / "rewards" / "looker.py").write_text(LOOKER)
    monkeypatch.chdir(tmp_path)
    return lambda **options: Use("looker", options)


@pytest.mark.parametrize("obs", ["state", "pixels"])
def test_the_judge_sees_by_its_own_cameras_and_nothing_that_learns_or_acts_does(
    obs, gl, looker, lockstep_arm, tmp_path
):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    task = replace(TASK, reward=looker(cameras=("front", "wrist"), size=[40, 56]))
    env = RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs=obs)
    plain = config.spaces(TASK, HARDWARE, obs)
    with StepLog(tmp_path / "log", env.space_spec) as log:
        acted = list[set[str]]()

        def act(observation):
            acted.append(set(observation))
            return np.full(6, 0.5, np.float32)

        for step in EpisodeRunner(env).play(0, act, Intervention(None), seed=1):
            log.append_step(step)
        logged = list(log.read())
    env.close()

    # in what is judged and logged they are
    judge: Any = env.reward
    observation = judge.seen[-1]
    assert observation.keys() == env.space_spec.observations.keys() == logged[-1].observation.keys()
    assert observation["judge/front"].shape == (40, 56, 3)
    assert observation["judge/wrist"].std() > 10.0
    assert np.array_equal(logged[-1].observation["judge/front"], observation["judge/front"])
    height = env.arm_states[0].pose_base_tcp[2]
    np.testing.assert_allclose(observation["judge/height"], [height], atol=1e-6)
    assert observation["judge/force"].shape == (1,)
    # and what learns or acts is as without such a judge
    ours, theirs = env.space_spec, plain
    assert {n for n in ours.observations if not n.startswith("judge/")} == set(theirs.observations)
    encoder = "none" if obs == "state" else "cnn"
    assert PolicySpec.from_space(ours, encoder) == PolicySpec.from_space(theirs, encoder)
    assert columns.columns_of(ours).keys() == columns.columns_of(theirs).keys()
    assert Replay(ours, 8).bytes_per_step == Replay(theirs, 8).bytes_per_step
    assert set(env.cameras) == {"front", "wrist"}


def test_a_camera_is_opened_once_and_gives_two_sizes(gl, looker, lockstep_arm):
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    bench = replace(HARDWARE, arms=(arm,))
    frames = []
    for size in ((48, 48), (24, 24), (96, 96)):
        env = RobotEnv(replace(TASK, reward=looker(size=size)), bench, obs="pixels")
        frames.append(env.reset(seed=3)[0])
        env.close()
    same, smaller, larger = frames
    assert "judge/front" not in same, "the policy's picture serves"
    assert np.array_equal(same["image/front"], smaller["image/front"]), "drawn as without a judge"
    mean = same["image/front"].reshape(24, 2, 24, 2, 3).mean((1, 3))
    np.testing.assert_allclose(smaller["judge/front"], mean, atol=1.0)
    assert larger["judge/front"].shape == (96, 96, 3)
    assert larger["image/front"].shape == (48, 48, 3)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"cameras": ["fornt"]}, "camera 'fornt', which is not in hardware 'sim_panda'"),
        ({"size": [4, 40]}, "wanted height and width, 8 to 1024"),
        ({"numbers": ["heigth"]}, "asks for 'heigth', and there is: force, height, width"),
        ({"numbers": ["width"]}, "the task moves no gripper"),
    ],
)
def test_what_a_judge_cannot_see_is_said_before_anything_moves(asked, told, looker):
    with pytest.raises(ConfigError, match=told):
        config.check_fit(replace(TASK, reward=looker(**asked)), HARDWARE)


def test_a_learned_judge_gives_way_to_another_and_no_other_does(monkeypatch):
    task = replace(TASK, reward=Use("classifier", {"name": "in"}))
    assert config.with_judge(task).reward == Use("simulator"), "as the tests' environment says"
    monkeypatch.delenv("ROBOT_RL_JUDGE")
    assert config.with_judge(task).reward.name == "classifier"
    assert config.with_judge(task, "operator").reward == Use("operator")
    monkeypatch.setenv("ROBOT_RL_JUDGE", "simulator")
    by_pose = replace(TASK, reward=Use("operator"))
    assert config.with_judge(by_pose).reward.name == "operator"
    with pytest.raises(ConfigError, match=r"judge = 'simulatr'"):
        config.with_judge(task, "simulatr")
