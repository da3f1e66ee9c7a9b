"""The judge of the fault matrix sees what it is there to see: each kind of violation, made by hand."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec, encode_mark
from robot_rl.stream.log import StepLog
from robot_rl.stream.records import Kind, Record
from robot_rl.stream.spool import Spool
from robot_rl.types import Mark, MarkKind, RecordId
from tests.faults.judge import Verdict, judge
from tests.faults.witness import Witness
from tests.stream.test_codec import SPACE, make_step

EPOCH, NEXT = 7, 8


def step(epoch: int, seq: int, index: int, **changes: Any) -> Record:
    payload = StepCodec(SPACE).encode(make_step(index, **changes))
    return records.frame(Kind.STEP, RecordId("actor", epoch, seq), payload)


def gap(epoch: int, last_seq: int) -> Record:
    mark = Mark(MarkKind.GAP, 3, actor="actor", epoch=epoch, last_seq=last_seq)
    return records.frame(Kind.MARK, RecordId("actor", NEXT, 0), encode_mark(mark))


FIRST = [step(EPOCH, seq, seq, truncated=False) for seq in range(4)]
SECOND = [
    gap(EPOCH, 3),
    *(step(NEXT, 1 + index, index, truncated=index == 2) for index in range(3)),
]


@dataclass
class Scene:
    """What a bench shows to the judge: a spool with two processes' records, and a log of what is
    said to be there.
    """

    place: Path
    made: dict[int, int] = field(default_factory=dict)

    def judge(self, logged: list[Record], own_steps: int = 5) -> Verdict:
        witness = Witness(self.place / "spool")
        for epoch, several in ((EPOCH, FIRST), (NEXT, SECOND)):
            spool = Spool(self.place / "spool", "actor", epoch, SPACE)
            for record in several:
                spool.append_all([record])
            spool.close()
        with StepLog(self.place / "steps.log", SPACE) as log:
            for record in logged:
                log.append_records([record])
        journals = self.place / "journals"
        journals.mkdir()
        for epoch, count in self.made.items():
            (journals / f"{epoch}.journal").write_bytes(b"." * count)
        bench: Any = SimpleNamespace(
            witness=witness, log=self.place / "steps.log", journals=journals, torn_epochs=set(),
            unspooled_epochs=set(), damaged=0,
            own_steps=own_steps, learner_folder=SimpleNamespace(spaces=lambda: SPACE),
        )  # fmt: skip
        try:
            return judge(bench, ended=True)
        finally:
            witness.close()


def test_a_log_that_is_right_is_found_right(tmp_path):
    verdict = Scene(tmp_path, {EPOCH: 6, NEXT: 3}).judge(FIRST + SECOND)
    assert not verdict.problems
    assert (verdict.steps, verdict.gaps, verdict.in_hand) == (5, 1, {EPOCH: 2, NEXT: 0})


VIOLATIONS = {
    "1 appended records are not": FIRST[:3] + SECOND,
    "in the log twice": [*FIRST, FIRST[3], *SECOND],
    "follows RecordId": [FIRST[0], FIRST[2], FIRST[1], FIRST[3], *SECOND],
    "never handed over": [*FIRST, step(EPOCH, 4, 4, truncated=False), *SECOND],
    "begins with the gap None": (
        FIRST + [step(NEXT, index, index, truncated=index == 2) for index in range(3)]
    ),
    "steps; 5 were asked for": [*FIRST, *SECOND[:2]],
    "are not in the log": [*FIRST[:3], step(EPOCH, 3, 3, truncated=False, reward=0.25), *SECOND],
}


@pytest.mark.parametrize("said", VIOLATIONS)
def test_each_violation_is_seen(tmp_path, said):
    assert any(said in problem for problem in Scene(tmp_path).judge(VIOLATIONS[said]).problems)


def test_more_than_the_steps_in_hand_is_a_violation(tmp_path):
    problems = Scene(tmp_path, {EPOCH: 7}).judge(FIRST + SECOND).problems
    assert problems == [f"the process with epoch {EPOCH} made 3 steps that are not in the log"]
