"""A judge that a test can foresee, in the place of a classifier. As a program it follows a run:

python -m tests.runs.fake_judge RUN SLOWNESS
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from robot_rl.config.run_folder import RunFolder
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.runs.follow import follow
from robot_rl.types import Step


class FakeJudge:
    """Versions are empty files; each fit and each look at an episode takes `slowness_s`."""

    def __init__(self, folder: Path, slowness_s: float = 0.0):
        self._folder, self._slowness_s = folder, slowness_s
        folder.mkdir(parents=True, exist_ok=True)
        if not versions_in(folder):
            self._make(1)

    def versions(self) -> Sequence[int]:
        return versions_in(self._folder)

    def fit(self, records: int) -> None:
        time.sleep(self._slowness_s)
        self._make(max(self.versions()) + 1)

    def first_success(self, version: int, steps: Sequence[Step]) -> int | None:
        time.sleep(self._slowness_s)
        return next((step.index for step in steps if fires(version, step)), None)

    def _make(self, version: int) -> None:
        for path in files_of(self._folder, version).values():
            path.write_text("{}")


def fires(version: int, step: Step) -> bool:
    """Version 1 sees success in every episode's step 4, each further one a step later, and none in
    every fourth episode.
    """
    return step.index == 3 + version and (step.episode + version) % 4 > 0


if __name__ == "__main__":
    run = RunFolder(sys.argv[1])
    assert run.judge is not None
    with StopRequest() as stop:
        follow(run, FakeJudge(run.judge, float(sys.argv[2])), stop)
