"""An arm with a body under attack leaves none of its limits; and the witness that says so can see.

Each kind of attack once, briefly: `make soak-targets` is the long form. The laws stand in
`adversary.py`.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.types import Capsule
from tests.controllers import truth
from tests.controllers.adversary import BODIES, SCENARIOS, Attacker, Log, attack, judge
from tests.controllers.bench import GIVEN, HARDWARE, LIMITS, SETUP, moved, run
from tests.controllers.truth import Rows, TrueArm


@pytest.fixture(scope="module")
def arm():
    return TrueArm(Options(), GIVEN, Rows(10_000))


@pytest.fixture(scope="module")
def ring():
    return Ring(7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bout", range(len(SCENARIOS)), ids=[scenario.name for scenario in SCENARIOS]
)
def test_nothing_that_is_sent_or_felt_takes_the_arm_out_of_its_limits(arm, ring, bout):
    found, table, done = attack(arm, ring, range(bout, bout + 1), ticks=1200)
    assert not found, "\n".join(map(str, found))
    assert done["ticks in motion"] > 90 and table["tool speed"][0] > -LIMITS.max_tcp_speed, (
        "the attack was none"
    )


def test_the_same_bout_is_the_same_motion(arm, ring):
    first = Attacker(arm, ring, 11, 600).play()
    rows = arm.rows.table[: len(arm.rows)].copy()
    again = Attacker(arm, ring, 11, 600).play()
    assert first.faults == again.faults
    np.testing.assert_array_equal(rows, arm.rows.table[: len(arm.rows)])


# ------------------------------------------------------------------------------ the witness can see


def test_the_witness_sees_what_is_spoilt_on_the_way_to_the_loop(arm):
    arm.reset(0)
    arm.rows.count[0] = 0
    loop = ArmLoop(arm, SETUP)
    arm.spoilt = {"q": np.nan, "dq": 9.0, "pose": np.inf}
    run(loop, 5)
    assert np.isnan(arm.shown.q).all() and np.isinf(arm.shown.pose).all()
    np.testing.assert_allclose(arm.rows.get("q")[-1], HARDWARE.home, atol=1e-3)
    assert np.abs(arm.rows.get("dq")[-1]).max() < 0.1
    tip, *_ = arm.tool_at(arm.rows.get("q")[-1])
    np.testing.assert_allclose(arm.rows.get("position")[-1], tip, atol=1e-6)


def test_the_witness_measures_the_force_of_a_contact_itself(arm):
    """What the loop presses with statically, K clip, is what the table is pressed with."""
    arm.reset(0)
    arm.rows.count[0] = 0
    loop = ArmLoop(arm, SETUP)
    for _ in range(16):
        loop.command(moved(loop, 0.0, 0.0, -0.01), loop.t + 0.3, loop.t)
        run(loop, 100)
    force = arm.rows.get("tool_force")
    assert force[-1, 2] == pytest.approx(20.0, abs=1.0) and np.abs(force[-1, :2]).max() < 2.0
    assert truth.filtered(force)[-1] == pytest.approx(20.0, abs=1.0)
    assert truth.filtered(force).max() > 25.0  # the blow before


def test_a_limit_that_is_exceeded_is_found_and_a_motion_after_the_lease_too(arm):
    arm.reset(0)
    arm.rows.count[0] = 0
    loop, log = (
        ArmLoop(arm, SETUP),
        Log(replace(LIMITS, max_tcp_speed=0.05, max_torque=(5.0,) * 7), SCENARIOS[0], 0),
    )
    for i in range(1000):
        if i % 100 == 0:
            loop.command(moved(loop, 0.01, 0.0, 0.0), loop.t + 0.3, loop.t)
        loop.tick(loop.t + 0.001)
        log.faults.append(0)
        log.moving.append(i < 300)  # it goes on although it is said to stand
        log.modes.append("pose")
    judge(arm.rows, log)
    kinds = {one.what.split(" after")[0].split(" without")[0] for one in log.found}
    assert {"tool speed", "not at rest in time", "further motion"} <= kinds


def test_the_links_of_the_witness_are_where_its_rods_are_drawn(arm):
    """Straight up, the rods stand above each other at heights that follow from the maker's table."""
    _, links, turns = arm.tool_at(np.zeros(7))
    ends = truth.rods(links.reshape(1, -1), turns.reshape(1, -1), BODIES)[0]
    elbow, hand = ends[0], ends[[body.name for body in BODIES].index("hand")]
    np.testing.assert_allclose(elbow[:, 2], 0.333 + 0.316, atol=1e-6)
    np.testing.assert_allclose(hand[:, 2], 0.333 + 0.316 + 0.384 - 0.107 - 0.035, atol=1e-6)


def test_how_deep_a_rod_reaches_into_a_box_is_what_many_points_of_it_say():
    rng = np.random.default_rng(1)
    body = Capsule("rod", 1, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.05)
    ends = rng.uniform(-0.3, 0.3, (200, 1, 2, 3))
    low, high = np.array([-0.1, -0.02, -0.2]), np.array([0.1, 0.02, 0.1])
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    sampled = [
        0.05 - truth.box_distance(rod[0, 0] + share * (rod[0, 1] - rod[0, 0]), low, high).min()
        for rod in ends
    ]
    depth = truth.depth_in_box(ends, np.array([body.radius_m]), low, high)
    np.testing.assert_allclose(depth, sampled, atol=1e-3)


def test_crossing_a_thin_box_is_no_leaving_of_it():
    low, high = np.array([0.0, -1.0, -1.0]), np.array([0.04, 1.0, 1.0])
    x = np.concatenate((np.linspace(-0.05, 0.09, 141), np.full(5, 0.09)))
    way = np.stack((x, np.zeros_like(x), np.zeros_like(x)), axis=1)
    assert truth.progress_through(way, low, high).max() == pytest.approx(0.039, abs=2e-3)
    back = np.concatenate((way[:60], way[:60][::-1]))
    assert truth.progress_through(back, low, high).max() == pytest.approx(0.009, abs=2e-3)
