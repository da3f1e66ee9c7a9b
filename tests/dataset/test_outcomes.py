"""Laws of labelled frames: no word reaches back, nothing near a change or of a discarded episode is
learnt from.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.dataset.outcomes import (
    LabelledEpisode,
    labelled_episodes,
    labelled_frames,
)
from robot_rl.stream.episodes import REACTION_S
from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, MarkKind, Provenance, SpaceSpec, Step

SPACE = SpaceSpec.unnamed({"state/x": ((1,), "float32")}, action_size=1)
NOTHING = np.zeros(1, np.float32)
BEFORE = 4  # frames at 10 Hz within the time that a person needs


def frames(episode: int, labels: str, complete: bool = False) -> list[Step]:
    """Frames ten times a second: "0011" are two negatives, then two positives."""
    steps = []
    for index, label in enumerate(labels):
        seen = {"state/x": np.array([index], np.float32)}
        done = complete and index == len(labels) - 1
        times = (100.0 + 0.1 * index, 0.0)
        steps.append(
            Step(
                episode,
                index,
                seen,
                NOTHING,
                NOTHING,
                NOTHING,
                float(label),
                done,
                False,
                Provenance.DEMO,
                0,
                *times,
            )
        )
    return steps


def usable(labels: str, complete: bool = False) -> str:
    """Which frames are learnt from: their labels, and "." for the others."""
    episode = LabelledEpisode()
    for step in frames(0, labels, complete):
        episode.hear(step)
    return "".join(
        label if sure else "." for label, sure in zip(labels, episode.usable, strict=True)
    )


@pytest.mark.parametrize(
    ("labels", "complete", "kept"),
    [
        (
            "000000011111",
            True,
            "000....11111",
        ),  # said at 7: what was before it stays what it was, or is left out
        ("000000001111111100000000", False, "0000....1111....000....."),
        (
            "0000001111",
            False,
            "00........",
        ),  # broken off: whether it still succeeded nobody has said
        ("0001000000", True, "....000000"),  # pressed by mistake and taken back
        ("0000000000", False, "00000....."),
        ("1", True, "1"),
        ("", False, ""),
    ],
)
def test_frames_of_the_moment_before_a_change_are_neither(labels, complete, kept):
    assert REACTION_S // 0.1 == BEFORE
    assert usable(labels, complete) == kept


@given(labels=st.text("01", max_size=60), complete=st.booleans())
def test_no_frame_gets_another_label_and_none_close_before_a_change_is_kept(labels, complete):
    kept = usable(labels, complete)
    for i, label in enumerate(kept):
        if label != ".":
            assert label == labels[i] and set(labels[i : i + BEFORE + 1]) == {label}
        else:
            near = labels[i : i + BEFORE + 1]
            assert len(set(near)) == 2 or (len(labels) - i <= BEFORE + 1 and not complete)


def test_a_log_gives_its_frames_with_labels_but_none_of_a_discarded_episode(tmp_path: Path):
    path = tmp_path / "outcomes.log"
    with StepLog(path, SPACE) as log:
        for episode in range(3):
            for step in frames(episode, "0000000011", complete=True):
                log.append_step(step)
        log.append_mark(Mark(MarkKind.DISCARD, 0))
        log.append_mark(Mark(MarkKind.DISCARD, 1))
        log.append_mark(Mark(MarkKind.UNDO, 1))
        log.append_mark(Mark(MarkKind.GAP))
        episodes = labelled_episodes(log)
        read = [(step.episode, step.index, success) for step, success in labelled_frames(log)]
    assert [episode.counts for episode in episodes.values()] == [(0, 0), (2, 4), (2, 4)]
    of_one = [(0, False), (1, False), (2, False), (3, False), (8, True), (9, True)]
    assert read == [(episode, *frame) for episode in (1, 2) for frame in of_one]


def test_a_frame_that_a_repair_has_lost_moves_no_label(tmp_path: Path):
    with StepLog(tmp_path / "outcomes.log", SPACE) as log:
        for step in frames(0, "0000000011", complete=True):
            if step.index != 2:
                log.append_step(step)
        assert [step.index for step, success in labelled_frames(log) if not success] == [0, 1, 3]
