"""What the evaluations of a run leave in its folder, and where."""

from pathlib import Path

from robot_rl.types import DataError


def evaluation_file(run: Path, sampled: bool, step: int | None = None, bench: str = "") -> Path:
    """The run's evaluation of one kind: of the newest policy, greedy, or beside it `sampled`, of an
    older `step`, or at another `bench`."""
    kind = (
        ("" if step is None else f"-{step}")
        + ("-sampled" if sampled else "")
        + (f"-at-{bench}" if bench else "")
    )
    return run / f"evaluation{kind}.json"


class EvaluationFiles:
    """What one evaluation leaves in a folder of its own, `evaluations/001`: nothing of an earlier
    one is touched.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.summary = folder / "evaluation.json"
        self.table = folder / "episodes.csv"
        self.log = folder / "episodes.log"
        self.videos = folder / "videos"

    @staticmethod
    def all_of(run: Path) -> "list[EvaluationFiles]":
        """Those that were begun, oldest first."""
        return [
            EvaluationFiles(folder)
            for folder in sorted((run / "evaluations").glob("[0-9]*"))
            if folder.is_dir()
        ]

    @staticmethod
    def begin(run: Path) -> "EvaluationFiles":
        """The next one's, with its folder. Raises DataError if that cannot be made."""
        number = max((int(each.folder.name) for each in EvaluationFiles.all_of(run)), default=0)
        while True:
            number += 1
            folder = run / "evaluations" / f"{number:03d}"
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
