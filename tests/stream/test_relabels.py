"""When a learned judge is to be fitted again: a function of what the operator has said."""

import pytest

from robot_rl.stream.relabels import WORDS, Refits
from robot_rl.types import Mark, MarkKind, RecordId

SAID = RecordId("console", 1, 0)


@pytest.mark.parametrize(
    ("kind", "index", "wanted"),
    [
        (MarkKind.DENY, -1, 5),  # it took for a success what is none
        (MarkKind.SUCCESS, -1, 5),  # it did not see one: else nobody has to say so
        (MarkKind.SUCCESS, 3, 20),  # an answer: it was not sure
        (MarkKind.FAILURE, -1, 20),
    ],
)
def test_a_judge_that_is_found_out_is_fitted_again_four_times_as_soon(
    kind: MarkKind, index: int, wanted: int
) -> None:
    refits = Refits(block_steps=50)
    for said in range(wanted):
        assert not refits.fit_due, said
        refits.hear(SAID, Mark(kind, episode=said, index=index))
    assert refits.fit_due and refits.words >= WORDS


def test_what_is_no_word_on_an_outcome_brings_no_fit() -> None:
    refits = Refits(block_steps=50)
    for kind in (MarkKind.DISCARD, MarkKind.UNDO, MarkKind.GAP, MarkKind.TRUNCATED):
        for said in range(WORDS):
            refits.hear(SAID, Mark(kind, episode=said))
    assert not refits.fit_due
