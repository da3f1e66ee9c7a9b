"""Laws of the step's bytes: what goes in comes out, and nothing else gets in."""

import contextlib
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import packing
from robot_rl.stream.codec import SCHEMA, StepCodec, space_from_json, space_hash, space_json
from robot_rl.types import DataError, Provenance, SpaceSpec, Step
from tests.helpers import SPACE as SPACE
from tests.helpers import make_step as make_step


def assert_same(a: Step, b: Step) -> None:
    for field in fields(Step):
        if field.name != "observation":
            np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))
    assert set(a.observation) == set(b.observation)
    for name, array in a.observation.items():
        assert b.observation[name].dtype == array.dtype
        np.testing.assert_array_equal(array, b.observation[name])


@pytest.mark.parametrize("reward", [1.0, 0.0])
@pytest.mark.parametrize("terminated", [True, False])
def test_a_step_of_schema_1_succeeded_where_it_ended_with_a_reward(terminated, reward):
    """As it was written then: two bytes that were not used yet are 0."""
    new = make_step(terminated=terminated, truncated=not terminated, reward=reward)
    message = bytearray(StepCodec(SPACE).encode(replace(new, success=True, cut_short=True)))
    assert message[4] == SCHEMA and message[9:11] == b"\1\1"
    message[4], message[9:11] = 1, b"\0\0"
    assert_same(
        StepCodec(SPACE).decode(bytes(message)), replace(new, success=terminated and reward > 0.0)
    )


def test_step_comes_back_as_it_was():
    step, codec = make_step(success=True, cut_short=True), StepCodec(SPACE)
    message = codec.encode(step)
    assert len(message) == codec.size
    assert_same(step, codec.decode(message))


def test_decoded_arrays_cannot_be_written():
    step = StepCodec(SPACE).decode(StepCodec(SPACE).encode(make_step()))
    with pytest.raises(ValueError, match="read-only"):
        step.observation["image/wrist"][0] = 1


def test_order_of_names_does_not_matter():
    turned = SpaceSpec.unnamed(
        {name: SPACE.observations[name] for name in ("image/wrist", "state/tcp_pose")}, 6
    )
    assert space_hash(turned) == space_hash(SPACE)
    assert_same(make_step(), StepCodec(turned).decode(StepCodec(SPACE).encode(make_step())))


def test_space_survives_json():
    assert space_from_json(space_json(SPACE)) == SpaceSpec.unnamed(dict(SPACE.observations), 6)
    with pytest.raises(DataError):
        space_from_json({"observations": 3})


def test_message_of_another_space_says_what_differs():
    other = SpaceSpec.unnamed(
        {"state/tcp_pose": ((7,), "float32"), "image/front": ((4, 5, 3), "uint8")}, 6
    )
    with pytest.raises(DataError) as error:
        StepCodec(SPACE).decode(StepCodec(other).encode(make_step(space=other)))
    for part in (
        "'image/wrist' is missing",
        "'image/front' is not in the space",
        "float32 (7,) and should be float32 (6,)",
    ):
        assert part in str(error.value)


def test_more_actions_than_the_space_are_refused():
    with pytest.raises(DataError, match="commanded action"):
        StepCodec(SPACE).encode(make_step(commanded=np.zeros(7)))


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"reward": float("nan")}, "reward"),
        ({"index": -1}, "index"),
        ({"executed": np.full(6, np.inf)}, "executed"),
        ({"observation": {}}, "nothing"),
    ],
)
def test_wrong_step_is_refused_where_it_is_made(changes, word):
    with pytest.raises(DataError, match=word):
        StepCodec(SPACE).encode(make_step(**changes))


def test_wrong_dtype_is_refused():
    step = make_step()
    wrong = {**step.observation, "state/tcp_pose": np.zeros(6)}
    with pytest.raises(DataError, match="float64"):
        StepCodec(SPACE).encode(make_step(observation=wrong))


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data):
    with pytest.raises(DataError):
        StepCodec(SPACE).decode(data)
    with contextlib.suppress(DataError):
        packing.unpack(data)


@given(st.integers(0, StepCodec(SPACE).size - 1), st.integers(1, 255))
def test_damaged_step_is_refused_or_stays_in_the_space(at, flip):
    codec = StepCodec(SPACE)
    message = bytearray(codec.encode(make_step()))
    message[at] ^= flip
    try:
        step = codec.decode(bytes(message))
    except DataError:
        return
    codec.encode(step)


@given(st.integers(0, 600))
def test_shortened_step_is_refused(length):
    message = StepCodec(SPACE).encode(make_step())
    if length < len(message):
        with pytest.raises(DataError):
            StepCodec(SPACE).decode(message[:length])


EXAMPLES = [np.float32(3), np.zeros((0, 2)), np.arange(5), np.ones((2, 3), ">i4").T]


@given(st.dictionaries(st.text(max_size=8), st.sampled_from(EXAMPLES)))
def test_named_arrays_come_back(values):
    named = {name: np.asarray(value) for name, value in values.items()}
    back = packing.unpack(b"".join(packing.pack(named)))
    assert list(back) == list(named)
    for name, array in named.items():
        assert back[name].shape == array.shape
        np.testing.assert_array_equal(back[name], array)


def test_objects_do_not_travel():
    with pytest.raises(DataError, match="object"):
        packing.pack({"x": np.array([object()])})


TWO_ARMS = SpaceSpec.unnamed({"state/tcp_pose": ((6,), "float32")}, 14)


@given(st.lists(st.booleans(), min_size=14, max_size=14).filter(any))
def test_the_corrected_numbers_of_a_step_come_back_in_a_message_that_is_no_longer(corrected):
    codec = StepCodec(TWO_ARMS)
    step = make_step(space=TWO_ARMS, corrected=np.array(corrected))
    assert_same(step, codec.decode(codec.encode(step)))


def test_a_step_that_is_all_its_authors_is_of_the_same_bytes_as_in_schema_2():
    codec = StepCodec(TWO_ARMS)
    message = bytearray(codec.encode(make_step(space=TWO_ARMS)))
    assert message[11:16] == bytes(5) and message[4] == SCHEMA
    message[4] = 2
    assert codec.decode(bytes(message)).corrected is None


@pytest.mark.parametrize(
    ("author", "corrected"),
    [
        (Provenance.POLICY, [True] * 14),
        (Provenance.DEMO, [True] + [False] * 13),
        (Provenance.HUMAN, [False] * 14),
        (Provenance.HUMAN, [True] * 13),
    ],
)
def test_numbers_that_nobody_can_have_corrected_are_refused(author, corrected):
    step = make_step(space=TWO_ARMS, provenance=author, corrected=np.array(corrected))
    with pytest.raises(DataError, match="None says all"):
        StepCodec(TWO_ARMS).encode(step)


def test_a_number_behind_the_fortieth_is_not_corrected_alone():
    space = SpaceSpec.unnamed({}, 42)
    corrected = np.arange(42) == 39
    codec = StepCodec(space)
    step = make_step(space=space, corrected=corrected)
    assert_same(step, codec.decode(codec.encode(step)))
    with pytest.raises(DataError, match="the first 40 may be corrected in part"):
        codec.encode(replace(step, corrected=np.roll(corrected, 1)))


@pytest.mark.parametrize(("byte", "value"), [(8, 0), (12, 64), (15, 1)])
def test_damaged_corrections_are_refused(byte, value):
    """The author is no operator, or the number is none of the action."""
    codec = StepCodec(TWO_ARMS)
    message = bytearray(codec.encode(make_step(space=TWO_ARMS, corrected=np.arange(14) == 3)))
    message[byte] = value
    with pytest.raises(DataError, match="flags of a step are damaged"):
        codec.decode(bytes(message))
