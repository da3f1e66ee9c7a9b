"""The black box of an arm: what the loop did in the last 30 s, tick by tick, written to disk when
something happens.

The loop writes one row per tick into a ring in shared memory (`Ring`), which on the real clock
outlives the loop's process. The network side copies the ring when a fault is latched, and a thread
of it writes the file: the loop never waits. The same rows are where the loop's statistics come
from.

A file is an `.npz` without pickle: `rows (n, w)` float64, `columns (w,)` and `about`, a JSON text;
`tools/blackbox.py` draws it.
"""

import json
import logging
import os
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.controllers.shared_memory import SharedBlock
from robot_rl.types import Array, DataError, DeviceError

log = logging.getLogger(__name__)

SECONDS = 30
TICKS = 1000 * SECONDS
STATS_TICKS = 10_000
"""Statistics are over the last ten seconds."""

LONGEST_AGO_S = 0.9
LONGEST_AGO_TICKS = 1_000
"""How far back it can be asked where the tool was: further than any camera's frames."""

AFTERMATH_S = 0.5
"""How much of what follows a fault is in the file, on the real clock."""

HALF_A_TICK_S = 5e-4
KEEP = 20
"""Files kept of each kind of event; the oldest goes."""

HEAD = ("t", "late_s", "law_s", "tick_s", "fault", "verdict", "mode", "holding")
T, LATE, LAW, TICK, FAULT, VERDICT, MODE, HOLDING = range(len(HEAD))
"""First columns. `law_s` and `tick_s` are how long the tick *before* took: law and limits alone;
until written.
"""


def columns(joints: int) -> list[str]:
    """Names of the columns of a row: the head, then the measured, the wanted and the commanded."""
    axes, turn = ("x", "y", "z"), ("qx", "qy", "qz", "qw")
    names = list(HEAD)
    for name in ("q", "dq", "tau"):
        names += [f"{name}{j + 1}" for j in range(joints)]
    for name in ("pose", "target", "reference"):
        names += [f"{name}_{axis}" for axis in axes + turn]
    for name in ("force", "moment", "speed", "turn"):
        names += [f"{name}_{axis}" for axis in axes]
    return names


class Ring:
    """The last `TICKS` rows. The loop alone writes; a copy is made beside it or in another
    process.

    `count` is how many rows have been written since the start; row k lies at `k % TICKS`. A row is
    filled first and counted then; a copy leaves out whatever the writer may have overtaken
    meanwhile.
    """

    def __init__(self, joints: int, block: SharedBlock | None = None):
        """A ring of zeros; or the one whose `block` another process has handed over."""
        self.columns = columns(joints)
        pose = self.columns.index("pose_x")
        self._pose = slice(pose, pose + 7)
        numbers = TICKS * len(self.columns)
        self.block = block or SharedBlock(8 + 8 * numbers)
        self.count = np.frombuffer(self.block.memory, np.int64, 1)
        self.rows = np.frombuffer(self.block.memory, np.float64, numbers, 8).reshape(TICKS, -1)

    @property
    def row(self) -> Array:
        """The row `(w,)` that is filled next."""
        row: Array = self.rows[self.count[0] % TICKS]
        return row

    def copy(self, last: int = TICKS) -> Array:
        """The newest rows `(n, w)`, oldest first, n at most `last`."""
        end = int(self.count[0])
        index = np.arange(max(end - min(last, TICKS), 0), end)
        rows = self.rows[index % TICKS]
        overtaken = int(self.count[0]) + 1 - TICKS  # plus the one that is being written
        result: Array = rows[max(overtaken - int(index[0]), 0) :] if len(index) else rows
        return result

    def ago(self, age_s: float) -> Array:
        """Pose `(7,)` of the tool in the base frame, so long before the newest row; the oldest there
        is where it goes back no further. DeviceError if there is no row.
        """
        end = int(self.count[0])
        index = np.arange(max(end - LONGEST_AGO_TICKS, 0), end) % TICKS
        if not len(index):
            raise DeviceError("the arm has measured nothing yet")
        times = self.rows[index, T]
        then = max(int(np.searchsorted(times, times[-1] - age_s + HALF_A_TICK_S)) - 1, 0)
        pose: Array = self.rows[index[then], self._pose].copy()
        return pose


@dataclass(frozen=True)
class LoopStats:
    """How the loop keeps time: counted since its start, and percentiles over the last ten seconds.

    `late_ticks` began more than half a millisecond late (overruns), by `worst_late_ms` at the
    worst; `lost_ticks` are the cycles of the arm's own that went by without a command. `law_us` is
    the control law with all limits, `tick_us` a whole tick from the measurement to the command.
    `nominal_hz` is what `rate_hz` should be. `command_success` is the share of commands that the
    robot itself says it has got lately, 1 if it says nothing of it.
    """

    ticks: float = 0.0
    late_ticks: float = 0.0
    worst_late_ms: float = 0.0
    lost_ticks: float = 0.0
    rate_hz: float = 0.0
    period_us_p50: float = 0.0
    period_us_p99: float = 0.0
    period_us_max: float = 0.0
    law_us_p50: float = 0.0
    law_us_p999: float = 0.0
    tick_us_p50: float = 0.0
    tick_us_p999: float = 0.0
    nominal_hz: float = 1000.0
    command_success: float = 1.0


def loop_stats(
    ring: Ring,
    late_ticks: int,
    worst_late_s: float,
    lost_ticks: int,
    command_success: float = 1.0,
    nominal_hz: float = 1000.0,
) -> LoopStats:
    """The statistics that a ring and the loop's counters hold."""
    rows = ring.copy(STATS_TICKS)[1:]  # how long a tick took stands in the row of the next
    counted = {
        "late_ticks": late_ticks, "worst_late_ms": 1e3 * worst_late_s, "lost_ticks": lost_ticks,
        "command_success": command_success, "nominal_hz": nominal_hz,
    }  # fmt: skip
    if len(rows) < 2:
        return LoopStats(ticks=float(ring.count[0]), **counted)
    periods, law, tick = 1e6 * np.diff(rows[:, T]), 1e6 * rows[:, LAW], 1e6 * rows[:, TICK]
    return LoopStats(
        ticks=float(ring.count[0]),
        rate_hz=1e6 * len(periods) / max(float(periods.sum()), 1.0),
        period_us_p50=float(np.percentile(periods, 50)),
        period_us_p99=float(np.percentile(periods, 99)),
        period_us_max=float(periods.max()),
        law_us_p50=float(np.percentile(law, 50)),
        law_us_p999=float(np.percentile(law, 99.9)),
        tick_us_p50=float(np.percentile(tick, 50)),
        tick_us_p999=float(np.percentile(tick, 99.9)),
        **counted,
    )


def blackbox_folder() -> Path:
    """Where black boxes lie unless somebody says otherwise."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "robot_rl" / "blackbox"


def new_file(folder: Path, device: str, event: str) -> Path:
    """The file of an event that happens now, numbered: names are in the order of events, whatever
    the clock says.

    `b000042-20260131-120501-123456-panda-FORCE.npz`; names from before they were numbered sort
    first.
    """
    try:
        there = max((number_of(path.name) for path in folder.iterdir()), default=0)
    except OSError:  # there is none yet, or `store` will say what is wrong with it
        there = 0
    _given[folder] = number = 1 + max(there, _given.get(folder, 0))
    now = time.time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return folder / f"b{number:06d}-{stamp}-{int(now * 1e6) % 1_000_000:06d}-{device}-{event}.npz"


_given: dict[Path, int] = {}
"""The newest number in each folder that this process has given: its file may not be there yet."""


def number_of(name: str) -> int:
    """The number in the name of a black box; 0 if it has none."""
    number = name[1:].split("-", 1)[0]
    return int(number) if name.startswith("b") and number.isascii() and number.isdecimal() else 0


def store(path: Path, rows: Array, columns: Sequence[str], about: Mapping[str, Any]) -> None:
    """Write a black box, and drop the oldest of its event. A disk that refuses is no second fault:
    it is logged.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file, rows=rows, columns=np.array(columns), about=np.array(json.dumps(about))
            )
        partial.rename(path)
        there = path.parent.glob(f"*-{about['event']}.npz")
        for old in sorted(there, key=lambda each: (number_of(each.name), each.name))[:-KEEP]:
            old.unlink(missing_ok=True)  # another event may be cleaning up as well
    except OSError as error:
        log.error("the black box %s could not be written: %s", path, error)


class BlackBox:
    """Writes the ring of one arm to files in a folder, one per event. Belongs to the network side."""

    def __init__(
        self, ring: Ring, folder: Path, about: Mapping[str, Any], aftermath_s: float = AFTERMATH_S
    ):
        self._ring, self._folder, self._about, self._aftermath_s = ring, folder, about, aftermath_s
        self._threads: list[threading.Thread] = []

    def save(self, event: str, reason: str, robot: Mapping[str, Any] | None = None) -> Path:
        """Write a file for an event (a fault's name), in a thread of its own. Returns where it will
        be.

        `robot` is the arm's own log of it, if it keeps one.
        """
        path = new_file(self._folder, self._about["arm"], event)
        about = {
            **self._about,
            "event": event,
            "reason": reason,
            "t_wall": time.time(),
            "robot": dict(robot or {}),
        }
        about["event_t"] = float(self._ring.rows[(int(self._ring.count[0]) - 1) % TICKS, T])
        # in lockstep there is no aftermath to wait for, and time must not go on before the copy is
        # made
        rows = None if self._aftermath_s else self._ring.copy()
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(
            threading.Thread(target=self._write, args=(path, about, rows), daemon=True)
        )
        self._threads[-1].start()
        return path

    def _write(self, path: Path, about: dict[str, Any], rows: Array | None) -> None:
        if rows is None:
            time.sleep(self._aftermath_s)
            rows = self._ring.copy()
        store(path, rows, self._ring.columns, about)

    def close(self) -> None:
        """Wait until what was begun is on disk."""
        for thread in self._threads:
            thread.join(10.0)


@dataclass(frozen=True)
class Recording:
    """A black box that was read: `rows (n, w)` float64, the names of their columns, and what it is
    about.
    """

    rows: Array
    columns: tuple[str, ...]
    about: Mapping[str, Any]

    def column(self, name: str) -> Array:
        """One column `(n,)`, by name. Raises DataError if there is none."""
        if name not in self.columns:
            raise DataError(f"no column {name!r}; there is: {', '.join(self.columns)}")
        values: Array = self.rows[:, self.columns.index(name)]
        return values


def load(path: Path) -> Recording:
    """Read a black box. Raises DataError if the file is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            rows, names, about = file["rows"], file["columns"], json.loads(str(file["about"]))
        rows = rows.astype(np.float64, casting="safe")
        if rows.ndim != 2 or rows.shape[1] != len(names) or not isinstance(about, dict):
            raise ValueError(f"rows of shape {rows.shape} for {len(names)} columns")
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is no black box: {error}") from error
    return Recording(rows, tuple(map(str, names)), about)


def about_arm(name: str, driver: str, limits: Any) -> dict[str, Any]:
    """What every black box of an arm says about it."""
    return {"arm": name, "driver": driver, "limits": asdict(limits)}
