"""Imports go down, device libraries stay in their own file, and an arm's process knows neither
torch nor gymnasium.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS: tuple[tuple[str, ...], ...] = (
    ("types",),
    ("interfaces", "machine", "packing"),
    ("config", "geometry", "links"),
    ("networks", "sim", "stream"),
    ("cameras", "controllers", "dataset", "teleop"),
    ("classifier", "console", "env", "learner"),
    ("operator", "rewards"),
    ("actor", "tools"),
    ("runs",),
    ("cli",),
)
"""The rooms, the lowest first: a folder, or a file beside them. A room imports rooms of lower
floors alone.
"""

ONLY_IN = {
    "mujoco": (
        "robot_rl/controllers/arms/mujoco.py",
        "robot_rl/cameras/mujoco.py",
        "robot_rl/sim/",
    ),
    "pyrealsense2": ("robot_rl/cameras/realsense.py",),
    "pylibfranka": (
        "robot_rl/controllers/arms/franka.py",
        "robot_rl/controllers/grippers/franka.py",
    ),
    "hid": ("robot_rl/teleop/spacemouse.py",),
    "hidraw": ("robot_rl/teleop/spacemouse.py",),
    "pynput": ("robot_rl/teleop/keyboard.py",),
    "Xlib": ("robot_rl/teleop/keyboard.py",),
    "evdev": ("robot_rl/teleop/gamepad.py",),
    "gymnasium": ("robot_rl/env/robot.py",),
    "torch": (
        "robot_rl/classifier/",
        "robot_rl/networks/",
        "robot_rl/learner/",
        "robot_rl/learner/replay.py",
        "robot_rl/tools/benchmark_learner.py",
    ),
    "safetensors": (
        "robot_rl/classifier/",
        "robot_rl/networks/",
        "robot_rl/learner/",
        "robot_rl/transport/",
    ),
    "matplotlib": ("robot_rl/runs/report.py", "robot_rl/tools/blackbox.py"),
    "tyro": ("robot_rl/cli/",),
    "yaml": ("robot_rl/machine/validation.py",),
    "pydantic": ("robot_rl/machine/validation.py",),
    "viser": (
        "robot_rl/console/moments.py",
        "robot_rl/console/page.py",
        "robot_rl/console/review.py",
        "robot_rl/console/viser_server.py",
    ),
    "trimesh": ("robot_rl/console/scene.py",),
    "numba": ("robot_rl/machine/compiled.py",),
    "zarr": ("robot_rl/dataset/archive.py",),
    "tensorboard": ("robot_rl/learner/viewers.py",),
    "wandb": ("robot_rl/learner/viewers.py",),
}
"""A heavy or device library is imported in the files that need it, and nowhere else."""

SOURCES = sorted((ROOT / "robot_rl").rglob("*.py"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, at its top or inside its functions, as an absolute dotted
    name.
    """
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it out"
            # `from robot_rl import config` names the module config
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """`robot_rl/controllers/loop.py` -> `robot_rl.controllers.loop`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def own_imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, but for the package itself."""
    found = set()
    for name in imports(path):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", "robot_rl", module_of(path)}


def room(module: str) -> str:
    """`robot_rl.controllers.loop` -> `controllers`. `python -m robot_rl` is the command line."""
    name = module.split(".")[1] if "." in module else "__init__"
    return "cli" if name == "__main__" else name


def floor(name: str) -> int:
    level = next((level for level, rooms in enumerate(FLOORS) if name in rooms), None)
    assert level is not None, f"the room {name} stands on no floor: add it to FLOORS"
    return level


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_imports_go_down(path: Path) -> None:
    own = room(module_of(path))
    if own == "__init__":
        return
    up = [
        other
        for other in own_imports(path)
        if room(other) != own and floor(room(other)) >= floor(own)
    ]
    assert not up, f"{named(path)} imports {', '.join(up)}: no arrow goes up, or along a floor"


def test_no_file_imports_itself_through_others() -> None:
    graph = {module: own_imports(path) for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        raise AssertionError(f"a circle of imports: {' -> '.join(circle.args[1])}") from circle


def test_a_room_is_small_enough_to_be_read() -> None:
    long = [f"{named(path)}: {len(path.read_text().splitlines())}" for path in SOURCES]
    long = [line for line in long if int(line.rpartition(" ")[2]) > 420]
    assert not long, f"more than 420 lines: {long}"


def test_actor_and_learner_never_import_each_other() -> None:
    for path in SOURCES:
        others = {"actor": "learner", "learner": "actor"}
        if other := others.get(room(module_of(path))):
            wrong = [module for module in imports(path) if module.startswith(f"robot_rl.{other}")]
            assert not wrong, f"{named(path)} imports {wrong}"


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_stays_in_its_files(library: str) -> None:
    users = [
        named(path)
        for path in SOURCES
        if library in {module.split(".")[0] for module in imports(path)}
    ]
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
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert loaded.stdout.split() == []
