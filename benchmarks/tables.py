"""What it costs to watch a run of two weeks: its tables as they would be, and the looks of the main
process at them.

`python -m benchmarks.tables` makes `metrics.jsonl` and `episodes.jsonl` of 12 million steps at 10
Hz in a temporary folder, goes on writing into them at many times a robot's pace, and looks as
`robot-rl train` does, twice per second of robot time, and as the console does.
"""

import json
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from robot_rl.console.history import Tally
from robot_rl.console.model import AT_ONCE as CONSOLE_AT_ONCE
from robot_rl.dataset.counts import EPISODES, Progress
from robot_rl.machine.small_files import JsonLines, Tail
from robot_rl.runs.progress import Newest
from robot_rl.runs.report import METRICS
from robot_rl.runs.train import AT_ONCE

STEPS, RATE_HZ, BLOCK, LENGTH = 12_000_000, 10.0, 50, 100
LOOKS_PER_S = 2.0


def metrics_row(steps: int) -> dict[str, Any]:
    """As the learner writes one each block."""
    names = (
        "actor_loss",
        "critic_loss",
        "entropy",
        "q",
        "target_q",
        "temperature",
        "bc_loss",
        "updates_per_s",
    )
    return {
        "env_steps": steps, "episodes": steps // LENGTH, "updates": 4 * steps, "offline_updates": 0, "bc_weight": 0.0,
        "demo_transitions": 2000, "own_transitions": steps, "weights_version": steps // BLOCK,
        **dict.fromkeys(names, 0.123456789 + steps % 97), "wall_s": steps / RATE_HZ, "t_wall": 1.8e9 + steps / RATE_HZ,
    }  # fmt: skip


def episode_row(steps: int) -> dict[str, Any]:
    """As the actor writes one each episode."""
    return {
        "episode": steps // LENGTH, "steps": LENGTH, "success": steps // LENGTH % 10 > 0, "fault": False, "seed": 17,
        "human_steps": 0, "segments": 0, "missed_resets": 0, "broken_off": False, "reason": "", "on_last": [],
        "env_steps": steps, "weights_version": steps // BLOCK, "t_wall": 1.8e9 + steps / RATE_HZ,
    }  # fmt: skip


def write_tables(folder: Path, steps: int) -> tuple[Path, Path]:
    """The two tables of a run of so many steps."""
    metrics, episodes = folder / "metrics.jsonl", folder / "episodes.jsonl"
    for path, row, every in ((metrics, metrics_row, BLOCK), (episodes, episode_row, LENGTH)):
        with path.open("w") as file:
            file.writelines(json.dumps(row(n)) + "\n" for n in range(every, steps + 1, every))
    return metrics, episodes


@dataclass(frozen=True)
class Figures:
    """Processor time [s] of the first look and of a later one, on average and at worst; memory in
    between [MB].
    """

    megabytes: float
    first_s: float
    mean_s: float
    worst_s: float
    console_first_s: float
    console_looks: int
    console_mean_s: float
    grown_mb: float


def watch(folder: Path, steps: int, hours: float) -> Figures:
    """Look at the tables of a run of so many steps while it goes on for `hours` of robot time, in
    fast motion.
    """
    paths = write_tables(folder, steps)
    tails: list[Tail[Any]] = [Tail(paths[0], Newest, METRICS, at_most=AT_ONCE, newest=AT_ONCE),
             Tail(paths[1], Progress, EPISODES, at_most=AT_ONCE, newest=AT_ONCE)]  # fmt: skip
    console = Tail(paths[1], Tally, EPISODES, at_most=CONSOLE_AT_ONCE)
    first = _processor_s(lambda: [tail.read() for tail in tails])
    console_looks, console_s = 0, []
    while not console.is_through:
        console_s.append(_processor_s(lambda: console.read().history))
        console_looks += 1
    tables = [JsonLines(path) for path in paths]
    before, count, total_s, worst_s, console_total_s = (
        _memory_mb(),
        round(hours * 3600 * LOOKS_PER_S),
        0.0,
        0.0,
        0.0,
    )
    for look in range(count):
        for n in _steps_of(look, steps):
            for table, row, every in zip(
                tables, (metrics_row, episode_row), (BLOCK, LENGTH), strict=True
            ):
                if n % every == 0:
                    table.append(row(n))
        took_s = _processor_s(lambda: [tail.read() for tail in tails])
        total_s, worst_s = total_s + took_s, max(worst_s, took_s)
        console_total_s += _processor_s(console.read)
    assert tails[0].read().env_steps == steps + round(hours * 3600 * RATE_HZ) // BLOCK * BLOCK
    for table in tables:
        table.close()
    size = sum(path.stat().st_size for path in paths) / 1e6
    return Figures(size, first, total_s / count, worst_s, max(console_s), console_looks, console_total_s / count,
                   _memory_mb() - before)  # fmt: skip


def _steps_of(look: int, steps: int) -> range:
    """The steps that the robot makes between two looks."""
    each = RATE_HZ / LOOKS_PER_S
    return range(steps + round(look * each) + 1, steps + round((look + 1) * each) + 1)


def _processor_s(do: Any) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main(steps: int = STEPS, hours: float = 8.0) -> None:
    """Print the figures.

    Args:
        steps: of the run so far.
        hours: of robot time that it goes on for, in fast motion.
    """
    with tempfile.TemporaryDirectory() as place:
        figures = watch(Path(place), steps, hours)
    print(f"tables of {steps:,} steps: {figures.megabytes:.0f} MB")
    print(f"first look {1e3 * figures.first_s:.1f} ms; each later one {1e3 * figures.mean_s:.3f} ms on average, "
          f"{1e3 * figures.worst_s:.1f} ms at worst: {100 * LOOKS_PER_S * figures.mean_s:.2f} % of a core at "
          f"{LOOKS_PER_S:g} looks per second")  # fmt: skip
    print(f"console: {figures.console_looks} looks until all is read, {1e3 * figures.console_first_s:.1f} ms at most; "
          f"each later one {1e3 * figures.console_mean_s:.3f} ms")  # fmt: skip
    print(f"memory: {figures.grown_mb:.1f} MB more after {hours:g} hours of robot time")


if __name__ == "__main__":
    tyro.cli(main)
