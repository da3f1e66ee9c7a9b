"""How much faster than real time a task's scene runs, while the scripted operator does the task:

    python -m benchmarks.scenes drawer ram_press cable_clip

Arms, controllers and operator in one process, with two cameras of 128 pixels and without. By that
process's own processor time, all its threads, which other work on the machine disturbs least.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from robot_rl import config
from robot_rl.cameras.mujoco import Camera, Options
from robot_rl.config import Task
from robot_rl.interfaces import Given
from robot_rl.types import OperatorCommand, WorldState
from tests.sim.pair import PairPlayer
from tests.sim.player import Player

EPISODES = 3


class Watched:
    """Mixed into a player: looks through the task's last two cameras once per step."""

    task: Task
    views: tuple[Camera, ...] = ()
    steps = 0

    def watch(self) -> None:
        given: dict[str, Any] = {"scene": self.task.scene, "world": self, "image_size": (128, 128)}
        names = self.task.cameras[-2:]
        self.views = tuple(Camera(Options(), Given(name, **given)) for name in names)

    def refresh(self) -> WorldState:
        world: WorldState = super().refresh()  # type: ignore[misc]
        for view in self.views:
            view.read()
        self.steps += 1
        return world

    def factor(self) -> tuple[float, int]:
        """Simulated seconds in each second of some episodes, and how many of them succeeded."""
        play: Callable[[int], OperatorCommand] = self.play  # type: ignore[attr-defined]
        play(0)  # compiles
        begun, self.steps = time.process_time(), 0
        good = sum(play(seed) == OperatorCommand.SUCCESS for seed in range(1, EPISODES + 1))
        return 0.1 * self.steps / (time.process_time() - begun), good


class One(Watched, Player):
    """Of a task for one arm."""


class Pair(Watched, PairPlayer):
    """Of a task for two."""


def main() -> None:
    """Print a row for each task."""
    print("| task | times real time | with two cameras | successes |\n|---|---|---|---|")
    for name in sys.argv[1:]:
        arms = len(config.load_task(name).start)
        player: Watched = Pair(name) if arms == 2 else One(name)
        alone, _ = player.factor()
        player.watch()
        watched, good = player.factor()
        for view in player.views:
            view.close()
        print(f"| `{name}` | {alone:.1f} | {watched:.1f} | {good} of {EPISODES} |")


if __name__ == "__main__":
    main()
