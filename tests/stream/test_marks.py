"""Laws of the mark's bytes: what goes in comes out, and nothing else gets in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.stream.codec import MARK_BYTES, decode_mark, encode_mark
from robot_rl.types import DataError, Mark, MarkKind

COUNTS = st.integers(-1, 2**63 - 1)
MARKS = st.builds(
    Mark,
    kind=st.sampled_from(MarkKind),
    episode=COUNTS,
    reward=st.floats(allow_nan=False, allow_infinity=False),
    reason=st.text(max_size=40),
    actor=st.sampled_from(["", "left", "links-außen"]),
    epoch=COUNTS,
    last_seq=COUNTS,
    t_wall=st.floats(0, 1e10),
)


@given(mark=MARKS)
def test_a_mark_comes_back_as_it_was(mark):
    assert decode_mark(encode_mark(mark)) == mark


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": "applause"}, "there are: undo, discard"),
        ({"kind": None}, "there are: undo"),
        ({"reward": float("nan")}, "reward is nan"),
        ({"reward": "1"}, "reward is '1'"),
        ({"reward": True}, "reward is True"),
        ({"episode": -2}, "episode is -2"),
        ({"episode": 1.5}, "episode is 1.5"),
        ({"epoch": 2**63}, "epoch is"),
        ({"actor": "x" * 40}, "name of an actor"),
        ({"actor": 3}, "actor is 3"),
        ({"volume": 3}, "knows no volume; it has: kind, episode"),
    ],
)
def test_nonsense_is_refused_by_name(changes, says):
    with pytest.raises(DataError, match=says):
        decode_mark(json.dumps({"kind": "undo"} | changes).encode())


def test_nonsense_is_refused_where_it_is_made():
    with pytest.raises(DataError, match="reward is inf"):
        encode_mark(Mark(MarkKind.SUCCESS, 3, reward=float("inf")))
    with pytest.raises(DataError, match="shorten"):
        encode_mark(Mark(MarkKind.TRUNCATED, reason="x" * MARK_BYTES))


@given(
    message=st.binary(max_size=100)
    | st.sampled_from([b"[]", b"3", b"null", b"[" * 3000, b" " * 5000])
)
def test_garbage_is_a_data_error(message):
    with pytest.raises(DataError):
        decode_mark(message)
