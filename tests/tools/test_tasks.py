"""The list of skills, and their pictures."""

import json

import cv2
import numpy as np

from robot_rl import cli, config


def test_every_task_is_listed_with_its_line_and_one_that_cannot_be_read_with_what_is_wrong(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "broken.py").write_text("TASK = 3\n")
    (tmp_path / "tasks" / "not a name.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["tasks", "--json"]) == 0
    rows = {row["task"]: row for row in json.loads(capsys.readouterr().out)["tasks"]}
    assert {"drawer", "ram_press", "cable_clip", "peg_insert", "broken"} <= rows.keys()
    assert "not a name" not in rows and "TASK is int" in rows["broken"]["description"]
    assert rows["drawer"]["description"] == config.load_task("drawer").description


def test_a_picture_of_a_simulated_task_shows_something_in_each_of_its_cameras(gl, tmp_path):
    from robot_rl.tools.tasks import PICTURE, draw

    task = config.load_task("drawer")
    picture = cv2.imread(str(draw(task, "sim_panda", tmp_path)))
    height, width = PICTURE
    assert picture is not None and picture.shape == (height, len(task.cameras) * width, 3)
    assert all(view.std() > 10.0 for view in np.hsplit(picture, len(task.cameras)))
