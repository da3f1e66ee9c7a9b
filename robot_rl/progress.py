"""What the user sees while a run goes on: bars on a terminal, a line now and then in a log file."""

import time
from collections import deque
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from robot_rl.data.counts import WINDOW, is_alone, is_judged, takes_back
from robot_rl.small_files import is_number
from robot_rl.terminal import terminal

LINE_EVERY_S = 15.0


class Display:
    """Bars for the phases of a run, with the figures of the moment beside them.

    On a terminal the bars are redrawn in place; elsewhere (CI, a log file) each phase prints a line when it begins
    and ends and every 15 s.
    """

    def __init__(self, console: Console | None = None):
        self._console = console or terminal()
        self._live = self._console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description:<14}", style="bold", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            disable=not self._live,
        )
        self._names: dict[str, Any] = {}
        self._ended: set[str] = set()
        self._last_line = 0.0

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, highlight=False)

    def show(self, phase: str, done: float, total: float, note: str = "") -> None:
        """Where a phase stands."""
        first = phase not in self._names
        if first:
            self._names[phase] = self._bars.add_task(phase, total=total, note=note)
        self._bars.update(self._names[phase], completed=done, total=total, note=note)
        ends = done >= total and phase not in self._ended
        if ends:
            self._ended.add(phase)
        if not self._live and (first or ends or time.monotonic() - self._last_line > LINE_EVERY_S):
            self._last_line = time.monotonic()
            self.say(f"{phase:<14} {done:g}/{total:g}  {note}")

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


class Recent:
    """The newest rows of a table, of episodes those that were judged and not taken back, and how many there were.

    `env_steps` are the own steps that the run had at the newest row; 0 if there is none.
    """

    def __init__(self) -> None:
        self._rows: deque[dict[str, Any]] = deque(maxlen=WINDOW + 1)  # the newest may be taken back
        self._newest_counts = False
        self.count = self.env_steps = 0

    def add(self, row: dict[str, Any]) -> None:
        """One more."""
        self.count += 1
        self.env_steps = int(row["env_steps"])
        if self._newest_counts and takes_back(row):
            self._rows.pop()
        self._newest_counts = is_judged(row)
        if self._newest_counts:
            self._rows.append(row)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Those that a mean is taken over."""
        return [*self._rows][-WINDOW:]


def training_note(episodes: Recent, metrics: Recent) -> str:
    """The figures of the moment: success of all, and without corrections, operator's share, updates per second."""
    recent = episodes.rows
    if not recent:
        return "waiting for the first episode"
    steps = sum(row["steps"] for row in recent)
    success = sum(row["success"] for row in recent) / len(recent)
    alone = sum(map(is_alone, recent)) / len(recent)
    share = sum(row["human_steps"] for row in recent) / max(steps, 1)
    rate = metrics.rows[-1].get("updates_per_s") if metrics.rows else None
    speed = f", {rate:.0f} updates/s" if is_number(rate) else ""
    return f"success {success:.0%}, alone {alone:.0%}, operator {share:.0%}{speed}"


def say_waiting(display: Display, reason: str) -> None:
    """On the terminal: why the arm holds, or that it no longer does."""
    display.say(f"the arm holds: {reason}" if reason else "going on")
