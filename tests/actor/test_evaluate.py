"""The figures of an evaluation, and who has a say in it."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, add_to_table, evaluate
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator.intervention import Intervention, open_intervention
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import ArmTarget, ConfigError, OperatorCommand, Use
from tests.hands import OPEN, Hand

HARDWARE = config.load_hardware("sim_panda")
JUDGED_BY_HAND = replace(config.load_task("peg_insert"), reward=Use("operator"))


def test_wilson_interval_agrees_with_published_values():
    # Newcombe 1998, table I: 81/263 and 15/148
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)


def test_wilson_interval_is_honest_at_the_ends():
    low, high = wilson_interval(100, 100)
    assert high == 1.0
    assert 0.96 < low < 0.97
    assert wilson_interval(0, 100)[0] == 0.0
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_cycle_time_is_the_mean_over_successes_and_the_table_has_a_row_per_episode(tmp_path):
    rows = (
        EvaluationEpisode(0, 11, True, 20, 2.0, False),
        EvaluationEpisode(1, 12, False, 100, 10.0, False, missed_resets=2),
        EvaluationEpisode(2, 13, True, 40, 4.0, False),
    )
    evaluation = Evaluation(7, 3, rows)
    assert evaluation.successes == 2
    assert evaluation.success_rate == pytest.approx(2 / 3)
    assert evaluation.mean_cycle_s == pytest.approx(3.0)
    assert evaluation.missed_resets == 2
    assert Evaluation(7, 1, rows[1:2]).mean_cycle_s is None
    for row in rows[:2]:  # until it was killed
        add_to_table(row, tmp_path / "evaluation.csv")
    assert (tmp_path / "evaluation.csv").read_text().splitlines() == [
        "episode,seed,success,steps,cycle_s,fault,missed_resets,sampled,peak_force_n,fired_at",
        "0,11,True,20,2.0,False,0,False,0.0,",
        "1,12,False,100,10.0,False,2,False,0.0,",
    ]


@pytest.fixture
def env(lockstep_arm):
    """A task on which the operator has the last word, and a scripted operator who gives it."""
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(JUDGED_BY_HAND, replace(HARDWARE, arms=(arm,)), obs="state")
    yield opened
    opened.close()


def test_the_operators_word_ends_an_episode_that_the_policy_played_alone(env):
    # stands in for a policy that can
    skill = Teleop(Options(), Given(task=env.task, world=env.world, mode="demonstrate", seed=1))
    able = evaluate(env, lambda observation: skill.read(env.arm_states).twist, episodes=2, seed=0)
    assert able.successes == 2 and all(row.steps < env.task.max_steps for row in able.episodes)

    env.task, targets = (
        replace(env.task, max_steps=20),
        [],
    )  # longer than an operator who may correct looks on

    def stand_still(observation):
        targets.append(env.arm_states[0].target_base_tcp)
        return np.zeros(6, np.float32)

    unable = evaluate(env, stand_still, episodes=1, seed=0)
    assert unable.successes == 0 and unable.episodes[0].steps == len(targets) == 20
    np.testing.assert_allclose(targets, [targets[0]] * 20, atol=1e-9, err_msg="the operator drove")


def test_the_operators_stop_ends_the_evaluation_with_the_episodes_before(env, monkeypatch):
    env.task = replace(env.task, max_steps=3)
    says = Hand([OPEN] * 7 + [replace(OPEN, outcome=OperatorCommand.STOP)])
    listening = Intervention(Operator(says), locked_out=True)
    monkeypatch.setattr(
        "robot_rl.actor.evaluate.open_intervention", lambda *_, **options: listening
    )
    evaluation = evaluate(env, lambda observation: np.zeros(6, np.float32), episodes=5, seed=0)
    assert [row.steps for row in evaluation.episodes] == [3, 3]


def test_a_stop_at_the_gate_ends_the_episode_at_once_and_leaves_those_before(env, desk):
    acts: list = []

    def act(observation):
        acts.append(observation)
        return np.zeros(6, np.float32)

    env.task = replace(env.task, max_steps=5)
    gate = PauseGate(env, desk, acknowledges=True, stop=lambda: len(acts) >= 12)
    evaluation = evaluate(env, act, episodes=50, seed=0, desk=desk, gate=gate)
    assert [row.steps for row in evaluation.episodes] == [5, 5] and len(acts) == 12
    assert evaluation.asked == 50


def test_after_a_fault_the_gate_waits_until_somebody_has_looked_and_no_episode_is_lost(env, desk):
    waited: list = []

    def fail_once(observation):
        if not waited:
            env.arms[0].command(ArmTarget(np.full(7, np.nan), 0.1))
        return np.zeros(6, np.float32)

    def look(reason):
        waited.append(reason)
        if reason:
            env.acknowledge_faults()

    env.task = replace(env.task, max_steps=3)
    evaluation = evaluate(
        env,
        fail_once,
        episodes=2,
        seed=0,
        desk=desk,
        gate=PauseGate(env, desk, acknowledges=False, stop=bool, say=look),
    )
    assert [(row.fault, row.success) for row in evaluation.episodes] == [
        (True, False),
        (False, False),
    ]
    assert len(waited) == 2 and "holds because of fault" in waited[0] and waited[1] == ""


def test_a_fault_before_an_episode_has_begun_is_acknowledged_in_simulation_and_the_episode_played(
    env,
):
    env.task = replace(env.task, max_steps=3)
    fault = env.arms[0].command(ArmTarget(np.full(7, np.nan), 0.1)).fault
    evaluation = evaluate(env, lambda observation: np.zeros(6, np.float32), episodes=2, seed=0)
    assert fault and [row.steps for row in evaluation.episodes] == [3, 3]
    assert not any(row.fault for row in evaluation.episodes)


def test_a_reward_that_needs_the_operators_word_needs_a_device(env):
    env.hardware = replace(env.hardware, teleop=None)
    with pytest.raises(
        ConfigError, match=r"reward 'operator' of task 'peg_insert' needs the operator's word, but"
    ):
        evaluate(env, lambda observation: np.zeros(6, np.float32), episodes=1, seed=0)


@pytest.mark.parametrize(("reward", "corrects", "listens"), [("operator", False, True), ("simulator", False, False),
                                                             ("simulator", True, True)])  # fmt: skip
def test_the_device_is_opened_for_corrections_or_for_the_word(env, reward, corrects, listens):
    env.reward = config.make("rewards", Use(reward), Given(world=env.world))
    env.reset(seed=0)
    intervention = open_intervention(env, corrects=corrects, seed=0)
    intervention.begin_episode()
    env.world.latest = replace(env.world.latest, success=True)
    intervention.decide(np.zeros(6, np.float32), env.arm_states)
    assert bool(intervention.outcome) == listens
