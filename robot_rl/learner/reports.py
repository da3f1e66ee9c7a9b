"""What a learner says of itself: lines of metrics on disk, curves in viewers, its status."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.viewers import viewers
from robot_rl.links.status import StatusPublisher
from robot_rl.machine.small_files import JsonLines, is_number

VALUE_EVERY_S = 0.25  # real clock: how often whoever looks is told what the critic expects
REPORT_EVERY_S = 10.0  # a line of metrics at least so often while updates are made


class Reports:
    """Figures of a run to all who want them; `begun` is when its learner was started."""

    def __init__(self, folder: RunFolder, config: LearnerConfig, begun: float):
        self._metrics = JsonLines(folder.metrics_file)
        self._viewers = viewers(folder, config.wandb)
        self._status = StatusPublisher(folder.settings.learner_status_address, "learner")
        self._counted_by = "offline_updates" if config.offline else "env_steps"
        self._begun = self._reported = self._valued = begun
        self._line: dict[str, Any] = {}

    @property
    def due(self) -> bool:
        """Whether nothing was reported for long."""
        return time.monotonic() - self._reported > REPORT_EVERY_S

    def report(self, line: dict[str, Any]) -> None:
        """One line on disk and one status message."""
        self._reported, self._line = time.monotonic(), line
        self.write(line)
        self._status.publish(line)

    def write(self, line: Mapping[str, Any]) -> None:
        """One line on disk, and its numbers in the viewers."""
        wall_s = round(time.monotonic() - self._begun, 3)
        line = {**line, "wall_s": wall_s, "t_wall": time.time()}
        self._metrics.append(line)
        figures = {name: value for name, value in line.items() if is_number(value)}
        done = int(figures.get(self._counted_by, 0))
        for viewer in self._viewers:
            viewer.write(figures, done)

    def tell_phase(self, phase: str, done: int, total: int) -> None:
        """Whoever looks is told how far something has come that is no update of the run."""
        self._status.publish({"phase": phase, "done": done, "total": total})

    def tell_value(self, newest: Callable[[], dict[str, float]]) -> None:
        """Whoever looks is told, beside the newest line of metrics, what the critic expects of the
        episode now.
        """
        if time.monotonic() - self._valued < VALUE_EVERY_S:
            return
        self._valued = time.monotonic()
        if value := newest():
            self._status.publish(self._line | value)

    def close(self) -> None:
        """Let go of links, files and viewers."""
        self._status.close()
        self._metrics.close()
        for viewer in self._viewers:
            viewer.close()
