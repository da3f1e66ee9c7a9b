"""Collecting outcomes on the simulated arm: the label of each frame, the operator's words, what a
log has so far.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from robot_rl import config
from robot_rl.actor.outcomes import OutcomeRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.dataset.outcomes import labelled_episodes
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.operator.mapping import Operator
from robot_rl.stream.log import StepLog
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import Mark, MarkKind, OperatorCommand, Step, Use
from tests.hands import Hand, still

TASK = replace(config.load_task("peg_insert"), max_steps=30)
HARDWARE = config.load_hardware("sim_panda")


@pytest.fixture
def open_env(lockstep_arm):
    """`open_env(judge)`: the simulated arm's environment with that reward; the one before is
    closed.
    """
    arms = (replace(HARDWARE.arms[0], address=lockstep_arm),)
    opened: list[RobotEnv] = []

    def open_one(judge: str) -> RobotEnv:
        for env in opened:
            env.close()
        opened[:] = [
            RobotEnv(replace(TASK, reward=Use(judge)), replace(HARDWARE, arms=arms), obs="state")
        ]
        return opened[0]

    yield open_one
    for env in opened:
        env.close()


class Says(Hand):
    """Drives up and down in place, and says a word at given readings, counted from 1 in each
    episode.
    """

    def __init__(
        self,
        *episodes: dict[int, OperatorCommand],
        between: dict[int, Sequence[OperatorCommand]] | None = None,
    ):
        super().__init__()
        self._episodes, self._between = episodes, between or {}
        self._episode, self._readings = -1, 0

    def begin_episode(self) -> Sequence[OperatorCommand]:
        self._episode, self._readings = self._episode + 1, 0
        return self._between.get(self._episode, ())

    def read(self, arms):
        self._readings += 1
        word = self._episodes[self._episode].get(self._readings, OperatorCommand.NONE)
        return still(0.1 if self._readings % 2 else -0.1, outcome=word)


def record(
    env, hand, path, positives, negatives, **options
) -> tuple[OutcomeRecorder, list[Step], list[Mark]]:
    with StepLog(path, env.space_spec) as log:
        recorder = OutcomeRecorder(RecordingSession(env, Operator(hand), log, seed=0), **options)
        recorder.record(positives, negatives)
        entries = [said for _, said in log.entries()]
        assert {n: e.counts for n, e in labelled_episodes(log).items()} == {
            n: e.counts for n, e in recorder.episodes.items()
        }
    return (
        recorder,
        [s for s in entries if isinstance(s, Step)],
        [m for m in entries if isinstance(m, Mark)],
    )


def labels(steps: list[Step], episode: int) -> str:
    return "".join(f"{step.reward:g}" for step in steps if step.episode == episode)


def test_a_word_labels_the_frames_after_it_and_none_before(open_env, tmp_path):
    hand = Says(
        {12: OperatorCommand.SUCCESS},
        {8: OperatorCommand.SUCCESS},
        {3: OperatorCommand.SUCCESS, 5: OperatorCommand.DISCARD},
        {9: OperatorCommand.SUCCESS, 15: OperatorCommand.FAILURE},
        between={
            1: [OperatorCommand.SUCCESS]
        },  # while the arm is reset: said of nothing that is seen
    )
    asked = list[str]()
    recorder, steps, marks = record(
        open_env("operator"), hand, tmp_path / "log", 18, 28, per_episode=8, say=asked.append
    )
    assert [text.partition(": show ")[2] for text in asked] == [
        "the success",
        f"a failure, to the end: {TASK.near_misses[0]}",
        "the success",
        f"a failure, to the end: {TASK.near_misses[1]}",
    ], "a person is asked for both, in turn"
    assert labels(steps, 0) == 12 * "0" + 8 * "1", "the frame that follows the word, and so on"
    assert labels(steps, 1) == 8 * "0" + 8 * "1"
    assert labels(steps, 2) == "000111", "discarded: it ends"
    assert labels(steps, 3) == 9 * "0" + 6 * "1" + 16 * "0", "to the time limit"
    assert [(mark.kind, mark.episode) for mark in marks] == [(MarkKind.DISCARD, 2)]
    assert [episode.counts for episode in recorder.episodes.values()] == [
        (8, 8),
        (8, 4),
        (0, 0),
        (2, 16),
    ]
    ends = [
        (step.terminated, step.truncated) for step in steps if step.terminated or step.truncated
    ]
    assert ends == [(True, False), (True, False), (False, True), (False, True)]


class Witness(Teleop):
    """The scripted operator, who writes down what the simulator says of each frame that they see."""

    saw: list[bool] = []

    def read(self, arms):
        self.saw.append(self._world.latest.success)
        return super().read(arms)


def test_the_scripted_operators_labels_are_the_simulators_truth(open_env, tmp_path):
    env = open_env("simulator")
    witness = Witness(Options(), Given(task=TASK, world=env.world, mode="demonstrate"))
    recorder, steps, _ = record(env, witness, tmp_path / "log", 8, 12, per_episode=4)
    seen = [step.reward > 0.0 for step in steps if not (step.terminated or step.truncated)]
    assert seen == witness.saw and any(seen)
    starts = [step for step in steps if step.index == 0]
    assert len(starts) == len(recorder.episodes) >= 2
    assert len({tuple(step.observation["state/sim_goal"]) for step in starts}) == len(starts), (
        "scenes differ"
    )


def test_a_collection_that_was_broken_off_goes_on_and_keeps_every_frame(open_env, tmp_path):
    path = tmp_path / "log"
    env = open_env("operator")
    before, first, _ = record(env, Says({12: OperatorCommand.SUCCESS}), path, 3, 3, per_episode=3)
    # the next one has just begun, when the process is killed
    with StepLog(path, env.space_spec) as log:
        for step in first[:7]:
            log.append_step(replace(step, episode=1))
    recorder, steps, _ = record(
        open_env("operator"), Says({12: OperatorCommand.SUCCESS}), path, 6, 10, per_episode=3
    )
    assert before.counts == (3, 8)
    assert [episode.counts for episode in recorder.episodes.values()] == [(3, 8), (0, 2), (3, 8)]
    assert [step.t_wall for step in steps[: len(first)]] == [step.t_wall for step in first]
    assert [step.episode for step in steps if step.index == 0] == [0, 1, 2]
