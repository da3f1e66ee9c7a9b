"""The handshake: two processes work together only if they agree on run, schema, spaces, task,
hardware and code.

Task, hardware and code are compared by content: two files of one name that differ are refused.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import robot_rl
from robot_rl import config
from robot_rl.config import Hardware, Task
from robot_rl.stream.codec import SCHEMA, space_hash
from robot_rl.types import RefusedError, SpaceSpec

MUST_AGREE = ("schema", "space", "task", "hardware", "code")


@dataclass(frozen=True)
class Hello:
    """What a process says of itself: its role, and what must be equal on both sides (names with a
    content's hash).

    `run` is the run's id; a run that was made before there were any has none, and fits any other.
    """

    role: str
    task: str
    hardware: str
    space: str
    schema: int
    code: str
    run: str = ""

    @staticmethod
    def of(role: str, task: Task, hardware: Hardware, space: SpaceSpec, run: str = "") -> "Hello":
        """What this process is. Addresses and the folder of its judges do not count: each machine
        has its own.
        """
        anywhere = replace(hardware, arms=tuple(replace(arm, address="") for arm in hardware.arms))
        return Hello(
            role,
            f"{task.name} ({_hash(config.to_json(config.with_classifiers(task, '')))})",
            f"{hardware.name} ({_hash(config.to_json(anywhere))})",
            f"{space_hash(space)} (actions {', '.join(space.actions.names)})",
            SCHEMA,
            f"{robot_rl.__version__} ({source_hash()})",
            run,
        )


@cache
def source_hash() -> str:
    """Of this package's own source files: whether two machines run the same code."""
    package = Path(robot_rl.__file__).parent
    sources = {
        path.relative_to(package).as_posix(): path.read_text()
        for path in sorted(package.rglob("*.py"))
    }
    return _hash(sources)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def check(ours: Hello, theirs: dict[str, Any]) -> None:
    """Raise RefusedError naming both sides of everything that differs."""
    role = theirs.get("role", "the other side")
    if ours.run and theirs.get("run") and theirs["run"] != ours.run:
        raise RefusedError(
            f"{ours.role} and {role} belong to two runs: {ours.role} to the one with the id"
            f" {ours.run}, {role} to {theirs['run']}. Each run keeps its own steps: stop the {role}"
            " and start it for this run (a robot on another machine: `robot-rl join` anew), or"
            f" start the {ours.role} of its run here"
        )
    differ = [
        f"{name}: {ours.role} has {getattr(ours, name)!r}, {role} has {theirs.get(name)!r}"
        for name in MUST_AGREE
        if theirs.get(name) != getattr(ours, name)
    ]
    if differ:
        raise RefusedError(f"{ours.role} and {role} do not fit together ({'; '.join(differ)}). Start both with the "
                           "same task file, hardware file, obs and version of robot_rl")  # fmt: skip
