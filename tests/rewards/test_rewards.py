"""Judges that need no camera and no simulator."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.geometry import pose_move
from robot_rl.interfaces import Given, Reward
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.tools.benchmark import lockstep_env
from robot_rl.types import ArmState, ConfigError, Fault, OperatorCommand, Use
from tests.hands import OPEN, Hand, still

GOAL = np.array([0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
NOTHING = np.zeros(7)
ARM = ArmState(0, 0.0, NOTHING, NOTHING, GOAL, np.zeros(6), np.zeros(6), GOAL, False, Fault.NONE)


def at(*delta):
    return [replace(ARM, pose_base_tcp=pose_move(GOAL, np.array(delta)))]


def make(**options):
    return config.make("rewards", Use("pose", {"goals": (tuple(GOAL),), **options}))


def test_success_is_at_the_goal_for_some_steps_in_a_row():
    reward = make(translation_m=0.002, rotation_rad=0.05, steps=2)
    near, far, turned = (
        at(0.001, 0, 0, 0, 0, 0.04),
        at(0.003, 0, 0, 0, 0, 0),
        at(0, 0, 0, 0, 0.06, 0),
    )
    for arms, wanted in [
        (near, False),
        (far, False),
        (near, False),
        (turned, False),
        (near, False),
        (near, True),
    ]:
        assert reward.judge({}, arms, OperatorCommand.NONE) == (float(wanted), wanted, wanted)


def test_a_step_at_the_goal_does_not_count_for_the_next_episode():
    reward, near = make(steps=2), at(0.001, 0, 0, 0, 0, 0)
    for _ in range(2):
        reward.begin_episode()
        assert reward.judge({}, near, OperatorCommand.NONE) == (0.0, False, False)


def test_a_flipped_quaternion_is_the_same_goal():
    flipped = np.concatenate([GOAL[:3], -GOAL[3:]])
    assert make(steps=1).judge({}, [replace(ARM, pose_base_tcp=flipped)], OperatorCommand.NONE) == (
        1.0,
        True,
        True,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"goals": ((0.0,) * 7,)},
        {"goals": ()},
        {"translation_m": 0.0},
        {"steps": 0},
        {"goals": ((1.0,) * 6,)},
    ],
)
def test_a_goal_that_is_none_is_refused(options):
    with pytest.raises(ConfigError, match="reward 'pose'"):
        make(**options)


def test_two_arms_need_two_goals():
    with pytest.raises(ConfigError, match="1 goals for 2 arms"):
        make().judge({}, [ARM, ARM], OperatorCommand.NONE)


def test_the_operator_judges_and_silence_goes_on():
    reward = config.make("rewards", Use("operator"))
    assert reward.judge({}, [ARM], OperatorCommand.NONE) == (0.0, False, False)
    assert reward.judge({}, [ARM], OperatorCommand.SUCCESS) == (1.0, True, True)
    assert reward.judge({}, [ARM], OperatorCommand.FAILURE) == (0.0, True, False)


def test_the_word_is_heard_while_the_policy_acts():
    words = (OperatorCommand.NONE, OperatorCommand.SUCCESS)
    intervention = Intervention(Operator(Hand(replace(OPEN, outcome=word) for word in words)))
    intervention.begin_episode()
    proposed, heard = np.ones(6), []
    for _ in words:
        assert intervention.decide(proposed, [ARM])[0] is proposed
        heard.append(intervention.outcome)
    intervention.begin_episode()
    assert [*heard, intervention.outcome] == [
        OperatorCommand.NONE,
        OperatorCommand.SUCCESS,
        OperatorCommand.NONE,
    ]


def test_a_locked_out_operator_still_judges():
    intervention = Intervention(
        Operator(Hand([still(outcome=OperatorCommand.FAILURE)])), locked_out=True
    )
    proposed = np.zeros(6)
    assert (
        intervention.decide(proposed, [ARM])[0] is proposed
        and intervention.outcome == OperatorCommand.FAILURE
    )


class Weighing(Reward):
    """A judge that gets surer with every step."""

    probability = 0.0

    def judge(self, observation, arms, outcome):
        self.probability += 0.25
        return 0.0, self.probability >= 1.0, False


def test_how_sure_the_judge_is_stands_at_the_desk_with_the_step_that_was_judged(desk, console):
    still_, seen = np.zeros(6, np.float32), []
    with lockstep_env(
        config.load_task("peg_insert"), config.load_hardware("sim_panda"), "state"
    ) as env:
        env.reward = Weighing(None, Given())
        for step in EpisodeRunner(env, desk=desk).play(
            0, lambda observation: still_, Intervention(None), seed=1
        ):
            told = console.look().step
            assert told["index"] == step.index
            seen.append(told["probability"])
        assert seen == [None, 0.25, 0.5, 0.75, 1.0]
        env.reward.judge = lambda observation, arms, outcome: (1.0, True)
        with pytest.raises(
            ConfigError, match=r"returned \(1.0, True\); `judge` returns three values: .* succeeded"
        ):
            env.step(still_)


@pytest.mark.parametrize("name", ["operator", "pose", "simulator"])
def test_judges_that_know_only_yes_and_no_do_not_weigh(name):
    assert config.driver("rewards", name).probability is None
