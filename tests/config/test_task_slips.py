"""Each slip of a person who writes a task file is refused before anything opens: file, line, what
is allowed.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from robot_rl import cli, config
from robot_rl.types import ConfigError

PACKAGED = config.PACKAGE.parent / "tasks" / "peg_insert.py"
TEXT = (
    PACKAGED
    .read_text()
    .replace('name="peg_insert",', 'name="mine",')
    .replace('Use("classifier", {"name": "peg_in", "height_below": 0.001})', 'Use("simulator")')
)
STIFF = "stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0)"
DAMPED = "damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0)"
CLIP = "error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08)"
FILTER = "filter_time_s=0.05,"
POSE = "pose_base_tool=(*SOCKET, RIM_Z + 0.5 * (HEIGHT_LOW + HEIGHT_HIGH), 1.0, 0.0, 0.0, 0.0)"

ALONE = [
    # Python
    (
        "max_steps=100,",
        "max_stepz=100,",
        "max_stepz is not a field of Task; allowed: action_rotation, ",
    ),
    (
        FILTER,
        "filtr_time_s=0.05,",
        "filtr_time_s is not a field of Compliance; allowed: damping, error_clip, ",
    ),
    (
        POSE,
        POSE.replace("pose_base_tool", "pose_base_tol"),
        "pose_base_tol is not a field of StartPose; allowed: ",
    ),
    ('    cameras=("wrist", "front"),\n', "", "Task(...) lacks 'cameras'"),
    ("rate_hz=10.0,", "rate_hz=10.0", "not valid Python: "),
    ("rate_hz=10.0,", "rate_hz=10.0.0,", "not valid Python: "),
    ("max_steps=100,", "max_steps=HUNDRED,", "NameError: name 'HUNDRED' is not defined"),
    (
        "import Compliance, Use",
        "import Compliance, Usee",
        "ImportError: cannot import name 'Usee' from 'robot_rl.types'",
    ),
    ("import math\n", "import robot_arms\n", "ModuleNotFoundError: No module named 'robot_arms'"),
    ("TASK = Task(", "TSK = Task(", "wanted TASK = Task(...), and there is no TASK"),
    ("TASK = Task(", "TASK = dict(", "wanted TASK = Task(...), and TASK is dict"),
    ('name="mine"', 'name="other"', "name = 'other': the task's name must be the file's, 'mine'"),
    # types and numbers
    ("rate_hz=10.0,", 'rate_hz="10",', 'rate_hz = "10": wanted a valid number'),
    ("rate_hz=10.0,", "rate_hz=math.nan,", "rate_hz = nan: wanted a finite number"),
    (
        "leash_rotation=0.1,",
        "leash_rotation=math.inf,",
        "leash_rotation = inf: wanted a finite number",
    ),
    (
        "defaults={",
        "defaults={print: 1, ",
        "defaults has the key <built-in function print>: wanted a text",
    ),
    ("max_steps=100,", "max_steps=99.5,", "max_steps = 99.5: wanted a valid integer"),
    ('cameras=("wrist", "front")', 'cameras="wrist"', 'cameras = "wrist": wanted a list'),
    # the loop
    ("rate_hz=10.0,", "rate_hz=2000,", "rate_hz = 2000: wanted 1 to 200 Hz"),
    ("rate_hz=10.0,", "rate_hz=0,", "rate_hz = 0: wanted 1 to 200 Hz"),
    ("max_steps=100,", "max_steps=0,", "max_steps = 0: wanted 1 to 100000"),
    (
        "max_steps=100,",
        "max_steps=100, look_around=2 * (StartPose((0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0)),),",
        "look_around is for 2 arms, and the task is for 1",
    ),
    (
        "image_size=(128, 128)",
        "image_size=(128, 12800)",
        "image_size[1] = 12800: wanted 8 to 1024 pixels",
    ),
    ("image_size=(128, 128)", "image_size=(128,)", "image_size[1] is missing"),
    (
        "action_translation=0.008",
        "action_translation=8",
        "wanted more than 0, at most 0.1 m; 8 mm are 0.008 m",
    ),
    ("action_rotation=0.05", "action_rotation=3", "at most 0.5 rad; 3 degrees are 0.05236 rad"),
    (
        "action_translation=0.008",
        "action_translation=0.08",
        "wanted at most leash_translation, 0.012",
    ),
    (
        "leash_translation=0.012",
        "leash_translation=2.0",
        "leash_translation = 2: wanted more than 0, at most 0.5 m",
    ),
    (
        "leash_translation=0.012",
        "leash_translation=0.009",
        "wanted at least the largest error_clip of the compliance, 0.01",
    ),
    (
        "leash_rotation=0.1",
        "leash_rotation=6",
        "leash_rotation = 6: wanted more than 0, at most 1.5708 rad; 6 degrees are",
    ),
    # the law
    (
        STIFF,
        STIFF.replace("2000.0, 150", "20000.0, 150"),
        "compliance.stiffness[2] = 20000: wanted more than 0, at most 6000",
    ),
    (
        STIFF,
        STIFF.replace("150.0)", "1500.0)"),
        "compliance.stiffness[5] = 1500: wanted more than 0, at most 300 Nm/rad",
    ),
    (
        STIFF,
        "stiffness=(2000.0, 150.0)",
        "compliance.stiffness has 2 numbers: wanted 6, for x, y, z and about",
    ),
    (
        CLIP,
        CLIP.replace("0.01, 0.08", "10.0, 0.08"),
        "compliance.error_clip[2] = 10: wanted more than 0, at most 0.1 m",
    ),
    (
        DAMPED,
        DAMPED.replace("(89.0", "(0.0"),
        "compliance.damping[0] = 0: wanted more than 0, at most 400 Ns/m",
    ),
    (
        DAMPED,
        DAMPED.replace("(89.0", "(0.001"),
        "compliance.damping[0] = 0.001: wanted at least 44.72 with stiffness 2000",
    ),
    (
        DAMPED,
        DAMPED.replace("7.0)", "0.7)"),
        "compliance.damping[5] = 0.7: wanted at least 3.873 with stiffness 150",
    ),
    (FILTER, "filter_time_s=50,", "compliance.filter_time_s = 50: wanted 0 to 2 s"),
    (FILTER, "gain_time_s=0.0,", "compliance.gain_time_s = 0: wanted 0.02 to 2 s"),
    (
        FILTER,
        "nullspace_stiffness=1000.0,",
        "compliance.nullspace_stiffness = 1000: wanted 0 to 100 Nm/rad",
    ),
    (FILTER, "integral=(1e6,) * 6,", "compliance.integral[0] = 1e+06: wanted 0 to 10000"),
    (
        "compliance=Compliance(",
        "reset_compliance=Compliance(error_clip=(0.5,) * 6), compliance=Compliance(",
        "reset_compliance.error_clip[0] = 0.5: wanted more than 0, at most 0.1 m",
    ),
    # the start, the tool
    (
        POSE,
        "pose_base_tool=(0.5, 0.0, 0.07, 1.0, 0.0, 0.0, 1.0)",
        "does not end in a unit quaternion xyzw",
    ),
    (
        POSE,
        "pose_base_tool=(500, 0, 70, 1, 0, 0, 0)",
        "pose_base_tool[0] = 500: wanted -3 to 3 m; 500 mm are 0.5 m",
    ),
    (POSE, "pose_base_tool=(0.5, 0.0, 0.07)", "start[0].pose_base_tool[3] is missing"),
    (
        "translation=(0.020, 0.020",
        "translation=(-0.020, 0.020",
        "start[0].translation[0] = -0.02: wanted 0 to 1 m",
    ),
    ("rotation=(DEGREES_5,", "rotation=(5.0,", "start[0].rotation[0] = 5: wanted 0 to 3.14159 rad"),
    (
        "pose_tcp_tool=(0.0, 0.0, 0.042,",
        "pose_tcp_tool=(0.0, 0.0, 42,",
        "pose_tcp_tool[2] = 42: wanted -1 to 1 m; 42 mm",
    ),
    ("rate_hz=10.0,", "max_drift=-0.5,", "max_drift = -0.5: wanted 0.05 to 3.14159 rad"),
    (
        "rate_hz=10.0,",
        "max_drift=30,",
        "max_drift = 30: wanted 0.05 to 3.14159 rad; 30 degrees are 0.5236 rad",
    ),
    # rewards and scenes
    (
        'reward=Use("simulator")',
        'reward=Use("simulater")',
        "'simulater' is not in robot_rl/rewards; it has: classifier, operator, pose, simul",
    ),
    (
        'reward=Use("simulator")',
        'reward=Use("simulator", {"at": 1})',
        "options.at is not a known key; allowed: nothing",
    ),
    ('reward=Use("simulator")', 'reward=Use("pose")', "reward.options.goals is missing"),
    (
        'reward=Use("simulator")',
        'reward=Use("pose", {"goals": ((0.5, 0, 0, 1, 0, 0),)})',
        "reward.options.goals is refused: reward 'pose': goals: a goal is 7 numbers",
    ),
    (
        '"clearance_m": 0.0005',
        '"clearence_m": 0.0005',
        "scene.options.clearence_m is not a known key; allowed: ",
    ),
    (
        '"clearance_m": 0.0005',
        '"clearance_m": 0.5',
        "scene.options.clearance_m is refused: clearance_m = 0.5: wanted 0 to 0.02 m",
    ),
    (
        '"depth_m": RIM_Z',
        '"depth_m": 0.02',
        "is refused: success_depth_m is 0.024; it must be more than 0 and at most depth",
    ),
    (
        '"depth_m": RIM_Z',
        '"depth_m": "deep"',
        'scene.options.depth_m = "deep": wanted a valid number',
    ),
    (
        '"depth_m": RIM_Z',
        '"looks": {"tnt": 0.1}',
        "scene.options.looks.tnt is not a known key",
    ),
    (
        '"depth_m": RIM_Z',
        '"looks": {"tint": 7.0}',
        "scene.options.looks.tint is refused: looks: tint is 7.0",
    ),
    (
        '"peg_insert",\n        {',
        '"peg_insrt",\n        {',
        "'peg_insrt' is not in robot_rl/sim/scenes; it has: ",
    ),
]
"""Text of peg_insert.py, what somebody wrote instead, and what they are told, whatever the bench."""

ON_BENCH = [
    (
        'cameras=("wrist", "front")',
        'cameras=("wrist", "frnt")',
        "camera 'frnt' is not in hardware 'sim_panda'; it has: front",
    ),
    ('cameras=("wrist", "front")', 'cameras=("wrist", "wrist")', "name one twice"),
    (
        "start=(",
        "start=2 * (",
        "start has 2 start poses for the 1 arms of hardware 'sim_panda': wanted one for each",
    ),
    (
        "HEIGHT_HIGH = 0.030, 0.060",
        "HEIGHT_HIGH = 0.030, 0.560",
        "the start range leaves the workspace of arm 'panda' on z",
    ),
    (
        "HEIGHT_HIGH = 0.030, 0.060",
        "HEIGHT_HIGH = -0.060, -0.030",
        "leaves the workspace of arm 'panda' on z: it is -0.035 to",
    ),
    (
        "DEGREES_5 = math.radians(5.0)",
        "DEGREES_5 = math.radians(50.0)",
        "leaves the workspace of arm 'panda' in orientation",
    ),
    (CLIP, CLIP.replace("(0.01", "(0.05"), "leash_translation = 0.012: wanted at least"),
    (
        FILTER,
        "error_clip_minus=(0.01, 0.01, 0.01, 0.3, 0.3, 0.3),",
        "leash_rotation = 0.1: wanted at least the largest",
    ),
    (
        "compliance=Compliance(",
        "reset_compliance=Compliance(error_clip=(0.05,) * 6), compliance=Compliance(",
        (
            "reset_compliance.error_clip[0] = 0.05: stiffness x clip is 2000 x 0.05 = 100 N along"
            " x, and max_force is 80 N"
        ),
    ),
    (
        "rate_hz=10.0,",
        'limits={"max_force": 15.0},',
        "compliance.error_clip[0] = 0.01: stiffness x clip is 2000 x 0.01 = 20 N",
    ),
    (
        "rate_hz=10.0,",
        'limits={"max_moment": 10.0},',
        "is 150 x 0.08 = 12 Nm about x, and max_moment is 10 Nm",
    ),
    (
        FILTER,
        "posture=(0, 10, 0, -138, 0, 148, 45),",
        "compliance.posture[1] = 10: wanted -1.6628 to 1.6628 rad; 10 degrees",
    ),
    (
        FILTER,
        "posture=(0.0, 0.2, 0.0),",
        "compliance.posture has 3 numbers: wanted 7 joint angles [rad], or none",
    ),
    (
        "rate_hz=10.0,",
        'limits={"max_forc": 40.0},',
        "limits.max_forc is not a known key; allowed: ",
    ),
    (
        "rate_hz=10.0,",
        'limits={"max_force": 120.0},',
        (
            "limits.max_force = 120: a task may tighten a limit of the hardware, "
            "never widen it; it is 80 in the hardware file"
        ),
    ),
    (
        "rate_hz=10.0,",
        'limits={"max_force": "weak"},',
        'limits.max_force = "weak": wanted a valid number',
    ),
    (
        "rate_hz=10.0,",
        'limits={"body_low": (-9.0, -1.0, 0.0)},',
        "limits.body_low = [-9, -1, 0]: a task may tighten",
    ),
    (
        "rate_hz=10.0,",
        "rate_hz=200,",
        "action_translation = 0.008: at rate_hz 200 that is 1.6 m/s; wanted at most 4 times",
    ),
    (
        "rate_hz=10.0,",
        'max_drift=0.5, limits={"joint_high": (2, 0.1, 2, -0.1, 2, 3, 2)},',
        "max_drift leads home, and joint 2 of",
    ),
]
"""The same for what a bench decides."""

DEFAULTS = [
    (
        '"learner.agent.discount": 0.95,',
        '"learner.agent.discount": 1.5,',
        "defaults.learner.agent.discount discount must be",
    ),
    (
        '"learner.agent.discount": 0.95,',
        '"learner.agent.discont": 0.9,',
        "(did you mean 'discount'?)",
    ),
    (
        '"learner.agent.discount": 0.95,',
        '"demos": "many",',
        'defaults.demos = "many": wanted a valid integer',
    ),
]
"""What stands weaker than the command line: looked at by the verbs whose options they are."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that starts is a slip that was not refused."""
    monkeypatch.setattr(
        "robot_rl.controllers.server.serve", lambda *_, **__: pytest.fail("the arm was started")
    )


def write(place: Path, old: str, new: str) -> tuple[int, int]:
    """A copy of the packaged task as somebody slipped in it; first and last line of what they
    changed.
    """
    assert old in TEXT, f"{old!r} is not in {PACKAGED}"
    (place / "tasks").mkdir()
    (place / "tasks" / "mine.py").write_text(TEXT.replace(old, new, 1))
    line = TEXT.split(old)[0].count("\n") + 1
    return line, line + old.count("\n")


def require_refusal(said: str, told: str, lines: tuple[int, int]) -> None:
    """What was said is one complaint or more, each with the file and its line, and the one that was
    expected.
    """
    assert said.startswith("robot-rl: ") and "Traceback" not in said
    assert said.count("mine.py:") == len(said.splitlines())
    complaint = next((line for line in said.splitlines() if told in line), said)
    assert told in complaint
    elsewhere = next((text for words, text in ELSEWHERE.items() if words in told), None)
    wanted = range(lines[0], lines[1] + 1)
    if elsewhere is not None:
        wanted = range(*[TEXT.split(elsewhere)[0].count("\n") + 1 + i for i in (0, 1)])
    assert int(complaint.partition("mine.py:")[2].partition(":")[0]) in wanted


ELSEWHERE = {
    "lacks 'cameras'": "TASK = Task(",
    "there is no TASK": '"""Insert',
    "success_depth_m is": '"success_depth_m"',
    "leaves the workspace of arm 'panda' on z": "StartPose(\n",
    "leaves the workspace of arm 'panda' in": "StartPose(\n",
    "leash_translation = 0.012: wanted at least": "leash_translation=",
    "leash_rotation = 0.1: wanted at least": "leash_rotation=",
    "2000 x 0.01 = 20 N": "error_clip=",
    "150 x 0.08 = 12 Nm": "error_clip=",
    "at rate_hz 200 that is": "action_translation=",
}
"""Where the named line is that of a value which the change made wrong, or that of what is around
it.
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    ALONE + ON_BENCH,
    ids=[new.strip()[:40] for _, new, _ in ALONE + ON_BENCH],
)
def test_a_slip_in_a_task_file(
    old: str,
    new: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = write(tmp_path, old, new)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["arm", "sim_panda", "--task", "mine", "--clock", "lockstep"]) == 2
    require_refusal(capsys.readouterr().err, told, lines)


@pytest.mark.parametrize("verb", ["demo", "train", "outcomes"])
@pytest.mark.parametrize(("old", "new", "told"), DEFAULTS, ids=[new[:40] for _, new, _ in DEFAULTS])
def test_a_slip_in_the_defaults_is_refused_by_every_verb_that_takes_them(
    verb: str, old: str, new: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    lines = write(tmp_path, old, new)
    monkeypatch.chdir(tmp_path)
    assert cli.main([verb, "mine"]) == 2
    require_refusal(capsys.readouterr().err, told, lines)


@pytest.mark.parametrize("verb", [["check", "sim_panda", "--task", "mine"], ["train", "mine", "--obs", "state"],
                                  ["demo", "--seed", "3", "mine"], ["outcomes", "mine"]])  # fmt: skip
def test_every_verb_refuses_a_task_that_does_not_fit(
    verb: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = write(tmp_path, CLIP, "error_clip=(0.01, 0.01, 0.01, 0.09, 0.09, 0.31)")
    monkeypatch.chdir(tmp_path)
    assert cli.main(verb) == 2
    require_refusal(
        capsys.readouterr().err,
        "leash_rotation = 0.1: wanted at least the largest error_clip",
        lines,
    )
    assert not (tmp_path / "runs").exists()


def test_an_evaluation_refuses_a_task_that_was_spoilt_since(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write(tmp_path, "rate_hz=10.0,", "rate_hz=2000.0,")
    settings = {
        "task": "mine",
        "hardware": "sim_panda",
        "obs": "state",
        "clock": "lockstep",
        "seed": 0,
        "steps": 1,
    }
    settings |= {
        "demos": 1,
        "arm_addresses": ["tcp://127.0.0.1:1"],
        "steps_address": "",
        "weights_address": "",
    }
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "config.json").write_text(json.dumps({"run": settings}))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["eval", "one"]) == 2
    require_refusal(capsys.readouterr().err, "rate_hz = 2000: wanted 1 to 200 Hz", lines)


def test_a_base_task_of_the_same_file_and_one_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks").mkdir()
    header = (
        "from dataclasses import replace\nfrom robot_rl.config import load_task\nBASE ="
        " load_task('peg_insert')\n"
    )
    own = "SLOW = replace(\n    BASE,\n    rate_hz=0.5,\n)\n"
    own += "TASK = replace(\n    SLOW,\n    name='mine',\n    max_steps=0,\n)\n"
    (tmp_path / "tasks" / "mine.py").write_text(header + own)
    (tmp_path / "tasks" / "worse.py").write_text(header.replace("peg_insert", "mine"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        config.load_task("worse")
    first, second = str(caught.value).splitlines()
    assert "worse.py:3: " in first and first.endswith(
        "mine.py:6: rate_hz = 0.5: wanted 1 to 200 Hz"
    )
    assert second.endswith("mine.py:11: max_steps = 0: wanted 1 to 100000")


def test_what_was_written_within_a_second_is_read_and_nothing_is_left_beside_it(
    tmp_path, monkeypatch
):
    """Where Python keeps bytecode, which goes by a file's second and its size."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.chdir(tmp_path)
    path = Path("tasks/mine.py")
    path.parent.mkdir()
    for steps in (100, 101, 102):
        path.write_text(TEXT.replace("max_steps=100,", f"max_steps={steps},"))
        os.utime(path, (1e9, 1e9))
        assert config.load_task("mine").max_steps == steps
    assert list(path.parent.iterdir()) == [path]
