"""The truth judges an evaluation, and the task's own judge is counted: fires and misses."""

import csv
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robot_rl import config, interfaces
from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, evaluate
from robot_rl.actor.evaluation_record import EvaluationRecord, TruthTable, goal_names
from robot_rl.actor.starts import Start, drawn_starts, read_starts, write_starts
from robot_rl.actor.truth import PATIENCE, Judged, TruthBeside, accuracy, let_truth_judge
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings, evaluation_seed
from robot_rl.dataset.rates import Accuracy
from robot_rl.env.robot import RobotEnv
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.runs.evaluation_summary import evaluation_summary, told
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, DataError, OperatorCommand, RewardResult, Step, Use

HARDWARE = config.load_hardware("sim_panda")
NEVER = 10**6
LIMIT = 40


class From(interfaces.Reward):
    """Sees success from one step on; or gives up at one."""

    def __init__(self, step: int, gives_up: int = NEVER):
        self.step, self.gives_up, self.seen = step, gives_up, 0

    def begin_episode(self):
        self.seen = 0

    def judge(self, observation, arms, outcome):
        self.seen += 1
        self.probability = 0.5
        success = self.seen >= self.step
        return RewardResult(float(success), success or self.seen >= self.gives_up, success)


def played(truth: int, judge: From) -> tuple[int, bool, Judged]:
    """How long an episode is, whether it ends as a success, and what both judges saw."""
    beside = TruthBeside(From(truth), judge, LIMIT)
    beside.begin_episode()
    step, result = 0, RewardResult(0.0)
    while step < LIMIT and not result.terminated:
        result = beside.judge({}, (), OperatorCommand.NONE)
        step += 1
    assert beside.probability == 0.5 and bool(result.reward) == result.success
    return step, result.success, beside.judged


@pytest.mark.parametrize(
    ("truth", "judge", "length", "success", "fired"),
    [
        (10, From(12), 12, True, 12),  # late, but in time
        (10, From(10), 10, True, 10),
        (10, From(7), 10, True, 7),  # early ends nothing
        (10, From(NEVER), 10 + PATIENCE, True, None),  # a miss
        (10, From(10 + PATIENCE + 1), 10 + PATIENCE, True, None),
        (LIMIT - 1, From(NEVER), LIMIT, True, None),  # the time limit is not passed
        (NEVER, From(NEVER), LIMIT, False, None),
        (NEVER, From(5), LIMIT, False, 5),  # a false success
        (NEVER, From(NEVER, gives_up=9), 9, False, None),
    ],
)
def test_the_truth_alone_says_success_and_the_judge_has_its_time(
    truth, judge, length, success, fired
):
    steps, succeeded, judged = played(truth, judge)
    assert (steps, succeeded) == (length, success)
    assert judged.true_at == (truth if success else None) and judged.fired_at == fired


def test_in_an_evaluation_that_the_truth_judges_the_operators_word_is_not_heard():
    listens = config.make("rewards", Use("operator"), interfaces.Given())
    for word in (OperatorCommand.SUCCESS, OperatorCommand.FAILURE):
        beside = TruthBeside(From(NEVER), listens, LIMIT)
        beside.begin_episode()
        assert beside.judge({}, (), word) == RewardResult(0.0)
        assert beside.judged == Judged(None, None, False)


def test_a_judge_that_fires_falsely_and_one_that_misses_are_counted():
    failures = [played(NEVER, From(3 if n < 2 else NEVER))[2] for n in range(20)]
    successes = [played(9, From(NEVER if n < 1 else 10))[2] for n in range(10)]
    broken_off = Judged(true_at=9, fired_at=None, waited=False)  # by a fault
    found = accuracy([*failures, *successes, broken_off])
    assert found == Accuracy(failures=20, fires=2, successes=10, misses=1)
    said = found.to_json()
    assert said["J"] == pytest.approx(0.9 + 0.9 - 1.0) and 0.1 < said["bound_95"] < 0.3
    none = accuracy([]).to_json()
    assert (none["bound_95"], none["J"], none["sensitivity"]) == (1.0, None, None)


def test_figures_say_what_is_proved_and_correct_for_a_judge_that_stands_alone():
    rows = tuple(
        EvaluationEpisode(n, n, n != 3, 10 + n, 1.0 + 0.1 * n, n == 3, peak_force_n=float(n))
        for n in range(10)
    )
    said = Evaluation(7, 10, rows, judge=Accuracy(100, 5, 100, 5)).figures()
    assert (said["successes"], said["longest_streak"], said["faults"]) == (9, 6, 1)
    assert said["median_cycle_s"] == pytest.approx(1.5) and said["p90_cycle_s"] > 1.7
    assert said["faults_per_hour"] == pytest.approx(3600.0 / 14.5) and said["peak_force_n"] == 9.0
    assert said["corrected"]["rate"] == pytest.approx((0.9 + 0.95 - 1.0) / 0.9)
    empty = Evaluation(7, 10, ()).figures()
    assert (empty["mean_cycle_s"], empty["faults_per_hour"], empty["peak_force_n"]) == (None,) * 3
    assert "corrected" not in empty


def test_the_summary_has_both_kinds_and_what_the_judge_was_worth(tmp_path):
    settings = RunSettings("peg_insert", "sim_panda", obs="state", seed=4)
    folder = RunFolder.create(tmp_path / "run", {"run": settings})
    folder.write_demos({"successes": 0, "attempts": 0, "steps": 0})
    rows = tuple(EvaluationEpisode(n, n, n > 0, 10, 1.0, False) for n in range(3))
    judged = (Judged(None, 4, False), Judged(10, 10, True), Judged(10, None, True))
    sampled, greedy = Evaluation(7, 3, rows, judged=judged), Evaluation(7, 3, rows[:1])
    policy = LivePolicy(PolicySpec.from_space(folder.spaces(), "none"), {})
    policy.step, policy.digest = 300, "ab"
    said = evaluation_summary({True: sampled, False: greedy}, folder, policy)
    assert said["sampled"]["successes"] == said["successes"] == 2
    assert said["greedy"]["successes"] == 0 and said["greedy"]["sampled"] is False
    assert (said["checkpoint_step"], said["checkpoint_sha256"]) == (300, "ab")
    counts = {"fires": 1, "failures": 1, "misses": 1, "successes": 2}
    assert said["classifier"].items() >= counts.items()
    assert "shown" not in told(said)[0]  # there was no demonstration
    said["sampled"]["demonstration_cycle_s"] = 2.5
    first, second, third = told(said)
    assert "sampled: 2 of 3" in first and "2.5 when it was shown" in first
    assert "greedy: 0 of 1" in second
    assert "1 false successes in 1 failure" in third and "1 of 2 successes missed" in third
    assert "classifier" not in evaluation_summary({False: greedy}, folder, policy)


def test_another_training_seed_is_judged_on_other_starts_and_the_same_one_on_the_same():
    seeds = [evaluation_seed(seed) for seed in (0, 1, 2, 2**32 - 1)]
    assert len({*seeds}) == 4 and evaluation_seed(1) == seeds[1]
    drawn = [{start.seed for start in drawn_starts(seed, 100)} for seed in seeds]
    assert not drawn[0] & drawn[1] and not drawn[1] & drawn[2]


def test_a_list_of_starts_is_what_was_written_or_says_what_is_wrong(tmp_path):
    starts = [Start(5, ((0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0),)), Start(6)]
    file = tmp_path / "starts.json"
    write_starts(file, starts)
    assert read_starts(file, arms=1) == starts
    file.write_text('{"seeds": [1, 2]}')
    assert read_starts(file, arms=2) == [Start(1), Start(2)]
    for text, complaint in (
        ('{"seeds": []}', "seeds: wanted a list"),
        ('{"seeds": [true]}', "seeds: wanted a list"),
        ('{"seeds": [-1]}', "seeds: wanted a list"),
        ('{"seeds": [1], "poses": [[], []]}', "as many as there are seeds"),
        ('{"seeds": [1], "poses": [[[0, 0, 0, 0, 0, 0, 2]]]}', r"poses\[0\]: wanted a pose"),
        ('{"seeds": [1], "poses": [[[0, 0, 0, 0, 0, 0, 1], 3]]}', r"poses\[0\]: wanted a pose"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=complaint):
            read_starts(file, arms=1)
    for text in ("[]", "{", ""):
        file.write_text(text)
        with pytest.raises(DataError, match="Wanted a list of starts"):
            read_starts(file, arms=1)


@pytest.fixture
def env(lockstep_arm):
    """A task whose own judge takes any pose for success after two steps."""
    anywhere = Use("pose", {"goals": ((0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0),), "rotation_rad": 3.2,
                            "translation_m": 9.0})  # fmt: skip
    task = replace(config.load_task("peg_insert"), reward=anywhere, max_steps=5)
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    opened = RobotEnv(task, replace(HARDWARE, arms=(arm,)), obs="state")
    yield opened
    opened.close()


def test_a_spoilt_judge_is_found_out_and_a_list_of_starts_repeats_scenes_and_poses(env):
    def stand_still(observation):
        return np.zeros(6, np.float32)

    alone = evaluate(env, stand_still, episodes=2, seed=3)
    assert alone.successes == 2 and not alone.judged  # as the spoilt judge says
    let_truth_judge(env)
    again = evaluate(env, stand_still, episodes=2, seed=99, starts=alone.starts)
    assert again.successes == 0 and [row.steps for row in again.episodes] == [5, 5]
    assert [row.fired_at for row in again.episodes] == [2, 2]
    assert accuracy(again.judged) == Accuracy(failures=2, fires=2, successes=0, misses=0)
    assert again.starts == alone.starts and all(start.poses for start in alone.starts)

    moved = (0.5, 0.01, 0.08, 1.0, 0.0, 0.0, 0.0)
    evaluate(env, stand_still, episodes=1, seed=0, starts=[Start(4, (moved,))])
    np.testing.assert_allclose(env.starts[0], moved)
    np.testing.assert_allclose(env.arm_states[0].pose_base_tcp[:3], moved[:3], atol=2e-3)


def test_what_the_simulator_knew_behind_each_step_is_taken_down_beside_the_log(env, tmp_path):
    seen: list[list[float]] = []

    def watch(observation):
        seen.append([*env.world.latest.objects.ravel(), *observation["state/sim_goal"]])
        return np.zeros(6, np.float32)

    env.reward = From(NEVER)
    file, spaces = tmp_path / "truth.csv", env.space_spec
    with StepLog(tmp_path / "steps.log", spaces) as log:
        record = EvaluationRecord(log, TruthTable(env, file))
        evaluate(env, watch, episodes=2, seed=3, record=record)
        steps = [step for step in log.read() if isinstance(step, Step)]
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    taken = [(int(row["episode"]), int(row["index"])) for row in rows]
    assert taken == [(step.episode, step.index) for step in steps] and len(rows) == 2 * 6
    assert {row["success"] for row in rows} == {"0"}
    # a policy sees each step but the last of an episode
    acted = [row for row in rows if int(row["index"]) < 5]
    numbers = [name for name in rows[0] if name.startswith(("object", "goal"))]
    assert numbers[-6:] == goal_names(0)
    known = [[float(row[name]) for name in numbers] for row in acted]
    np.testing.assert_allclose(known, seen, rtol=1e-4, atol=1e-4)
    assert rows[0]["object0_x"] != rows[-1]["object0_x"]
    with StepLog(tmp_path / "more.log", spaces) as log:
        record = EvaluationRecord(log, TruthTable(env, tmp_path / "nowhere" / "truth.csv"))
        with pytest.raises(DataError, match="cannot be written"):
            evaluate(env, watch, episodes=1, seed=3, record=record)


def test_where_the_truth_is_the_judge_or_a_person_or_nothing_stands_there_nobody_looks_on():
    peg = config.load_task("peg_insert")
    for reward, scene, world, looks_on in (
        (From(1), peg.scene, object(), True),
        (From(1), peg.scene, None, False),  # a real arm
        (From(1), None, object(), False),
        (config.make("rewards", Use("operator"), interfaces.Given()), peg.scene, object(), False),
    ):
        task = replace(peg, reward=Use("any"), scene=scene)
        env: Any = SimpleNamespace(task=task, world=world, reward=reward)
        let_truth_judge(env)
        assert isinstance(env.reward, TruthBeside) is looks_on
    env = SimpleNamespace(
        task=replace(peg, reward=Use("simulator")), world=object(), reward=From(1)
    )
    let_truth_judge(env)
    assert isinstance(env.reward, From)
