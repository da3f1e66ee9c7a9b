"""How fast a learner's update is, beside the peers', from state. What each row means: docs/data.md.

make bench-learner                                 (the others' learners: once, make bench-peers)
.venv/bin/python -m benchmarks.learner --only ours ours_alike sbx --critics 2
.venv/bin/python -m benchmarks.learner --load 2    beside two busy processes
"""

import json as json_text
import logging
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.other import Other
from benchmarks.updates import KINDS
from robot_rl.tools.benchmark_arm import busy
from robot_rl.tools.benchmark_rows import machine

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".peers" / "bin" / "python"
NAMES = {
    "ours": "ours, the actor at every second update",
    "ours_alike": "ours, the actor at every update",
    "sb3": "stable-baselines3 2.9.2, SAC",
    "sbx": "SBX 0.28.0, SAC",
    "sbx_layernorm": "SBX 0.28.0, SAC with LayerNorm",
    "torchrl": "TorchRL 0.14.1, SACLoss",
    "torchrl_redq": "TorchRL 0.14.1, REDQLoss",
    "lerobot": "LeRobot 0.4.4, SAC",
}
NOT_OF_TWO = {"torchrl_redq"}
"""Of two critics its target is SACLoss's."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PJRT_NPROC": "1",  # of JAX
}
AS_A_RUN = {"OMP_WAIT_POLICY": "PASSIVE"}
"""What our learner's process has (`cli/runs.py`): threads that wait do not spin."""
QUIET = {"RL_LOGGING_LEVEL": "ERROR", "JAX_PLATFORMS": "cpu"}


@dataclass(frozen=True)
class Case:
    """What one process measures. `threads`: 1, or 0 for as many as the library takes by itself."""

    kind: str
    critics: int
    threads: int


@dataclass
class Timing:
    """Of one case: seconds of an update in each round, wall and processor, and why there are none,
    if it failed. `idle_cpu_s`: the most processor time that it took between two questions.
    """

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    idle_cpu_s: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Line:
    """A row of the table. `alike`, `ours`: how many times as long it takes as ours with the actor
    at every update and as many threads, and as ours by default (one thread): medians over the
    rounds.
    """

    critics: int
    threads: str
    kind: str
    name: str
    ms: float
    low_ms: float
    high_ms: float
    cpu_ms: float
    per_s: float
    alike: float
    ours: float
    failed: str


def run(
    rounds: int = 5,
    updates: int = 60,
    call: int = 20,
    limit_s: float = 10.0,
    only: tuple[str, ...] = tuple(KINDS),
    critics: tuple[int, ...] = (2, 10),
    threads: tuple[int, ...] = (1, 0),
    load: int = 0,
    json: bool = False,
) -> None:
    """Measure, and print a table on stdout, or one JSON object.

    Args:
        rounds: in each, every learner has its turn.
        updates: in a turn.
        call: updates that a learner is asked for at a time. 20 is RLPD's ratio; ours has 4.
        limit_s: a turn ends after so long, with fewer updates, but for those asked for at a time.
        only: these kinds.
        critics: an ensemble of so many.
        threads: 1, or 0 for what the library takes by itself.
        load: busy processes beside.
        json: numbers for a program.
    """
    from rich.console import Console

    logging.basicConfig(level=logging.ERROR)
    unknown = set(only) - set(KINDS)
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}? The kinds are {', '.join(KINDS)}.")
    results: dict[Case, Timing] = {}
    before = os.getloadavg()[0]
    for many in critics:  # all of one size take turns; more processes would not fit into memory
        cases = [
            Case(kind, many, few)
            for few in threads
            for kind in KINDS
            if kind in only and not (kind in NOT_OF_TWO and many <= 2)
        ]
        results |= measure(cases, rounds, updates, call, limit_s, load)
    facts = machine() | {"load": f"{before:.1f} before, {os.getloadavg()[0]:.1f} after"}
    idle_ms = 1e3 * max((timing.idle_cpu_s for timing in results.values()), default=0.0)
    facts |= {
        "busy processes beside": load,
        "a wait took at most": f"{idle_ms:.1f} ms of processor time",
    }
    rows = lines(results)
    if json:
        plain = [{n: number_or_none(v) for n, v in asdict(row).items()} for row in rows]
        print(json_text.dumps({"machine": facts, "rows": plain}, indent=2))
    else:
        Console().print(table(rows, facts))


def measure(
    cases: Sequence[Case], rounds: int, updates: int, call: int, limit_s: float, load: int = 0
) -> dict[Case, Timing]:
    """Each case in a process of its own; one at a time has its turn, while the others wait."""
    timings = {case: Timing() for case in cases}
    with ExitStack() as stack:
        learners: dict[Case, Other] = {}
        for case in cases:  # one after the other: compiling takes all the cores
            print(f"{case} ...", file=sys.stderr)
            if not case.kind.startswith("ours") and not PEERS.exists():
                timings[case].failed = "not installed: make bench-peers"
                continue
            learners[case] = stack.enter_context(learner(case, call))
            said = answer(learners[case])
            timings[case].failed = said.get("failed", "")
        stack.enter_context(busy(load))
        for number in range(rounds + 1):
            for case, other in learners.items():
                timing = timings[case]
                if timing.failed:
                    continue
                # the first turn warms up
                asked = {"asked": updates if number else call, "limit_s": limit_s}
                other.tell(json_text.dumps(asked))
                said = answer(other)
                timing.failed = said.get("failed", "")
                if number and not timing.failed:
                    timing.seconds.append(said["s"] / said["updates"])
                    timing.cpu_s.append(said["cpu_s"] / said["updates"])
                    timing.idle_cpu_s = max(timing.idle_cpu_s, said["idle_cpu_s"])
    return timings


def learner(case: Case, call: int) -> Other:
    """The process of a case (`updates.py`)."""
    is_ours = case.kind.startswith("ours")
    python = sys.executable if is_ours else PEERS
    environment = QUIET | (ONE_THREAD if case.threads == 1 else {}) | (AS_A_RUN if is_ours else {})
    return Other(
        "updates.py", case.kind, case.critics, call, python=python, environment=environment
    )


def answer(other: Other) -> dict[str, Any]:
    """What it says next; one that died has failed."""
    try:
        said: dict[str, Any] = other.answer()
    except RuntimeError as error:
        return {"failed": str(error)}
    return said


def lines(results: Mapping[Case, Timing]) -> list[Line]:
    """The rows: by critics and threads, the fastest first, and last who failed."""
    rows = []
    for case, timing in results.items():
        alike = results.get(Case("ours_alike", case.critics, case.threads), Timing())
        ours = results.get(Case("ours", case.critics, 1), Timing())
        seconds = timing.seconds or [math.nan]
        median = float(np.median(seconds))
        rows.append(
            Line(
                critics=case.critics,
                threads="1" if case.threads == 1 else "all",
                kind=case.kind,
                name=NAMES[case.kind],
                ms=1e3 * median,
                low_ms=1e3 * min(seconds),
                high_ms=1e3 * max(seconds),
                cpu_ms=1e3 * float(np.median(timing.cpu_s or [math.nan])),
                per_s=1.0 / median,
                alike=ratio(timing.seconds, alike.seconds),
                ours=ratio(timing.seconds, ours.seconds),
                failed=timing.failed,
            )
        )
    return sorted(
        rows, key=lambda row: (row.critics, row.threads, math.isnan(row.ms), row.ms)
    )  # fmt: skip


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """How many times as long as ours: the median of what each round says, in which both had their
    turn side by side. NaN where one of them has none.
    """
    both = [a / b for a, b in zip(theirs, ours, strict=False)]
    return float(np.median(both)) if both else math.nan


def table(rows: Sequence[Line], facts: Mapping[str, Any]) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table

    out = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()))
    for heading in ("critics", "threads", "learner"):
        out.add_column(heading)
    for heading in ("ms", "least to most", "processor ms", "updates/s", "x ours alike", "x ours"):
        out.add_column(heading, justify="right")
    for row in rows:
        who = (str(row.critics), row.threads, row.name)
        if row.failed:
            out.add_row(*who[:2], f"{row.name}: {row.failed}")
            continue
        spread = f"{row.low_ms:.3g} to {row.high_ms:.3g}"
        numbers = (f"{row.per_s:.0f}", number(row.alike), number(row.ours))
        out.add_row(*who, f"{row.ms:.3g}", spread, f"{row.cpu_ms:.3g}", *numbers)
    return out


def number(value: float) -> str:
    """A ratio for the table."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def number_or_none(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


if __name__ == "__main__":
    import tyro

    tyro.cli(run)
