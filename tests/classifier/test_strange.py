"""A picture that lies outside all that was learnt from is told as strange, and supports no success."""

from dataclasses import fields, replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.classifier import files, strange
from robot_rl.classifier.frames import Frames, look
from robot_rl.classifier.options import Inputs
from robot_rl.classifier.score import Rule, first_success, unsure
from robot_rl.types import DataError, OperatorCommand, Use
from tests.classifier.synthetic import SIZE, at_height, by_height, episode

BOARD = np.kron(np.random.default_rng(0).integers(40, 200, (8, 8, 3), np.uint8), np.ones((4, 4, 1)))


def scene(number: int, success: bool, aside: int = 0, light: float = 1.0):
    """A board that stands still, noise of the camera, and a thing that is anywhere."""
    rng = np.random.default_rng([number, int(success)])
    frame = light * np.roll(BOARD, aside, 1) + rng.normal(0.0, 3.0, BOARD.shape)
    x, y = rng.integers(0, SIZE - 8, 2)
    frame[y : y + 8, x : x + 8] = 250.0
    return np.clip(frame, 0, 255).astype(np.uint8)


def scenes(first: int, many: int = 40, **changes) -> list[Frames]:
    """Episodes of frames that differ."""
    made = [episode(n, "0001", scene) for n in range(first, first + many)]
    return [
        replace(each, images={"wrist": np.stack([
            scene(100 * (first + n) + i, bool(label), **changes)
            for i, label in enumerate(each.label)])})
        for n, each in enumerate(made)
    ]  # fmt: skip


def calm(usual, episodes) -> np.ndarray:
    return np.array([strange.calm(usual.strangeness(each.images)) for each in episodes])


def test_what_has_moved_or_is_lit_otherwise_is_stranger_than_what_was_held_out():
    usual, left_out, about = strange.fit(scenes(0))
    assert max(each.max() for each in left_out) <= 1.0 / strange.MARGIN + 1e-6
    assert sum(strange.calm(each) > about["level"] for each in left_out) < about["above"] == 4
    ordinary = calm(usual, scenes(100))
    assert (ordinary > about["level"]).mean() <= 0.25
    for changes in ({"aside": 4}, {"light": 0.6}, {"light": 1.3}):
        assert calm(usual, scenes(200, 10, **changes)).min() > max(ordinary.max(), about["level"])


def test_an_episode_is_held_against_the_others_and_not_against_itself():
    odd = scenes(300, 1, aside=4)
    _, left_out, _ = strange.fit([*scenes(0, 9), *odd])
    assert left_out[-1].min() > max(each.max() for each in left_out[:-1])
    # cells that two episodes share as their lowest are usual even without one of them
    twice = [odd[0], replace(odd[0], key="again")]
    _, left_out, _ = strange.fit(twice)
    assert all((each == 0.0).all() for each in left_out)
    with pytest.raises(DataError, match="two episodes"):
        strange.fit(odd)


def with_usual(folder):
    """`by_height` that has seen dark pictures alone."""
    plain = by_height(folder)
    about = {f.name: getattr(plain.about, f.name) for f in fields(plain.about)}
    dark = np.zeros((3, strange.CELLS, strange.CELLS, 3), np.float32)
    dark[2] = 10.0
    del about["version"], about["weights_sha256"]
    return files.write(folder, about, plain.network, strange.Usual({"wrist": dark}))


def test_a_strange_frame_never_fires_and_is_doubtful(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_usual(tmp_path / "classifiers/lifted")
    reward = config.make("rewards", Use("classifier", {"name": "lifted"}))

    def said(light: int, height: float = 0.4):
        seen = at_height(height)
        seen["image/wrist"][:] = light
        success = reward.judge(seen, [], OperatorCommand.NONE).success
        return success, reward.doubtful

    assert [said(0) for _ in range(3)][-1] == (True, False)
    reward.begin_episode()
    assert reward.strangeness is None
    assert [said(90) for _ in range(4)][2:] == [(False, True)] * 2
    assert reward.strangeness == pytest.approx(9.0)
    assert [said(0), said(0), said(90), said(0), said(0), said(0)][-2:] == [
        (False, True), (True, False)
    ]  # fmt: skip
    assert [said(90, -0.4) for _ in range(3)][-1] == (False, True), "whatever it looks like"


def test_a_strange_frame_fires_under_no_rule():
    for rule in (Rule(0.9, 0.6, 1), Rule(0.5, 0.5, 1), Rule(1.0, 1.0, 1), Rule(1e-9, 1e-9, 1)):
        p = unsure(np.ones(4), np.array([True, True, False, True]), rule)
        assert first_success(p, np.ones(4, bool), rule) == 2


def test_it_is_kept_with_a_version_and_one_without_it_still_judges(tmp_path):
    with_usual(tmp_path / "c")
    old, new = (files.load(tmp_path / "c", version) for version in (1, 2))
    seen = at_height(0.4)
    seen["image/wrist"][:] = 90
    assert old.judge(seen)[1] is None and old.probability(seen) > 0.9
    assert list(new.judge(seen)) == pytest.approx([0.6, 9.0])
    assert new.probabilities([seen, at_height(0.4)]) == pytest.approx([0.6, 0.982], abs=1e-3)
    assert new.probabilities([]).shape == (0,)


@pytest.mark.parametrize("ruin", ["camera", "shape", "nan", "scale"])
def test_what_is_no_range_of_values_is_damaged(tmp_path, ruin):
    made = with_usual(tmp_path / "c")
    ranges = dict(made._usual.ranges)
    if ruin == "camera":
        ranges["front"] = ranges.pop("wrist")
    elif ruin == "shape":
        ranges["wrist"] = ranges["wrist"][:2]
    else:
        ranges["wrist"] = ranges["wrist"].copy()
        ranges["wrist"][2, 0, 0, 0] = np.nan if ruin == "nan" else 0.0
    made._usual.ranges = ranges
    about = {f.name: getattr(made.about, f.name) for f in fields(made.about)}
    del about["version"], about["weights_sha256"]
    files.write(tmp_path / "c", about, made.network, made._usual)
    with pytest.raises(DataError, match=r"version 3 .* is damaged: what .* usual.*Put back a copy"):
        files.load(tmp_path / "c", 3)


def test_pictures_of_any_size_become_cells():
    for size in (32, 64, 100):
        assert strange.cells(np.zeros((2, size, size, 3), np.uint8)).shape == (2, 16, 16, 3)
    large = Inputs(("wrist",), size=64)
    assert strange.cells(look(at_height(0.0), "wrist", large)[None]).shape == (1, 16, 16, 3)
    assert strange.cells(np.zeros((0, 32, 32, 3), np.uint8)).shape == (0, 16, 16, 3)
