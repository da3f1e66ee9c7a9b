"""How far what a hand holds has been carried: by one arm, and from hand to hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import geometry
from robot_rl.env.grasps import Grasps

numbers = st.floats(-0.2, 0.2)
poses = st.tuples(*[numbers] * 6).map(lambda v: geometry.pose_from_vector(np.array(v)))
BASES = [(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), (0.8, 0.0, 0.1, 0.0, 0.0, 1.0, 0.0)]


def of_bench(pose, arm):
    """A pose on the bench, as the arm has it in its base."""
    return geometry.pose_multiply(geometry.pose_inverse(np.array(BASES[arm])), pose)


def see(grasps, tools, holding):
    grasps.see([of_bench(tool, arm) for arm, tool in enumerate(tools)], holding)


@given(*[poses] * 5)
def test_what_is_handed_over_was_taken_where_the_first_hand_took_it(taken, met, grip, end, far):
    grasps = Grasps(BASES)
    see(grasps, [taken, far], [])
    see(grasps, [taken, far], [0])
    second = geometry.pose_multiply(met, grip)  # how the second hand holds the first one's thing
    see(grasps, [met, second], [0])
    np.testing.assert_allclose(grasps.carried(0), geometry.pose_delta(taken, met), atol=1e-9)
    see(grasps, [met, second], [0, 1])
    np.testing.assert_allclose(grasps.carried(1), 0.0, atol=1e-9)
    see(grasps, [met, second], [1])
    see(grasps, [far, end], [1])
    assert not grasps.carried(0).any()
    # where the second hand would have held the thing, where that lay
    there = geometry.pose_multiply(taken, grip)
    np.testing.assert_allclose(grasps.carried(1), geometry.pose_delta(there, end), atol=1e-9)
    see(grasps, [taken, end], [0, 1])  # another thing: the second hand holds what it has
    np.testing.assert_allclose(grasps.carried(1), geometry.pose_delta(there, end), atol=1e-9)


@given(*[poses] * 4)
def test_two_hands_with_two_things_carry_each_its_own(first, second, end, away):
    grasps = Grasps(BASES)
    see(grasps, [first, second], [0])
    see(grasps, [first, second], [0, 1])
    moved = first + np.array([0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # the one alone
    see(grasps, [moved, second], [0, 1])
    see(grasps, [away, end], [1])
    assert not grasps.carried(0).any()
    np.testing.assert_allclose(grasps.carried(1), geometry.pose_delta(second, end), atol=1e-9)
    see(grasps, [away, end], [])
    assert not grasps.carried(1).any()
