"""Which frames a person is shown, and that no verdict of theirs is lost, whatever was killed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from robot_rl.classifier.review import (
    APART,
    FILE,
    FrameId,
    Judged,
    Verdicts,
    most_doubtful,
    read_verdicts,
)
from robot_rl.classifier.score import Firing, Rule, doubtful_share
from robot_rl.types import DataError

EPOCH = 2**63 - 25  # as large as they are drawn


def frame(episode: int, index: int = 0) -> FrameId:
    return FrameId("run", "actor", EPOCH, episode, index)


def judged(episode: int, probability: float, label: bool | None = None, index: int = 0) -> Judged:
    return Judged(frame(episode, index), probability, label)


def test_disagreements_come_first_the_surest_of_them_then_what_is_nearest_to_the_threshold():
    frames = [
        judged(0, 0.1, False), judged(1, 0.75), judged(2, 0.9, False), judged(3, 0.2, True),
        judged(4, 0.79, False), judged(5, 0.99, False), judged(6, 0.87, True), judged(7, 0.0, True),
    ]  # fmt: skip
    order = [each.frame.episode for each in most_doubtful(frames, 0.8, 100)]
    assert order == [7, 3, 5, 2, 4, 1, 6, 0]
    assert [each.frame.episode for each in most_doubtful(frames[::-1], 0.8, 3)] == order[:3]
    assert most_doubtful([], 0.8, 3) == most_doubtful(frames, 0.8, 0) == []


def test_neighbours_are_shown_once_and_other_episodes_too():
    frames = [judged(e, 0.5 + 1e-4 * i, index=i) for e in (0, 1) for i in range(20)]
    shown = most_doubtful(frames, 0.5, 100)
    assert len(shown) == 2 * (20 // APART)
    assert {each.frame.episode for each in shown[:2]} == {0, 1}
    for each in shown:
        others = [o for o in shown if o.frame.episode == each.frame.episode and o is not each]
        assert all(abs(o.frame.index - each.frame.index) >= APART for o in others)


def test_the_last_verdict_of_a_frame_wins_and_undo_brings_back_what_was_before(tmp_path):
    verdicts = Verdicts(tmp_path)
    one, other = judged(1, 0.5, False), judged(2, 0.5)
    for each, label in ((one, True), (other, None), (one, False)):
        verdicts.say(each, label)
    assert read_verdicts(tmp_path) == verdicts.said == {one.frame: False, other.frame: None}
    assert [verdicts.undo() for _ in range(2)] == [one, other]
    assert read_verdicts(tmp_path) == verdicts.said == {one.frame: True}
    assert (verdicts.undo(), verdicts.undo()) == (one, None)
    assert read_verdicts(tmp_path) == verdicts.said == {}
    rows = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert len(rows) == 6, "nothing is rewritten"
    last = {row["episode"]: row["label"] for row in rows}
    assert last == {1: False, 2: None}, "who knows no undo reads what was recorded"


def test_a_later_sitting_goes_on_and_takes_back_its_own_verdicts_alone(tmp_path):
    Verdicts(tmp_path).say(judged(1, 0.5), True)
    later = Verdicts(tmp_path)
    assert later.said == {frame(1): True} and later.undo() is None
    later.say(judged(1, 0.5), None)
    later.undo()
    assert read_verdicts(tmp_path) == {frame(1): True}


@pytest.mark.parametrize("cut", [1, 5, 40, -1])
def test_a_kill_in_the_middle_of_a_line_costs_that_verdict_and_no_other(tmp_path, cut):
    for episode in (1, 2):
        Verdicts(tmp_path).say(judged(episode, 0.5), True)
    path = tmp_path / FILE
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:cut])
    verdicts = Verdicts(tmp_path)
    verdicts.say(judged(3, 0.5), False)
    kept = {frame(1): True, frame(3): False}
    # a line that lacks no more than its end is whole as soon as another follows
    assert read_verdicts(tmp_path) == kept | ({frame(2): True} if cut == -1 else {})


def test_lines_that_are_no_verdicts_are_passed_over(tmp_path):
    Verdicts(tmp_path).say(judged(1, 0.5), True)
    good = json.loads((tmp_path / FILE).read_text())
    lines = [{}, [], 3, good | {"label": 1}, good | {"epoch": 1.5}, good | {"index": None}]
    lines += [{k: v for k, v in good.items() if k != "label"}, good | {"episode": True}]
    text = "\n".join(map(json.dumps, lines)) + "\n{\n\x00\n"
    (tmp_path / FILE).write_text(text + json.dumps(good) + "\n")
    assert read_verdicts(tmp_path) == {frame(1): True}


def test_a_verdict_that_cannot_be_kept_is_told_and_does_not_count(tmp_path):
    verdicts = Verdicts(tmp_path)
    (tmp_path / FILE).mkdir()
    with pytest.raises(DataError, match="say this one again"):
        verdicts.say(judged(1, 0.5), True)
    assert verdicts.said == {} and verdicts.undo() is None


def test_the_share_of_doubtful_frames_is_what_a_judge_says_frame_by_frame():
    rng, rule = np.random.default_rng(0), Rule(0.7, 0.4, 2)
    episodes = [rng.random(n) for n in (0, 1, 2, 30, 50)]
    doubtful = 0
    for probabilities in episodes:
        firing = Firing(rule)
        doubtful += sum(firing.see(float(p)) == "doubtful" for p in probabilities)
    assert doubtful > 0 and doubtful_share(episodes, rule) == doubtful / 83
    assert doubtful_share([], rule) == doubtful_share(episodes, replace(rule, doubt=0.7)) == 0.0
