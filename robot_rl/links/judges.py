"""The call "judge": the two files of a version of a learned judge, from the learner's machine to the
robot's.

A version is `v0001.safetensors` and `v0001.json`. The caller says a number, and no name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.links.calls import CallClient
from robot_rl.machine.small_files import write_bytes
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.types import Array, DataError

MOST_BYTES = 256 << 20
"""Of a file of a version."""
Answer = tuple[dict[str, Any], dict[str, Array]]


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
            write_bytes(path, reply.arrays[suffix].tobytes())
    return int(reply.body["version"])


def _read(path: Path) -> Array:
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path} is larger than {MOST_BYTES >> 20} MB: it is no judge's")
    return np.frombuffer(path.read_bytes(), np.uint8)
