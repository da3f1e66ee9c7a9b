"""A run's learned judge between the learner's machine and the robot's. The call "judge" fetches the
two files of a version; "take_judge" brings those of the first one to a learner that has none, with
the outcomes that it was made of.

A version is `v0001.safetensors` and `v0001.json`. The caller says a number, and no name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.links.calls import CallClient
from robot_rl.links.upload import Inbox, upload
from robot_rl.machine.small_files import write_bytes
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.types import Array, DataError

OUTCOMES = "outcomes"
MOST_BYTES = 256 << 20
"""Of a file of a version."""
Answer = tuple[dict[str, Any], dict[str, Array]]


def answerer(folder: Path | None) -> Callable[[dict[str, Any], dict[str, Array]], Answer]:
    """The handler of the call: version `version` of the judge in a folder; 0 is the newest, or the
    answer to it where there is none yet.
    """

    def answer(body: dict[str, Any], _: dict[str, Array]) -> Answer:
        if folder is None:
            raise DataError("the judge of this run does not learn: it has no versions")
        version = body.get("version")
        if version in (None, 0) and not (version := max(versions_in(folder), default=0)):
            return {"version": 0}, {}
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

    A version that is there is taken as it is. Of a judge that has yet to be learnt 0 is returned;
    LinkError if the other side lacks another version.
    """
    if version and files_of(folder, version)["json"].exists():
        return version
    reply = calls.call("judge", {"version": version}, timeout_s=timeout_s)
    if version == 0 and reply.body.get("version") == 0:
        return 0
    files = files_of(folder, reply.body.get("version", 0))
    if version not in (0, reply.body["version"]) or set(reply.arrays) != set(files):
        raise DataError(f"asked for version {version} of a judge, and something else came")
    if not files["json"].exists():
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, path in files.items():
            write_bytes(path, reply.arrays[suffix].tobytes())
    return int(reply.body["version"])


def taker(folder: Path | None, outcomes: Path) -> Callable[[dict[str, Any], dict[str, Array]], Any]:
    """The handler of the call that brings a judge: its log of `outcomes`, and the files of a
    version, which is whole with the last of them. DataError for any other file.
    """
    inboxes: dict[Path, Inbox] = {}

    def answer(body: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        if folder is None:
            raise DataError("the judge of this run does not learn: it takes no versions")
        targets = {OUTCOMES: outcomes, **files_of(folder, body.get("version", 0))}
        if (target := targets.get(str(body.get("part")))) is None:
            raise DataError(f"a judge has no part {body.get('part')!r:.40}: {', '.join(targets)}")
        target.parent.mkdir(parents=True, exist_ok=True)
        inbox = inboxes.setdefault(target, Inbox(target, lambda facts: None))
        return inbox.answer(body, arrays)

    return answer


def bring(calls: CallClient, folder: Path, outcomes: Path) -> None:
    """Bring the newest version of the judge, and the outcomes that it was made of if they are here,
    to the other side; what it has already stays. LinkError if it has something else.
    """
    version = versions_in(folder)[-1]
    for part, path in {OUTCOMES: outcomes, **files_of(folder, version)}.items():
        if path.exists():
            upload(calls, path, {"version": version, "part": part}, to="take_judge")


def _read(path: Path) -> Array:
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path} is larger than {MOST_BYTES >> 20} MB: it is no judge's")
    return np.frombuffer(path.read_bytes(), np.uint8)
