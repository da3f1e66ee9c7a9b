"""What the page says of a sight: who acts, faults in red, whoever is silent by name, and nothing as markup."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.console.watch import History, Sight
from robot_rl.transport.desk import View
from robot_rl.types import Fault
from tests.hands import arm_at
from tests.teleop.benches import require

require("viser")

from robot_rl.console.page import CELL, history_html, montage, status_html  # noqa: E402

STEP = {
    "episode": 3,
    "index": 7,
    "author": "human",
    "reward": 0.0,
    "terminated": False,
    "late_s": 0.004,
}


def view(**facts) -> View:
    return View(1, {"phase": "acting", "rate_hz": 10.0} | facts, STEP, {})


def test_who_acts_and_where_the_run_stands():
    said = status_html(Sight(view(demos=2, wanted=20, attempts=3), [arm_at(0.0)], learner={"q": 0.25}))
    for word in ("operator", "3, 7", "2 of 20, 3 attempts", "10.0 Hz, 4 ms", "0.250", "0.500 0.000 0.070 m"):
        assert word in said
    assert "FAULT" not in said


def test_faults_and_the_silent_are_named_and_nothing_is_markup():
    arm = replace(arm_at(0.0), fault=Fault.FORCE, reason="<b>63 N</b>")
    said = status_html(Sight(view(phase="waiting", reason="<script>"), [arm], problems={"actor": "silent"}))
    assert "FAULT FORCE: &lt;b&gt;63 N&lt;/b&gt;" in said and "actor does not answer" in said and "waiting" in said
    assert "<script>" not in said and "<b>" not in said


def test_what_a_person_has_to_do_and_how_many_frames_there_are():
    said = status_html(Sight(view(phase="needs a human", reason="put the stick back")))
    assert ">needs a human<" in said and said.index("put the stick back") < said.index("episode, step"), "as an alarm"
    counts = {"positives": 3, "wanted_positives": 20, "negatives": 40, "wanted_negatives": 100}
    said = status_html(Sight(view(**counts)))
    assert "3 of 20" in said and "40 of 100" in said and "demonstrations" not in said


def test_a_reward_that_is_no_number_is_shown_as_that():
    shown = View(1, {"phase": "acting", "rate_hz": 10.0}, STEP | {"reward": None}, {})
    assert "nan" in status_html(Sight(shown))


def test_a_judge_that_weighs_says_how_sure_it_is():
    shown = View(1, {"phase": "acting", "rate_hz": 10.0}, STEP | {"probability": 0.934}, {})
    assert "0, success 93% probable" in status_html(Sight(shown))
    assert "probable" not in status_html(Sight(view())), "this one does not weigh"


def test_of_several_arms_each_is_named():
    left, right = arm_at(0.0), replace(arm_at(0.0), fault=Fault.FORCE, reason="63 N")
    said = status_html(Sight(None, [left, right], ["left", "right"]))
    assert "left: tool" in said and "right: tool" in said and "right: FAULT FORCE: 63 N" in said
    assert "right: tool" not in status_html(Sight(None, [left, None], ["left", "right"]))


def test_an_evaluation_says_how_far_it_is_and_what_it_has_come_to():
    said = status_html(Sight(view(evaluated=4, wanted=20, succeeded=3)))
    assert "greedy policy" in said and "4 of 20 episodes: 75% succeeded (95 % interval 30% to 95%)" in said
    assert "sampled policy" in status_html(Sight(view(evaluated=4, wanted=20, succeeded=3, sampled=True)))
    assert "0 of 20 episodes<" in status_html(Sight(view(evaluated=0, wanted=20, succeeded=0)))


def test_before_anything_is_known_there_is_a_page():
    assert "robot-rl-status" in status_html(Sight()) and "no episode yet" in history_html(History())


def test_the_rate_is_of_those_that_nobody_helped():
    said = history_html(History(episodes=10, successes=8, successes_alone=3, episodes_alone=4))
    assert "75%" in said and "of 4 episodes" in said and "8 of all 10" in said and "95 % interval 30% to 95%" in said


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (2, 2)), (4, (2, 2))])
def test_views_stand_two_in_a_row(count, shape):
    images = {f"camera{i}": np.full((64, 128, 3), 200, np.uint8) for i in range(count)}
    assert montage(images).shape == (shape[0] * CELL, shape[1] * CELL, 3)
