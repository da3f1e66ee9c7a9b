"""`robot-rl new`: what it writes is sound and the user's own; every answer is an option, and
nothing is overwritten.
"""

import io
import shlex
import sys
from pathlib import Path

import pytest

from robot_rl import cli, config
from robot_rl.tools.arm_check import check_reach
from robot_rl.tools.check import _check_files
from robot_rl.types import FoundCamera

GOAL = [
    "--reward",
    "pose",
    "--goal",
    *["0.5", "0", "0.05", "1", "0", "0", "0"],
    "--tolerance-m",
    "0.003",
]
POSE = ["--pose", *["0.45", "0.1", "0.2", "1", "0", "0", "0"]]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder of the user's, with nothing in it."""
    monkeypatch.chdir(tmp_path)


def written() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*.*"))


def test_without_a_question_the_simulated_arm_says_where_it_stands_and_the_bench_passes_its_check():
    assert cli.main(["new", "reach", "--like", "sim_panda", *GOAL, "--crop", "wrist", "160", "80", "320", "320",
                     "--teleop", "browser", "--yes"]) == 0  # fmt: skip
    task, bench = config.load_task("reach"), config.load_hardware("reach_bench")
    # where its home is
    assert task.start[0].pose_base_tool[:3] == pytest.approx((0.5, 0.0, 0.137), abs=1e-3)
    assert task.reward.options == {
        "goals": [[0.5, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0]],
        "translation_m": 0.003,
    }
    assert bench.cameras[0] == config.CameraConfig("wrist", "mujoco", {"crop": [160, 80, 320, 320]})
    assert (
        bench.teleop is not None
        and bench.teleop.name == "browser"
        and task.cameras == ("wrist", "front")
    )
    original = (
        (config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml").read_text().splitlines()
    )
    lost = set(original) - set(Path("hardware_configs/reach_bench.yaml").read_text().splitlines())
    assert all("driver: mujoco" in line or "name:" in line for line in lost), (
        "a comment or a number is gone"
    )
    findings = [
        *_check_files(bench, task),
        *check_reach(bench.arms[0], task),
    ]  # what the two files have a say in
    assert len(findings) > 2 and [finding for finding in findings if not finding.right] == []


def test_a_real_bench_is_written_without_it_and_a_second_task_uses_it_as_it_is(monkeypatch):
    there = [FoundCamera("opencv", {"device": "/dev/v4l/by-id/one"}, "a webcam")]
    monkeypatch.setattr("robot_rl.tools.camera_check.find_cameras", lambda: (there, []))
    side = ["--pose", *["0.45", "0.1", "0.6", "0", "0.7071", "0", "0.7071"], "--cameras", "wrist"]
    assert cli.main(["new", "lid", "--bench", "mine", "--ip", "172.16.0.9", *side, "--yes"]) == 0
    text, bench = Path("hardware_configs/mine.yaml").read_text(), config.load_hardware("mine")
    assert "172.16.0.2" not in text and bench.arms[0].options["ip"] == "172.16.0.9"
    assert [camera.options["device"] for camera in bench.cameras] == ["/dev/v4l/by-id/one"]
    assert bench.teleop is not None and config.load_task("lid").reward.name == "operator"
    assert cli.main(["new", "cup", "--bench", "mine", *side, "--yes"]) == 0
    assert Path("hardware_configs/mine.yaml").read_text() == text and config.load_task(
        "cup"
    ).cameras == ("wrist",)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (["../up"], "'../up' is no name of a task or a bench"),
        (["t", "--bench", "../up"], "'../up' is no name of a task or a bench"),
        (["t", "--like", "sim_pnda"], "did you mean 'sim_panda'?"),
        (
            ["t", "--like", "sim_panda", "--cameras", "side"],
            "camera 'side' is not in hardware 'sim_panda'; it has: ",
        ),
        (["t", "--like", "sim_panda", "--reward", "psoe"], "did you mean 'pose'?"),
        (["t", "--like", "sim_panda", "--reward", "pose"], "reward 'pose' needs --goal"),
        (["t", "--like", "sim_panda", "--teleop", "mouse"], "did you mean 'spacemouse'?"),
        (
            ["t", "--like", "sim_panda", "--ip", "10.0.0.1"],
            "has no network address: leave out --ip",
        ),
    ],
)
def test_a_wrong_answer_is_one_clear_complaint_and_nothing_is_left_behind(said, complaint, capsys):
    assert cli.main(["new", *said, *POSE, "--yes"]) == 2
    assert complaint in capsys.readouterr().err
    assert not [path for path in written() if path.endswith((".py", ".yaml"))]


def test_what_is_there_is_never_overwritten(capsys):
    assert cli.main(["new", "t", "--like", "sim_panda", *POSE, "--yes"]) == 0
    before = {
        path: Path(path).read_bytes() for path in written() if path.endswith((".py", ".yaml"))
    }
    assert cli.main(["new", "t", "--like", "sim_panda", *POSE, "--yes"]) == 2
    assert cli.main(["new", "u", "--bench", "t_bench", "--teleop", "browser", *POSE, "--yes"]) == 2
    assert "stays as it is: leave out teleop" in capsys.readouterr().err
    assert {path: Path(path).read_bytes() for path in before} == before and not Path(
        "tasks/u.py"
    ).exists()


class Person(io.StringIO):
    """A terminal at which somebody answers."""

    def isatty(self) -> bool:
        return True


def test_who_is_asked_makes_the_same_as_the_options_that_are_printed_in_the_end(
    monkeypatch, capsys
):
    answers = ["mine", "sim_panda", "wrist", "", "browser", "0.042", "", "a b c", "0.01 0.01 0.01", "", "", "pose", "",
               "0.003", "8", "put it back", "", "my goal"]  # fmt: skip
    person = Person("\n".join(answers) + "\n")
    monkeypatch.setattr(sys, "stdin", person)
    monkeypatch.setattr("robot_rl.cli.ask._line_is_there", lambda: True)
    assert cli.main(["new", "t"]) == 0
    assert not person.read(), "an answer was not asked for"
    said = capsys.readouterr()
    assert "Could not parse" in said.err + said.out  # a b c, asked once more
    (again,) = [line for line in said.out.splitlines() if "without questions: " in line]
    first = {path: Path(path).read_text() for path in ("tasks/t.py", "hardware_configs/mine.yaml")}
    for path in first:
        Path(path).unlink()
    assert cli.main(shlex.split(again.partition("robot-rl ")[2])) == 0
    assert {path: Path(path).read_text() for path in first} == first
    task = config.load_task("t")
    assert (task.max_steps, task.manual_reset, task.description) == (80, "put it back", "my goal")
    assert task.pose_tcp_tool[2] == 0.042 and task.start[0].translation == (0.01, 0.01, 0.01)
