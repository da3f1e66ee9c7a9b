"""A person is shown what a classifier doubts in a log, with its pictures and what it was recorded
as; on the page each key and button says its verdict.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl.classifier.review import read_verdicts
from robot_rl.classifier.score import Rule
from robot_rl.links.console_link import from_jpeg
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, Mark, MarkKind, SpaceSpec
from tests.links.test_console_link import a_step
from tests.teleop.benches import require

require("viser")

from robot_rl.tools.review import Review  # noqa: E402

SPACE = SpaceSpec.unnamed(
    {"image/wrist": ((128, 96, 3), "uint8"), "state/tcp_pose": ((6,), "float32")}, 6
)
LENGTH = 11


class Brightness:
    """It takes a bright picture for success."""

    rule = Rule(0.5, 0.4, 1)

    def probabilities(self, observations):
        return np.array([each["image/wrist"].mean() / 250.0 for each in observations])


JUDGE: Any = Brightness()


@pytest.fixture
def log(tmp_path):
    """Episodes 0 and 1 end in success and in time, 2 is discarded; frames get brighter."""
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE, run="a run") as written:
        for episode in range(3):
            for index in range(LENGTH):
                last = index == LENGTH - 1
                step = replace(a_step(index, level=20 * index), episode=episode)
                won = last and episode == 0
                truncated = last and not won
                written.append_step(replace(step, terminated=won, success=won, truncated=truncated))
        written.append_mark(Mark(MarkKind.DISCARD, 2))
    return path


def test_frames_are_shown_with_what_was_recorded_and_verdicts_name_them(log, tmp_path):
    review = Review(tmp_path, JUDGE, [log], 4)
    texts = [card.text for card in review.cards]
    assert texts[0].startswith("80.0% probable, recorded as no success, which is the opposite")
    assert "episode 1 of local, step 10, run a run" in texts[0], "the surest that disagrees"
    assert "episode 0" in texts[1] and "recorded as neither" in texts[1], "nearest to the threshold"
    assert not any("episode 2" in text for text in texts), "it does not count"
    for card, level in zip(review.cards[:2], (200, 120), strict=True):
        assert (
            abs(float(from_jpeg(np.frombuffer(card.views["wrist"], np.uint8)).mean()) - level) < 3
        )
    review.say(0, True)
    (said,) = read_verdicts(tmp_path)
    assert (said.run, said.actor, said.episode, said.index) == ("a run", "local", 1, 10)
    assert review.verdict(0) == "success" and review.verdict(1) == ""
    assert (review.undo(), review.undo()) == (0, None) and review.verdict(0) == ""


def test_frames_that_were_labelled_one_by_one_are_shown_with_their_labels(log, tmp_path):
    outcomes = log.rename(tmp_path / "outcomes.log")
    with StepLog(outcomes, SPACE, run="a run") as written:
        for index in range(LENGTH):
            step = replace(a_step(index, level=20 * index), episode=3, t_monotonic=float(index))
            written.append_step(replace(step, reward=float(index >= 5)))
    texts = [card.text for card in Review(tmp_path, JUDGE, [outcomes], 100).cards]
    assert any("episode 3" in text and "recorded as success" in text for text in texts)
    assert any("episode 3" in text and "recorded as no success" in text for text in texts)


def test_where_there_is_nothing_to_look_at_it_says_so(tmp_path):
    StepLog(tmp_path / "steps.log", SPACE).close()
    for sources in ([], [tmp_path / "steps.log"]):
        with pytest.raises(ConfigError, match="no frame to look at"):
            Review(tmp_path, JUDGE, sources, 4)


def test_keys_and_buttons_say_verdicts_on_the_frame_that_is_shown(browser, log, tmp_path):
    from robot_rl.console.review import ReviewPage

    review = Review(tmp_path, JUDGE, [log], 4)
    shown = ReviewPage("test", review.cards, review, token="a token for tests")
    page = browser.new_page()
    try:
        page.set_default_timeout(60_000.0)
        assert page.goto(shown.url.partition("?")[0]).status == 403
        page.goto(shown.url)
        card = page.locator("#robot-rl-card")
        card.get_by_text("1 of 4").wait_for()
        assert card.locator("img").count() == 1
        page.keyboard.press("n")
        card.get_by_text("2 of 4").wait_for()
        page.get_by_role("button", name="Success").first.click()
        card.get_by_text("3 of 4").wait_for()
        page.keyboard.press("l")
        card.get_by_text("4 of 4").wait_for()
        page.keyboard.press("u")
        card.get_by_text("3 of 4").wait_for()
        page.keyboard.press("b")
        card.get_by_text("2 of 4: success").wait_for()
        assert [review.verdict(i) for i in range(4)] == ["no success", "success", "", ""]
        assert len(read_verdicts(tmp_path)) == 2
    finally:
        page.close()
        shown.close()
