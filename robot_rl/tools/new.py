"""`robot-rl new`: a task file and a bench file from a dozen answers, beginning with a bench that is shipped."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import numpy as np

from robot_rl import config, geometry
from robot_rl.cameras import flow
from robot_rl.config import ArmConfig, CameraConfig, Hardware
from robot_rl.machine.validation import nearest
from robot_rl.tools import camera_check
from robot_rl.tools.pose import PoseWatcher
from robot_rl.types import Array, ConfigError, RobotRLError

Three = tuple[float, float, float]
Pose = tuple[float, float, float, float, float, float, float]
ANGLE_RAD = 0.3  # that a task lets its tool tilt and turn
STOOD_M = 0.01  # a hand that rests on an arm moves it no further
# of the workspace around the range of starts, where nobody has guided the arm through it
ROOM_M = 0.05


@dataclass(frozen=True)
class Answers:
    """What is asked, in this order; each is an option as well."""

    bench: str = ""
    """Name of the bench, hardware_configs/BENCH.yaml; one that is there is used as it is (TASK_bench)"""
    like: str = "franka_fr3"
    """Which hardware file a new bench begins with: franka_fr3, sim_panda, fci_sim, or one of yours"""
    ip: str = ""
    """Network address of a new bench's robot (as in the file it begins with)"""
    cameras: tuple[str, ...] | None = None
    """Cameras that the policy sees, by name; of a bench without, names for those that `robot-rl cameras` lists (all)"""
    crop: tuple[tuple[str, int, int, int, int], ...] = ()
    """Crop of a new bench's camera: its name, x, y, width, height in pixels; `robot-rl cameras` tries it (none)"""
    teleop: str = ""
    """The operator's device: browser, spacemouse, gamepad, keyboard (as in the file it begins with)"""
    tool_m: float = 0.0
    """How far the tool's tip is beyond the hardware file's TCP, along its z [m]"""
    pose: Pose | None = None
    """Pose of the tip where episodes start: x y z [m], quaternion xyzw (where the arm stands now)"""
    range_m: Three = (0.02, 0.02, 0.01)
    """How far starts are spread about it along x, y, z [m], as half-widths"""
    range_deg: Three = (0.0, 0.0, 5.0)
    """How far they are turned about the tool's x, y, z [degrees], as half-widths"""
    box: tuple[float, float, float, float, float, float] | None = None
    """The room that the tip may use: lowest x y z, highest x y z [m] (50 mm around starts and goal)"""
    reward: str = "operator"
    """Who says success: operator (a person's key), pose (the tip is at a goal), or another file of rewards/"""
    goal: Pose | None = None
    """With reward pose, the pose of the tip at the goal: x y z [m], quaternion xyzw"""
    tolerance_m: float = 0.002
    """With reward pose: how near is success [m]"""
    seconds: float = 10.0
    """Time limit of an episode [s]"""
    manual_reset: str = ""
    """What a person has to do before each episode, in words (nothing)"""
    scene: str = ""
    """On a simulated bench, the scene that its arm stands in (empty)"""
    description: str = "a task of ours"
    """The task in one line"""


ABOUT_BENCH = ("like", "ip", "crop", "teleop")


def applies(name: str, task: str, answers: Answers) -> bool:
    """Whether a question is one, as the others are answered."""
    if name in ABOUT_BENCH and bench_file(task, answers).exists():
        return False
    if name in ("goal", "tolerance_m"):
        return answers.reward == "pose"
    if name == "ip":
        return "ip" in first_bench(task, answers).arms[0].options
    if name == "scene":
        return is_simulated(first_bench(task, answers).arms[0])
    return True


def write_files(task: str, answers: Answers) -> list[Path]:
    """Write `tasks/TASK.py` and, if there is none, the bench's file; returns what was written.

    Nothing is overwritten, and nothing is left behind where the two do not fit. Raises ConfigError.
    """
    for name in (task, answers.bench or task):
        if not config.is_name(name):
            raise ConfigError(f"{name!r:.100} is no name of a task or a bench: {config.NAMES_ARE}")
    file = Path("tasks") / f"{task}.py"
    if file.exists():
        raise ConfigError(
            f"{file} exists already, and nothing is overwritten: choose another name, or edit it"
        )
    bench = bench_file(task, answers)
    if bench.exists() and (
        said := [name for name in ABOUT_BENCH if getattr(answers, name) != getattr(Answers, name)]
    ):
        raise ConfigError(
            f"{bench} exists already and stays as it is: leave out {', '.join(said)}, or edit it"
        )
    hardware = first_bench(task, answers)
    cameras = cameras_of(hardware, answers)
    answers = with_poses(hardware, answers)
    texts = {file: task_text(task, answers, [camera.name for camera in cameras], hardware)}
    if not bench.exists():
        texts[bench] = bench_text(answers, cameras)
    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(exist_ok=True)
            with path.open("x") as opened:
                written.append(path)
                opened.write(text)
        config.check_fit(config.load_task(task), config.load_hardware(bench.stem))
    except RobotRLError as error:
        for path in written:
            path.unlink()
        raise ConfigError(
            f"these answers make no task, and nothing was written:\n{error}"
        ) from error
    return written


def bench_file(task: str, answers: Answers) -> Path:
    return Path("hardware_configs") / f"{answers.bench or f'{task}_bench'}.yaml"


def first_bench(task: str, answers: Answers) -> Hardware:
    """The bench if it is there, else the one that a new one begins with, at the address that was said."""
    bench = bench_file(task, answers)
    hardware = config.load_hardware(bench.stem if bench.exists() else answers.like)
    arm = hardware.arms[0]
    if len(hardware.arms) > 1:
        raise ConfigError(
            f"hardware {hardware.name!r} has {len(hardware.arms)} arms: write its tasks by hand"
        )
    if not answers.ip:
        return hardware
    if "ip" not in arm.options:
        raise ConfigError(
            f"arm {arm.name!r} of hardware {hardware.name!r} has no network address: leave out --ip"
        )
    return replace(hardware, arms=(replace(arm, options={**arm.options, "ip": answers.ip}),))


def is_simulated(arm: ArmConfig) -> bool:
    return bool(config.driver("controllers/arms", arm.driver).simulated)


def cameras_of(hardware: Hardware, answers: Answers) -> list[CameraConfig]:
    """The cameras that the policy sees: the bench's own by name, or names for those that are plugged in.

    Raises ConfigError for a name that the bench does not have, or more names than there are cameras.
    """
    there = {camera.name: camera for camera in hardware.cameras}
    if not there and answers.cameras != ():
        found = camera_check.find_cameras()[0]
        names = (
            [f"camera{number + 1}" for number in range(len(found))]
            if answers.cameras is None
            else answers.cameras
        )
        if len(names) > len(found):
            raise ConfigError(
                f"{len(names)} cameras are named, and {len(found)} plugged in: see `robot-rl cameras`"
            )
        there = {
            name: CameraConfig(name, f.driver, f.options)
            for name, f in zip(names, found, strict=False)
        }
    wanted = tuple(there) if answers.cameras is None else answers.cameras
    for name in (*wanted, *(crop[0] for crop in answers.crop)):
        if name not in there:
            raise ConfigError(
                f"camera {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, there)}"
            )
    crops = {name: crop for name, *crop in answers.crop}
    return [
        replace(
            there[name],
            options={**there[name].options, **({"crop": crops[name]} if name in crops else {})},
        )
        for name in wanted
    ]


# --------------------------------------------------------------------------------------------------- the arm


def watcher(hardware: Hardware, answers: Answers) -> PoseWatcher:
    """Measures the bench's arm, which moves by hand alone. Close it."""
    arm, tool = hardware.arms[0], np.array([0.0, 0.0, answers.tool_m, 0.0, 0.0, 0.0, 1.0])
    tip = geometry.pose_multiply(np.array(arm.pose_flange_tcp), tool)
    return PoseWatcher(replace(arm, pose_flange_tcp=tuple(tip)), None)


def read_pose(hardware: Hardware, answers: Answers) -> Pose:
    """Pose of the tip, now."""
    arm = watcher(hardware, answers)
    try:
        return _rounded(arm.look())
    finally:
        arm.close()


def read_box(hardware: Hardware, answers: Answers, done: Callable[[], bool]) -> tuple[float, ...]:
    """Where the tip is guided until `done()`: lowest x, y, z, highest x, y, z [m]; nothing if it stood still."""
    arm = watcher(hardware, answers)
    try:
        arm.look()
        while not done():
            arm.look()
        low, high = arm.box
        return _rounded(np.concatenate([low, high])) if np.any(high - low > STOOD_M) else ()
    finally:
        arm.close()


def with_poses(hardware: Hardware, answers: Answers) -> Answers:
    """The answers with start and room: what was not said is read off the arm, and follows from the starts."""
    if answers.reward == "pose" and answers.goal is None:
        raise ConfigError(
            "reward 'pose' needs --goal: guide the tool there, and `robot-rl pose` prints it"
        )
    pose = answers.pose or read_pose(hardware, answers)
    if answers.box is not None:
        return replace(answers, pose=pose)
    spread = np.array(answers.range_m) + ROOM_M
    places = [np.array(pose[:3]), np.array((answers.goal or pose)[:3])]
    low, high = np.min(places, 0) - spread, np.max(places, 0) + spread
    # its table is where the file says; a real bench's box is widened to this
    if is_simulated(hardware.arms[0]):
        limits = hardware.arms[0].limits
        low, high = np.maximum(low, limits.workspace_low), np.minimum(high, limits.workspace_high)
    return replace(answers, pose=pose, box=(*_rounded(low), *_rounded(high)))


def _rounded(values: Array) -> tuple:
    return tuple(round(float(value), 4) + 0.0 for value in values)


# --------------------------------------------------------------------------------------------------- the files


def bench_text(answers: Answers, cameras: list[CameraConfig]) -> str:
    """The file that the bench begins with, every comment of it, with this bench's own lines."""
    like = config.load_hardware(answers.like)
    assert like.source is not None and answers.box and answers.pose, (
        "it was read from a file, and all was measured"
    )
    text, arm = like.source.path.read_text(), like.arms[0]
    if answers.ip:
        text = text.replace(arm.options["ip"], answers.ip)
    low, high = arm.limits.workspace_low, arm.limits.workspace_high
    text = _with_numbers(text, "workspace_low", np.minimum(low, answers.box[:3]), low)
    text = _with_numbers(text, "workspace_high", np.maximum(high, answers.box[3:]), high)
    middle = np.array(arm.limits.workspace_quat)
    turn = geometry.quat_multiply(geometry.quat_conjugate(middle), np.array(answers.pose[3:]))
    if np.linalg.norm([*geometry.quat_to_rotvec(turn), *np.radians(answers.range_deg)]) > ANGLE_RAD:
        text = _with_numbers(text, "workspace_quat", answers.pose[3:], middle)
    lines = [
        f"  - {{name: {json.dumps(c.name)}, driver: {c.driver}, options: {flow(c.options)}}}"
        for c in cameras
    ]
    if lines:
        text = _with_block(text, "cameras", "\n".join(["cameras:", *lines]))
    if answers.teleop:
        text = _with_block(text, "teleop", f"teleop:\n  name: {answers.teleop}")
    return text


def _with_numbers(
    text: str, key: str, ours: Sequence[float] | Array, first: Sequence[float] | Array
) -> str:
    """A YAML text with other numbers behind a key, if they are others."""
    if np.array_equal(ours, first):
        return text
    return re.sub(rf"(?m)^( *{key}: )\[.*?\]", rf"\g<1>{list(_rounded(np.asarray(ours)))}", text)


def _with_block(text: str, key: str, block: str) -> str:
    """A YAML text with another block under a key at its left edge."""
    rest = re.sub(rf"(?ms)^{key}:.*?(?=^\S|\Z)", "", text)
    return f"{rest.rstrip()}\n\n{block}\n"


def task_text(name: str, answers: Answers, cameras: list[str], hardware: Hardware) -> str:
    """The task file."""
    assert answers.pose and answers.box, "they were measured"
    reward = json.dumps(answers.reward)
    if answers.reward == "pose":
        reward += f', {{"goals": ({answers.goal},), "translation_m": {answers.tolerance_m}}}'
    scene = f'Use("{answers.scene or "empty"}")' if is_simulated(hardware.arms[0]) else "None"
    return TASK_FILE.substitute(
        name=name,
        description=json.dumps(answers.description, ensure_ascii=False),
        pose=answers.pose,
        range_m=answers.range_m,
        range_rad=tuple(round(math.radians(angle), 4) for angle in answers.range_deg),
        cameras=f"({''.join(json.dumps(camera) + ', ' for camera in cameras).rstrip(' ')})",
        reward=reward,
        scene=scene,
        max_steps=max(1, round(10.0 * answers.seconds)),
        angle=min(ANGLE_RAD, hardware.arms[0].limits.workspace_angle),
        tool=(0.0, 0.0, answers.tool_m, 0.0, 0.0, 0.0, 1.0),
        manual_reset=json.dumps(answers.manual_reset, ensure_ascii=False),
        low=answers.box[:3],
        high=answers.box[3:],
    )


TASK_FILE = Template('''\
"""Written by `robot-rl new`; every field stands in docs/tasks_and_hardware.md."""

from robot_rl.config import StartPose, Task
from robot_rl.types import Compliance, Use

TASK = Task(
    name="$name",
    description=$description,
    # Pose of the tool in the base frame [m, xyzw], and half-widths of the ranges about it [m, rad]
    start=(
        StartPose(
            pose_base_tool=$pose,
            translation=$range_m,
            rotation=$range_rad,
        ),
    ),
    cameras=$cameras,
    reward=Use($reward),
    scene=$scene,
    rate_hz=10.0,
    max_steps=$max_steps,
    # So far an action of 1 moves the target in a step [m, rad], and so far it may be ahead of the arm
    action_translation=0.008,
    action_rotation=0.05,
    leash_translation=0.012,
    leash_rotation=0.1,
    # Along and about these axes of the tool; leave out those that are to stay as they are
    axes=("x", "y", "z", "rx", "ry", "rz"),
    # A gripper that the bench may have keeps what a person has put between its fingers
    grippers=("held",),
    # The tool's tip, seen from the hardware file's TCP [m, xyzw]
    pose_tcp_tool=$tool,
    # Stiffness times clip is the largest force: 2000 N/m x 10 mm = 20 N, and 150 Nm/rad x 0.05 rad = 7.5 Nm
    compliance=Compliance(
        stiffness=(2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0),
        damping=(89.0, 89.0, 89.0, 7.0, 7.0, 7.0),
        error_clip=(0.01, 0.01, 0.01, 0.05, 0.05, 0.05),
    ),
    manual_reset=$manual_reset,
    # The room that the tip may use, base frame [m], and how far the tool may tilt and turn [rad]
    limits={
        "workspace_low": $low,
        "workspace_high": $high,
        "workspace_angle": $angle,
    },
)
''')
