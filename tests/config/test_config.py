"""A mistake in a task or hardware file is found when it is read, and the message says where and
what is allowed.
"""

import importlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import config
from robot_rl.config import (
    GripperConfig,
    Hardware,
    Task,
    Wander,
    kinds,
    load_hardware,
    load_task,
    spaces,
    tighten,
)
from robot_rl.config.limits import limit_problems, outside, quat_angle, require_tighter
from robot_rl.machine.validation import apply_overrides, from_json, nearest, to_json
from robot_rl.types import ActionSpec, ArmLimits, Box, ConfigError, Use

PACKAGED = Path(__file__).parents[2] / "hardware_configs" / "sim_panda.yaml"
Edit = Callable[[str, str], str]


@pytest.fixture
def task() -> Task:
    return load_task("peg_insert")


@pytest.fixture
def hardware() -> Hardware:
    return load_hardware("sim_panda")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Load the packaged hardware file with one text replaced, and return the complaint about it."""

    def load(old: str, new: str) -> str:
        text = PACKAGED.read_text()
        assert text.count(old) >= 1, f"{old!r} is not in {PACKAGED}"
        (tmp_path / "hardware_configs").mkdir(exist_ok=True)
        (tmp_path / "hardware_configs" / "mine.yaml").write_text(text.replace(old, new, 1))
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError) as caught:
            load_hardware("mine")
        return str(caught.value)

    return load


def line_of(text: str) -> int:
    """Line of the packaged hardware file where `text` stands first."""
    return next(i for i, line in enumerate(PACKAGED.read_text().splitlines(), 1) if text in line)


# ------------------------------------------------------------------------------------------ finding


@pytest.mark.parametrize(
    "task_name", [path.stem for path in (PACKAGED.parents[1] / "tasks").glob("*.py")]
)
def test_every_packaged_task_fits_its_simulated_bench(task_name: str) -> None:
    task = load_task(task_name)
    config.check_fit(task, load_hardware(task.hardware))


@pytest.mark.parametrize("name", [path.stem for path in PACKAGED.parent.glob("*.yaml")])
def test_every_packaged_hardware_file_loads_and_survives_json(name: str) -> None:
    hardware = load_hardware(name)
    assert from_json(Hardware, json.loads(json.dumps(to_json(hardware)))) == hardware


def test_a_task_survives_json(task: Task) -> None:
    assert from_json(Task, json.loads(json.dumps(to_json(task)))) == task


def test_find_returns_the_module_and_a_miss_lists_the_folder() -> None:
    assert hasattr(config.find("rewards", "simulator"), "Reward")
    with pytest.raises(
        ConfigError,
        match=r"'simulater' is not in robot_rl/rewards; it has: .*simulator.*mean 'simul",
    ):
        config.find("rewards", "simulater")


@pytest.mark.parametrize("kind", sorted(config.KINDS))
def test_every_kind_is_a_folder_of_the_package(kind: str) -> None:
    assert (config.PACKAGE / kind).is_dir() or kind == "networks/encoders", "theirs is one table"


def test_a_missing_device_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "teleop").mkdir()
    (tmp_path / "teleop" / "psychic.py").write_text("import brainwave_reader\n")
    monkeypatch.setattr(kinds, "PACKAGE", tmp_path)
    monkeypatch.setattr(
        importlib.import_module("robot_rl.teleop"), "__path__", [str(tmp_path / "teleop")]
    )
    with pytest.raises(ConfigError, match="teleop/psychic needs the package 'brainwave_reader'"):
        config.find("teleop", "psychic")


def test_make_refuses_an_option_that_nothing_takes() -> None:
    with pytest.raises(
        ConfigError, match=r"clearence is not a known key; .*did you mean 'clearance_m'"
    ):
        config.make("sim/scenes", Use("peg_insert", {"clearence": 0.001}))


def test_a_missing_file_lists_what_there_is() -> None:
    with pytest.raises(
        ConfigError, match=r"tasks/peg_insrt.py does not exist; .*did you mean 'peg_insert'"
    ):
        load_task("peg_insrt")
    with pytest.raises(
        ConfigError,
        match=r"hardware_configs/sim_pnda.yaml does not exist; .*did you mean 'sim_panda'",
    ):
        load_hardware("sim_pnda")


def test_the_working_directory_comes_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hardware_configs").mkdir()
    mine = PACKAGED.read_text().replace("max_force: 80.0", "max_force: 42.0")
    (tmp_path / "hardware_configs" / "sim_panda.yaml").write_text(mine)
    (tmp_path / "tasks").mkdir()
    source = (
        (PACKAGED.parents[1] / "tasks" / "peg_insert.py")
        .read_text()
        .replace("max_steps=100", "max_steps=7")
    )
    (tmp_path / "tasks" / "peg_insert.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert load_hardware("sim_panda").arms[0].limits.max_force == 42.0
    assert load_task("peg_insert").max_steps == 7


# ----------------------------------------------------------------------------------- hardware files


def test_an_unknown_key_at_the_top_does_not_offer_the_name_that_the_file_itself_gives(
    broken: Edit,
) -> None:
    complaint = broken("cameras:", "camera:")
    assert complaint.endswith(
        f":{line_of('cameras:')}: camera is not a known key; allowed: {nearest('camera', ALLOWED)}"
    )


ALLOWED = ("arms", "cameras", "grippers", "teleop", "more_teleop")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("max_force: 80.0", "max_force: true", "limits.max_force = true: wanted a valid number"),
        (
            "max_force: 80.0",
            "max_force: 2026-01-01",
            "max_force = 2026-01-01: wanted a text, number",
        ),
        ("[0.001, 0.0025,", "[0.001, 0.25,", "no body has these moments"),
        ("keep_out: []", "keep_out: [{low: [0, 0, 0], hihg: [1, 1, 1]}]", "did you mean 'high'"),
        ("name: front", "name: wrist", "'wrist' is taken by another of the cameras"),
        ("  - name: wrist", "  - name: 3", "cameras[0].name = 3: wanted a valid string"),
        ("teleop:", "teleop: [", "not valid YAML"),
        ("teleop:", "name: bench\nteleop:", "name is not for this file to say"),
    ],
)
def test_a_bad_value_names_file_line_and_what_is_wanted(
    old: str, new: str, complaint: str, broken: Edit
) -> None:
    message = broken(old, new)
    assert complaint in message
    assert "mine.yaml:" in message
    if "YAML" not in message:
        assert f":{line_of(old)}: " in message


def test_no_arms_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hardware_configs").mkdir()
    (tmp_path / "hardware_configs" / "mine.yaml").write_text("arms: []\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"mine.yaml:1: arms is empty"):
        load_hardware("mine")


@pytest.mark.parametrize("text", ["", "- a\n", "a: &a [*a]\n", "!!python/object:os.system {}\n"])
def test_a_file_that_is_no_hardware_at_all_is_a_config_error(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hardware_configs").mkdir()
    (tmp_path / "hardware_configs" / "mine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"mine.yaml"):
        load_hardware("mine")


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-6, max_value=1e6))
def test_yaml_numbers_in_every_notation_are_numbers(value: float) -> None:
    from robot_rl.machine.validation import _Loader

    for text in (repr(value), f"{value:e}", f"{value:.3e}".replace(".000", "")):
        assert yaml.load(text, _Loader) == float(text)  # noqa: S506 (a SafeLoader's child)


# ------------------------------------------------------------------------------------------- limits


@cache
def packaged_limits() -> ArmLimits:
    return load_hardware("sim_panda").arms[0].limits


@pytest.fixture
def limits() -> ArmLimits:
    return packaged_limits()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"max_force": 81.0}, "max_force"),
        ({"max_torque": [87.0] * 3 + [87.1] + [12.0] * 3}, "max_torque"),
        ({"max_torque": [80.0] * 3}, "max_torque"),
        ({"workspace_low": [0.34, -0.2, 0.0]}, "workspace_low"),
        ({"workspace_high": [0.6, 0.2, 0.36]}, "workspace_high"),
        ({"workspace_angle": 0.61}, "workspace_angle"),
        ({"workspace_quat": [0.0, 1.0, 0.0, 0.0]}, "workspace_quat"),
        ({"workspace_margin_m": 0.04}, "workspace_margin_m"),
    ],
)
def test_a_task_cannot_widen_a_limit(changes: dict[str, Any], name: str, limits: ArmLimits) -> None:
    with pytest.raises(
        ConfigError, match=rf"limits: {name}\W.* a task may tighten a limit of the hardware, never"
    ):
        tighten(limits, changes)


@given(data=st.data())
def test_a_tightened_limit_is_never_wider(data: st.DataObject) -> None:
    """Whatever numbers a task gives: it is refused, or every limit is at least as tight as the
    hardware's.
    """
    limits = packaged_limits()
    names = st.sampled_from(sorted(to_json(limits).keys() - {"workspace_quat", "keep_out"}))
    number = st.floats(-0.5, 3.0)
    changes = {}
    for name in data.draw(st.lists(names, unique=True, max_size=4)):
        value = getattr(limits, name)
        size = len(value) if isinstance(value, tuple) else 0
        changes[name] = data.draw(
            st.lists(number, min_size=size, max_size=size) if size else number
        )
    try:
        tight = tighten(limits, changes)
    except ConfigError:
        return
    for name, before in to_json(limits).items():
        after = getattr(tight, name)
        pairs = zip(before, after, strict=True) if isinstance(before, list) else [(before, after)]
        grows = name in (
            "workspace_low",
            "body_low",
            "joint_low",
            "joint_margin",
            "joint_speed_margin",
        )
        assert name == "retreat_m" or all(b >= a if grows else b <= a for a, b in pairs)
    assert not list(limit_problems(tight, 7))


def test_a_task_can_tighten_and_leaves_the_rest(limits: ArmLimits) -> None:
    assert tighten(limits, {"max_force": 40.0, "workspace_low": [0.4, -0.1, 0.0]}) == replace(
        limits, max_force=40.0, workspace_low=(0.4, -0.1, 0.0)
    )


def test_a_task_adds_keep_out_boxes_and_takes_none_away(limits: ArmLimits) -> None:
    own, theirs = Box((0.4, 0.0, 0.0), (0.5, 0.1, 0.1)), Box((0.6, 0.0, 0.0), (0.65, 0.1, 0.1))
    tight = tighten(replace(limits, keep_out=(own,)), {"keep_out": [vars(theirs)]})
    assert tight.keep_out == (own, theirs)
    with pytest.raises(ConfigError, match=r"keep_out lacks .*never widen it"):
        require_tighter(tight, replace(tight, keep_out=(theirs,)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"retreat_force": 79.0}, "retreat_force = 79: wanted at least max_force, 80"),
        ({"joint_margin": 2.0}, r"joint_margin = 2: wanted 0 to 1 rad"),
        (
            {"joint_speed_margin": 2.0},
            "joint_speed_margin = 2: wanted less than every max_joint_speed",
        ),
        (
            {"keep_out": [{"low": [0, 0, 0], "high": [0, 1, 1]}]},
            r"keep_out\[0\].low must be below high; it is not on x",
        ),
    ],
)
def test_limits_that_make_no_sense_together(
    changes: dict[str, Any], complaint: str, limits: ArmLimits
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        tighten(limits, changes)


def test_the_workspace_may_turn_inside_itself(limits: ArmLimits) -> None:
    turned = [math.cos(0.1), math.sin(0.1), 0.0, 0.0]  # 0.2 rad about z
    tight = tighten(limits, {"workspace_quat": turned, "workspace_angle": 0.2})
    assert quat_angle(limits.workspace_quat, tight.workspace_quat) == pytest.approx(0.2)
    with pytest.raises(
        ConfigError, match=r"turned by 0.2 rad, so that workspace_angle may be 0.2 rad at most"
    ):
        tighten(limits, {"workspace_quat": turned})


def test_a_turn_of_its_own_may_be_narrowed_and_given_up_and_not_turned_away(
    limits: ArmLimits,
) -> None:
    wide = replace(limits, workspace_angle=0.2, workspace_turn=1.5)
    assert tighten(wide, {"workspace_turn": 1.0}).workspace_turn == 1.0
    turned = [math.cos(0.05), math.sin(0.05), 0.0, 0.0]  # 0.1 rad about z
    assert tighten(wide, {"workspace_quat": turned, "workspace_angle": 0.1, "workspace_turn": 0.0})
    for changes, complaint in (
        ({"workspace_turn": 1.6}, "workspace_turn = 1.6: a task may tighten"),
        (
            {"workspace_turn": 0.1},
            "workspace_turn = 0.1: wanted 0, or at least workspace_angle, 0.2",
        ),
        ({"workspace_quat": turned, "workspace_angle": 0.1}, "wanted workspace_turn = 0 beside it"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            tighten(wide, changes)
    at = (0.5, 0.0, 0.1)
    yawed = (math.cos(0.6), math.sin(0.6), 0.0, 0.0)  # 1.2 rad about z
    assert not outside(wide, (*at, *yawed), (0.0,) * 3, (0.1, 0.1, 0.2))
    assert "turns up to 1.6 rad about z" in outside(
        wide, (*at, *yawed), (0.0,) * 3, (0.0, 0.0, 0.4)
    )
    assert "tilts up to 0.3 rad" in outside(wide, (*at, *yawed), (0.0,) * 3, (0.3, 0.0, 0.0))


def test_an_unknown_limit_names_the_nearest(limits: ArmLimits) -> None:
    with pytest.raises(
        ConfigError, match=r"the task's limits: max_forc is not a known key; .*mean 'max_force'"
    ):
        tighten(limits, {"max_forc": 1.0})


def test_outside_sees_each_axis_and_the_orientation(limits: ArmLimits) -> None:
    pose, still = (0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    assert outside(limits, pose, (0.02, 0.02, 0.02), (0.1, 0.1, 0.1)) == ""
    for axis, name in enumerate("xyz"):
        wide = [0.0, 0.0, 0.0]
        wide[axis] = 0.5
        assert outside(limits, pose, wide, still).startswith(f"on {name}: ")
    assert outside(limits, pose, still, (0.4, 0.4, 0.4)).startswith(
        "in orientation: it turns up to 0.6928 rad"
    )


# --------------------------------------------------------------------------------- task on hardware


def test_a_missing_camera_says_which_there_are(task: Task, hardware: Hardware) -> None:
    with pytest.raises(
        ConfigError,
        match=r"camera 'rist' is not in hardware 'sim_panda'; it has: front, wrist \(did",
    ):
        config.check_fit(replace(task, cameras=("rist",)), hardware)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rate_hz": 0.0}, "task 'peg_insert': rate_hz = 0: wanted 1 to 200 Hz"),
        ({"max_steps": -1}, "max_steps = -1"),
        ({"action_rotation": -0.1}, "action_rotation = -0.1: wanted more than 0"),
        ({"image_size": (0, 128)}, r"image_size\[0\] = 0: wanted 8 to 1024 pixels"),
        ({"cameras": ("wrist", "wrist")}, "name one twice"),
        ({"start": ()}, "0 start poses for the 1 arms"),
        ({"reward": Use("simulater")}, "'simulater' is not in robot_rl/rewards"),
        ({"scene": Use("peg")}, "'peg' is not in robot_rl/sim/scenes"),
        (
            {"limits": {"workspace_high": [0.62, 0.2, 0.06]}},
            r"leaves the workspace of arm 'panda' on z: .*0.085 m",
        ),
        ({"pose_tcp_tool": (0.0,) * 7}, "pose_tcp_tool = .* does not end in a unit quaternion"),
        (
            {"wander": Wander((0.0, 0.0, -0.01), 0.02, 0.02, arm=1)},
            "wander.arm = 1: the task is for 1 arms, from 0 on",
        ),
        (
            {"wander": Wander((0.0, 0.0, -0.01), 0.02, 0.02, carries=True)},
            "wander.carries = True, and the task does not move the gripper of that arm",
        ),
        (
            {"wander": Wander((0.0, 0.0, -0.01), 0.02, 0.02, takes_to=(0.03, 0.0, 0.0))},
            "wander.carries = False, and takes_from and takes_to say where it takes hold",
        ),
        (
            {"wander": Wander((0.0, 0.0, -0.01), 0.02, 0.02, takes_to=(0.3, 0.0, 0.0))},
            r"wander.takes_to\[0\] = 0.3: wanted -0.2 to 0.2 m",
        ),
        (
            {"wander": Wander((0.0, 0.0, -0.01), 0.02, 0.02, near_aside=2.0)},
            "wander.near_aside = 2: wanted 0 to 1",
        ),
    ],
)
def test_a_task_that_cannot_run_is_refused(
    changes: dict[str, Any], complaint: str, task: Task, hardware: Hardware
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        spaces(replace(task, **changes), hardware, "state")


def test_every_complaint_is_told_at_once(task: Task, hardware: Hardware) -> None:
    with pytest.raises(ConfigError) as caught:
        config.check_fit(replace(task, rate_hz=-1.0, max_steps=0), hardware)
    assert len(str(caught.value).splitlines()) == 2


def test_spaces_follow_from_the_files(task: Task, hardware: Hardware) -> None:
    pixels = spaces(replace(task, image_size=(96, 128)), hardware, "pixels")
    state = ["state/tcp_pose", "state/tcp_twist", "state/tcp_wrench", "state/target_offset"]
    assert list(pixels.observations) == [*state, "image/wrist", "image/front"]
    assert pixels.observations["image/wrist"] == ((96, 128, 3), "uint8")
    assert pixels.observations["state/tcp_pose"] == ((6,), "float32")
    assert pixels.action_size == 6
    assert list(spaces(task, hardware, "state").observations) == [*state, "state/sim_goal"]
    tells = spaces(replace(task, observe_gravity=True), hardware, "pixels")
    assert list(tells.observations) == [
        *state,
        "state/projected_gravity",
        "image/wrist",
        "image/front",
    ]
    assert tells.observations["state/projected_gravity"] == ((3,), "float32")
    placed = spaces(replace(task, observe_place=True), hardware, "pixels")
    assert placed.observations["state/place"] == ((6,), "float32")
    assert "state/grasp" not in placed.observations


HAND = (GripperConfig("hand", "mujoco"),)


def test_the_spaces_name_what_an_action_moves(task: Task, hardware: Hardware) -> None:
    held, gripped = replace(task, axes=("rz", "x"), wander=None), replace(hardware, grippers=HAND)
    fetches = replace(task, observe_grasp=True)
    with pytest.raises(ConfigError, match=r"observe_grasp.*none of `grippers` is 'moved'"):
        spaces(fetches, gripped, "pixels")
    fetches = replace(fetches, grippers=("moved",))
    assert spaces(fetches, gripped, "pixels").observations["state/grasp"] == ((6,), "float32")
    assert spaces(held, hardware, "state").actions == ActionSpec(("panda.x", "panda.rz"))
    moved = spaces(replace(held, grippers=("moved",)), gripped, "state").actions
    assert moved == ActionSpec(("panda.x", "panda.rz", "hand"), (2,))
    for bench in (hardware, gripped):
        assert spaces(replace(held, grippers=("held",)), bench, "state").actions.size == 2


@pytest.mark.parametrize(
    ("use", "grippers", "complaint"),
    [
        ((), HAND, r"grippers says 'none' of arm 'panda', which in hardware 'sim_panda' has the "
         r"gripper 'hand'"),
        (("none",), HAND, "grippers says 'none' of arm 'panda'"),
        (("moved",), (), "grippers says 'moved' of arm 'panda', which in hardware 'sim_panda' has no"),
        (("held", "held"), (), "grippers has 2 words for the 1 arms of hardware 'sim_panda'"),
    ],
)  # fmt: skip
def test_a_gripper_that_the_other_side_does_not_know_is_refused_with_both_named(
    use: Any, grippers: Any, complaint: str, task: Task, hardware: Hardware
) -> None:
    with pytest.raises(ConfigError, match=complaint) as error:
        config.check_fit(replace(task, grippers=use), replace(hardware, grippers=grippers))
    assert "peg_insert" in str(error.value)


@pytest.mark.parametrize(
    ("starts", "arms", "complaint"),
    [
        (1, 2, "start has 1 start poses for the 2 arms of hardware 'sim_panda': wanted one for each "
         r"\('panda', 'left'\)"),
        (2, 1, r"start has 2 start poses for the 1 arms of hardware 'sim_panda': .* \('panda'\)"),
    ],
)  # fmt: skip
def test_an_arm_that_the_other_side_does_not_know_is_refused_with_both_named(
    starts: int, arms: int, complaint: str, task: Task, hardware: Hardware
) -> None:
    (arm,) = hardware.arms
    left = replace(arm, name="left", address="tcp://127.0.0.1:5570")
    with pytest.raises(ConfigError, match=complaint) as error:
        config.check_fit(
            replace(task, start=starts * task.start), replace(hardware, arms=(arm, left)[:arms])
        )
    assert "task 'peg_insert'" in str(error.value)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"axes": ("x", "w")}, r"axes\[1\] = 'w': allowed: "),
        ({"axes": ("x", "x")}, r"axes\[1\] = 'x' stands there twice"),
        ({"axes": ()}, "axes is empty: wanted some of x, y, z, rx, ry, rz"),
        (
            {"axes": ("x", "y")},
            "wander.way_out .* leads along z, which the task's axes do not free",
        ),
    ],
)
def test_axes_that_cannot_be_freed_are_told(
    changes: dict[str, Any], complaint: str, task: Task, hardware: Hardware
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        spaces(replace(task, **changes), hardware, "state")


def test_two_arms_are_told_apart_by_name_and_refused_to_a_task_for_one(
    task: Task, hardware: Hardware
) -> None:
    (arm,) = hardware.arms
    two = replace(hardware, arms=(arm, replace(arm, name="left", address="tcp://127.0.0.1:5570")))
    both = replace(task, start=task.start * 2, grippers=())
    with pytest.raises(ConfigError, match="scene = 'peg_insert' is for 1 arm, and hardware 'sim_"):
        config.check_fit(both, two)
    spec = spaces(both, two, "state")
    assert spec.action_size == 12
    assert {
        "state/panda/tcp_pose",
        "state/left/tcp_pose",
        "state/left/sim_goal",
    } < spec.observations.keys()


def test_the_state_variant_needs_a_simulated_scene(task: Task, hardware: Hardware) -> None:
    with pytest.raises(ConfigError, match="has no simulated scene"):
        spaces(replace(task, scene=None), hardware, "state")


# ---------------------------------------------------------------------------------------- overrides


@dataclass(frozen=True)
class Inner:
    discount: float = 0.97
    layers: tuple[int, ...] = (256, 256)


@dataclass(frozen=True)
class Outer:
    steps: int = 100
    agent: Inner = field(default_factory=Inner)


def test_overrides_reach_into_nested_options() -> None:
    changed = apply_overrides(Outer(), {"agent.discount": 0.9, "agent.layers": [64], "steps": 5})
    assert changed == Outer(steps=5, agent=Inner(discount=0.9, layers=(64,)))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"agent.discont": 0.9},
            r"agent.discont: 'discont' is not a known key; allowed: .*mean 'discount'",
        ),
        (
            {"agnt.discount": 0.9},
            r"'agnt' is not a known key; allowed: agent, steps \(did you mean 'agent'",
        ),
        ({"steps.more": 1}, "'more' is not a known key; allowed: nothing"),
        ({"steps": "many"}, 'defaults: steps = "many": wanted a valid integer'),
        ({"agent.layers": [1, 2.5]}, r"agent.layers \[1\] = 2.5"),
    ],
)
def test_a_wrong_override_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        apply_overrides(Outer(), changes)


@pytest.mark.parametrize("load", [kinds.load_own, lambda path: kinds._imported("it", path.stem)])
def test_a_signal_while_a_compiled_module_is_loading_is_no_fault_of_the_file(
    tmp_path, monkeypatch, load
):
    """As pybind11 raises it out of `import mujoco`, one ImportError behind the other."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "interrupted.py"
    path.write_text(
        "try:\n    try:\n        raise KeyboardInterrupt\n"
        "    except KeyboardInterrupt as error:\n"
        "        raise ImportError('initialization failed') from error\n"
        "except ImportError as error:\n    raise ImportError('initialization failed') from error\n"
    )
    with pytest.raises(KeyboardInterrupt):
        load(path)
