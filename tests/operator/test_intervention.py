"""One correction is one segment, decided before the step."""

import numpy as np
import pytest

from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.types import OperatorCommand, Provenance, TeleopMapping
from tests.hands import OPEN, Hand, arm_at, still

ARMS = (arm_at(0.0),)
PROPOSED = np.full(6, 0.5, np.float32)


def authors(script: str, release_s: float) -> tuple[str, Intervention]:
    """Who acts at each letter of the script, ten of them a second: h = the clutch is held, . = it
    is open.
    """
    hand = Hand(
        (still() if letter == "h" else OPEN for letter in script),
        TeleopMapping(release_s=release_s),
    )
    intervention = Intervention(Operator(hand))
    intervention.begin_episode()
    decided = [intervention.decide(PROPOSED, (arm_at(0.1 * i),))[1] for i in range(len(script))]
    return "".join("h" if author == Provenance.HUMAN else "p" for author in decided), intervention


@pytest.mark.parametrize(
    ("script", "release_s", "expected", "segments"),
    [
        ("....", 0.15, "pppp", 0),
        ("..hh....", 0.15, "pphhhppp", 1),
        ("hh.hh...", 0.15, "hhhhhhpp", 1),
        ("h..h....", 0.15, "hhphhppp", 2),
        ("h..h....", 0.35, "hhhhhhhp", 1),
        ("hhhh.", 0.0, "hhhhp", 1),
    ],
)
def test_the_clutchs_release_alone_says_how_long_a_correction_outlasts_the_hand(
    script, release_s, expected, segments
):
    decided, intervention = authors(script, release_s)
    assert decided == expected
    assert intervention.segments == segments


def test_without_an_operator_the_policy_acts():
    action, author = Intervention(None).decide(PROPOSED, ())
    assert author == Provenance.POLICY
    np.testing.assert_array_equal(action, PROPOSED)


def test_the_operators_action_is_bounded_like_the_policys_and_held_steps_do_not_move():
    intervention = Intervention(Operator(Hand([still(2.0), OPEN], TeleopMapping(release_s=0.3))))
    intervention.begin_episode()
    np.testing.assert_array_equal(intervention.decide(PROPOSED, ARMS)[0], np.ones(6))
    np.testing.assert_array_equal(intervention.decide(PROPOSED, ARMS)[0], np.zeros(6))


def test_between_two_episodes_a_stop_is_heard_at_once_and_words_on_the_last_one_are_kept_for_the_next():
    hand = Hand()
    intervention = Intervention(Operator(hand))
    hand.earlier = [OperatorCommand.DISCARD]
    assert not intervention.hears_stop()
    hand.earlier = [OperatorCommand.STOP, OperatorCommand.UNDO]
    assert [intervention.hears_stop() for _ in range(2)] == [True, False]
    intervention.begin_episode()
    assert (intervention.take_on_last(), intervention.stopped) == (
        (OperatorCommand.DISCARD, OperatorCommand.UNDO),
        False,
    )
    hand.earlier = [OperatorCommand.STOP]  # while the arm went to its start
    intervention.begin_episode()
    assert (intervention.take_on_last(), intervention.stopped) == ((), True)
