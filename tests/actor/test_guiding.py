"""Which moments the guide of a run goes by: the options win over a person's marks, the marks over
what is found; marks are of one demonstration.
"""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robot_rl.actor.guiding import demonstration_of, open_guide
from robot_rl.config.guide_marks import GuideMarks, forget_marks, read_marks, write_marks
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.operator.guide import GuideOptions, moments_of
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.types import ConfigError, DataError
from tests.guided import demonstrate, guided_run

FOUND, END = 3, 11
"""The moments that are found: 40 mm before the contact at step 10, and the end."""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> RunFolder:
    """A run with one demonstration, in the folder where the user works."""
    monkeypatch.chdir(tmp_path)
    return guided_run(Path("runs/shown"))


def moments(folder: RunFolder, options: GuideOptions = GuideOptions()) -> tuple[int, int]:  # noqa: B008
    """The steps that the guide of the run goes by."""
    device = opened(folder, options).device
    return moments_of(demonstration_of(folder).steps, device._options)


def opened(folder: RunFolder, options: GuideOptions, sees_goal: bool = True) -> Any:
    env: Any = SimpleNamespace(task=folder.load_task(), space_spec=folder.spaces())
    return open_guide(folder, env, lambda: None, options, sees_goal=sees_goal)


def test_a_guide_that_a_resumed_run_asks_for_has_to_know_where_the_goal_is(tmp_path):
    """What `train` refuses before it begins; and "auto" may have taken another encoder since."""
    blind = guided_run(tmp_path / "blind", obs="pixels")
    opened(blind, GuideOptions())
    with pytest.raises(ConfigError, match="nothing says where the goal is: take an encoder"):
        opened(blind, GuideOptions(), sees_goal=False)


def mark(folder: RunFolder, safe: int = -1, contact: int = -1) -> GuideMarks:
    marks = GuideMarks(demonstration_of(folder).name, safe, contact)
    write_marks(folder.guide_file, marks)
    return marks


@pytest.mark.parametrize(("guided", "over"), [((0, 0, 0, 0, 0), True), ((0, 0, 9, 0, 0), False)])
def test_a_resumed_run_goes_on_counting_the_successes_without_help(folder, guided, over):
    for episode, steps in enumerate(guided):
        row = {"success": True, "guided_steps": steps, "env_steps": episode}
        row |= {"steps": 9, "human_steps": 0, "segments": 0}
        with folder.episodes_file.open("a") as file:
            file.write(json.dumps(row) + "\n")
    assert opened(folder, GuideOptions()).device.is_over == over


def test_marks_are_read_as_they_were_written_and_forgotten(folder):
    path = folder.guide_file
    assert read_marks(path) is None
    marks = mark(folder, 2, 7)
    assert read_marks(path) == marks
    forget_marks(path)
    forget_marks(path)
    assert read_marks(path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '{"demonstration": "local/1',
        "[1]",
        '{"safe_step": 2, "contact_step": 7}',
        '{"demonstration": "a/1/0", "safe_step": 2}',
        '{"demonstration": "a/1/0", "safe_step": -2, "contact_step": 7}',
        '{"demonstration": "a/1/0", "safe_step": 2.5, "contact_step": 7}',
        '{"demonstration": "a/1/0", "safe_step": true, "contact_step": 7}',
    ],
)
def test_damaged_marks_are_named_with_the_cure(folder, text):
    folder.guide_file.write_text(text)
    with pytest.raises(DataError, match=r"guide\.json is damaged.*move it away.*robot-rl guide"):
        moments(folder)
    with pytest.raises(ConfigError, match=r"cannot be taken over.*guide\.json is damaged"):
        create_run("peg_insert", TrainConfig(name="new", obs="state", demos_from=("shown",)))


def test_the_options_win_over_the_marks_and_these_over_what_is_found(folder, caplog):
    assert moments(folder) == (FOUND, END)
    mark(folder, contact=10)
    assert moments(folder) == (FOUND, 10)
    mark(folder, 5, 8)
    assert moments(folder) == (5, 8)
    assert moments(folder, GuideOptions(safe_step=6)) == (6, 8)
    assert moments(folder, GuideOptions(contact_step=9)) == (5, 9)
    assert moments(folder, GuideOptions(1, 2)) == (1, 2)
    assert not caplog.records
    with pytest.raises(ConfigError, match=r"do not fit.*guide\.json: move the file away"):
        moments(folder, GuideOptions(safe_step=8))


def test_marks_of_another_demonstration_are_not_used_and_a_warning_says_so(folder, caplog):
    marks = mark(folder, 5, 8)
    demonstrate(folder, episode=1)
    assert moments(folder) == (FOUND, END)
    (warning,) = caplog.messages
    assert "guide.json" in warning and marks.demonstration in warning and "not used" in warning
    assert demonstration_of(folder).name in warning
    assert read_marks(folder.guide_file) == marks


def test_a_run_without_a_demonstration_is_told_to_record_one(tmp_path):
    settings = RunSettings("peg_insert", "sim_panda", obs="state")
    with pytest.raises(ConfigError, match=r"no demonstration that succeeded.*--demos"):
        demonstration_of(RunFolder.create(tmp_path / "run", {"run": settings}))


def test_a_run_that_takes_demonstrations_over_takes_the_marks_of_its_newest_along(folder):
    marks = mark(folder, 5, 8)
    guided_run(Path("runs/other"))
    options = TrainConfig(obs="state")
    for runs, taken in ((("other", "shown"), marks), (("shown", "other"), None)):
        name = "-".join(runs)
        new = create_run("peg_insert", replace(options, name=name, demos_from=runs))
        assert read_marks(new.guide_file) == taken
        assert moments(new) == ((5, 8) if taken else (FOUND, END))
    again = create_run("peg_insert", replace(options, name="again", demos_from=("other-shown",)))
    assert moments(again) == (5, 8)
