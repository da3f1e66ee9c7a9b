"""`robot-rl demo`: as many as are wanted, more of them later, and a picture of what was recorded."""

import json

import cv2
import pytest

from tests.system.main_job import start


@pytest.mark.slow
def test_a_recording_goes_on_where_it_stopped_and_ends_with_a_picture(tmp_path):
    run = tmp_path / "runs" / "run"
    code, said = start(tmp_path, "demo", "--obs", "state", "--episodes", "2", "--name", "run").finish()
    assert code == 0 and "robot-rl console runs/run" in said, said
    assert json.loads((run / "demos.json").read_text())["successes"] == 2
    code, said = start(tmp_path, "demo", "--resume", "run", "--episodes", "3").finish()
    assert code == 0, said
    assert json.loads((run / "demos.json").read_text())["successes"] == 3
    picture = cv2.imread(str(run / "plots" / "demonstrations.png"))
    assert picture is not None and picture.std() > 10.0

    code, said = start(tmp_path, "demo", "--resume", "run", "--seed", "3").finish()
    assert code == 2 and "--resume goes on with the run's own options" in said
    (run / "steps.log").touch()
    code, said = start(tmp_path, "demo", "--resume", "run", "--episodes", "4").finish()
    assert code == 2 and "is being trained already" in said
