"""What the user sees while a run goes on: bars on a terminal, a line now and then in a log file."""

import time
from typing import Any

from rich import progress
from rich.console import Console

from robot_rl.dataset.counts import Progress
from robot_rl.machine.small_files import is_number
from robot_rl.machine.terminal import terminal

LINE_EVERY_S = 15.0


class Display:
    """Bars for the phases of a run, with the figures of the moment beside them.

    On a terminal the bars are redrawn in place; elsewhere (CI, a log file) each phase prints a line
    when it begins and ends and every 15 s.
    """

    def __init__(self, console: Console | None = None):
        self._console = console or terminal()
        self._live = self._console.is_terminal
        self._bars = progress.Progress(
            progress.TextColumn("{task.description:<14}", style="bold", markup=False),
            progress.BarColumn(bar_width=30),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}", markup=False),
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


class Newest:
    """Of a table: how many rows there were, the newest one, and the own steps that the run had
    there.
    """

    def __init__(self) -> None:
        self.count = self.env_steps = 0
        self.row: dict[str, Any] = {}

    def add(self, row: dict[str, Any]) -> None:
        """One more."""
        self.count += 1
        self.row, self.env_steps = row, int(row["env_steps"])


def training_note(episodes: Progress, metrics: Newest) -> str:
    """The figures of the moment: success, without help, the operator's share, updates per second,
    and which version judges, if the judge learns.
    """
    if not episodes.total.episodes:
        return "waiting for the first episode"
    now, rate = episodes.recent, metrics.row.get("updates_per_s")
    speed = f", {rate:.0f} updates/s" if is_number(rate) else ""
    version, left = metrics.row.get("reward_version"), metrics.row.get("to_relabel")
    judge = f", judge version {version:.0f}" if is_number(version) else ""
    judge += f" ({left:.0f} to relabel)" if judge and is_number(left) and left else ""
    guide = f", guide {now.guide:.0%}" if episodes.total.guided_steps else ""
    return (
        f"success {now.success:.0%}, without help {now.without_help:.0%}, operator"
        f" {now.operator:.0%}{guide}{speed}{judge}"
    )


def say_waiting(display: Display, reason: str) -> None:
    """On the terminal: why the arm holds, or that it no longer does."""
    display.say(f"the arm holds: {reason}" if reason else "going on")
