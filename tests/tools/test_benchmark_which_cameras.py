"""The benchmark of choices of cameras: which there are, and what errors its table tells apart."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.which_cameras import Options, by_distance, choices, line, rows
from robot_rl.learner.options import LearnerConfig
from robot_rl.types import ConfigError
from tests.guided import demonstrate, guided_run


def test_each_camera_alone_and_all_together_unless_some_are_named() -> None:
    run = Path("runs/x")
    assert choices(Options(run), ("wrist", "front")) == [("wrist",), ("front",), ("wrist", "front")]
    assert choices(Options(run), ("wrist",)) == [("wrist",)]
    named = Options(run, choices=("front,wrist",))
    assert choices(named, ("wrist", "front")) == [("front", "wrist")]
    with pytest.raises(ConfigError, match="side\\? The cameras are wrist, front"):
        choices(Options(run, choices=("wrist,side",)), ("wrist", "front"))


def test_errors_are_told_apart_by_the_distance_of_the_goal() -> None:
    true = np.zeros((4, 6))
    true[:, 2] = [0.005, 0.011, 0.020, 0.5]
    seen = true.copy()
    seen[:, 0] += [0.001, 0.003, 0.007, 1.0]
    seen[:, 5] += np.radians([1.0, 1.0, 4.0, 90.0])
    near, far, none = by_distance(seen, true, (0.0, 12.0, 25.0, 50.0))
    assert near == pytest.approx((2.0, 1.0)) and far == pytest.approx((7.0, 4.0))
    assert np.isnan(none).all()


def test_a_run_s_demonstrations_are_seen_through_each_choice(tmp_path: Path) -> None:
    folder = guided_run(tmp_path / "run", obs="pixels", learner=LearnerConfig())
    for episode in range(1, 6):
        demonstrate(folder, episode)
    options = Options(folder.path, choices=("wrist", "wrist,front"), epochs=1)
    found = list(rows(options))
    assert [row.cameras for row in found] == [("wrist",), ("wrist", "front")]
    assert all(len(row.errors) == 5 for row in found)
    assert np.isfinite([place for row in found for place, _ in row.errors]).any()
    assert line(found[0]).startswith("| wrist | goal | ")
