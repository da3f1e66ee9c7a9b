"""The index of an archive: `index.jsonl`, one line per fact, appended and never rewritten.

Lines are of two kinds. `episode` says what was archived, once and for ever. `marks` holds all that
the operator has said of an episode so far (the newest such line counts), so that nothing is
rewritten when a mark comes later.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robot_rl.dataset.assembly import EpisodeFacts, EpisodeKey, with_marks
from robot_rl.stream.episodes import Relabel
from robot_rl.types import DataError


@dataclass(frozen=True)
class Entry:
    """A line of the index: an episode's facts, its folder under `episodes/`, and the sha256 of its
    content.
    """

    facts: EpisodeFacts
    folder: str
    sha256: str

    def line(self, schema: int, space: str) -> dict[str, Any]:
        """As it stands in the index, with the schema and the hash of the space of its content."""
        line = {"kind": "episode", **self.facts.to_json(), "folder": self.folder, "schema": schema}
        return line | {"space_hash": space, "sha256": self.sha256}


def read_index(path: Path) -> tuple[dict[EpisodeKey, Entry], int]:
    """The entries in their order, and where the last whole line ends: a torn tail is passed over."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    entries: dict[EpisodeKey, Entry] = {}
    for number, line in enumerate(data[:end].splitlines(), start=1):
        try:
            _apply(entries, json.loads(line))
        except (ValueError, KeyError, TypeError, DataError) as error:
            raise DataError(f"line {number} of {path} is damaged ({error!r}): restore the file from a copy, or remove "
                            "the archive and make it anew from the log") from error  # fmt: skip
    return entries, end


def _apply(entries: dict[EpisodeKey, Entry], line: Mapping[str, Any]) -> None:
    if line["kind"] == "episode":
        facts = EpisodeFacts.from_json(line)
        entries.setdefault(facts.key, Entry(facts, str(line["folder"]), str(line["sha256"])))
    elif line["kind"] == "marks":
        key = EpisodeKey.parse(line["key"])
        relabel = Relabel(**line["relabel"]) if "relabel" in line else None
        facts = with_marks(entries[key].facts, line["marks"], relabel)
        entries[key] = replace(entries[key], facts=facts)
    else:
        raise ValueError(f"a line of kind {line['kind']!r}; known: episode, marks")


class Index:
    """The index as its one writer has it: locked until it is closed.

    Raises DataError if another process writes it. `entries` are there after `mend`.
    """

    def __init__(self, path: Path):
        self.path = path
        self.entries: dict[EpisodeKey, Entry] = {}
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise DataError(
                f"archive {path.parent} is being written by another process: wait until it is done"
            ) from None

    def mend(self) -> None:
        """Read what is there, and cut off the torn line of a killed writer."""
        self.entries, end = read_index(self.path)
        os.ftruncate(self._fd, end)

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line, which the disk has from then on. DataError, with the index as it was, if it
        cannot be.
        """
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        end = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, data) != len(data):
                raise OSError(0, "only a part of the line was written")
            os.fsync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, end)
            raise DataError(f"index of archive {self.path.parent} cannot be written: {error.strerror}. The episodes "
                            "that it names are whole: make room, then archive again") from error  # fmt: skip
        _apply(self.entries, line)

    def close(self) -> None:
        """Let go of it. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
