"""Which frames of a log are learnt from, and who gets which episodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl.classifier import frames
from robot_rl.classifier.frames import (
    SAID,
    SEEN,
    Told,
    logs_of,
    look,
    numbers_of,
    read_frames,
)
from robot_rl.classifier.options import Inputs
from robot_rl.classifier.review import FrameId
from robot_rl.classifier.split import split
from robot_rl.classifier.training import ClassifierConfig
from robot_rl.config.judge import LEARNED
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.stream.log import StepLog, read_space
from robot_rl.types import ConfigError, DataError, Mark, MarkKind, Provenance
from tests.classifier.synthetic import EYES, SIZE, episode, step, write_log

LAST = {"terminated": True, "reward": 1.0, "success": True}
OUT = {"truncated": True}


def labels(said, judge):
    """The label of each frame: "1" success, "0" none, "h" none and hard, "." not learnt from."""
    told = Told()
    for each in said:
        told.hear(each, EYES)
    learnt = told.frames("", "", judge)
    text = ["."] * len(told.times)
    for image, label, hard in zip(learnt.images["wrist"], learnt.label, learnt.hard, strict=True):
        text[image[0, 0, 0]] = "1" if label else "h" if hard else "0"
    return "".join(text), learnt


def tried(length=30, **last):
    return [step(0, i, **(last if i == length - 1 else {})) for i in range(length)]


def mark(kind, **changes):
    return Mark(kind, 0, **changes)


@pytest.mark.parametrize(
    ("judge", "said", "wanted"),
    [
        # the simulator is exact; a person's success is a moment old when it is said
        ("simulator", tried(**LAST), "0" * 29 + "1"),
        ("operator", tried(**LAST), "0" * 20 + "." * 9 + "1"),
        # nobody has confirmed what a classifier said
        (LEARNED, tried(**LAST), "0" * 20 + "." * 10),
        (LEARNED, [*tried(**LAST), mark(MarkKind.SUCCESS)], "0" * 20 + "." * 7 + "111"),
        (LEARNED, [*tried(**OUT), mark(MarkKind.SUCCESS)], "0" * 20 + "." * 9 + "1"),
        (LEARNED, tried(**OUT), "0" * 30),
        # a yes to a question is the success of the episode, and nobody undoes it
        (LEARNED, [*tried(**OUT), mark(MarkKind.SUCCESS, index=24), mark(MarkKind.UNDO)],
         "0" * 15 + "." * 9 + "1" + "." * 5),
        ("operator", [*tried(**OUT), mark(MarkKind.FAILURE)], "0" * 9 + "h" * 21),
        (LEARNED, [*tried(**LAST), mark(MarkKind.FAILURE)], "0" * 9 + "h" * 21),
        ("operator", [*tried(**LAST), mark(MarkKind.DISCARD)], "." * 30),
        ("operator", [*tried(**LAST), mark(MarkKind.DISCARD), mark(MarkKind.UNDO)],
         "0" * 20 + "." * 9 + "1"),
    ],
)  # fmt: skip
def test_a_frame_is_what_somebody_vouches_for(judge, said, wanted):
    assert labels(said, judge)[0] == wanted


def test_a_demonstration_is_vouched_for_by_who_showed_it():
    shown = [step(0, i, provenance=Provenance.DEMO) for i in range(29)]
    text, learnt = labels([*shown, step(0, 29, provenance=Provenance.DEMO, **LAST)], LEARNED)
    assert text[-1] == "1" and not learnt.unspoken


def test_the_seconds_before_the_operator_takes_over_are_hard():
    acted = [
        step(0, i, provenance=Provenance.HUMAN if 25 <= i < 30 else Provenance.POLICY)
        for i in range(39)
    ]
    assert labels([*acted, step(0, 39, **OUT)], "simulator")[0] == "0" * 5 + "h" * 20 + "0" * 15


def test_wandering_away_from_a_goal_shows_none_once_it_has_left():
    away = [step(0, i, provenance=Provenance.SCRIPT) for i in range(30)]
    text, learnt = labels(away, "operator")
    assert text == "." * 21 + "h" * 9 and learnt.unspoken and not learnt.timed_out


def test_before_a_demonstration_nothing_shows_success():
    around = [step(0, i, provenance=Provenance.LOOK) for i in range(30)]
    text, learnt = labels(around, "operator")
    assert text == "0" * 30 and learnt.unspoken and not learnt.timed_out


def test_what_follows_a_success_that_is_over_is_hard_among_outcomes():
    said = [step(0, i, reward=float(10 <= i < 20)) for i in range(40)]
    text, learnt = labels(said, SEEN)
    assert text[:5] == "00000" and "1" in text[10:20] and text[20] in "h."
    assert set(text[20:]) == {"h", "."} and not learnt.unspoken


def test_before_a_person_says_success_nobody_knows_whether_it_was_to_be_seen_already():
    said = [step(0, i, reward=float(i >= 30), terminated=i == 39) for i in range(40)]
    text, learnt = labels(said, SAID)
    assert text == "0" * 26 + "...." + "1" * 10  # a moment before the word is neither in any case
    assert learnt.doubtful.tolist() == [False] * 15 + [True] * 11 + [False] * 10
    assert learnt.proven().label.tolist() == [False] * 15 + [True] * 10
    assert not labels(said, SEEN)[1].doubtful.any()
    # of a frame that they were asked about they have said what it shows
    _, asked = labels([*said, mark(MarkKind.DENY, index=20)], SAID)
    assert np.flatnonzero(asked.doubtful).tolist() == [*range(15, 20), *range(21, 26)]


@pytest.mark.parametrize(("teleop", "who"), [("scripted", SEEN), ("human-like", SAID)])
def test_whose_words_labels_are_a_run_knows_and_so_does_its_log(teleop, who, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = create_run("peg_insert", TrainConfig(obs="state", teleop=teleop, name="run"))
    path = write_log(run.outcomes_log, [step(0, 0)])
    assert logs_of(run.path) == logs_of(path) == [(path, who)]


def test_an_episode_that_only_a_classifier_judged_is_fitted_to_and_proves_nothing():
    assert labels(tried(**OUT), LEARNED)[1].unspoken
    assert not labels([*tried(**OUT), mark(MarkKind.FAILURE)], LEARNED)[1].unspoken
    assert labels(tried(**OUT), "simulator")[1].timed_out


def test_a_crop_is_a_share_of_the_frame_whatever_its_size():
    inputs = Inputs(("wrist",), {"wrist": (0.5, 0.0, 0.5, 0.25)}, 32)
    for size in (8, 64, 301):
        frame = np.zeros((size, 2 * size, 3), np.uint8)
        frame[: size // 4, size:] = 200
        seen = look({"image/wrist": frame, "state/x": np.zeros(1)}, "wrist", inputs)
        assert seen.shape == (32, 32, 3) and np.median(seen) == 200
    assert look({"judge/wrist": frame, "image/wrist": 0 * frame}, "wrist", inputs).max() == 200
    with pytest.raises(DataError, match=r"no picture of camera 'wrist'.* it has: front"):
        look({"image/front": frame}, "wrist", inputs)
    with pytest.raises(DataError, match="judge/width"):
        numbers_of({}, Inputs(("wrist",), numbers=("width",)))
    with pytest.raises(ConfigError, match="not inside the frame"):
        Inputs(("wrist",), {"wrist": (0.5, 0.0, 0.6, 1.0)})


def test_a_log_by_its_path_is_read_by_episode(tmp_path):
    labelled = [
        step(number, i, reward=float(i >= 6), terminated=i == 9)
        for number in range(3)
        for i in range(10)
    ]
    path = write_log(tmp_path / "outcomes.log", labelled)
    inputs = frames.inputs_for([path], ClassifierConfig(size=SIZE))
    assert inputs.cameras == ("wrist",)
    read = read_frames([path], inputs)
    assert len(read) == 3 and all(each.label.sum() == 4 for each in read)
    assert frames.hash_of(read) == frames.hash_of(read_frames([path], inputs))
    assert frames.hash_of(read) != frames.hash_of(read[:2])
    with pytest.raises(ConfigError, match=r"cameras front .* of the cameras wrist"):
        frames.inputs_for([path], ClassifierConfig(cameras=("front",)))


def nothing(number, success):
    return np.zeros((1, 1, 3), np.uint8)


KINDS = st.lists(st.sampled_from(["000111", "000"]), min_size=20, max_size=30)


@settings(max_examples=15)
@given(KINDS, st.integers(0, 9))
def test_every_episode_is_in_one_part_and_stays_there_when_others_come(kinds, seed):
    kinds = ["000111", "000"] * 5 + kinds
    episodes = [episode(i, kind, nothing) for i, kind in enumerate(kinds)]
    parts = {part: [each.key for each in of] for part, of in split(episodes, seed).items()}
    assert sorted(key for of in parts.values() for key in of) == sorted(
        each.key for each in episodes
    )
    shares = {"fit": 0.6, "calibrate": 0.2, "test": 0.2}
    for part, of in parts.items():
        assert abs(len(of) - shares[part] * len(episodes)) <= 2.4
    before = split(episodes[:20], seed)
    assert all(each.key in parts[part] for part, of in before.items() for each in of)


def test_of_many_sittings_whole_ones_are_held_out():
    episodes = [episode(n, "000111", sitting=str(n // 4)) for n in range(40)]
    parts = split(episodes)
    sittings = [{each.sitting for each in of} for of in parts.values()]
    assert len(set.union(*sittings)) == sum(map(len, sittings)) == 10


def test_too_few_episodes_are_refused_with_what_to_do():
    with pytest.raises(DataError, match=r"2 episodes, 2 of them .* robot-rl outcomes"):
        split([episode(n, "000111") for n in range(2)])
    with pytest.raises(DataError, match="30 episodes, 0 of them with success"):
        split([episode(n, "000") for n in range(30)])


def test_a_no_and_a_verdict_label_their_frame_alone_and_win_over_what_was_recorded(tmp_path):
    said = [*tried(12, **OUT), mark(MarkKind.DENY, index=7), mark(MarkKind.UNDO)]
    assert labels(said, LEARNED)[0] == "000000" + "0h0000"
    path = write_log(tmp_path / "steps.log", said)
    with StepLog(path, read_space(path), read_only=True) as log:
        (actor, epoch), run = next(identity.stream for identity, _ in log.entries()), log.run

    def frame(index: int, of: str = run, episode: int = 0) -> FrameId:
        return FrameId(of, actor, epoch, episode, index)

    verdicts = {frame(4): False, frame(5): None, frame(6): True, frame(99): True}
    verdicts |= {frame(8, of="another run"): True, frame(9, episode=5): True}
    (read,) = read_frames([path], EYES, verdicts)
    seen = [int(image[0, 0, 0]) for image in read.images["wrist"]]
    assert seen == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert [i for i, label in zip(seen, read.label, strict=True) if label] == [6]
    assert [i for i, hard in zip(seen, read.hard, strict=True) if hard] == [4, 7]
