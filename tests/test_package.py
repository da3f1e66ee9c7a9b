"""What is declared is what is used: dependencies, pinned versions, licence, and the folders that
the wheel carries.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

import robot_rl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMPORTED_AS = {
    "google-crc32c": "google_crc32c",
    "hidapi": "hid",
    "opencv-python-headless": "cv2",
    "pyyaml": "yaml",
    "pyzmq": "zmq",
}
COME_ALONG = {"hidraw", "Xlib", "trimesh"}
"""Modules of hidapi as well, and of what pynput and viser require."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)$")


def names_in(lines: list[str]) -> set[str]:
    return {re.split(r"[ <>=!\[;]", line)[0].lower() for line in lines}


def declared(*extras: str) -> set[str]:
    optional = PROJECT["project"]["optional-dependencies"]
    return names_in([
        *PROJECT["project"]["dependencies"],
        *(line for extra in extras for line in optional[extra]),
    ])


def imported(folder: str) -> set[str]:
    """Top-level names of every module that a folder's files import."""
    names = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"robot_rl", "tests"}


def test_every_import_is_declared_and_every_dependency_is_imported() -> None:
    extras = PROJECT["project"]["optional-dependencies"].keys() - {"dev"}
    used = (imported("robot_rl") | imported("tasks")) - COME_ALONG
    assert used == {IMPORTED_AS.get(name, name) for name in declared(*extras)}


def test_constraints_pin_exact_versions_of_all_that_is_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [PIN.match(line) for line in lines if line and not line.startswith("#")]
    assert all(pins), "each line is NAME==VERSION: no paths, no addresses, no local builds"
    assert declared(*PROJECT["project"]["optional-dependencies"]) <= {
        pin.group(1).lower() for pin in pins if pin
    }


def test_the_wheel_carries_tasks_and_hardware_files() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["sources"] == {
        "tasks": "robot_rl/tasks",
        "hardware_configs": "robot_rl/hardware_configs",
    }
    assert set(wheel["only-include"]) == {"robot_rl", "tasks", "hardware_configs"}


def test_the_licence_is_apache() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_the_version_is_said_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", robot_rl.__version__)
    assert PROJECT["project"]["dynamic"] == ["version"]
