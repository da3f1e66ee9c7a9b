"""One correction is one segment, decided before the step."""

import numpy as np
import pytest

from robot_rl.actor.intervene import Intervention
from robot_rl.types import Provenance, TeleopReading

PROPOSED = np.full(6, 0.5, np.float32)


class Hand:
    """An operator whose clutch follows a script, one letter per step: h = held, . = open."""

    def __init__(self, script: str):
        self._script = iter(script)

    def begin_episode(self):
        pass

    def read(self, arms):
        return TeleopReading(next(self._script) == "h", np.full(6, 2.0))

    def close(self):
        pass


def authors(script: str, release_steps: int) -> tuple[str, Intervention]:
    intervention = Intervention(Hand(script), release_steps)
    intervention.begin_episode()
    decided = [intervention.decide(PROPOSED, ())[1] for _ in script]
    return "".join("h" if author == Provenance.HUMAN else "p" for author in decided), intervention


@pytest.mark.parametrize(
    ("script", "release_steps", "expected", "segments"),
    [
        ("....", 1, "pppp", 0),
        ("..hh....", 1, "pphhhppp", 1),
        ("hh.hh...", 1, "hhhhhhpp", 1),
        ("h..h....", 1, "hhphhppp", 2),
        ("h..h....", 3, "hhhhhhhp", 1),
        ("hhhh", 0, "hhhh", 1),
    ],
)
def test_a_short_release_of_the_clutch_does_not_split_a_correction(script, release_steps, expected, segments):
    decided, intervention = authors(script, release_steps)
    assert decided == expected
    assert intervention.segments == segments


def test_without_an_operator_the_policy_acts():
    action, author = Intervention(None).decide(PROPOSED, ())
    assert author == Provenance.POLICY
    np.testing.assert_array_equal(action, PROPOSED)


def test_the_operators_action_is_bounded_like_the_policys_and_held_steps_do_not_move():
    intervention = Intervention(Hand("h."), release_steps=1)
    intervention.begin_episode()
    np.testing.assert_array_equal(intervention.decide(PROPOSED, ())[0], np.ones(6))
    np.testing.assert_array_equal(intervention.decide(PROPOSED, ())[0], np.zeros(6))
