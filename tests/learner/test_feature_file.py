"""Laws of the kept features: they are those that would be computed, whatever became of the file."""

import numpy as np
import pytest

from robot_rl.learner.feature_file import FeatureFile, hash_of
from tests.stream.full_disk import files_of_at_most
from tests.stream.test_codec import make_step

SHAPE = (2, 5)
STEPS = [make_step(index) for index in range(20)]


class Encoder:
    """Counts what it computes."""

    def __init__(self):
        self.computed = 0

    def __call__(self, steps):
        self.computed += len(steps)
        means = np.array([step.observation["image/wrist"].mean() for step in steps])
        return (means[:, None, None] + np.arange(10.0).reshape(SHAPE)).astype(np.float16)


def ask(path, encoder="a", steps=STEPS, portions=(7, 13), shape=SHAPE) -> tuple[np.ndarray, int]:
    """The features of the steps, asked for in these portions, and how many of them were computed."""
    compute, features, found, at = Encoder(), FeatureFile(path, encoder, shape), [], 0
    for count in portions:
        found.append(features.of(steps[at : at + count], compute))
        at += count
    features.close()
    return np.concatenate(found), compute.computed


EXPECTED = Encoder()(STEPS)


def test_what_was_computed_once_is_read_whatever_the_portions(tmp_path):
    for portions, computed in (((7, 13), 20), ((20,), 0), ((1, 2, 17), 0)):
        found, count = ask(tmp_path / "f", portions=portions)
        assert count == computed
        np.testing.assert_array_equal(found, EXPECTED)


def test_another_encoder_gets_features_of_its_own(tmp_path):
    ask(tmp_path / "f", "a")
    assert ask(tmp_path / "f", "b")[1] == 20
    assert ask(tmp_path / "f", "a")[1] == 20
    assert hash_of({"w": np.ones(3), "b": np.ones(1)}) == hash_of({
        "b": np.ones(1),
        "w": np.ones(3),
    })
    assert hash_of({"w": np.ones(3)}) != hash_of({"w": np.zeros(3)})


@pytest.mark.parametrize("missing", [0, 5, 19])
def test_from_a_step_that_the_log_lost_on_they_are_computed_again(tmp_path, missing):
    ask(tmp_path / "f")
    fewer = STEPS[:missing] + STEPS[missing + 1 :]
    for computed in (19 - missing, 0):
        found, count = ask(tmp_path / "f", steps=fewer, portions=(19,))
        assert count == computed
        np.testing.assert_array_equal(found, Encoder()(fewer))


def test_a_damaged_or_torn_file_costs_time_and_nothing_else(tmp_path):
    path = tmp_path / "f"
    ask(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        np.testing.assert_array_equal(ask(path)[0], EXPECTED)
        path.write_bytes(whole[:at])
        np.testing.assert_array_equal(ask(path)[0], EXPECTED)


def test_without_a_disk_everything_is_computed(tmp_path, caplog):
    with files_of_at_most(600):
        np.testing.assert_array_equal(ask(tmp_path / "f")[0], EXPECTED)
    assert "cannot be written" in caplog.text
    np.testing.assert_array_equal(ask(tmp_path / "no_such_folder" / "f")[0], EXPECTED)
    found, _ = ask(tmp_path / "f")
    np.testing.assert_array_equal(found, EXPECTED)
