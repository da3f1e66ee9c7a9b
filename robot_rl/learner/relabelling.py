"""What newer versions of a run's judge make of its episodes, on its way into the replay."""

import time
from collections.abc import Callable

from robot_rl.config.run_folder import RunFolder
from robot_rl.stream.episodes import EpisodeOf, Relabel
from robot_rl.stream.relabels import Portion, Refits, RelabelReader, keep_newest
from robot_rl.types import DataError, Mark, RecordId, Step, StoppedError

PATIENCE_S = 1800.0
"""In lockstep a refit that is due is awaited for so long."""

Lines = list[tuple[EpisodeOf, Relabel]]


class Relabelling:
    """The relabels of a run with a learned judge; of another run there are never any.

    On the real clock they are taken as they come. In lockstep they are taken at the border of the
    block at which they are due, and awaited there, so that a run repeats for its seed.
    """

    def __init__(self, folder: RunFolder):
        self._folder = folder
        self._is_learned = folder.judge is not None
        self.begin_anew()

    def begin_anew(self) -> None:
        """All is to be taken once more, from the first on."""
        self.version = 0
        """The newest version that has looked at all episodes; 0: none has, in this run."""
        self.left = self._portion = 0
        self.newest: dict[EpisodeOf, Relabel] = {}
        self._refits = Refits(self._folder.settings.block_steps)
        self._reader = RelabelReader(self._folder.relabels_file)

    @property
    def status(self) -> dict[str, int]:
        """For terminal and page; nothing without a learned judge."""
        if not self._is_learned:
            return {}
        version = max(self.version, self._refits.version)
        return {
            "reward_version": version,
            "relabelled": len(self.newest),
            "to_relabel": self.left,
        }

    @property
    def progress(self) -> tuple[int, int]:
        """How many episodes of the portion at hand have been judged, and of how many."""
        return self._portion - self.left, self._portion

    def hear(self, identity: RecordId, said: Step | Mark) -> None:
        """One more record is learnt from."""
        if self._is_learned:
            self._refits.hear(identity, said)

    def take(self) -> Lines:
        """What has come since."""
        return self._take_until(None)[0]

    def take_due(self, wait: Callable[[], None], stopped: Callable[[], bool]) -> Lines:
        """At the border of a block: what is due there, as soon as it is all there.

        `wait` is called meanwhile. StoppedError once `stopped()`; DataError after too long.
        """
        taken: Lines = []
        deadline = time.monotonic() + PATIENCE_S
        while self._refits.due:
            lines, is_complete = self._take_until(self._refits.records)
            taken += lines
            if is_complete:
                self._refits.done(self.version)
            elif stopped():
                raise StoppedError("stopped")
            elif time.monotonic() > deadline:
                path = self._folder.path
                raise DataError(
                    f"{self._folder.relabels_file} does not say within {PATIENCE_S:g} s what the"
                    f" judge makes of the log up to record {self._refits.records}. Is its process"
                    f" running (robot-rl reward follow {path}), and what does its log say"
                    f" ({self._folder.logs})? 'robot-rl train --resume {path}' starts it again"
                )
            else:
                wait()
        return taken

    def _take_until(self, records: int | None) -> tuple[Lines, bool]:
        """Lines up to the portion's end that belongs to so many records, and whether that was there;
        with None all of them.
        """
        taken: Lines = []
        for line in self._reader.lines():
            if not isinstance(line, Portion):
                taken.append(line)
                keep_newest(self.newest, *line)
                self.left = max(0, self.left - 1)
                continue
            self.left = line.left
            self._portion = line.left or self._portion
            if line.left == 0:
                self.version = max(self.version, line.version)
                if line.records == records:
                    return taken, True
        return taken, False
