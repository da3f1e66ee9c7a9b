"""Imports go down, device libraries stay in their own file, and an arm's process knows neither torch nor gymnasium."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = (
    {"__init__", "types", "interfaces", "geometry", "compiled", "clock", "events", "limits", "validation", "config"}
    | {"compliance", "hardware_problems", "kinds", "private", "python_lines", "ranges", "task_problems"},
    {
        "controllers",
        "cameras",
        "teleop",
        "rewards",
        "data",
        "transport",
        "sim",
        "networks",
        "run_folder",
        "signals",
        "small_files",
    },
    {"actor", "learner", "console"},
    {
        "__main__",
        "run",
        "run_evaluate",
        "run_train",
        "run_list",
        "record",
        "changes",
        "demos_from",
        "arms",
        "cli",
        "browse",
        "blackbox",
        "remote",
        "benchmark",
        "benchmark_arm",
        "check",
        "contracts",
        "dry_run",
        "report",
        "progress",
        "resources",
        "supervise",
        "terminal",
        "views",
        "work",
        "new",
    },
)
"""Every file or folder of the package stands on one floor, and imports from its own floor or one below."""

ONLY_IN = {
    "mujoco": ("robot_rl/controllers/arms/mujoco.py", "robot_rl/cameras/mujoco.py", "robot_rl/sim/"),
    "pyrealsense2": ("robot_rl/cameras/realsense.py",),
    "pylibfranka": ("robot_rl/controllers/arms/franka.py", "robot_rl/controllers/grippers/franka.py"),
    "hid": ("robot_rl/teleop/spacemouse.py",),
    "hidraw": ("robot_rl/teleop/spacemouse.py",),
    "pynput": ("robot_rl/teleop/keyboard.py",),
    "Xlib": ("robot_rl/teleop/keyboard.py",),
    "evdev": ("robot_rl/teleop/gamepad.py",),
    "gymnasium": ("robot_rl/actor/env.py",),
    "torch": ("robot_rl/networks/", "robot_rl/learner/", "robot_rl/data/replay.py", "robot_rl/benchmark.py"),
    "safetensors": ("robot_rl/networks/", "robot_rl/learner/", "robot_rl/transport/"),
    "matplotlib": ("robot_rl/report.py", "robot_rl/blackbox.py"),
    "tyro": ("robot_rl/cli/",),
    "yaml": ("robot_rl/validation.py",),
    "pydantic": ("robot_rl/validation.py",),
    "viser": ("robot_rl/console/page.py",),
    "trimesh": ("robot_rl/console/scene.py",),
    "numba": ("robot_rl/compiled.py",),
    "zarr": ("robot_rl/data/episodes.py",),
    "tensorboard": ("robot_rl/learner/viewers.py",),
    "wandb": ("robot_rl/learner/viewers.py",),
}
"""A heavy or device library is imported in the files that need it, and nowhere else."""

SOURCES = sorted((ROOT / "robot_rl").rglob("*.py"))


@cache
def imports(path: Path) -> list[str]:
    """Every module that a file imports, at its top or inside its functions, as an absolute dotted name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it out"
            # `from robot_rl import config` names the module config
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def room(module: str) -> str:
    """`robot_rl.controllers.loop.ArmLoop` -> `controllers`."""
    return module.split(".")[1] if "." in module else "__init__"


def floor(name: str) -> int | None:
    return next((level for level, rooms in enumerate(FLOORS) if name in rooms), None)


def room_of_file(path: Path) -> str:
    return path.relative_to(ROOT / "robot_rl").parts[0].removesuffix(".py")


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_imports_go_down(path: Path) -> None:
    own = floor(room_of_file(path))
    assert own is not None, f"{room_of_file(path)} stands on no floor: add it to FLOORS"
    for module in imports(path):
        below = floor(room(module)) if module.split(".")[0] == "robot_rl" else 0
        assert (below or 0) <= own, f"{named(path)} imports {module} from a floor above its own"


def test_actor_and_learner_never_import_each_other() -> None:
    for path in SOURCES:
        others = {"actor": "learner", "learner": "actor"}
        if other := others.get(room_of_file(path)):
            wrong = [module for module in imports(path) if module.startswith(f"robot_rl.{other}")]
            assert not wrong, f"{named(path)} imports {wrong}"


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_stays_in_its_files(library: str) -> None:
    users = [named(path) for path in SOURCES if library in {module.split(".")[0] for module in imports(path)}]
    strangers = [user for user in users if not user.startswith(ONLY_IN[library])]
    assert not strangers, f"{library} is imported in {strangers}; allowed: {ONLY_IN[library]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("robot_rl.config", ("torch", "gymnasium", "mujoco", "numba", "zmq")),
        ("robot_rl.cli.verbs", ("torch", "gymnasium", "mujoco", "numba", "zmq")),
        ("robot_rl.controllers.server", ("torch", "gymnasium")),
        ("robot_rl.controllers.arms.mujoco", ("torch", "gymnasium")),
        ("robot_rl.learner.loop", ("mujoco", "gymnasium")),
        ("robot_rl.console.serve", ("torch", "gymnasium", "viser")),
    ],
)
def test_a_process_never_loads_what_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*[name for name in {absent!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.split() == []
