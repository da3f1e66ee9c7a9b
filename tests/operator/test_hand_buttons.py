"""The page's buttons of a hand: pressed, that hand is the operator's and nothing else, whatever
their device drives; a page that is gone holds nothing.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from robot_rl.links import hand_buttons
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.types import (
    AXES,
    CLOSE,
    OPEN,
    ActionSpec,
    Array,
    LinkError,
    Provenance,
    TeleopEvent,
    TeleopMapping,
)
from tests.hands import Hand, arm_at, still

NAMES = tuple(
    name for arm in ("left", "right") for name in (*(f"{arm}.{a}" for a in AXES), f"{arm} hand")
)
SPEC = ActionSpec(NAMES, (6, 13))
PROPOSED = np.linspace(0.1, 0.5, SPEC.size, dtype=np.float32)
ARMS = (arm_at(0.0), arm_at(0.0))


@pytest.fixture
def pages(desk: ConsoleLink) -> Iterator[list[ConsoleLinkClient]]:
    """Two pages beside the actor's desk; a press counts until the test says otherwise."""
    desk.hand_buttons.listen({NAMES[i]: i for i in SPEC.discrete})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hand_buttons, "PRESSED_S", 1e3)
        opened = [ConsoleLinkClient(desk.address) for _ in range(2)]
        yield opened
        for page in opened:
            page.close()


def decided(intervention: Intervention) -> tuple[Array, Provenance]:
    return intervention.decide(PROPOSED, ARMS)


def test_pressed_on_two_pages_each_hand_is_the_operators_and_the_policy_goes_on(desk, pages):
    intervention = Intervention(None, desk=desk)
    intervention.begin_episode()
    pages[0].press("right hand", "close")
    pages[1].press("left hand", "open")
    action, author = decided(intervention)
    assert author == Provenance.HUMAN and intervention.segments == 1
    theirs = np.isin(np.arange(SPEC.size), SPEC.discrete)
    np.testing.assert_array_equal(intervention.corrected, theirs)
    np.testing.assert_array_equal(action[theirs], [OPEN, CLOSE])
    np.testing.assert_array_equal(action[~theirs], PROPOSED[~theirs])


def test_beside_a_device_it_adds_the_hand_to_what_that_drives(desk, pages):
    device = Hand([still(0.5)] * 2)
    intervention = Intervention(Operator(device, actions=SPEC), desk=desk)
    intervention.begin_episode()
    pages[0].press("right hand", "close")
    action, _ = decided(intervention)
    np.testing.assert_allclose(action[:6], 0.5)
    np.testing.assert_array_equal(action[7:13], PROPOSED[7:13])
    assert action[13] == CLOSE


def test_both_buttons_of_a_hand_are_none_and_so_is_one_that_nobody_says_any_more(
    desk, pages, monkeypatch
):
    intervention = Intervention(None, desk=desk)
    intervention.begin_episode()
    for page, button in zip(pages, ("open", "close"), strict=True):
        page.press("left hand", button)
    assert decided(intervention)[1] == Provenance.POLICY
    pages[0].press("right hand", "open")
    assert decided(intervention)[1] == Provenance.HUMAN
    monkeypatch.setattr(hand_buttons, "PRESSED_S", 0.0)  # the page died with the button down
    action, author = decided(intervention)
    assert author == Provenance.POLICY and action is PROPOSED


def test_one_that_is_down_when_an_episode_begins_counts_once_it_was_let_go(
    desk, pages, monkeypatch
):
    intervention = Intervention(None, desk=desk)
    pages[0].press("left hand", "close")
    intervention.begin_episode()
    pages[0].press("left hand", "close")
    assert decided(intervention)[1] == Provenance.POLICY
    with monkeypatch.context() as patch:
        patch.setattr(hand_buttons, "PRESSED_S", 0.0)
        assert decided(intervention)[1] == Provenance.POLICY
    pages[0].press("left hand", "close")
    assert decided(intervention)[1] == Provenance.HUMAN


def test_who_is_locked_out_moves_no_hand_and_ends_a_motion_that_yields(desk, pages):
    pages[0].press("left hand", "close")
    action, author = decided(Intervention(None, desk=desk, locked_out=True))
    assert author == Provenance.POLICY and action is PROPOSED
    wandering = Intervention(None, desk=desk, locked_out=True, yields=True)
    assert not decided(wandering)[0].any() and wandering.taken


def test_a_lost_device_ends_its_own_correction_and_none_of_the_page(desk, pages):
    gone = TeleopEvent(False, np.zeros(6), problem="unplugged")
    device = Hand([gone, gone, gone, still(0.5), gone], TeleopMapping())
    intervention = Intervention(Operator(device, actions=SPEC), desk=desk)
    intervention.begin_episode()
    assert decided(intervention)[1] == Provenance.POLICY
    pages[0].press("left hand", "open")
    assert [decided(intervention)[1] for _ in range(2)] == [Provenance.HUMAN] * 2
    assert not intervention.ends
    decided(intervention)
    assert not decided(intervention)[0].any()
    ends: str = intervention.ends
    assert ends == "unplugged"


@pytest.mark.parametrize("hand", ["hand", "", None, 3, ["left hand"], "x" * 10_000])
def test_a_hand_that_nobody_moves_is_refused_and_those_that_there_are_named(pages, hand):
    with pytest.raises(LinkError, match=r"nobody moves a hand .*; allowed: left hand, right hand"):
        pages[0].press(hand, "open")


@pytest.mark.parametrize("button", ["stay", "", None, -1.0, {"open": 1}])
def test_a_button_that_there_is_not_is_refused(desk, pages, button):
    with pytest.raises(LinkError, match="a hand is told open, close, not"):
        pages[0].press("left hand", button)
    assert not desk.hand_buttons.orders()
