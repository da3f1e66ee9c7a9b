"""The one judge of all faults: what is in the log, against what was handed over.

Two witnesses that the processes under test cannot talk to: the spool, read along (`witness.py`:
what was appended), and the actor's journal (`actor.py`: what was made). The laws:

- of what was appended nothing is lost: every record that was in the spool is in the log, with the
  same bytes;
- nothing is there twice, and nothing that was never handed over;
- the order is kept: each process's records are numbered through from 0 and lie together, each
  episode's steps too;
- where a process died within an episode, the next one's first record is a mark GAP that says where;
- of the steps that were made, a process loses at most two, those in its hands.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, MarkKind, RecordId, Step
from tests.faults.actor import journals
from tests.faults.bench import Bench
from tests.faults.witness import logged

IN_HAND = 2
"""Steps that a killed process may take with it: one being written, one being made."""

Entry = tuple[RecordId, Step | Mark]


@dataclass
class Verdict:
    """What was found. Only `gaps` and `in_hand` (at most two for each process) may be other than
    zero.

    `damaged` are the records for which a repair has put a mark; `wrong` says what else is not as it
    should be.
    """

    steps: int = 0
    lost: int = 0
    duplicated: int = 0
    invented: int = 0
    damaged: int = 0
    gaps: int = 0
    in_hand: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        found = list(self.wrong)
        found += [f"{self.lost} appended records are not in the log"] * (self.lost > 0)
        found += [f"{self.duplicated} records are in the log twice"] * (self.duplicated > 0)
        found += [f"{self.invented} records in the log were never handed over"] * (
            self.invented > 0
        )
        found += [
            f"the process with epoch {epoch} made {count} steps that are not in the log"
            for epoch, count in self.in_hand.items()
            if count > IN_HAND
        ]
        return found


def judge(bench: Bench, *, ended: bool) -> Verdict:
    """Look at a run that goes on, or (`ended`) has come to its end.

    While it goes on, the records of its newest actor process may still be on their way. Where the
    test has cut off the end of a spool, as a power cut on the robot's machine does, what was cut
    may be lost (it is no longer `held`), and the log may know more than the spool, which then
    cannot say where the gap is. So it is where the robot's disk was full: what it did not take came
    from the actor's memory.
    """
    found = logged(bench.log)  # before the witness looks, who so knows all of it
    with StepLog(bench.log, bench.learner_folder.spaces(), read_only=True) as log:
        entries = list(log.entries())
    held, ever = bench.witness.held(), bench.witness.ever()
    crcs = dict(found)
    placed = [identity for identity, said in entries if is_placeholder(identity, said)]
    verdict = Verdict(
        steps=sum(isinstance(said, Step) and said.index > 0 for _, said in entries),
        duplicated=len(found) - len(crcs),
        damaged=len(placed),
        gaps=sum(isinstance(said, Mark) and said.kind is MarkKind.GAP for _, said in entries)
        - len(placed),
    )
    newest = found[-1][0].epoch if found else None
    open_epochs = (
        set() if ended else {newest} | {e.epoch for e in held} - {i.epoch for i, _ in found}
    )
    verdict.lost = sum(
        identity not in crcs or (crcs[identity] != crc and identity not in placed)
        for identity, crc in held.items()
        if identity.epoch not in open_epochs
    )
    known = ever.keys() | set(placed)
    verdict.invented = sum(i not in known and i.epoch not in bench.unspooled_epochs for i in crcs)
    if len(placed) > bench.damaged:
        verdict.wrong.append(
            f"{len(placed)} records were given up; the test has damaged {bench.damaged}"
        )
    verdict.wrong += order_of_records(entries)
    streams = by_epoch(entries)
    for name, stream in streams.items():
        verdict.wrong += order_of_steps(name, stream)
    verdict.wrong += gaps_in_place(
        list(streams.items()), bench.torn_epochs | bench.unspooled_epochs
    )
    for epoch, made in journals(bench.journals).items():
        if epoch not in bench.torn_epochs and (ended or (epoch != newest and epoch in streams)):
            kept = sum(isinstance(said, Step) for _, said in streams.get(epoch, []))
            kept += sum(identity.epoch == epoch for identity in placed)
            verdict.in_hand[epoch] = made - kept
    if ended and verdict.steps != bench.own_steps:
        verdict.wrong.append(f"the run has {verdict.steps} steps; {bench.own_steps} were asked for")
    return verdict


def is_placeholder(identity: RecordId, said: Step | Mark) -> bool:
    """Whether this is the mark that a repair has put in the place of a damaged record."""
    return isinstance(said, Mark) and said.kind is MarkKind.GAP and said.epoch == identity.epoch


def by_epoch(entries: list[Entry]) -> dict[int, list[Entry]]:
    streams: dict[int, list[Entry]] = {}
    for identity, said in entries:
        streams.setdefault(identity.epoch, []).append((identity, said))
    return streams


def order_of_records(entries: list[Entry]) -> list[str]:
    """Each process's records are numbered through from 0 and lie together."""
    wrong = []
    for (before, _), (after, _) in pairwise(entries):
        follows = after.seq == before.seq + 1 if after.epoch == before.epoch else after.seq == 0
        if not follows:
            wrong.append(f"{after} follows {before}")
    if entries and entries[0][0].seq != 0:
        wrong.append(f"the log begins with {entries[0][0]}")
    return wrong


def order_of_steps(epoch: int, entries: list[Entry]) -> list[str]:
    """The steps of each episode are numbered through; a new one begins only behind the end of the
    one before it.
    """
    wrong = []
    before: Step | None = None
    skipped = 0  # records that a repair has replaced by marks
    for identity, said in entries:
        if isinstance(said, Mark):
            skipped += is_placeholder(identity, said)
            continue
        if before is not None and not skipped:
            goes_on = (said.episode, said.index) == (before.episode, before.index + 1)
            if goes_on == (before.terminated or before.truncated) or not (
                goes_on or said.index == 0
            ):
                wrong.append(
                    f"epoch {epoch}: step {said.episode}/{said.index} follows"
                    f" {before.episode}/{before.index}"
                )
        before, skipped = said, 0
    return wrong


def gaps_in_place(streams: list[tuple[int, list[Entry]]], unsure: set[int]) -> list[str]:
    """A process that died within an episode is followed by one whose first record is the mark of
    that; no other is.
    """
    wrong = []
    unfinished: tuple[int, int] | None = None  # epoch and last seq of an episode without its end
    before: int | None = None
    for epoch, entries in streams:
        first = entries[0][1]
        gap = (
            first
            if isinstance(first, Mark) and first.kind is MarkKind.GAP and first.epoch != epoch
            else None
        )
        told = (gap.epoch, gap.last_seq) if gap is not None else None
        if told != unfinished and before not in unsure:
            wrong.append(f"epoch {epoch} begins with the gap {told}, and there is {unfinished}")
        steps = [said for _, said in entries if isinstance(said, Step)]
        before, unfinished = epoch, None
        if steps and not (steps[-1].terminated or steps[-1].truncated):
            unfinished = (epoch, entries[-1][0].seq)
    return wrong
