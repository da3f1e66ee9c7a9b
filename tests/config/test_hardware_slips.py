"""Each slip of a person who fills in a hardware file is refused before anything opens: file, line,
what is allowed.
"""

import re
import shutil
from pathlib import Path

import pytest

from robot_rl import cli, config
from robot_rl.config.limits import RANGES

PACKAGED = config.PACKAGE.parent / "hardware_configs"
LOW = "workspace_low: [0.35, -0.2, -0.005]"
JOINT_LOW = "joint_low: [-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973]"
JOINT_HIGH = "joint_high: [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]"
HOME = "home: [0.0, 0.181353737, 0.0, -2.400293067, 0.0, 2.581646804, 0.785398163]"
TORQUE = "max_torque: [87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0]"
SPEED = "max_reference_speed: "

SIM = [
    # the unit
    (
        "workspace_angle: ",
        "workspace_angle: 34  # ",
        "wanted more than 0, at most 3.14159 rad; 34 degrees are 0.5934 rad",
    ),
    (
        LOW,
        "workspace_low: [350, -200, -5]",
        "workspace_low[0] = 350: wanted -3 to 3 m; 350 mm are 0.35 m",
    ),
    (
        HOME,
        "home: [0, 10, 0, -138, 0, 148, 45]",
        "home[1] = 10: wanted -1.6628 to 1.6628 rad; 10 degrees are 0.1745 rad",
    ),
    (
        JOINT_LOW,
        "joint_low: [-166, -101, -166, -176, -166, -1, -166]",
        "joint_low[0] = -166: wanted -6.28319 to 6.28319",
    ),
    (
        SPEED,
        "max_reference_speed: 250  # ",
        "wanted more than 0, at most 2 m/s; 250 mm/s are 0.25 m/s",
    ),
    ("mass_kg: 0.73", "mass_kg: 730", "load.mass_kg = 730: wanted 0 to 20 kg"),
    (
        "centre_m: [-0.01, 0.0, 0.03]",
        "centre_m: [-10, 0, 30]",
        "load.centre_m[0] = -10: wanted -0.5 to 0.5 m; -10 mm are",
    ),
    (
        "pose_flange_tcp: [0.0, 0.0, 0.1034",
        "pose_flange_tcp: [0.0, 0.0, 103.4",
        "pose_flange_tcp[2] = 103.4: wanted -1 to 1 m",
    ),
    # beyond the arm, or beyond any
    (
        TORQUE,
        "max_torque: [87.0, 87.0, 87.0, 87.0, 87.0, 12.0, 12.0]",
        "max_torque[4] = 87: the arm of driver 'mujoco' can do 12",
    ),
    (
        "max_torque_rate: 1000.0",
        "max_torque_rate: 2000.0",
        "the arm of driver 'mujoco' can do 1000, wanted at most that",
    ),
    (
        JOINT_LOW,
        JOINT_LOW.replace("-1.7628", "-6.0"),
        "joint_low[1] = -6: the arm of driver 'mujoco' can do -1.7628",
    ),
    (
        JOINT_HIGH,
        JOINT_HIGH.replace("-0.0698", "0.0698"),
        "joint_high[3] = 0.0698: the arm of driver 'mujoco' can do -0.0698",
    ),
    (
        "max_joint_speed: [2.0, ",
        "max_joint_speed: [2.7, ",
        "max_joint_speed[0] = 2.7: the arm of driver 'mujoco' can do 2.175",
    ),
    (
        "max_tcp_speed: 1.0",
        "max_tcp_speed: 2.0",
        "max_tcp_speed = 2: the arm of driver 'mujoco' can do 1.7",
    ),
    (SPEED, "max_reference_speed: 1.2  # ", "wanted less than max_tcp_speed, 1, which is a fault"),
    (
        "mass_kg: 0.73",
        "mass_kg: 4.0",
        "the arm of driver 'mujoco' can carry 3 kg, wanted at most that",
    ),
    # signs, order, number
    (
        LOW,
        "workspace_low: [0.35, 0.2, -0.005]",
        "workspace_low must be below workspace_high; it is not on y",
    ),
    (LOW, "workspace_low: [0.65, 0.2, 0.35]", "must be below workspace_high; it is not on x, y, z"),
    (
        JOINT_LOW,
        JOINT_HIGH.replace("high", "low"),
        "joint_low[0] = 2.8973: wanted more than two joint_margin below",
    ),
    (
        "retreat_force: 160.0",
        "retreat_force: 16.0",
        "retreat_force = 16: wanted at least max_force, 80",
    ),
    (
        "body_low: [-1.2, -1.2, 0.0]",
        "body_low: [-1.2, -1.2, 1.7]",
        "body_low must be below body_high; it is not on z",
    ),
    (
        "      body_low: [-1.2, -1.2, 0.0]\n",
        "",
        "body_high stands without body_low: wanted both or neither",
    ),
    (
        TORQUE,
        "max_torque: [87.0, 87.0, 87.0, 12.0, 12.0, 12.0]",
        "max_torque has 6 numbers; this arm has 7 joints",
    ),
    (
        HOME,
        "home: [0.0, 0.181, 0.0, -2.4, 0.0, 2.58]",
        "arms[0].home has 6 numbers; this arm has 7 joints",
    ),
    (
        LOW,
        "workspace_low: [0,35, -0,2, -0,005]",
        "workspace_low = [0, 35, 0, 2, 0, 5]: wanted 3 items",
    ),
    (
        "[1.0, 0.0, 0.0, 0.0]  #",
        "[1.0, 0.0, 0.0, 1.0]  #",
        "workspace_quat = [1.0, 0.0, 0.0, 1.0]: wanted a unit quaternion",
    ),
    (
        "-0.3826834323650898, 0.92",
        "-0.38, 0.52",
        "pose_flange_tcp = [0.0, 0.0, 0.1034, 0.0, 0.0, -0.38, 0.52",
    ),
    ("max_force: 80.0", "max_force: .nan", "max_force = NaN: wanted a finite number"),
    ("max_force: 80.0", "max_force: .inf", "max_force = Infinity: wanted a finite number"),
    # YAML
    ("max_force: 80.0", "max_force: 80,0", 'max_force = "80,0": wanted a valid number'),
    ("max_force: 80.0", 'max_force: "80.0"', 'max_force = "80.0": wanted a valid number'),
    ("max_force: 80.0", "max_force: 80 N", 'max_force = "80 N": wanted a valid number'),
    (
        "      max_force: 80.0",
        "      max_force: 80.0\n      max_force: 8.0",
        "max_force is given twice (first on line",
    ),
    ("      max_force: 80.0", "\tmax_force: 80.0", "not valid YAML: "),
    ("      max_force: 80.0", "    max_force: 80.0", "not valid YAML: "),
    ("max_force: 80.0", "max_forse: 80.0", "max_forse is not a known key; allowed: "),
    ("max_force: 80.0", "max_force 80.0", "not valid YAML: "),
    ("      joint_margin: 0.1", "#     joint_margin: 0.1", "joint_margin is missing"),
    # devices and their options
    (
        "driver: mujoco\n    # By",
        "driver: mojoco\n    # By",
        "'mojoco' is not in robot_rl/controllers/arms; it has: ",
    ),
    (
        "driver: mujoco\n    # By",
        "driver: mujoco\n    options: {ip: 172.16.0.2}\n    # By",
        "options.ip is not a known key; allowed: friction_nm, unknown_load_kg",
    ),
    (
        "    limits:\n",
        "    loop_cpu: 999\n    limits:\n",
        "loop_cpu = 999: this machine has the cores 0 to ",
    ),
    ("    limits:\n", "    loop_cpu: -1\n    limits:\n", "loop_cpu = -1: wanted 0 to 1023"),
    (
        "    limits:\n",
        "    address: 127.0.0.1:5560\n    limits:\n",
        "wanted local://NAME, as local://arm, or tcp://HOST:PORT",
    ),
    ("    limits:\n", "    address: tcp://127.0.0.1:77777\n    limits:\n", "wanted local://NAME"),
    (
        "    limits:\n",
        (
            "    guards: [{name: rack, start: [60, 0, 20], end: [0.1, 0, 0], radius_m: 0.03}]\n   "
            " limits:\n"
        ),
        "guards[0].start[0] = 60: wanted -0.5 to 0.5 m; 60 mm are 0.06 m",
    ),
    (
        "    limits:\n",
        (
            "    guards: [{name: rack, start: [0, 0, 0], end: [0.1, 0, 0], radius_m: 30}]\n   "
            " limits:\n"
        ),
        "guards[0].radius_m = 30: wanted more than 0, at most 0.3 m; 30 mm are 0.03 m",
    ),
    (
        "    limits:\n",
        (
            "    guards: [{nam: rack, start: [0, 0, 0], end: [0.1, 0, 0], radius_m: 0.03}]\n   "
            " limits:\n"
        ),
        (
            "guards[0].nam is not a known key; allowed: end, name, radius_m, start (did you mean"
            " 'name'?)"
        ),
    ),
    (
        "    limits:\n",
        "    reset_compliance: {error_clip: [0.1, 0.1, 0.1, 0.05, 0.05, 0.05]}\n    limits:\n",
        (
            "reset_compliance.error_clip[0] = 0.1: stiffness x clip is 2000 x 0.1 = 200 N along x,"
            " and max_force is 80 N"
        ),
    ),
    (
        "driver: mujoco\n  - name: front",
        "driver: mujoco\n    options: {vew: wrist}\n  - name: front",
        "cameras[0].options.vew is not a known key; allowed: crop, view (did you mean 'view'?)",
    ),
    (
        "driver: mujoco\n  - name: front",
        "driver: opencv\n    options: {device: 0, crop: [0, 0, 0, 9]}\n  - name: front",
        "cameras[0].options.crop is refused: crop = [0, 0, 0, 9]: wanted x, y, width, height",
    ),
    (
        "name: scripted",
        "name: script",
        "teleop.name = 'script' is not in robot_rl/teleop; it has: ",
    ),
    (
        "name: scripted",
        "name: scripted\n  options: {sped: 0.5}",
        "teleop.options.sped is not a known key; allowed: ",
    ),
    (
        "name: scripted",
        "name: scripted\n  options: {speed: 50}",
        "teleop.options.speed = 50: wanted more than 0, at most 1",
    ),
    (
        "name: scripted",
        "name: scripted\n  options: {arm: left}",
        "teleop.options.arm = 'left' is not in the file; it has: panda",
    ),
    (
        "name: scripted",
        "name: scripted\n  options: {axes: [x, y]}",
        "teleop.options.axes = ['x', 'y']: wanted six of x, y, z",
    ),
    # a second device
    (
        "name: scripted",
        "name: scripted\nmore_teleop: [{name: keyboard}]",
        "more_teleop[0].options.arm = 'panda' has a device already: name another arm",
    ),
    (
        "name: scripted",
        "name: scripted\nmore_teleop: [{name: keyboard, options: {arm: left}}]",
        "more_teleop[0].options.arm = 'left' is not in the file; it has: panda",
    ),
    (
        "teleop:\n  name: scripted",
        "more_teleop: [{name: scripted}]",
        "more_teleop stands beside `teleop`, and there is none",
    ),
    (
        "name: scripted",
        "name: browser\nmore_teleop: [{name: browser}]",
        "more_teleop names the browser twice, and the page has one gizmo: wanted another device",
    ),
]
"""Text of sim_panda.yaml, what somebody wrote instead, and what they are told."""

FRANKA = [
    (
        "ip: 172.16.0.2  # the",
        "ipp: 172.16.0.2  # the",
        "options.ipp is not a known key; allowed: ",
    ),
    ("ip: 172.16.0.2  # the", "ip: 172  # the", "arms[0].options.ip = 172: wanted a valid string"),
    ("collision_torque: [60.0, ", "collision_torque: [", "options.collision_torque[6] is missing"),
    (
        "joint_low: [",
        "joint_low: [-2.8973, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159]  # [",
        "joint_low[0] = -2.8973: the arm of driver 'franka' can do -2.7437",
    ),
    (
        "# What is plugged in",
        "grippers: [{name: hand, driver: mujoco, arm: fr4}]  # What is plugged in",
        "grippers[0].arm = 'fr4' is not in the file; it has: ",
    ),
    (
        "# What is plugged in",
        "grippers: [{name: a.x, driver: mujoco}]  # What is plugged in",
        "grippers[0].name = 'a.x': wanted a name without a dot",
    ),
    (
        "# What is plugged in",
        "grippers: [{name: a, driver: mujoco}, {name: b, driver: mujoco}]  # What is plugged in",
        "as 'a' does: wanted one for each at most",
    ),
    (
        "# What is plugged in",
        "grippers: [{name: hand, driver: franka, options: {pi: 172.16.0.2}}]  # What is plugged in",
        "grippers[0].options.pi is not a known key; allowed: ip",
    ),
]
"""The same of franka_fr3.yaml, whose driver has options."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that starts is a slip that was not refused."""
    monkeypatch.setattr(
        "robot_rl.controllers.server.serve", lambda *_, **__: pytest.fail("the arm was started")
    )


def refused(
    file: str, old: str, new: str, capsys: pytest.CaptureFixture[str], place: Path, verb: list[str]
) -> str:
    """What the command line says of a packaged hardware file with one text changed; it is rc 2, in
    plain words.
    """
    text = (PACKAGED / file).read_text()
    assert old in text, f"{old!r} is not in {file}"
    (place / "hardware_configs").mkdir()
    (place / "hardware_configs" / "mine.yaml").write_text(text.replace(old, new, 1))
    assert cli.main(verb) == 2
    said = capsys.readouterr().err
    assert said.startswith("robot-rl: ") and "Traceback" not in said
    return said


def line_of(file: str, text: str) -> int:
    return (PACKAGED / file).read_text().split(text)[0].count("\n") + 1


@pytest.mark.parametrize(("old", "new", "told"), SIM, ids=[new.strip()[:40] for _, new, _ in SIM])
def test_a_slip_in_the_file_of_a_simulated_arm(
    old: str,
    new: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(
        "sim_panda.yaml", old, new, capsys, tmp_path, ["arm", "mine", "--clock", "lockstep"]
    )
    assert told in said
    line = line_of("sim_panda.yaml", old)
    near = range(line - 1, line + 1 + max(old.count("\n"), new.count("\n")) + 1)
    assert (
        any(f"mine.yaml:{number}: " in said for number in near)
        or "is missing" in told
        or "stands without" in told
    )


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("share", [-0.01, 1.01])
def test_no_limit_is_beyond_what_can_be_meant(
    name: str,
    share: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    allowed = RANGES[name]
    file = "sim_hand.yaml" if name == "workspace_turn" else "sim_panda.yaml"
    line = re.search(rf"^ +{name}: .*", (PACKAGED / file).read_text(), re.MULTILINE)
    assert line is not None
    wild = re.sub(
        r"-?[\d.]+", f"{allowed.low + share * (allowed.high - allowed.low):g}", line[0], count=1
    )
    said = refused(file, line[0], wild, capsys, tmp_path, ["arm", "mine", "--clock", "lockstep"])
    assert re.search(
        rf"mine.yaml:\d+: arms\[0\].limits.{name}(\[0\])? = \S+: wanted {re.escape(str(allowed))}",
        said,
    )


@pytest.mark.parametrize(
    ("old", "new", "told"), FRANKA, ids=[new.strip()[:40] for _, new, _ in FRANKA]
)
def test_a_slip_in_the_file_of_a_real_arm(
    old: str,
    new: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(
        "pylibfranka", reason="pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"
    )
    monkeypatch.chdir(tmp_path)
    said = refused("franka_fr3.yaml", old, new, capsys, tmp_path, ["check", "mine"])
    assert told in said and f"mine.yaml:{line_of('franka_fr3.yaml', old)}: " in said


@pytest.mark.parametrize(
    ("package", "device", "told"),
    [
        (
            "evdev",
            "gamepad\n  options: {buttons: {suoth: success}}",
            "buttons: suoth is no button; there are: dpad_down, ",
        ),
        (
            "evdev",
            "gamepad\n  options: {button: {}}",
            "button is not a known key; allowed: arm, axes, buttons",
        ),
        (
            "Xlib",
            "keyboard\n  options: {keys: {w: sucess}}",
            "w = 'sucess' is not known; allowed: ",
        ),
        ("Xlib", "keyboard\n  options: {keys: [w]}", 'options.keys = ["w"]: wanted a mapping'),
        (
            "zmq",
            "browser\n  options: {speed: fast}",
            'options.speed = "fast": wanted a valid number',
        ),
    ],
    ids=lambda text: text.replace("\n", " ")[:40],
)
def test_a_slip_about_the_operators_device(
    package: str,
    device: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    said = refused(
        "sim_panda.yaml", "name: scripted", f"name: {device}", capsys, tmp_path, ["teleop", "mine"]
    )
    assert (
        told in said
        and f"mine.yaml:{line_of('sim_panda.yaml', 'name: scripted') + 1}: teleop.options." in said
    )


@pytest.mark.parametrize(
    "verb",
    [
        "arm mine",
        "check mine",
        "pose mine",
        "teleop mine",
        "cameras mine",
        "train --hardware mine",
        "train peg_insert --hardware=mine",
        "demo peg_insert --hardware mine",
    ],
)
def test_every_verb_refuses_the_file_alike(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(
        "sim_panda.yaml", "max_force: 80.0", "max_force: 8000", capsys, tmp_path, verb.split()
    )
    assert (
        f"mine.yaml:{line_of('sim_panda.yaml', 'max_force: 80.0')}: arms[0].limits.max_force ="
        " 8000: wanted" in said
    )
    assert not (tmp_path / "runs").exists()


def test_an_arm_that_follows_poses_needs_no_limits_of_joint_torques(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "arms").mkdir()
    shutil.copy(
        PACKAGED.parent / "docs" / "examples" / "arms" / "toy.py", tmp_path / "arms" / "follower.py"
    )
    text = (
        (PACKAGED / "sim_panda.yaml")
        .read_text()
        .replace("driver: mujoco\n    # By", "driver: follower\n    # By")
    )
    unused = ("max_torque:", "max_torque_rate:", "joint_margin:", "joint_speed_margin:")
    kept = [line for line in text.splitlines() if not line.strip().startswith(unused)]
    (tmp_path / "hardware_configs").mkdir()
    (tmp_path / "hardware_configs" / "mine.yaml").write_text("\n".join(kept))
    (tmp_path / "tasks").mkdir()
    task = "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
    task += (
        "TASK = replace(\n    load_task('peg_insert'),\n    name='mine',\n    max_drift=0.5,\n)\n"
    )
    (tmp_path / "tasks" / "mine.py").write_text(task)
    monkeypatch.chdir(tmp_path)
    assert config.load_hardware("mine").arms[0].limits.max_torque == (1.0,) * 7
    assert cli.main(["arm", "mine", "--task", "mine"]) == 2
    assert (
        "mine.py:6: max_drift = 0.5: arm 'panda' (driver 'follower') follows poses"
        in capsys.readouterr().err
    )
