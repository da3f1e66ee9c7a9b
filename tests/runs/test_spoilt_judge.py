"""A judge that fires falsely is put right by the operator's words: a real classifier, a real log and
the process that follows it, of pictures so small that a fit takes a second.

Success is a white square. A failure is noise, or, one in three, a yellow square, which the outcomes
that version 1 is fitted to do not show.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl.classifier import files, training
from robot_rl.classifier.frames import hash_of, read_frames
from robot_rl.classifier.options import ClassifierConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.machine.small_files import read_lines
from robot_rl.runs.follow import Follower, LearnedJudge
from robot_rl.stream.episodes import counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.stream.relabels import WORDS, WRONG, relabels_in
from robot_rl.types import Array, Mark, MarkKind, Provenance, SpaceSpec, Step
from tests.helpers import make_step
from tests.runs.test_follow import make_run

LENGTH, SIZE = 8, 32
Colour = tuple[int, int, int]
WHITE, YELLOW, NOISE = (150, 150, 150), (150, 150, 0), (0, 0, 0)
QUICK = ClassifierConfig(size=SIZE, steps=75, shift_pixels=1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch) -> Iterator[RunFolder]:
    """A run whose judge is of version 1, fitted to outcomes without a yellow square."""
    monkeypatch.setattr(training, "HALF", 16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = make_run(tmp_path / "run", cameras={"wrist": (SIZE, SIZE)})
    space = folder.spaces()
    with StepLog(folder.outcomes_log, space, run="cafe") as log:
        for number in range(30):
            for step in episode(space, number, WHITE if number % 2 else NOISE):
                log.append_step(step)
    assert folder.judge is not None
    training.train(folder.judge, [folder.path], QUICK)
    yield folder
    torch.set_num_threads(threads)


def episode(space: SpaceSpec, number: int, colour: Colour) -> list[Step]:
    """An episode that shows the same from its first frame on, at 10 Hz; it is over by its limit."""
    steps = []
    for index in range(LENGTH + 1):
        step = make_step(
            index, space, episode=number, success=False, terminated=False,
            reward=float(colour == WHITE), truncated=index == LENGTH, t_monotonic=0.1 * index,
            t_wall=0.1 * index, provenance=Provenance.POLICY,
        )  # fmt: skip
        step.observation["judge/wrist"][:] = picture([number, index], colour)
        steps.append(step)
    return steps


def picture(seed: list[int], colour: Colour) -> Array:
    """Noise, and a square of that colour on it."""
    frame = np.random.default_rng(seed).integers(0, 100, (SIZE, SIZE, 3), np.uint8)
    frame[8:24, 8:24] += np.array(colour, np.uint8)
    return frame


def judged(judge: LearnedJudge, version: int, steps: list[Step]) -> list[Step]:
    """The episode as a version of the judge ends it."""
    fires = judge.first_success(version, steps)
    if fires is None:
        return [replace(step, reward=0.0) for step in steps]
    end = replace(steps[fires], reward=1.0, terminated=True, truncated=False, success=True)
    return [replace(step, reward=0.0) for step in steps[:fires]] + [end]


def false_successes(space: SpaceSpec, judge: LearnedJudge, version: int) -> tuple[int, int]:
    """Of twelve fresh failures with a yellow square those that a version calls a success, and of
    as many successes.
    """
    fresh = range(1000, 1012)
    fires = [
        sum(judge.first_success(version, episode(space, n, c)) is not None for n in fresh)
        for c in (YELLOW, WHITE)
    ]
    return fires[0], fires[1]


def test_after_five_denials_a_judge_fires_falsely_on_half_as_many_fresh_failures_at_most(
    run: RunFolder,
) -> None:
    assert run.judge is not None
    judge, space = LearnedJudge(run, run.judge), run.spaces()
    before, _ = false_successes(space, judge, 1)
    assert before >= 10, "it is spoilt"
    words, unnoticed = 0, []
    with StepLog(run.steps_log, space, run="cafe") as log:
        for number in range(100, 180):
            colour = (YELLOW, WHITE, NOISE)[number % 3]
            steps = judged(judge, 1, episode(space, number, colour))
            for step in steps:
                log.append_step(step)
            if not steps[-1].success or colour != YELLOW:
                continue
            if number % 5 == 0:  # nobody looked
                unnoticed.append(number)
            elif words < WORDS:
                words += WRONG
                log.append_mark(Mark(MarkKind.DENY, number, t_wall=steps[-1].t_wall))
    follower = Follower(run, judge)
    follower.look()
    follower.close()
    # it was fitted to the log as far as to where that was due, and not to what was said since
    about = files.load(run.judge, 2).about
    due = {run.steps_log.resolve(): next(iter(read_lines(run.refits_file)))["records"]}
    assert about.data_sha256 == hash_of(read_frames([run.path], about.inputs, ends=due))
    assert about.data_sha256 != hash_of(read_frames([run.path], about.inputs))
    # fresh episodes, which neither has seen
    assert list(judge.versions()) == [1, 2]
    after, seen = false_successes(space, judge, 2)
    assert 2 * after <= before and seen >= 11
    # the rewards of the log follow, also of false successes that nobody has noticed
    with StepLog(run.steps_log, space, read_only=True) as log:
        said = {s.episode for s in counted_steps(log.entries()) if s.success}
        left = {
            s.episode
            for s in counted_steps(log.entries(), relabels_in(run.relabels_file))
            if s.success
        }
    assert len(unnoticed) >= 4 and said >= set(unnoticed)
    assert 2 * len(left & set(unnoticed)) <= len(unnoticed)
