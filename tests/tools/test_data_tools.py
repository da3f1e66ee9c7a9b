"""`robot-rl data`: what it says of a run, a log and an archive, also of those that are being
written.
"""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import pytest

from robot_rl import cli
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, MarkKind, Provenance, RecordId
from tests.dataset.test_archive import Recorder
from tests.stream.test_codec import SPACE, make_step
from tests.stream.torn import flip


@pytest.fixture(autouse=True)
def wide(monkeypatch) -> None:
    """Tables are read here as on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run with two demonstrations, and two episodes of its own of which the last is still going
    on.
    """
    folder = RunFolder.create(tmp_path / "run", {"run": RunSettings("peg_insert", "sim_panda")})
    with StepLog(folder.demos_log, SPACE) as log:
        recorder = Recorder(log, "local", 1)
        for episode in range(2):
            recorder.episode(episode, 3)
    with StepLog(folder.steps_log, SPACE) as log:
        recorder = Recorder(log, "actor", 2)
        recorder.episode(0, 4)
        recorder.step(1, 0)
        recorder.step(1, 1)
        recorder.mark(MarkKind.DISCARD, 0)
    return folder


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """The JSON that a verb prints."""
    assert cli.main(["data", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def tell(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a verb prints for people."""
    assert cli.main(["data", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_help_lists_what_can_be_done(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["data", "--help"])
    assert leaving.value.code == 0
    shown = capsys.readouterr().out
    assert all(action in shown for action in ("ls", "show", "stats", "archive", "repair"))


def test_ls_lists_demonstrations_then_own_episodes(run, capsys):
    rows = ask(capsys, "ls", run.path)["episodes"]
    assert [(row["number"], row["source"], row["length"], row["end"]) for row in rows] == [
        (0, "demos", 3, "terminated"),
        (1, "demos", 3, "terminated"),
        (2, "steps", 4, "terminated"),
        (3, "steps", 1, "open"),
    ]
    assert [mark["kind"] for mark in rows[2]["marks"]] == ["discard"]
    shown = tell(capsys, "ls", run.path)
    assert "4 episodes, 11 steps" in shown and "2 of 2 succeeded" in shown, (
        "what is discarded is neither"
    )


def test_ls_lists_failures_alone_and_says_when_each_episode_began(run, capsys):
    with StepLog(run.steps_log, SPACE) as log:
        log.append_mark(Mark(MarkKind.UNDO, 0), RecordId("actor", 2, 8))
        log.append_mark(Mark(MarkKind.FAILURE, 0), RecordId("actor", 2, 9))
    (row,) = ask(capsys, "ls", run.path, "--failures")["episodes"]
    assert (row["number"], row["source"], row["succeeded"]) == (2, "steps", False)
    shown = tell(capsys, "ls", run.path, "--failures")
    assert (
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["t_wall"])) in shown
        and "0 of 1 succeeded" in shown
    )


def test_a_log_alone_and_an_archive_are_listed_alike(run, capsys):
    before = ask(capsys, "ls", run.path)["episodes"]
    assert [row["key"] for row in ask(capsys, "ls", run.steps_log)["episodes"]] == [
        row["key"] for row in before[2:]
    ]
    done = ask(capsys, "archive", run.path)
    assert done["logs"]["steps"] == {"added": 1, "marked": 1, "present": 0, "unfinished": 1}
    assert ask(capsys, "ls", done["archive"])["episodes"] == before[:3]
    assert "steps: 0 added, 1 there before, 0 marked anew, 1 not finished" in tell(
        capsys, "archive", run.path
    )


def test_show_writes_a_sheet_for_each_camera_and_a_film(run, capsys, tmp_path):
    shown = ask(capsys, "show", run.path, "2", "--out", tmp_path / "out")
    assert shown["key"] == "actor/2/0"
    assert [row["step"] for row in shown["rows"]] == [1, 2, 3, 4]
    sheet, film = (Path(path) for path in shown["pictures"])
    assert sheet.name == "0002_wrist.png" and film.name == "0002.mp4"
    assert cv2.imread(str(sheet)) is not None
    assert cv2.VideoCapture(str(film)).get(cv2.CAP_PROP_FRAME_COUNT) >= 5


@pytest.mark.parametrize("name", ["0", "local/1/0", "last"])
def test_show_knows_an_episode_by_number_key_and_last(run, capsys, name):
    shown = ask(capsys, "show", run.path, name)
    assert shown["number"] == (3 if name == "last" else 0)
    assert all(Path(path).parent == run.path / "shown" for path in shown["pictures"])


def test_show_tells_the_steps_in_a_table(run, capsys):
    shown = tell(capsys, "show", run.path, "2")
    assert "actor/2/0" in shown and "terminated" in shown and "0002_wrist.png" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["ls", "no_such_run"],
            "'runs/no_such_run' is neither a run folder nor a .log file nor an archive",
        ),
        (
            ["show", "RUN", "99"],
            "episode '99' is not one of 'RUN'; say a number from 0 to 3, 'last', or a key",
        ),
        (["show", "RUN", "actor/9/0"], "episode 'actor/9/0' is not one of"),
    ],
)
def test_a_mistake_is_one_clear_line(run, capsys, arguments, complaint):
    path = str(run.path)
    assert cli.main(["data", *(path if word == "RUN" else word for word in arguments)]) == 2
    assert complaint.replace("RUN", path) in capsys.readouterr().err


def test_stats_come_with_warnings_in_words(run, capsys):
    found = ask(capsys, "stats", run.path)
    assert (found["episodes"], found["steps"], found["acted"]) == (4, 11, {"human": 11})
    assert found["timing"]["nominal_s"] == pytest.approx(0.1)
    assert len(found["actions"]) == 3 * SPACE.action_size
    assert any(
        warning.startswith("executed differs from commanded") for warning in found["warnings"]
    )
    shown = tell(capsys, "stats", run.path)
    assert "warning: executed differs" in shown and "state/tcp_pose[5]" in shown


def test_everything_works_on_a_log_that_is_being_written(run, capsys):
    with StepLog(run.steps_log, SPACE) as log:
        writer = Recorder(log, "actor", 3)
        for episode in range(3):
            writer.episode(episode, 2)
            assert len(ask(capsys, "ls", run.path)["episodes"]) == 5 + episode
            assert ask(capsys, "stats", run.path)["steps"] == 11 + 2 * (episode + 1)
            assert ask(capsys, "show", run.path, "last")["length"] == 2


def test_repair_keeps_what_is_whole(run, capsys):
    with StepLog(run.steps_log, SPACE, read_only=True) as log:
        payload = list(log.records())[2][2]
    flip(run.steps_log, run.steps_log.read_bytes().index(payload))
    assert cli.main(["data", "ls", str(run.path)]) == 2
    assert f"robot-rl data repair {run.steps_log}" in capsys.readouterr().err
    assert "7 records kept, 1 lost" in tell(capsys, "repair", run.steps_log)
    rows = ask(capsys, "ls", run.path)["episodes"]
    assert sum(row["missing"] > 0 for row in rows) == 1


def test_who_acted_is_counted_for_each_episode(tmp_path, capsys):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        for index, author in enumerate([
            Provenance.POLICY,
            Provenance.POLICY,
            Provenance.HUMAN,
            Provenance.HUMAN,
        ]):
            step = make_step(
                index, provenance=author, truncated=index == 3, t_monotonic=0.1 * index
            )
            log.append_step(replace(step, index=index))
    (row,) = ask(capsys, "ls", tmp_path / "steps.log")["episodes"]
    assert (row["acted"], row["corrections"]) == ({"policy": 1, "human": 2}, 1)
    assert "policy 1, human 2 in 1" in tell(capsys, "ls", tmp_path / "steps.log")
