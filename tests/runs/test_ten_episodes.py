"""Ten episodes that end in every way, with a reward that is a cost: every place says the same of
them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from robot_rl import config, interfaces
from robot_rl.actor.episodes import OVER, EpisodeRunner
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.console.model import Tally
from robot_rl.dataset.counts import EPISODES, Figures, Progress
from robot_rl.dataset.recordings import LogRecording
from robot_rl.env.robot import RobotEnv
from robot_rl.machine.small_files import JsonLines, Tail
from robot_rl.operator.annotations import OperatorMarks
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.runs import report
from robot_rl.runs.progress import Newest, training_note
from robot_rl.stream.episodes import counted_steps, newest_episodes
from robot_rl.stream.log import StepLog
from robot_rl.tools import data_tools
from robot_rl.types import OperatorCommand, RewardResult
from tests.hands import OPEN, Hand, still

TASK = replace(config.load_task("peg_insert"), max_steps=6)
HARDWARE = config.load_hardware("sim_panda")
HELP, UNDO = still(0.1), [OperatorCommand.UNDO]


class Cost(interfaces.Reward):
    """-1 in each step and 0 at success: the reward never says success, the judge does at a given
    step.
    """

    def __init__(self, after: int = 100, success: bool = False):
        self._left, self._success = after, success

    def judge(self, observation, arms, outcome) -> RewardResult:
        self._left -= 1
        success = self._success and not self._left
        return RewardResult(float(success) - 1.0, not self._left, success)


def says(word: OperatorCommand):
    return replace(OPEN, outcome=word)


PLAN: list[
    tuple[Cost, Sequence, list[OperatorCommand]]
] = [  # judge, what the operator does, words on the one before
    (Cost(3, True), (), []),
    (Cost(4, True), (OPEN, HELP, HELP), []),
    (Cost(2), (), []),
    (Cost(), (), []),
    (Cost(3, True), (OPEN, says(OperatorCommand.STOP)), []),
    (Cost(3, True), (OPEN, says(OperatorCommand.DISCARD)), []),
    (Cost(2, True), (), []),
    (Cost(5, True), (), UNDO),
    (Cost(2), (), []),
    (Cost(), (), []),
]
ENDS = ["terminated"] * 3 + ["truncated"] + ["cut short"] * 2 + ["terminated"] * 3 + ["cut short"]
SUCCESSES, ALONE, JUDGED = [0, 1, 7], [0, 7], [0, 1, 2, 3, 7, 8]


@pytest.fixture
def run(lockstep_arm, tmp_path, monkeypatch) -> RunFolder:
    """A run whose training was these episodes, as its actor leaves them."""
    monkeypatch.chdir(tmp_path)
    settings = RunSettings("peg_insert", "sim_panda", obs="state", steps=100, seed=0)
    folder = RunFolder.create(tmp_path / "run", {"run": settings})
    arm = replace(HARDWARE.arms[0], address=lockstep_arm)
    env = RobotEnv(TASK, replace(HARDWARE, arms=(arm,)), obs="state")
    hand, runner = Hand(), EpisodeRunner(env)
    rows, env_steps = JsonLines(folder.episodes_file), 0
    with StepLog(folder.steps_log, env.space_spec, run=settings.id) as log:
        marks = OperatorMarks(log.append_mark)
        operator = Intervention(Operator(hand), marks=marks)
        for episode, (reward, does, hand.earlier) in enumerate(PLAN):
            env.reward, hand._says = reward, iter(does)
            for step in runner.play(
                episode,
                lambda observation: np.zeros(6, np.float32),
                operator,
                seed=1,
                stop=lambda: runner.summary.episode == len(PLAN) - 1 and runner.summary.steps == 2,
            ):
                log.append_step(step)
                env_steps += int(step.index > 0)
            summary = runner.summary
            for mark in marks.end(episode, discarded=summary.discarded):
                log.append_mark(mark)
            rows.append(asdict(summary) | {"env_steps": env_steps})
    rows.close()
    env.close()
    return folder


def test_every_place_says_the_same_of_the_same_ten_episodes(run, monkeypatch):
    figures = Figures(len(JUDGED), len(SUCCESSES), len(ALONE), 22, 2)
    page = Tail(run.episodes_file, Tally, EPISODES).read().history
    terminal = Tail(run.episodes_file, Progress, EPISODES).read()
    assert page.total == page.recent == terminal.total == page.curve[-1].figures == figures
    assert training_note(terminal, Newest()) == "success 50%, without help 33%, operator 9%"
    drawn: list[Any] = []
    monkeypatch.setattr(report, "_save", lambda figure, path: drawn.append(figure))
    report.plot_learning(run)
    assert [line.get_ydata()[-1] for line in drawn[0].axes[0].lines] == [3 / 6, 2 / 6]
    assert [each.good for each in page.last][::-1] == [
        False,
        False,
        None,
        None,
        None,
        True,
        False,
        None,
    ]
    with run.episodes_file.open() as lines:
        assert json.loads(list(lines)[-1])["reason"] == OVER

    recording = LogRecording(run.steps_log, {})
    facts = recording.facts()
    assert [each.end for each in facts] == ENDS
    assert [n for n, each in enumerate(facts) if each.label.is_judged] == JUDGED
    assert [
        n for n, each in enumerate(facts) if each.label.is_judged and each.label.succeeded
    ] == SUCCESSES
    found = data_tools.statistics(run.steps_log)
    assert (found.attempts, found.successes) == (len(JUDGED), len(SUCCESSES))
    assert "3 of 6 succeeded" in data_tools.totals(data_tools.listing(run.steps_log))
    entries = list(recording.log.entries())
    assert [each.steps[0].episode for each in newest_episodes(lambda: entries, 10)] == SUCCESSES
    counted = counted_steps(entries)
    assert sorted({step.episode for step in counted} ^ set(range(10))) == [5, 6], (
        "discarded, and taken back"
    )
