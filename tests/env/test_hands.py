"""A gripper that the task moves: in the action, in what is executed, in the observation, at a reset."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config import GripperConfig
from robot_rl.env.robot import RobotEnv
from robot_rl.types import ArmFaultError, ArmTarget, JudgeInputs, RewardResult, Use
from tests.controllers.bench import served

HARDWARE = config.load_hardware("sim_panda")
PEG = config.load_task("peg_insert")
CLOSE, STAY, OPEN = -1.0, 0.0, 1.0


class Reward:
    """A judge that looks at the gripper's width alone."""

    needs_operator, probability, doubtful, version = False, None, False, 0

    def __init__(self, options, given):
        self.widths = []

    @classmethod
    def inputs(cls, options, task):
        return JudgeInputs(numbers=("width",))

    def begin_episode(self):
        self.widths.clear()

    def judge(self, observation, arms, outcome):
        self.widths.append(observation["judge/width"])
        return RewardResult(0.0)


@pytest.fixture
def env(address):
    """In a scene whose reset puts a block between the fingers."""
    task = replace(
        PEG,
        scene=Use("tests.sim.pinched:Scene", {"width_m": 0.03}),
        reward=Use("tests.env.test_hands:Reward"),
        grippers=("moved",),
        axes=("x", "y", "z"),
        limits={},
    )
    with served(address, "lockstep", task.scene) as (_, arm):
        hand = GripperConfig("hand", "mujoco", toggle_s=0.6)
        env = RobotEnv(task, replace(HARDWARE, arms=(arm,), grippers=(hand,)), obs="state")
        env.wanted_starts = [
            env.arms[0].state().pose_base_tcp.tolist()
        ]  # at home: nothing to go to
        yield env
        env.close()


def play(env, choices):
    """What was executed of each choice, and what was seen of the gripper then."""
    steps = [env.step(np.array([0.0, 0.0, 0.0, choice])) for choice in choices]
    executed = [float(info["executed"][-1]) for *_, info in steps]
    return executed, np.array([seen["state/gripper"] for seen, *_ in steps])


def test_a_hand_is_opened_by_a_reset_and_moved_by_the_action_on_the_leash_of_time(env):
    assert env.space_spec.actions.names == ("panda.x", "panda.y", "panda.z", "hand")
    assert env.space_spec.observations["state/gripper"] == ((3,), "float32")
    for _ in range(2):  # the second reset finds it closed
        seen, _ = env.reset(seed=0)
        np.testing.assert_allclose(seen["state/gripper"], [1.0, 0.0, 0.0], atol=0.02)
        assert env.observation_space.contains(seen)
        executed, gripper = play(env, [OPEN, -0.4, -0.6, OPEN, STAY])
        assert executed == [0.0, 0.0, CLOSE, 0.0, 0.0]
        assert gripper[2:, 1].all() and (np.diff(gripper[2:, 0]) < 0.0).all()
        executed, gripper = play(env, [STAY] * 6 + [CLOSE])
        np.testing.assert_allclose(gripper[-1], [0.0, 0.0, 0.0], atol=0.02)
        assert executed[-1] == 0.0, "it is closed already"
    assert env.reward.widths[0][0] == pytest.approx(0.08, abs=1e-3)
    assert env.reward.widths[-1][0] < 1e-3


@pytest.mark.parametrize("holds", [False, True])
def test_an_arm_stands_while_its_fingers_move_where_the_task_says_so(env, holds):
    env.task = replace(env.task, hold_while_gripping=holds)
    env.reset(seed=0)
    env.step(np.array([0.0, 0.0, 0.0, OPEN]))
    went, moving = [], [False]
    for choice in [CLOSE, *[STAY] * 10]:
        seen, *_, info = env.step(np.array([0.0, 0.0, 0.3, choice]))
        went.append(float(info["executed"][2]))
        moving.append(bool(seen["state/gripper"][1]))
    assert any(moving) and not moving[-1]
    stands = np.array(moving[:-1])
    stands[0] = True  # the order itself
    np.testing.assert_allclose(went, np.where(stands & holds, 0.0, 0.3), atol=0.01)


@pytest.mark.parametrize("reopens", [False, True])
def test_a_hand_that_has_closed_upon_nothing_opens_again_where_the_task_says_so(env, reopens):
    env.task = replace(env.task, reopen_empty=reopens)
    env.reset(seed=0)  # the block falls
    executed, gripper = play(env, [OPEN, CLOSE, *[STAY] * 24])
    assert executed.count(CLOSE) == 1 and executed.count(OPEN) == reopens
    assert gripper[:, 0].min() < 0.02
    assert gripper[-1, 0] > 0.98 if reopens else gripper[-1, 0] < 0.02


def test_a_hand_that_holds_something_stays_shut(env, monkeypatch):
    env.task = replace(env.task, reopen_empty=True)
    with monkeypatch.context() as patch:
        patch.setattr(type(env.turns), "keeps_grip", property(lambda _: True))
        env.reset(seed=0)
    executed, gripper = play(env, [CLOSE, *[STAY] * 24])
    assert not any(executed) and (gripper[:, 2] == 1.0).all()


def test_the_same_choices_are_the_same_steps(env):
    runs = []
    for _ in range(2):
        env.reset(seed=3)
        runs.append(play(env, [CLOSE, STAY, OPEN, STAY, STAY, STAY, OPEN]))
    assert runs[0][0] == runs[1][0]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


def test_a_hands_fault_ends_the_episode_and_lasts_until_it_is_acknowledged(env, monkeypatch):
    env.reset(seed=0)
    (hand,) = env.hands._hands
    state = hand._gripper.state
    with monkeypatch.context() as patch:
        patch.setattr(hand._gripper, "state", lambda: replace(state(), reason="hand: jammed"))
        _, reward, terminated, truncated, info = env.step(np.zeros(4))
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["hand_faults"] == ["hand: jammed"] and not any(info["faults"])
        with pytest.raises(ArmFaultError, match="hand: jammed; look at it"):
            env.reset(seed=1)
    env.acknowledge_faults()
    env.reset(seed=1)
    assert not env.step(np.zeros(4))[3]


def test_a_reset_opens_no_hand_while_the_arm_has_a_fault(env, monkeypatch):
    env.reset(seed=0)
    play(env, [CLOSE] + [STAY] * 10)
    env.arms[0].command(ArmTarget(np.full(7, np.nan), 0.1))
    with monkeypatch.context() as patch, pytest.raises(ArmFaultError, match="arm 'panda'"):
        patch.setattr(env.world, "reset", lambda seed: None)  # it would move the fingers, too
        env.reset(seed=1)
    assert env.hands.read()[0].width < 1e-3
    env.acknowledge_faults()
    assert env.reset(seed=1)[0]["state/gripper"][0] > 0.98
