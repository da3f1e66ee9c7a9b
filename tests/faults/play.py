"""Playing faults: at random moments of a run, one after the other, with the judge's word after each
and at the end.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.bench import Bench, FaultError, SupervisedBench
from tests.faults.judge import Verdict, judge
from tests.faults.table import Fault
from tests.faults.witness import logged

STEPS_PER_FAULT = 60
STEPS_AFTER = 60


@dataclass
class OperatorCommand:
    """What a fault came to. `recovery_s`: from when it was set right until a step made after that
    was in the log.
    """

    fault: str
    steps: int
    gaps: int
    recovery_s: float
    lost: int = 0
    duplicated: int = 0
    damaged: int = 0
    in_hand: int = 0


def play_all(
    faults: Sequence[Fault], template: Path, place: Path, seed: int
) -> list[OperatorCommand]:
    """Runs that suffer all of these faults between them: a run may be over before its last fault
    could be done to it.

    (A run has a length in steps and a fault takes time, in which the run goes on.)
    """
    outcomes: list[OperatorCommand] = []
    while len(outcomes) < len(faults):
        rest = faults[len(outcomes) :]
        outcomes += play(rest, template, place / f"run-with-{len(rest)}", seed + len(outcomes))
    return outcomes


def play(faults: Sequence[Fault], template: Path, place: Path, seed: int) -> list[OperatorCommand]:
    """A run that suffers these faults, to its end, or as many as it lived to see.

    FaultError with what was found, and the folder stays.
    """
    kind = SupervisedBench if faults[0].supervised else Bench
    bench = kind(template, place, seed, own_steps=STEPS_PER_FAULT * len(faults) + STEPS_AFTER)
    try:
        outcomes = []
        before = Verdict()
        for fault in faults:
            bench.wait_for_steps(bench.random.randrange(5, 40))
            time.sleep(bench.random.uniform(0.0, 0.1))
            if bench.has_ended:
                break
            recovery_s = suffer(bench, fault)
            now = require(bench, fault.name, ended=False)
            outcomes.append(difference(fault.name, before, now, recovery_s))
            before = now
        bench.wait_for_end()
        last = require(bench, "the end", ended=True)
        if outcomes:
            outcomes[-1].steps += last.steps - before.steps
            outcomes[-1].in_hand = max([outcomes[-1].in_hand, *last.in_hand.values()])
        return outcomes
    finally:
        bench.close()


def suffer(bench: Bench, fault: Fault) -> float:
    """Do it; returns the seconds until the run went on: until a record that is made afterwards is
    in the log.
    """
    fault.do(bench)
    mended = time.monotonic()
    made = bench.witness.ever().keys() | dict(logged(bench.log)).keys()
    bench.wait_for(
        lambda: bench.has_ended or any(identity not in made for identity, _ in logged(bench.log)),
        f"the run to go on after '{fault.name}'",
    )
    return time.monotonic() - mended


def require(bench: Bench, after: str, ended: bool) -> Verdict:
    verdict = judge(bench, ended=ended)
    if verdict.problems:
        raise FaultError(f"after '{after}': {'; '.join(verdict.problems)}\n{bench.all_said()}")
    return verdict


def difference(name: str, before: Verdict, now: Verdict, recovery_s: float) -> OperatorCommand:
    """What came with this fault."""
    new = [count for epoch, count in now.in_hand.items() if epoch not in before.in_hand]
    return OperatorCommand(
        name,
        steps=now.steps - before.steps,
        gaps=now.gaps - before.gaps,
        recovery_s=recovery_s,
        lost=now.lost,
        duplicated=now.duplicated,
        damaged=now.damaged - before.damaged,
        in_hand=max(new, default=0),
    )


def rounds(faults: Sequence[Fault], draw: random.Random, per_round: int) -> list[list[Fault]]:
    """The faults in random order, a few for each run, those of `robot-rl train` apart."""
    made = []
    for supervised in (False, True):
        kind = [fault for fault in faults if fault.supervised is supervised]
        draw.shuffle(kind)
        made += [kind[at : at + per_round] for at in range(0, len(kind), per_round)]
    draw.shuffle(made)
    return made
