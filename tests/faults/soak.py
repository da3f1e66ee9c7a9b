"""All faults, again and again: `python -m tests.faults.soak --minutes 60` (`make soak
ARGS="--minutes 60"`).

Runs of a few faults each, in random order and at random moments, until the time is up; then a
table. The first violation ends it, with exit code 1, the seed, and the folder of the run. The same
`--seed` draws the same faults in the same order; when exactly each strikes is also up to the
machine.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from robot_rl.types import RobotRLError
from tests.faults.bench import FaultError, record_demos
from tests.faults.play import OperatorCommand, play_all, rounds
from tests.faults.table import FAULTS, Fault

PER_ROUND = 4
COLUMNS = ("fault", "times", "steps", "lost", "duplicated", "gaps", "in hand", "worst recovery [s]")
NOTES = """lost, duplicated: records, of what was appended. gaps: episodes cut by a kill, each with its mark.
in hand: the most steps that one killed process took with it. recovery: until a step made after the repair is logged."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="for how long; the round in hand is finished"
    )
    parser.add_argument(
        "--seed", type=int, default=None, help="of order and moments; random if not given"
    )
    parser.add_argument("--only", default="", help="faults whose name contains this")
    options = parser.parse_args()
    seed = random.randrange(1 << 20) if options.seed is None else options.seed
    chosen = [fault for fault in FAULTS if options.only in fault.name]
    if not chosen:
        parser.error(
            f"no fault is called '{options.only}'; there are:"
            f" {', '.join(fault.name for fault in FAULTS)}"
        )
    place = Path(tempfile.mkdtemp(prefix="robot-rl-soak-"))
    print(f"soak of {options.minutes:g} minutes, seed {seed}, in {place}", flush=True)
    begun = time.monotonic()
    outcomes: list[OperatorCommand] = []
    failure = soak(chosen, place, seed, begun + 60.0 * options.minutes, outcomes)
    print(table(outcomes), NOTES, sep="\n\n")
    print(f"\n{(time.monotonic() - begun) / 60.0:.1f} minutes, seed {seed}")
    if failure:
        print(f"\nVIOLATION: {failure}")
        return 1
    shutil.rmtree(place)
    return 0


def soak(
    faults: list[Fault], place: Path, seed: int, until: float, outcomes: list[OperatorCommand]
) -> str | None:
    """Play until the time is up; returns what went wrong, if something did. `outcomes` grows
    meanwhile.
    """
    template = record_demos(place)
    draw = random.Random(seed)
    number = 0
    while True:
        for several in rounds(faults, draw, PER_ROUND):
            if time.monotonic() > until:
                return None
            number += 1
            folder, round_seed = place / f"round-{number:04d}", draw.randrange(1 << 30)
            names = "; ".join(fault.name for fault in several)
            print(f"{number:4d}  seed {round_seed}  {names}", flush=True)
            try:
                outcomes += play_all(several, template, folder, round_seed)
            except (
                FaultError,
                AssertionError,
                OSError,
                RobotRLError,
                subprocess.SubprocessError,
            ) as error:
                return (
                    f"in round {number} ({names}), seed {round_seed}, folder"
                    f" {folder}:\n{error!r}\n{error}"
                )
            shutil.rmtree(folder)


def table(outcomes: Iterable[OperatorCommand]) -> str:
    """A row for each fault and one for all, as Markdown."""
    by_name: dict[str, list[OperatorCommand]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.fault, []).append(outcome)
    rows = [list(COLUMNS), ["---", *["---:"] * (len(COLUMNS) - 1)]]
    rows += [
        row(name, by_name[name]) for name in (fault.name for fault in FAULTS) if name in by_name
    ]
    rows.append(row("all", [each for several in by_name.values() for each in several]))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def row(name: str, several: list[OperatorCommand]) -> list[str]:
    sums = [len(several)] + [
        sum(getattr(o, key) for o in several) for key in ("steps", "lost", "duplicated", "gaps")
    ]
    in_hand = max((o.in_hand for o in several), default=0)
    worst = max((o.recovery_s for o in several), default=0.0)
    return [name, *map(str, sums), str(in_hand), f"{worst:.1f}"]


if __name__ == "__main__":
    sys.exit(main())
