"""The call "judge": the two files of a version of a learned judge, from the learner's machine to the
robot's.

A version is `v0001.safetensors` and `v0001.json`. The caller says a number, and no name.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.links.calls import CallClient
from robot_rl.machine.sync import sync_path
from robot_rl.types import Array, DataError

MOST_BYTES = 256 << 20
"""Of a file of a version."""
MOST_VERSIONS = 10_000
SUFFIXES = ("safetensors", "json")
"""In this order they are written: with the last one the version is there."""

Answer = tuple[dict[str, Any], dict[str, Array]]


def files_of(folder: Path, version: int) -> dict[str, Path]:
    """Where the two files of a version lie, by suffix. DataError for a number that is none."""
    if type(version) is not int or not 1 <= version < MOST_VERSIONS:
        raise DataError(f"version {version!r:.40} of a judge: wanted 1 to {MOST_VERSIONS - 1}")
    return {suffix: folder / f"v{version:04d}.{suffix}" for suffix in SUFFIXES}


def versions_in(folder: Path) -> list[int]:
    """The versions that are there, oldest first."""
    names = (path.stem[1:] for path in folder.glob("v*.json"))
    return sorted(int(name) for name in names if name.isdecimal())


def answerer(folder: Path | None) -> Callable[[dict[str, Any], dict[str, Array]], Answer]:
    """The handler of the call: version `version` of the judge in a folder, if there is one; 0 is the
    newest.
    """

    def answer(body: dict[str, Any], _: dict[str, Array]) -> Answer:
        if folder is None:
            raise DataError("the judge of this run does not learn: it has no versions")
        version = body.get("version") or max(versions_in(folder), default=0)
        files = files_of(folder, version)
        try:
            data = {suffix: _read(path) for suffix, path in files.items()}
        except FileNotFoundError as error:
            raise DataError(
                f"there is no version {version} of the judge {folder.name!r}; there are:"
                f" {', '.join(map(str, versions_in(folder))) or 'none'}"
            ) from error
        return {"version": version}, data

    return answer


def fetch(calls: CallClient, folder: Path, version: int = 0, timeout_s: float = 60.0) -> int:
    """See to it that a version of the judge is in a folder, the newest with 0; returns which it is.

    A version that is there is taken as it is. LinkError if the other side has none.
    """
    if version and files_of(folder, version)["json"].exists():
        return version
    reply = calls.call("judge", {"version": version}, timeout_s=timeout_s)
    files = files_of(folder, reply.body.get("version", 0))
    if version not in (0, reply.body["version"]) or set(reply.arrays) != set(files):
        raise DataError(f"asked for version {version} of a judge, and something else came")
    if not files["json"].exists():
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, path in files.items():
            _write(path, reply.arrays[suffix])
    return int(reply.body["version"])


def _read(path: Path) -> Array:
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path} is larger than {MOST_BYTES >> 20} MB: it is no judge's")
    return np.frombuffer(path.read_bytes(), np.uint8)


def _write(path: Path, data: Array) -> None:
    draft = path.with_name(f".writing_{path.name}")
    try:
        with draft.open("wb") as file:
            file.write(data.tobytes())
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_path(path.parent)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}: make room on that disk"
        ) from error
