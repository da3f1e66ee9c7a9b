"""How fast the data plane is, beside what others do and what the machine allows. What each row
means: docs/data.md.

make bench-data                                    (the replay buffers of others: once, make bench-peers)
.venv/bin/python benchmarks/data.py --json
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from json import dumps
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import disk, links
from benchmarks.other import Other
from robot_rl.tools.benchmark_rows import Row, machine
from robot_rl.types import SpaceSpec

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".peers" / "bin" / "python"
PIXELS = SpaceSpec.unnamed(
    {
        "image/front": ((128, 128, 3), "uint8"),
        "image/wrist": ((128, 128, 3), "uint8"),
        "state/arm": ((13,), "float32"),
    },
    action_size=7,
)
STATE = SpaceSpec.unnamed({"state/arm": ((13,), "float32")}, action_size=7)
OTHERS = {
    "torchrl_tensor": "TorchRL 0.14.1, LazyTensorStorage",
    "torchrl_memmap": "TorchRL 0.14.1, LazyMemmapStorage",
    "lerobot": "LeRobot 0.4.4, ReplayBuffer",
    "lerobot_optimized": "LeRobot 0.4.4, optimize_memory",
}


@dataclass(frozen=True)
class Sizes:
    """How much of each part is measured. The defaults take about three minutes, 6 GB of memory and
    20 GB of disk.
    """

    replay_steps: int = 4_000
    batch: int = 256
    rounds: int = 5
    batches: int = 20
    burst_steps: int = 3_000
    burst_rounds: int = 3
    sustained_steps: int = 60_000
    spool_steps: int = 150
    fleet_s: float = 10.0
    megabytes: float = 20.0
    versions: int = 40
    slow_versions: int = 60
    slow_s: float = 1.0
    log_steps: int = 100_000
    pixel_log_steps: int = 5_000
    parts: tuple[str, ...] = ("gather", "spool", "weights", "log")


@dataclass(frozen=True)
class Figure(Row):
    """A row with what was asked for: `goal`, at least or `at_most` so much."""

    goal: float | None = None
    at_most: bool = False

    @property
    def verdict(self) -> str:
        """Whether the goal is met; empty without one."""
        if self.goal is None:
            return ""
        met = self.value <= self.goal if self.at_most else self.value >= self.goal
        return f"{'<=' if self.at_most else '>='} {self.goal:g}: {'met' if met else 'MISSED'}"


def run(json: bool = False, folder: Path | None = None, sizes: Sizes = Sizes()) -> None:
    """Measure, and print a table on stdout, or one JSON object. `folder`: on the disk to measure
    (default: here).
    """
    from rich.console import Console

    logging.basicConfig(level=logging.ERROR)  # that nobody is trusted yet is meant so here
    measure: dict[str, Callable[[Path, Sizes], list[Row]]] = {
        "gather": gather_rows, "spool": spool_rows, "weights": weight_rows, "log": log_rows
    }  # fmt: skip
    rows, load = [], os.getloadavg()[0]
    for part in sizes.parts:
        with tempfile.TemporaryDirectory(dir=folder or Path.cwd(), prefix=".bench-") as scratch:
            print(f"{part} ...", file=sys.stderr)
            rows += measure[part](Path(scratch), sizes)
    facts = machine() | {"load": f"{load:.1f} before, {os.getloadavg()[0]:.1f} after"}
    if json:
        print(
            dumps(
                {"machine": facts}
                | {row.name: None if isnan(row.value) else row.value for row in rows},
                indent=2,
            )
        )
    else:
        Console().print(table(rows, facts))


def table(rows: list[Row], facts: dict[str, Any]) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table

    out = Table(title=", ".join(f"{name} {value}" for name, value in facts.items()))
    for heading in ("part", "value", "unit", "goal", "beside"):
        out.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        value = (
            f"{row.value:.0f}"
            if row.value >= 1e4
            else "-"
            if isnan(row.value)
            else f"{row.value:.4g}"
        )
        out.add_row(
            row.name, value, row.unit, row.verdict if isinstance(row, Figure) else "", row.beside
        )
    return out


# ------------------------------------------------------------------------------------------- gather


def gather_rows(folder: Path, sizes: Sizes) -> list[Row]:
    """Batches per second of each buffer, in processes of their own that take turns, and what a step
    takes in memory.
    """
    kinds = ["memcpy", "ours", *(OTHERS if PEERS.exists() else ())]
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    with ExitStack() as stack:
        buffers = {kind: stack.enter_context(buffer(kind, folder, sizes)) for kind in kinds}
        taken = {kind: other.answer()["bytes_per_step"] for kind, other in buffers.items()}
        for other in buffers.values():
            ask(other, 2)  # the first ones touch the memory
        for _ in range(sizes.rounds):
            for kind, other in buffers.items():
                times[kind] += ask(other, max(2, sizes.batches // (4 if kind in OTHERS else 1)))
    per_s = {kind: 1e3 / float(np.median(ms)) for kind, ms in times.items()}
    share = {kind: 100.0 * value / per_s["memcpy"] for kind, value in per_s.items()}
    what = f"{sizes.batch} transitions, {4 * sizes.batch * 49152 / 1e6:.1f} MB of images"
    rows: list[Row] = [
        Row("memcpy_batches_per_s", per_s["memcpy"], "batches/s", f"a plain copy of {what}")
    ]
    rows += [
        Row("gather_batches_per_s", per_s["ours"], "batches/s", f"sample and gather {what}"),
        Figure("gather_percent_of_memcpy", share["ours"], "%", "ours", 90.0),
        Figure(
            "step_bytes",
            taken["ours"],
            "B",
            "ours; two images and 20 numbers are 98384",
            98_500.0,
            at_most=True,
        ),
    ]
    for kind, name in OTHERS.items():
        if kind not in times:
            rows.append(
                Row(
                    f"{kind}_percent_of_memcpy",
                    float("nan"),
                    "%",
                    f"{name}: not installed: make bench-peers",
                )
            )
            continue
        rows += [
            Row(
                f"{kind}_percent_of_memcpy",
                share[kind],
                "%",
                f"{name}; ours is {per_s['ours'] / per_s[kind]:.1f} x",
            ),
            Row(
                f"{kind}_step_bytes", taken[kind], "B", f"{taken[kind] / taken['ours']:.1f} x ours"
            ),
        ]
    return rows


def buffer(kind: str, folder: Path, sizes: Sizes) -> Other:
    """A replay buffer in a process of its own (`gather.py`)."""
    python = PEERS if kind in OTHERS else sys.executable
    environment = {"TMPDIR": str(folder), "RL_LOGGING_LEVEL": "ERROR"}
    return Other(
        "gather.py", kind, sizes.replay_steps, sizes.batch, python=python, environment=environment
    )


def ask(other: Other, batches: int) -> list[float]:
    """Milliseconds of each of so many batches."""
    other.tell(batches)
    milliseconds: list[float] = other.answer()["ms"]
    return milliseconds


# -------------------------------------------------------------------------------------------- links


def spool_rows(folder: Path, sizes: Sizes) -> list[Row]:
    """Through the spool at the robot's rhythm; through spool and log: bursts for memory, a long run
    for the disk.
    """
    # before the disk is busy for long
    seconds = disk.appends(folder / "rhythm", PIXELS, sizes.spool_steps, 30.0)
    half, nearly = 1e6 * np.percentile(seconds, [50, 99])
    bursts = [
        links.steps(PIXELS, sizes.burst_steps, fresh(folder, f"burst{number}"))
        for number in range(sizes.burst_rounds)
    ]
    burst = sorted(bursts, key=lambda result: result.per_s)[len(bursts) // 2]
    fleet = links.fleet(
        PIXELS, fresh(folder, "fleet"), actors=16, rate_hz=10.0, seconds=sizes.fleet_s
    )
    size = 98_824.0
    rows: list[Row] = [
        Figure(
            "spool_append_p50_us",
            float(half),
            "us",
            "at 30 Hz, checksums included",
            1000.0,
            at_most=True,
        ),
        Row("spool_append_p99_us", float(nearly), "us", f"{1e6 * seconds.max():.0f} at most"),
        Figure(
            "fleet_actors_percent",
            100 * fleet[0],
            "%",
            "of a core, for 16 actors at 10 Hz together",
            25.0,
            True,
        ),
        Figure(
            "fleet_learner_percent",
            100 * fleet[1],
            "%",
            "of a core: their learner's link and log",
            25.0,
            True,
        ),
        Figure(
            "spool_to_ack_burst_per_s",
            burst.per_s,
            "steps/s",
            f"{sizes.burst_steps} steps; {shares(burst)}",
            320.0,
        ),
    ]
    if disk.enough_room(folder, 2 * size * sizes.sustained_steps):
        plain = disk.plain_write(folder, max(1, int(sizes.sustained_steps * size / 4e6)))
        long = links.steps(PIXELS, sizes.sustained_steps, fresh(folder, "sustained"))
        rate = 2 * size * long.per_s / 1e6
        rows += [
            Row(
                "spool_to_ack_sustained_per_s",
                long.per_s,
                "steps/s",
                f"{long.seconds:.0f} s; {shares(long)}",
            ),
            Row(
                "spool_to_ack_sustained_mb_per_s",
                rate,
                "MB/s",
                f"spool and log; {1e-6 * plain:.0f} for one plain file",
            ),
        ]
    return rows


def processor_time(result: links.StepsResult) -> str:
    """Of sender and receiver."""
    return (
        f"{1e6 * result.sender_cpu_s:.0f} + {1e6 * result.receiver_cpu_s:.0f} us of processor time"
        " per step"
    )


def shares(result: links.StepsResult) -> str:
    """The processor time, and what part of the time each process spent on its file."""
    both = [processor_time(result)]
    for who, clock in (("spool", result.sender), ("log", result.receiver)):
        write, sync = (
            round(100 * seconds / result.seconds) for seconds in (clock.write_s, clock.sync_s)
        )
        both.append(f"{who} writes {write} % of it, syncs {sync} %")
    return ", ".join(both)


def fresh(folder: Path, name: str) -> Path:
    """A new folder."""
    made = folder / name
    made.mkdir()
    return made


def weight_rows(folder: Path, sizes: Sizes) -> list[Row]:
    """20 MB of weights to a subscriber that waits for them, and to one that looks once a second."""
    quick = links.weights(sizes.megabytes, sizes.versions, 0.1)
    slow = links.weights(sizes.megabytes, sizes.slow_versions, 0.1, sizes.slow_s)
    half, worst = 1e3 * np.median(quick.delays_s), 1e3 * quick.delays_s.max()
    what = (
        f"{sizes.megabytes:g} MB; {worst:.0f} at most, {1e3 * np.median(quick.publish_s):.1f} of it"
        " in publish"
    )
    oldest = 1e3 * max(slow.delays_s, default=float("nan"))
    looks = f"{len(slow.delays_s)} looks, published every 100 ms"
    return [
        Figure("weights_p50_ms", float(half), "ms", what, 15.0, at_most=True),
        Figure("weights_slow_oldest_ms", float(oldest), "ms", looks, 250.0, at_most=True),
    ]


def log_rows(folder: Path, sizes: Sizes) -> list[Row]:
    """Coming back: the log opened, and a replay filled from it. With images from fewer steps, times
    what is missing.
    """
    small = disk.read_log(folder / "state.log", STATE, sizes.log_steps)
    large = disk.read_log(folder / "pixels.log", PIXELS, sizes.pixel_log_steps)
    times = 100_000 / small.steps, 100_000 / large.steps
    computed, kept = disk.features(folder / "features", PIXELS, sizes.pixel_log_steps)
    basis = (
        f"from {large.steps} steps of {large.bytes / large.steps / 1e3:.0f} kB, times {times[1]:g}"
    )
    of = f"{small.steps} steps of {small.bytes / small.steps:.0f} B"
    return [
        Row("log_open_s", small.open_s, "s", of),
        Row(
            "log_open_pixels_s",
            large.open_s,
            "s",
            f"{large.steps} steps of {large.bytes / large.steps / 1e3:.0f} kB",
        ),
        Row("log_open_pixels_cold_s", large.cold_open_s, "s", "the same, from the disk"),
        Figure(
            "resume_s",
            small.refill_s,
            "s",
            f"opened and read into the replay, from the disk; {of}",
            60.0,
            True,
        ),
        Figure(
            "resume_pixels_s",
            large.refill_s * times[1],
            "s",
            f"100000 steps, from the disk; {basis}",
            60.0,
            True,
        ),
        Row(
            "resume_features_s",
            1e5 * kept,
            "s",
            f"of a frozen encoder, on top; computing them: {1e5 * computed:.0f} s",
        ),
    ]


if __name__ == "__main__":
    import tyro

    tyro.cli(run)
