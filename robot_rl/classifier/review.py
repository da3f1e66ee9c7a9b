"""Which frames a person should look at, and what they said of them: `verdicts.jsonl` beside the
versions of a classifier, which is appended to and never rewritten.

The last line of a frame wins. `label` is true, false, or null for a frame to be left out; a line
with `undone` takes the verdict back, and has the label that the frame was recorded with.
"""

import errno
import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robot_rl.machine.small_files import read_lines
from robot_rl.types import DataError

FILE = "verdicts.jsonl"
NUMBERS = ("epoch", "episode", "index")
APART = 5
"""Frames of an episode that are shown lie at least so many steps apart: neighbours look alike."""


@dataclass(frozen=True, order=True)
class FrameId:
    """Which frame of which run."""

    run: str
    actor: str
    epoch: int
    episode: int
    index: int


@dataclass(frozen=True)
class Judged:
    """A frame, what a classifier makes of it, and what it was recorded as (None: as neither)."""

    frame: FrameId
    probability: float
    label: bool | None

    def disagrees(self, threshold: float) -> bool:
        """Whether the classifier sees the opposite of what was recorded."""
        return self.label is not None and self.label != (self.probability >= threshold)


def most_doubtful(frames: Sequence[Judged], threshold: float, most: int) -> list[Judged]:
    """The frames that are worth a look, at most so many: first those that disagree with their
    label, the surest first; then those nearest to the threshold.
    """

    def rank(judged: Judged) -> tuple[bool, float, FrameId]:
        away, disagrees = abs(judged.probability - threshold), judged.disagrees(threshold)
        return not disagrees, -away if disagrees else away, judged.frame

    chosen: list[Judged] = []
    taken: defaultdict[tuple[str, str, int, int], list[int]] = defaultdict(list)
    for judged in sorted(frames, key=rank):
        if len(chosen) >= most:
            break
        frame = judged.frame
        others = taken[frame.run, frame.actor, frame.epoch, frame.episode]
        if all(abs(frame.index - other) >= APART for other in others):
            others.append(frame.index)
            chosen.append(judged)
    return chosen


class Verdicts:
    """What one person says, frame by frame. `said` is what is in force, of earlier sittings too."""

    def __init__(self, folder: Path):
        """`folder` holds the versions of the classifier."""
        self._path = folder / FILE
        self.said = read_verdicts(folder)
        self._newest: list[tuple[Judged, bool, bool | None]] = []

    def say(self, judged: Judged, label: bool | None) -> None:
        """It shows success, none, or is to be left out (None). On the disk when this returns."""
        self._append(judged.frame, label)
        self._newest.append((judged, judged.frame in self.said, self.said.get(judged.frame)))
        self.said[judged.frame] = label

    def undo(self) -> Judged | None:
        """Take back the newest verdict of this sitting: the one before it is in force again."""
        if not self._newest:
            return None
        judged, had_one, before = self._newest[-1]
        self._append(judged.frame, before if had_one else judged.label, undone=not had_one)
        self._newest.pop()
        if had_one:
            self.said[judged.frame] = before
        else:
            del self.said[judged.frame]
        return judged

    def _append(self, frame: FrameId, label: bool | None, undone: bool = False) -> None:
        row = asdict(frame) | {"label": label, "t_wall": time.time()}
        append_line(self._path, row | ({"undone": True} if undone else {}))


def read_verdicts(folder: Path) -> dict[FrameId, bool | None]:
    """What is in force of each frame that has a verdict. Lines that are none are passed over."""
    said: dict[FrameId, bool | None] = {}
    for row in read_lines(folder / FILE):
        label: Any = row.get("label")
        numbers: list[Any] = [row.get(name) for name in NUMBERS]
        if not (label is None or isinstance(label, bool)) or "label" not in row:
            continue
        if not all(type(number) is int for number in numbers):  # an epoch has 63 bits
            continue
        frame = FrameId(str(row.get("run")), str(row.get("actor")), *numbers)
        if row.get("undone") is True:
            said.pop(frame, None)
        else:
            said[frame] = label
    return said


def append_line(path: Path, row: dict[str, object]) -> None:
    """Append a row, behind the end of the line before, wherever a writer of that was killed.

    It is on the disk when this returns; DataError if the disk refuses.
    """
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    try:
        with path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                line = b"\n" + line
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. The verdicts before are kept: make room,"
            " or make it writable, and say this one again"
        ) from error
