"""What the page says of a sight: who acts, faults in red, whoever is silent by name, and nothing as
markup.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl.console.history import Ended, History
from robot_rl.console.model import Snapshot
from robot_rl.dataset.counts import Figures
from robot_rl.links.console_link import Question, View
from robot_rl.links.jpeg import VIEW_PIXELS, from_jpeg, to_jpeg
from robot_rl.links.status import RunStatus
from robot_rl.types import Fault
from tests.hands import arm_at
from tests.teleop.benches import require

require("viser")

from robot_rl.console.markup import (  # noqa: E402
    event_html,
    history_html,
    judge_rows,
    lamp_html,
    list_html,
    question_html,
    status_html,
)
from robot_rl.console.scene import CELL, titled  # noqa: E402

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
    said = status_html(
        Snapshot(
            view(demos=2, wanted=20, attempts=3), [arm_at(0.0)], learner=RunStatus(0.0, q=0.25)
        )
    )
    for word in (
        "operator",
        "2 of 20, 3 attempts",
        "10.0 Hz, 4 ms",
        "0.250",
        "0.500 0.000 0.070 m",
    ):
        assert word in said
    assert "FAULT" not in said


def test_faults_and_the_silent_are_named_and_nothing_is_markup():
    arm = replace(arm_at(0.0), fault=Fault.FORCE, reason="<b>63 N</b>")
    said = status_html(
        Snapshot(view(phase="waiting", reason="<script>"), [arm], problems={"actor": "silent"})
    )
    assert (
        "FAULT FORCE: &lt;b&gt;63 N&lt;/b&gt;" in said
        and "actor does not answer" in said
        and "waiting" in said
    )
    assert "<script>" not in said and "<b>" not in said


def test_what_a_person_has_to_do_and_how_many_frames_there_are():
    said = status_html(Snapshot(view(phase="needs a human", reason="put the stick back")))
    assert ">needs a human<" in said and said.index("put the stick back") < said.index("reward"), (
        "as an alarm"
    )
    counts = {"positives": 3, "wanted_positives": 20, "negatives": 40, "wanted_negatives": 100}
    said = status_html(Snapshot(view(**counts)))
    assert "3 of 20" in said and "40 of 100" in said and "demonstrations" not in said


def test_a_reward_that_is_no_number_is_shown_as_that():
    shown = View(1, {"phase": "acting", "rate_hz": 10.0}, STEP | {"reward": None}, {})
    assert "nan" in status_html(Snapshot(shown))


def test_a_judge_that_weighs_says_how_sure_it_is():
    shown = View(1, {"phase": "acting", "rate_hz": 10.0}, STEP | {"probability": 0.934}, {})
    assert "0, success 93% probable" in status_html(Snapshot(shown))
    assert "probable" not in status_html(Snapshot(view())), "this one does not weigh"


def test_a_judge_that_learns_shows_its_version_who_follows_it_and_how_often_it_doubts():
    facts = {"doubts": 4, "drift": "the judge doubts 30% of frames: has <a> camera moved?"}
    learner = RunStatus(0.0, reward_version=3, relabelled=120, to_relabel=14)
    step = STEP | {"probability": 0.5, "version": 3}
    shown = View(1, {"phase": "acting", "rate_hz": 10.0, **facts}, step, {})
    said = status_html(Snapshot(shown, learner=learner))
    assert "version 3; 120 episodes follow it, 14 do not yet" in said
    assert "50% probable (version 3)" in said and "doubtful moments</span> 4" in said
    assert "has &lt;a&gt; camera moved?" in said
    assert judge_rows({}, RunStatus(0.0)) == judge_rows({}, None) == []


def test_a_question_shows_the_moment_and_what_was_seen():
    said = question_html(Question(3, 7, 30, 0.55, 2, {"<wrist>": b"jpeg"}))
    assert "episode 7, step 30, 55% probable" in said and "anBlZw==" in said
    assert "<wrist>" not in said and 'data-number="3"' in said
    assert "probable" not in question_html(Question(3, 7, 30, None, 2, {}))


def test_of_several_arms_each_is_named():
    left, right = arm_at(0.0), replace(arm_at(0.0), fault=Fault.FORCE, reason="63 N")
    said = status_html(Snapshot(None, [left, right], ["left", "right"]))
    assert "left: tool" in said and "right: tool" in said and "right: FAULT FORCE: 63 N" in said
    assert "right: tool" not in status_html(Snapshot(None, [left, None], ["left", "right"]))


def test_each_hand_says_how_it_stands_and_its_fault_what_to_do():
    hand = {"name": "<b>left", "arm": "left", "width_m": 0.0461, "moving": True, "held": True}
    hands = [hand | {"reason": ""}, hand | {"name": "right", "width_m": None, "reason": "<jam>"}]
    for phase in ("acting", "needs a human"):
        shown = Snapshot(view(hands=hands, phase=phase))
        said, lamp = status_html(shown), lamp_html(shown)
        assert "&lt;b&gt;left</span> 46 mm open, moves, holds something" in said
        assert "right: FAULT: &lt;jam&gt;; look at it, then acknowledge it" in said
        assert "&lt;b&gt;left: 46 mm open" in lamp and "right: fault" in lamp
        assert "nan mm" in said, "a hand that was never read"


def test_an_evaluation_says_how_far_it_is_and_what_it_has_come_to():
    said = status_html(Snapshot(view(evaluated=4, wanted=20, succeeded=3)))
    assert (
        "greedy policy" in said
        and "4 of 20 episodes: 75% succeeded (95 % interval 30% to 95%)" in said
    )
    assert "sampled policy" in status_html(
        Snapshot(view(evaluated=4, wanted=20, succeeded=3, sampled=True))
    )
    assert "0 of 20 episodes<" in status_html(Snapshot(view(evaluated=0, wanted=20, succeeded=0)))


def test_before_anything_is_known_there_is_a_page():
    assert "robot-rl-status" in status_html(Snapshot()) and "no episodes yet" in history_html(
        History()
    )


def test_the_rate_is_of_all_that_were_judged_and_counts_those_that_nobody_helped():
    figures = Figures(episodes=10, successes=8, alone=3)
    said = history_html(History(12, figures, figures))
    assert "30% without help" in said and "last 10" in said and "8 in all" in said
    assert "95 % interval 11% to 60%" in said
    assert "no episodes yet" in history_html(History(episodes=2)), "both were cut short"


def test_the_lamp_says_who_has_hold_and_how_much_time_is_left():
    held = View(
        1, {"phase": "acting", "rate_hz": 10.0}, STEP | {"author": "demo", "held": True}, {}
    )
    assert "operator has hold" in lamp_html(Snapshot(held, left_s=4.2)) and "4 s left" in lamp_html(
        Snapshot(held, left_s=4.2)
    )
    open_clutch = replace(held, step=STEP | {"author": "demo", "held": False})
    assert "clutch open" in lamp_html(
        Snapshot(open_clutch)
    ) and "waits for the operator" in status_html(Snapshot(open_clutch))
    assert "resetting" in lamp_html(Snapshot(view(phase="resetting")))
    assert "&lt;b&gt;" in lamp_html(Snapshot(held, hint="<b>"))


def test_the_newest_episodes_are_listed_with_what_became_of_them():
    said = list_html(
        History(last=(Ended(7, "success, helped", 31, 2, True), Ended(6, "<i>", 9, 0, None)))
    )
    assert (
        said.index("success, helped") < said.index("&lt;i&gt;")
        and "2 corrected" in said
        and "31 steps" in said
    )


def test_what_happens_flashes_and_sounds_unless_sound_is_off():
    assert "<audio" in event_html("success", 1, sound=True) and "robot-rl-flash" in event_html(
        "fault", 2, sound=False
    )
    assert "<audio" not in event_html("success", 3, sound=False)


def test_a_run_in_which_nobody_acts_any_more_is_a_quiet_page():
    over = Snapshot(
        problems={"actor": "silent", "arm panda": "silent"},
        results=["evaluation, greedy: 9 of 10 succeeded"],
    )
    said = status_html(over)
    assert "at rest" in said and "9 of 10" in said and "does not answer" not in said
    stopped = replace(over, results=(), arms=[None])
    assert "at rest" in status_html(stopped) and "not evaluated yet" in status_html(stopped)
    assert "does not answer" in status_html(replace(stopped, arms=[arm_at(0.0)])), "an arm lives"
    assert "does not answer" in status_html(replace(stopped, results=None)), (
        "a bench has nothing that it came to"
    )


@pytest.mark.parametrize("shape", [(64, 128), (480, 640), (128, 96)])
def test_a_view_is_as_large_as_it_is_sent_in_its_own_shape(shape):
    view = titled(np.full((*shape, 3), 200, np.uint8), "front")
    assert (
        max(view.shape[:2]) == CELL
        and abs(view.shape[0] / view.shape[1] - shape[0] / shape[1]) < 0.01
    )


def test_a_line_of_a_picture_stays_a_line():
    assert titled(np.zeros((700, 1, 3), np.uint8), "front").shape == (CELL, 1, 3)
    small = from_jpeg(to_jpeg(np.zeros((1, 700, 3), np.uint8)))
    assert small.shape == (1, VIEW_PIXELS, 3)


def test_a_policy_at_work_says_so_and_what_it_has_come_to():
    policy = View(
        1, {"phase": "acting", "rate_hz": 10.0, "verb": "run"}, STEP | {"author": "policy"}, {}
    )
    said = status_html(
        Snapshot(
            replace(policy, facts={**policy.facts, "sampled": True, "episodes": 3, "succeeded": 2})
        )
    )
    assert (
        "sampled policy" in said
        and "3 episodes, 2 of them successes; nobody learns from them" in said
    )
    assert "greedy policy" in status_html(Snapshot(policy))
    helped = replace(policy, step=STEP | {"author": "human"})
    assert "operator" in status_html(Snapshot(helped)) and "greedy" not in status_html(
        Snapshot(helped)
    )
