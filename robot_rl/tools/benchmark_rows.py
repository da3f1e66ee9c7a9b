"""What a benchmark says: a number a row, on which machine, and how much of each part it measures."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """How much of each part is measured; the defaults take about half a minute, with nothing to
    compile 20 s.
    """

    law_calls: int = 100_000
    env_steps: int = 200
    jitter_s: float = 3.0
    link_steps: int = 400
    replay_steps: int = 3_000
    batches: int = 200
    updates: int = 100
    compile: bool = True


@dataclass(frozen=True)
class Row:
    """One number. `beside` says what to compare it with."""

    name: str
    value: float
    unit: str
    beside: str = ""


def table(rows: list[Row]) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table

    out = Table(title=", ".join(f"{name} {value}" for name, value in machine().items()))
    for heading in ("part", "value", "unit", "beside"):
        out.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        out.add_row(row.name, f"{row.value:.4g}", row.unit, row.beside)
    return out


def machine() -> dict[str, str | int]:
    """What the numbers were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }


def median(call: Callable[[], object], times: int) -> float:
    """Median seconds of a call, after one that does not count."""
    call()
    seconds = []
    for _ in range(max(times, 1)):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds))
