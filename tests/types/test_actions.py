"""Laws of an action's names: every subset of the axes goes into moves and back, and what differs is
told apart.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.types import AXES, CLOSE, OPEN, STAY, ActionSpec, DataError

ARM = st.tuples(st.lists(st.sampled_from(AXES), min_size=1, unique=True), st.booleans())


def spec_of(arms) -> ActionSpec:
    """For each arm the axes that are freed, and whether its gripper is moved."""
    names, discrete = list[str](), list[int]()
    for number, (axes, moved) in enumerate(arms):
        names += [f"arm{number}.{axis}" for axis in AXES if axis in axes]
        if moved:
            discrete.append(len(names))
            names.append(f"hand{number}")
    return ActionSpec(tuple(names), tuple(discrete))


@given(st.lists(ARM, min_size=1, max_size=3), st.integers(0, 99))
def test_an_action_becomes_moves_and_choices_and_these_the_action(arms, seed):
    spec, rng = spec_of(arms), np.random.default_rng(seed)
    action = rng.uniform(-1.0, 1.0, spec.size).astype(np.float32)
    choices = rng.choice([CLOSE, STAY, OPEN], len(spec.discrete))
    action[list(spec.discrete)] = choices
    moves = spec.moves(action)
    assert moves.shape == (len(arms), 6)
    for row, (axes, _) in zip(moves, arms, strict=True):
        assert not row[[axis not in axes for axis in AXES]].any()
    np.testing.assert_array_equal(spec.choices(action), choices)
    np.testing.assert_array_equal(spec.pick(moves, spec.choices(action)), action)
    assert [arms[i][1] for i in spec.holders] == [True] * len(spec.discrete)
    assert sorted((*spec.continuous, *spec.discrete)) == list(range(spec.size))
    assert ActionSpec.from_json(json.loads(json.dumps({"actions": spec.to_json()}))) == spec


def test_a_choice_is_the_nearest_of_the_three():
    spec = ActionSpec(("a.x", "hand"), (1,))
    wanted = [(-7.0, CLOSE), (-0.6, CLOSE), (-0.4, STAY), (0.3, STAY), (0.51, OPEN), (2.0, OPEN)]
    assert [spec.choices([0.0, said])[0] for said, _ in wanted] == [
        nearest for _, nearest in wanted
    ]


def test_an_action_of_another_size_is_an_error():
    for size in (0, 3, 6):
        with pytest.raises(ValueError, match="reshape"):
            ONE.moves(np.zeros(size))


FOUR = ("x", "y", "z", "rz")
ONE = ActionSpec(tuple(f"panda.{axis}" for axis in FOUR))


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        (ActionSpec(tuple(f"fr3.{axis}" for axis in FOUR)), True),  # the same arm by another name
        (ActionSpec(tuple(f"panda.{axis}" for axis in reversed(FOUR))), False),
        (ActionSpec(tuple(f"panda.{axis}" for axis in AXES[:4])), False),
        (ActionSpec((*ONE.names, "hand"), (4,)), False),
        (ActionSpec.unnamed(4), False),
    ],
)
def test_two_specs_fit_if_their_numbers_mean_the_same(other, fits):
    assert ONE.fits(other) is fits and other.fits(ONE) is fits


def test_six_axes_of_one_arm_fit_what_had_no_names():
    named = ActionSpec(tuple(f"panda.{axis}" for axis in AXES))
    assert named.fits(ActionSpec.unnamed(6)) and named.plain == ()
    two = ActionSpec(tuple(f"{arm}.{axis}" for arm in ("left", "right") for axis in AXES))
    turned = ActionSpec(tuple(f"{arm}.{axis}" for arm in ("right", "left") for axis in AXES))
    assert not two.fits(turned)


@pytest.mark.parametrize(
    "damaged",
    [
        {"actions": {"names": ["a.x", "a.x"], "discrete": []}},
        {"actions": {"names": ["a.x", "hand"], "discrete": []}},
        {"actions": {"names": ["a.x"], "discrete": [1]}},
        {"actions": {"names": ["a.x", "b", "c"], "discrete": [2, 1]}},
        {"actions": {"names": ["a.x", "b"], "discrete": [True]}},
        {"actions": {"names": "xyz", "discrete": []}},
        {"actions": {"names": [["a.x"]], "discrete": []}},
        {"actions": {"names": ["a.x"]}},
        {"actions": 7, "action_size": 6},
        {"action_size": "6"},
        {"action_size": -1},
        {"action_size": 1 << 40},
        {},
        [],
    ],
)
def test_what_is_no_spec_is_a_data_error(damaged):
    with pytest.raises(DataError):
        ActionSpec.from_json(damaged)
