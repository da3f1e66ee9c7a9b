"""What the evaluations of a run leave in its folder, and where."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robot_rl.types import DataError

KINDS = {True: "sampled", False: "greedy"}
"""How an evaluated policy acts: with its own noise or with its mode; the order in which it does."""


def evaluation_file(
    run: Path,
    sampled: bool | None = None,
    step: int | None = None,
    bench: str = "",
    delay: float | None = None,
) -> Path:
    """The run's evaluation of one kind: of the newest policy, `sampled` and greedy or one of them
    alone, of an older `step`, at another `bench`, or with another `delay` [s]."""
    kind = (
        ("" if step is None else f"-{step}")
        + ("" if sampled is None else f"-{KINDS[sampled]}")
        + (f"-at-{bench}" if bench else "")
        + ("" if delay is None else f"-delay-{delay:g}")
    )
    return run / f"evaluation{kind}.json"


def parts_of(summary: Mapping[str, Any]) -> list[tuple[bool, Mapping[str, Any]]]:
    """What an evaluation came to, sampled or not, the sampled first. Those of earlier versions are
    of one kind.
    """
    parts = [(sampled, summary.get(name)) for sampled, name in KINDS.items()]
    found = [(sampled, part) for sampled, part in parts if isinstance(part, Mapping)]
    return found or [(summary.get("sampled") is True, summary)]


class EvaluationFiles:
    """What one evaluation, or a comparison, leaves in a folder of its own, `evaluations/001`:
    nothing of an earlier one is touched.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.summary = folder / "evaluation.json"
        self.table = folder / "episodes.csv"
        self.starts = folder / "starts.json"
        self.log = folder / "episodes.log"
        self.truth = folder / "truth.csv"
        self.videos = folder / "videos"

    @staticmethod
    def all_of(run: Path, kind: str = "evaluations") -> "list[EvaluationFiles]":
        """Those that were begun, oldest first."""
        return [
            EvaluationFiles(folder)
            for folder in sorted((run / kind).glob("[0-9]*"))
            if folder.is_dir()
        ]

    @staticmethod
    def begin(run: Path, kind: str = "evaluations") -> "EvaluationFiles":
        """The next one's, with its folder. Raises DataError if that cannot be made."""
        begun = EvaluationFiles.all_of(run, kind)
        number = max((int(each.folder.name) for each in begun), default=0)
        while True:
            number += 1
            folder = run / kind / f"{number:03d}"
            try:
                folder.mkdir(parents=True)
                return EvaluationFiles(folder)
            except (
                FileExistsError
            ) as error:  # somebody else evaluates at the same time, or it is no folder
                if not folder.is_dir():
                    raise DataError(
                        f"{error.filename} is no folder: move it away, then evaluate again"
                    ) from error
            except OSError as error:
                raise DataError(f"{folder} cannot be made: {error.strerror}. Make room, or make it writable, then "
                                "evaluate again") from error  # fmt: skip


def add_rows(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """More rows of a CSV, below its headings. DataError if the disk refuses."""
    try:
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                writer.writerow(names)
            writer.writerows(rows)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. Make room, or move away what has this"
            " name, then evaluate again"
        ) from error
