"""What the operator says to end an episode, under a judge that learns: it is theirs, for good."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, interfaces
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.operator.annotations import OperatorMarks
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.stream.episodes import EpisodeLabel, Relabel
from robot_rl.tools.benchmark import lockstep_env
from robot_rl.types import MarkKind, OperatorCommand, RewardResult
from tests.hands import OPEN, Hand

SUCCESS, FAILURE, NONE = OperatorCommand.SUCCESS, OperatorCommand.FAILURE, OperatorCommand.NONE


class Blind(interfaces.Reward):
    """It fires in the fifth step if it does at all; the operator's word counts as well."""

    version = 1

    def __init__(self, fires: bool):
        self._steps, self._fires = 0, fires

    def judge(self, observation, arms, outcome) -> RewardResult:
        self._steps += 1
        if outcome:
            return RewardResult(float(outcome == SUCCESS), True, outcome == SUCCESS)
        done = self._fires and self._steps >= 5
        return RewardResult(float(done), done, done)


@pytest.mark.parametrize(
    ("word", "fires", "marks", "succeeded"),
    [
        (SUCCESS, False, [MarkKind.SUCCESS], True),
        (FAILURE, False, [MarkKind.FAILURE], False),
        (NONE, True, [], False),  # by the newer version
    ],
)
def test_no_later_version_takes_back_what_the_operator_said(word, fires, marks, succeeded):
    task, hand = replace(config.load_task("peg_insert"), max_steps=8), Hand()
    with lockstep_env(task, config.load_hardware("sim_panda"), "state") as env:
        env.reward, hand._says = Blind(fires), iter([OPEN, OPEN, replace(OPEN, outcome=word)])
        runner, record = EpisodeRunner(env), OperatorMarks(lambda mark: None)
        operator = Intervention(Operator(hand), marks=record)
        label = EpisodeLabel()
        for step in runner.play(0, lambda seen: np.zeros(6, np.float32), operator, seed=1):
            label.hear(step)
    assert (runner.summary.said, runner.summary.success) == (word, word == SUCCESS or fires)
    appended = record.end(0, success=runner.summary.success, said=runner.summary.said)
    assert [mark.kind for mark in appended] == marks
    for mark in appended:
        label.hear(mark)
    label.hear(Relabel(2, None))
    assert label.succeeded == succeeded
