"""What comes in at the learner: steps and marks go to the run's log, are acknowledged, and wait
there to be learnt from.
"""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.tally import Tally
from robot_rl.stream import StepReceiver
from robot_rl.stream.episodes import counted_steps
from robot_rl.stream.log import StepLog
from robot_rl.types import DataError, Mark, RecordId, SpaceSpec, Step

SYNC_EVERY_S = 0.5  # what a power cut can cost, unless the actor's spool still has it
Entry = tuple[RecordId, Step | Mark]


class Intake:
    """The log of a run, the link that fills it, and what of it waits to be learnt from.

    ```
    said = intake.receive(timeout_s)                    # logged, acknowledged; it waits now
    entries = intake.take(steps)                        # the oldest that wait
    ```
    `tally` adds up what is learnt from or waits. `counters` are those of the run's newest
    checkpoint.
    """

    def __init__(self, folder: RunFolder, space: SpaceSpec, counters: Mapping[str, Any]):
        self.log = open_log(folder, space, counters)
        settings = folder.settings
        self._receiver = StepReceiver(
            settings.steps_address, space, self.log.positions, run=settings.id
        )
        self._waiting: deque[Entry] = deque()
        self.tally = Tally()

    @property
    def log_ends(self) -> list[list[Any]]:
        """Up to where the log has each actor's stream: `[actor, epoch, seq]`."""
        return [[*stream, seq] for stream, seq in self._receiver.persisted.items()]

    @property
    def steps_waiting(self) -> int:
        """Own steps that wait."""
        return sum(is_own_step(said) for _, said in self._waiting)

    def receive(self, timeout_s: float) -> list[Step | Mark]:
        """Log and acknowledge what has arrived; it waits then."""
        batch = self._receiver.receive(timeout_s)
        self.log.append_records([received.record for received in batch])
        self._receiver.ack(batch)
        for received in batch:
            self.wait((received.identity, received.said))
        return [received.said for received in batch]

    def wait(self, entry: Entry) -> None:
        """One more record of the log waits."""
        self._waiting.append(entry)
        self.tally.count(entry[1])

    def begin_anew(self, tally: Tally) -> None:
        """Nothing waits; the records that are not read again add up to `tally`."""
        self._waiting.clear()  # that is in the log, too
        self.tally = tally

    def take(self, steps: int, *, marks_behind: bool = False) -> list[Entry]:
        """The oldest that wait, with so many own `steps` if there are, and the `marks_behind` them."""
        taken: list[Entry] = []
        while self._waiting and (
            steps > 0 or (marks_behind and isinstance(self._waiting[0][1], Mark))
        ):
            taken.append(self._waiting.popleft())
            steps -= is_own_step(taken[-1][1])
        return taken

    def close(self) -> None:
        """Let go of link and log."""
        self._receiver.close()
        self.log.close()


def counted_of(path: Path, space: SpaceSpec, run: str = "") -> list[Step]:
    """The steps of a recording that count, as they are to be learnt from."""
    with StepLog(path, space, read_only=True, run=run) as log:
        return counted_steps(log.entries())


def open_log(folder: RunFolder, space: SpaceSpec, counters: Mapping[str, Any]) -> StepLog:
    """The log of a run, whose newest checkpoint has these counters.

    DataError, with nothing written, if there are fewer records in it than were learnt from.
    """
    known, path = counters.get("log_records", 0), folder.steps_log
    advice = (
        f"its newest checkpoint was learnt from {known}. Restore it from a copy (a repair leaves"
        " the damaged one beside it), then resume; without it this run cannot go on, and a new one"
        " begins anew"
    )
    if known and not path.exists():
        raise DataError(f"log {path} is not there; {advice}")
    log = StepLog(path, space, sync_every_s=SYNC_EVERY_S, run=folder.settings.id)
    if log.count + log.lost < known:
        log.close()
        raise DataError(f"log {path} has {log.count} records; {advice}")
    return log


def is_own_step(said: Step | Mark) -> bool:
    """Whether this is a control step of the arm; the observation after a reset is none."""
    return isinstance(said, Step) and said.index > 0
