"""The short selection of the fault matrix, with the real processes; all of it, for as long as you like: `make soak`."""

import pytest

from tests.faults.bench import record_demos
from tests.faults.play import play
from tests.faults.table import named

SELECTION = [
    "both killed, learner again while they start",
    "network cut",
    "log torn",
    "disk full, robot's side",
]


@pytest.mark.timeout(1200)
def test_a_run_that_suffers_one_fault_after_the_other_goes_on_to_its_end_and_loses_nothing(tmp_path):
    faults = [named(name) for name in SELECTION]
    outcomes = play(faults, record_demos(tmp_path), tmp_path / "round", seed=3)
    assert [outcome.fault for outcome in outcomes] == SELECTION
    assert all(outcome.lost == outcome.duplicated == outcome.damaged == 0 for outcome in outcomes)
