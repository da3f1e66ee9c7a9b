"""The two moments of a demonstration that a person has marked for the guide: `guide.json` in the
folder of a run.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from robot_rl.machine.small_files import read_json, write_json
from robot_rl.types import DataError

FOUND = -1
"""In the place of a step: nobody has marked the moment, it is found."""
STEPS = ("safe_step", "contact_step")


@dataclass(frozen=True)
class GuideMarks:
    """Of which demonstration they are, `actor/epoch/episode`, and the steps of it at which the tool
    is in free space and in firm contact; FOUND: not marked.
    """

    demonstration: str
    safe_step: int = FOUND
    contact_step: int = FOUND


def read_marks(path: Path) -> GuideMarks | None:
    """The marks in a file, None if there is no such file. Raises DataError if it is damaged."""
    try:
        path.lstat()
    except FileNotFoundError:
        return None
    try:
        data = read_json(path)
        if not isinstance(data.get("demonstration"), str):
            raise DataError(
                f"{path} is damaged: demonstration is {data.get('demonstration')!r:.40}, no text"
            )
        for name in STEPS:
            if not (type(data.get(name)) is int and data[name] >= FOUND):
                raise DataError(
                    f"{path} is damaged: {name} is {data.get(name)!r:.40}; it must be a whole"
                    f" number from 0, or {FOUND} for a moment that is found"
                )
    except DataError as error:
        raise DataError(
            f"{error}. It only holds the moments that were marked: move it away, and mark them anew"
            f" with: robot-rl guide {path.parent}"
        ) from error
    return GuideMarks(data["demonstration"], *(data[name] for name in STEPS))


def write_marks(path: Path, marks: GuideMarks) -> None:
    """Put the marks into a file: on the disk when this returns, and as it was before if that fails
    (DataError).
    """
    write_json(path, asdict(marks))


def forget_marks(path: Path) -> None:
    """Remove the file, if there is one. Raises DataError if that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be removed: {error.strerror}") from error
