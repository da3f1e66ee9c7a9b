"""Whoever dies, in whichever mode: the arm stands in time and stays. Real processes, and the
simulation's own truth.

One try each of some; `make soak-deaths` makes a hundred. Faults, which need no death, stand in
`test_adversary.py`.
"""

import pytest

from tests.controllers.adversary import MODES
from tests.controllers.deaths import LEAVES, WHO, bear, die, open_bench

pytestmark = [pytest.mark.slow, pytest.mark.real_clock]


@pytest.fixture(scope="module")
def bench():
    with open_bench() as bench:
        yield bench


# joint moves by all; the other modes by the two that end differently: the loop stays, and the loop
# leaves
TRIES = [(who, "joint") for who in WHO] + [
    (who, mode) for who in (WHO[0], LEAVES) for mode in MODES if mode != "joint"
]


@pytest.mark.parametrize(("who", "mode"), TRIES)
def test_whoever_dies_the_arm_stands_in_time_and_stays(bench, who, mode):
    rest = die(bench, who, mode, seed=len(who) + len(mode))
    assert rest.right, (
        f"at rest {rest.rest_s:.3f} s after the last command, {rest.ticks} ticks after its lease;"
        f" then {1e3 * rest.tool_m:.1f} mm and {rest.joint_rad:.3f} rad of motion {rest.note}"
    )


def test_a_hostile_client_takes_an_arm_on_the_real_clock_not_out_of_its_limits(bench):
    found, ticks = bear(bench, seed=1, seconds=3.0)
    assert not found, "\n".join(map(str, found))
    assert ticks > 500  # some 4,500 where nothing else runs
