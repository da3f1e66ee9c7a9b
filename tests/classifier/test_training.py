"""What training proves is proved on episodes that it never saw."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robot_rl.classifier import training
from robot_rl.classifier.frames import Frames
from robot_rl.classifier.options import ClassifierConfig
from robot_rl.classifier.score import Predicates
from robot_rl.classifier.training import train, train_on
from robot_rl.classifier.worth import sentences
from robot_rl.types import Array, DataError, SpaceSpec
from tests.classifier.synthetic import (
    EYES,
    SIZE,
    by_height,
    by_light,
    by_watermark,
    episode,
    step,
    write_log,
)

QUICK = ClassifierConfig(size=SIZE, steps=75, shift_pixels=1)
ALIKE = "000000111111"


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(training, "HALF", 24)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # beside other tests one is faster than two that wait for one another
    yield
    torch.set_num_threads(threads)


def test_what_only_the_frames_of_an_episode_have_in_common_is_worth_nothing(
    tmp_path, small_batches
):
    episodes = [episode(n, ALIKE, by_watermark) for n in range(30)]
    options = replace(QUICK, shift_pixels=0, light=0.0, learning_rate=3e-3)
    found = train_on(tmp_path, episodes, EYES, options).metrics["test"]
    assert found["accuracy"] < 0.75 and found["fires"] + found["misses"] >= 4
    # who splits by frame finds the marks of the test frames among those of the fit, and is misled
    by_frame = [
        replace(each.only(np.arange(i, len(each.label), 3)), key=f"{each.key} {i}")
        for each in episodes
        for i in range(3)
    ]
    misled = train_on(tmp_path, by_frame, EYES, options).metrics["test"]
    assert misled["accuracy"] > 0.9


def test_what_every_success_has_in_common_is_learnt(tmp_path, small_batches):
    episodes = [episode(n, ALIKE if n % 2 else "000000") for n in range(40)]
    made = train_on(tmp_path / "lit", episodes, EYES, QUICK, seed=1)
    found = made.metrics["test"]
    assert found["accuracy"] == 1.0 and found["fires"] == found["misses"] == 0
    assert (found["failures"], found["successes"]) == (8, 4)
    assert made.rule.frames == 3 and made.version == 1
    again = train_on(tmp_path / "lit", episodes, EYES, QUICK, seed=1)
    assert again.version == 2 and again.about.weights_sha256 == made.about.weights_sha256
    text = "\n".join(sentences("held out", found, 0.01))
    assert "0 false successes on 8 failure episodes: at most 31.2 %" in text
    assert "59 prove 5 %, 149 prove 2 %, 299 prove 1 %" in text
    assert "wrong so often" not in text
    live = made.probability({"image/wrist": by_light(99, True)})
    assert live > made.rule.threshold > made.probability({"image/wrist": by_light(99, False)})


def test_frames_of_an_episode_nobody_has_spoken_of_are_no_negatives_where_they_look_like_success(
    tmp_path, small_batches
):
    # a classifier missed these: to learn from them would teach it to miss
    missed = [
        replace(episode(100 + n, "1" * 12), label=np.zeros(12, bool), timed_out=True, unspoken=True)
        for n in range(20)
    ]
    episodes = [episode(n, ALIKE) for n in range(20)]
    made = train_on(tmp_path, [*episodes, *missed], EYES, QUICK)
    assert made.metrics["left_out"] == 12 * 20, "they look like what others call success"
    assert made.metrics["episodes"]["fit"] == 12 + 20, "they prove nothing"


def test_a_word_that_comes_a_second_late_teaches_no_judge_to_wait_for_it(tmp_path, small_batches):
    def said_late(number: int) -> Frames:
        seen = episode(number, "0" * 20 + "1" * 20)
        label = np.arange(40) >= 30
        return replace(seen, label=label, late=~label & (np.arange(40) >= 15))

    episodes = [said_late(n) if n % 2 else episode(n, "0" * 40) for n in range(40)]
    made = train_on(tmp_path / "late", episodes, EYES, QUICK)
    found = made.metrics["test"]
    assert made.metrics["left_out"] == 10 * 12, (
        "the frames that showed it before the word, and no others"
    )
    assert found["fires"] == found["misses"] == 0 and found["accuracy"] == 1.0
    live = made.probability({"image/wrist": by_light(99, True)})
    assert live > made.rule.threshold > made.probability({"image/wrist": by_light(99, False)})
    # who takes the labels as they stand has half of all successes for failures
    taken = [replace(each, late=np.zeros(40, bool)) for each in episodes]
    misled = train_on(tmp_path / "taken", taken, EYES, QUICK)
    assert misled.metrics["test"]["accuracy"] < 1.0 and misled.metrics["test"]["misses"] > 0


def test_logs_become_a_classifier_that_is_tested_on_others(tmp_path, small_batches):
    def collected(name, first):
        labelled = [
            step(n, i, reward=float(i >= 8), terminated=i == 11, observation={
                "image/wrist": by_light(n, i >= 8)})
            for n in range(first, first + 10)
            for i in range(12)
        ]  # fmt: skip
        return write_log(tmp_path / name, labelled)

    sources = [collected("outcomes.log", 0)]
    made = train(tmp_path / "c", sources * 2, QUICK)  # a log counts once
    assert made.about.options == QUICK and made.metrics["positives"] == 40
    found = training.test(made, [collected("outcomes2.log", 50)])
    assert (found["failures"], found["successes"], found["accuracy"]) == (10, 10, 1.0)
    empty = write_log(tmp_path / "steps.log", [])
    with pytest.raises(DataError, match="nobody has said"):
        training.test(made, [empty])


def test_predicates_are_counted_as_they_hold_in_a_run_and_not_where_their_numbers_are_lacking(
    tmp_path,
):
    heights = {
        0: [0.0] * 4 + [1.0] * 4,  # a success
        1: [0.0] * 4 + [1.0] * 4,  # what looks like one, and the force is too large
        2: [1.0] * 8,  # the same, and the force is never small enough for three frames in a row
    }
    forces = {0: [5.0] * 8, 1: [30.0] * 6 + [5.0] * 2, 2: [5.0, 5.0, 30.0] * 2 + [5.0] * 2}
    said = [
        step(
            n, i, reward=float(n == 0 and i >= 4), terminated=i == 7,
            observation={
                "image/wrist": by_light(n, False),
                "judge/height": np.array([heights[n][i]], np.float32),
                "judge/force": np.array([forces[n][i]], np.float32),
            },
        )
        for n in heights
        for i in range(8)
    ]  # fmt: skip
    shapes = {name: (value.shape, str(value.dtype)) for name, value in said[0].observation.items()}
    path = write_log(tmp_path / "outcomes.log", said, SpaceSpec.unnamed(shapes, 1))
    made = by_height(tmp_path / "c")
    alone = training.test(made, [path])
    assert "in_a_run" not in alone
    for predicates, wanted in (
        (Predicates(force_below=20.0), (2, 0, 1, 0)),
        (Predicates(force_below=3.0), (2, 0, 1, 1)),
        (Predicates(force_below=40.0), (2, 2, 1, 0)),
    ):
        found = training.test(made, [path], predicates)
        assert {name: found[name] for name in alone} == alone
        counted = [found["in_a_run"][name] for name in ("failures", "fires", "successes", "misses")]
        assert tuple(counted) == wanted
    text = "\n".join(sentences("held out", found, 0.01))
    assert "with the task's predicates (force): 2 false successes on 2 failure episodes" in text
    assert "a judge that is wrong so often teaches little" in text
    lacking = training.test(made, [path], Predicates(width_between=(0.0, 0.1)))
    assert "predicates (width): not counted" in "\n".join(sentences("held out", lacking, 0.01))


def test_where_pictures_alone_miss_successes_the_threshold_counts_what_predicates_forbid():
    def judged(probability: float, label: str, *, allowed: bool) -> tuple[Array, Frames]:
        seen = replace(episode(0, 4 * label), allowed=np.full(4, allowed))
        return np.full(4, probability), seen

    def threshold(*episodes: tuple[Array, Frames]) -> float:
        probabilities, seen = zip(*episodes, strict=True)
        return training.rule_for(probabilities, seen, QUICK).threshold

    failure = judged(0.8, "0", allowed=False)
    low, high = judged(0.7, "1", allowed=True), judged(0.95, "1", allowed=True)
    assert threshold(failure, low, high) == 0.5
    # not where nothing is missed, nor where the predicates allow the failure
    assert threshold(failure, high) > 0.8
    assert threshold(judged(0.8, "0", allowed=True), low, high) > 0.8
