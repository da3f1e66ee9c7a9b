"""The short selection of the fault matrix, with the real processes; all of it, for as long as you
like: `make soak`.
"""

import pytest

from tests.faults.bench import Bench, record_demos
from tests.faults.play import play_all, require
from tests.faults.table import log_flipped, named

SELECTION = [
    "both killed, learner again while they start",
    "network cut",
    "log torn, with a hole",
    "arm told nonsense",
    "disk full, robot's side",
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return record_demos(tmp_path_factory.mktemp("template"))


@pytest.mark.timeout(1200)
def test_a_run_that_suffers_one_fault_after_the_other_goes_on_to_its_end_and_loses_nothing(
    tmp_path, template
):
    faults = [named(name) for name in SELECTION]
    outcomes = play_all(faults, template, tmp_path / "round", seed=3)
    assert [outcome.fault for outcome in outcomes] == SELECTION
    assert all(outcome.lost == outcome.duplicated == outcome.damaged == 0 for outcome in outcomes)


@pytest.mark.timeout(600)
def test_a_run_whose_log_lost_a_step_to_a_repair_makes_another_in_its_place(tmp_path, template):
    """In lockstep actor and learner count alike, or they wait for each other for ever. A block is
    50 steps: once in a block before the last, once in the last one.
    """
    bench = Bench(template, tmp_path / "round", seed=5, own_steps=100)
    try:
        for at in (20, 70):
            bench.wait_for_steps(at - bench.logged_count())
            log_flipped(bench)
        bench.wait_for_end()
        assert require(bench, "the end", ended=True).damaged == 2
    finally:
        bench.close()
