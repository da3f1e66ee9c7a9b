"""What the table says of a policy beside demonstrations: numbers and orders, of what was shown alone."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.policy_error import Options, Row, report, row, table
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.networks.policy import LivePolicy, Policy
from robot_rl.types import ConfigError, DataError, Observation, Provenance, Step
from tests.helpers import make_step
from tests.learner.small import TWO_HANDS, spec_of

DONE = np.array([0.2, -0.4, 1.0, 0.6, 0.0], np.float32)  # numbers, and two hands at 2 and 4


class Aside(LivePolicy):
    """Acts as was done but for 0.1, and tells the right hand to open at every second frame."""

    def begin_episode(self, seed: int) -> None:
        super().begin_episode(seed)
        self.frames = 0

    def act(self, observation: Observation, greedy: bool = False) -> np.ndarray:
        assert greedy
        self.frames += 1
        action = DONE + np.array([0.1, -0.1, 0.0, 0.1, 0.0], np.float32)
        action[4] = self.frames % 2
        return action


def policy() -> Aside:
    spec = spec_of("none", TWO_HANDS)
    return Aside(spec, Policy(spec).arrays(changing=True) | Policy(spec).arrays(changing=False))


def steps(author: Provenance, episode: int, indices: range) -> list[Step]:
    return [make_step(i, episode=episode, provenance=author, executed=DONE) for i in indices]


def test_it_counts_what_was_shown_and_nothing_else() -> None:
    looked = steps(Provenance.LOOK, 0, range(3))
    behind = steps(Provenance.DEMO, 0, range(3, 7))
    found = row("some", policy(), looked + behind + steps(Provenance.DEMO, 1, range(5)))
    assert found.steps == 4 + 4
    assert found.error == pytest.approx(0.1)
    assert found.orders == (0.0, 0.5)
    with pytest.raises(DataError, match="nothing was shown"):
        row("some", policy(), looked)


def test_the_table() -> None:
    assert table([Row("a", 1200, 0.0712, (0.0, 0.0142))]).splitlines()[2] == (
        "| a | 1,200 | 0.071 | 0.00%, 1.42% |"
    )


def test_a_run_of_another_task_is_refused_by_name(tmp_path: Path) -> None:
    runs = tuple(tmp_path / name for name in ("mine", "other"))
    for run, task in zip(runs, ("peg_insert", "drawer"), strict=True):
        RunFolder.create(run, {"run": RunSettings(task, "sim_panda")})
    with pytest.raises(ConfigError, match=r"other shows drawer .* knows peg_insert"):
        report(Options(runs))
