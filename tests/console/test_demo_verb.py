"""`robot-rl demo`: as many as are wanted, more of them later, and a picture of what was recorded."""

import json

import cv2
import pytest

from robot_rl.cli import main
from tests.system.main_job import start


@pytest.mark.slow
def test_a_recording_goes_on_where_it_stopped_and_ends_with_a_picture(
    tmp_path, monkeypatch, capsys
):
    run = tmp_path / "runs" / "run"
    code, said = start(
        tmp_path, "demo", "--obs", "state", "--episodes", "1", "--name", "run"
    ).finish()
    assert code == 0 and "robot-rl console runs/run" in said, said
    assert json.loads((run / "demos.json").read_text())["successes"] == 1
    code, said = start(tmp_path, "demo", "--resume", "run", "--episodes", "2").finish()
    assert code == 0, said
    assert json.loads((run / "demos.json").read_text())["successes"] == 2
    picture = cv2.imread(str(run / "plots" / "demonstrations.png"))
    assert picture is not None and picture.std() > 10.0

    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--resume", "run", "--seed", "3"]) == 2
    assert "--resume goes on with the run's own options" in capsys.readouterr().err
    (run / "steps.log").touch()
    assert main(["demo", "--resume", "run", "--episodes", "3"]) == 2
    assert "is being trained already" in capsys.readouterr().err
