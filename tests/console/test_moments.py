"""A person looks at the guide's demonstration step by step, and marks two moments of it."""

import json

import numpy as np
import pytest

from robot_rl.cli import main
from robot_rl.config.guide_marks import GuideMarks, read_marks, write_marks
from robot_rl.links.console_link import from_jpeg
from robot_rl.operator.guide import GuideOptions
from robot_rl.types import ConfigError, DataError
from tests.guided import guided_run
from tests.teleop.benches import require

require("viser")

from robot_rl.actor.loop import ActorConfig  # noqa: E402
from robot_rl.console.moments import Moment  # noqa: E402
from robot_rl.runs.moments import RunMoments  # noqa: E402

AS_FOUND = {"free space": (3, "found"), "firm contact": (11, "found")}


def test_a_step_is_shown_with_its_force_its_way_to_the_goal_and_its_pictures(tmp_path):
    moments = RunMoments(guided_run(tmp_path / "run", "pixels"))
    card = moments.card(5)
    assert card.text == "force on the tool 0.0 N; 36.0 mm to the goal"
    assert moments.card(11).text == "force on the tool 8.0 N; 0.0 mm to the goal"
    assert "wrist" in card.views
    for data in card.views.values():
        assert abs(float(from_jpeg(np.frombuffer(data, np.uint8)).mean()) - 100) < 3
    assert not RunMoments(guided_run(tmp_path / "blind")).card(5).views


def test_marks_that_do_not_fit_are_refused_and_the_file_stays_as_it_was(tmp_path):
    folder = guided_run(tmp_path / "run")
    moments = RunMoments(folder)
    assert moments.in_force() == AS_FOUND
    with pytest.raises(ConfigError, match="safe_step 3 and contact_step 2 do not fit"):
        moments.mark("firm contact", 2)
    assert not folder.guide_file.exists()
    moments.mark("firm contact", 9)
    assert moments.in_force() == AS_FOUND | {"firm contact": (9, "marked")}
    moments.mark("free space", 5)
    before = folder.guide_file.read_bytes()
    assert json.loads(before) == {
        "demonstration": moments.name, "safe_step": 5, "contact_step": 9
    }  # fmt: skip
    refused: tuple[tuple[Moment, int], ...] = (("free space", 9), ("firm contact", 5))
    for moment, step in refused:
        with pytest.raises(ConfigError, match="do not fit a demonstration of 11 steps"):
            moments.mark(moment, step)
    assert folder.guide_file.read_bytes() == before
    assert RunMoments(folder).in_force()["free space"] == (5, "marked")
    moments.forget()
    assert moments.in_force() == AS_FOUND and not folder.guide_file.exists()


def test_what_the_runs_options_say_is_in_force_whatever_is_marked(tmp_path):
    folder = guided_run(tmp_path / "run", actor=ActorConfig(guide=GuideOptions(safe_step=4)))
    moments = RunMoments(folder)
    moments.mark("free space", 6)
    assert moments.in_force()["free space"] == (4, "said by the run's options")
    with pytest.raises(ConfigError, match="safe_step 6 and contact_step 5"):
        moments.mark("firm contact", 5)


def test_marks_of_another_demonstration_are_told_and_replaced(tmp_path):
    folder = guided_run(tmp_path / "run")
    write_marks(folder.guide_file, GuideMarks("somebody/1/0", 1, 2))
    moments = RunMoments(folder)
    assert moments.in_force() == AS_FOUND and "somebody/1/0" in moments.warning()
    moments.mark("free space", 2)
    assert read_marks(folder.guide_file) == GuideMarks(moments.name, 2) and not moments.warning()


def test_a_damaged_file_ends_the_verb_with_its_name(tmp_path, capsys):
    folder = guided_run(tmp_path / "run")
    folder.guide_file.write_text("{")
    with pytest.raises(DataError, match=r"guide\.json is damaged"):
        RunMoments(folder)
    assert main(["guide", str(folder.path)]) == 2
    assert "guide.json is damaged" in capsys.readouterr().err


def test_the_slider_shows_a_step_and_the_buttons_mark_it(browser, tmp_path):
    from robot_rl.console.moments import MomentsPage

    folder = guided_run(tmp_path / "run", "pixels")
    moments = RunMoments(folder)
    shown = MomentsPage("test", moments, token="a token for tests")
    page = browser.new_page()
    try:
        page.set_default_timeout(60_000.0)
        assert page.goto(shown.url.partition("?")[0]).status == 403
        page.goto(shown.url)
        card, in_force = page.locator("#robot-rl-card"), page.locator("#robot-rl-moments")
        note = page.locator("#robot-rl-note")
        card.get_by_text("step 3 of 11").wait_for()
        views = page.locator("#robot-rl-views")
        assert views.locator("img").count() == len(moments.card(3).views) > 0
        in_force.get_by_text("free space: step 3, found").wait_for()
        slider = page.get_by_role("slider").first
        for _ in range(2):
            slider.press("ArrowRight")
        card.get_by_text("step 5 of 11").wait_for()
        card.get_by_text("36.0 mm to the goal").wait_for()
        page.get_by_role("button", name="Free space: here").click()
        in_force.get_by_text("free space: step 5, marked").wait_for()
        before = folder.guide_file.read_bytes()
        page.get_by_role("button", name="Firm contact: here").click()
        note.get_by_text("safe_step 5 and contact_step 5 do not fit").wait_for()
        assert folder.guide_file.read_bytes() == before
        for _ in range(5):
            slider.press("ArrowRight")
        card.get_by_text("force on the tool 8.0 N").wait_for()
        page.get_by_role("button", name="Firm contact: here").click()
        in_force.get_by_text("firm contact: step 10, marked").wait_for()
        assert read_marks(folder.guide_file) == GuideMarks(moments.name, 5, 10)
        page.get_by_role("button", name="As found").click()
        in_force.get_by_text("firm contact: step 11, found").wait_for()
        assert read_marks(folder.guide_file) is None
    finally:
        page.close()
        shown.close()
