"""How much faster than real time a task's scene runs, while the scripted operator does the task:

    python -m benchmarks.scenes drawer ram_press cable_clip

Arm, controller and operator in one process, with two cameras of 128 pixels and without. By that
process's own processor time, all its threads, which other work on the machine disturbs least.
"""

import sys
import time
from typing import Any

from robot_rl.cameras.mujoco import Camera, Options
from robot_rl.interfaces import Given
from robot_rl.types import OperatorCommand, WorldState
from tests.sim.player import Player

EPISODES = 3


class Watched(Player):
    """A player who looks through the task's cameras once per step."""

    views: tuple[Camera, ...] = ()
    steps = 0

    def watch(self) -> None:
        given: dict[str, Any] = {"scene": self.task.scene, "world": self, "image_size": (128, 128)}
        self.views = tuple(Camera(Options(), Given(name, **given)) for name in self.task.cameras)

    def refresh(self) -> WorldState:
        world = super().refresh()
        for view in self.views:
            view.read()
        self.steps += 1
        return world

    def factor(self) -> tuple[float, int]:
        """Simulated seconds in each second of some episodes, and how many of them succeeded."""
        self.play(0)  # compiles
        begun, self.steps = time.process_time(), 0
        good = sum(self.play(seed) == OperatorCommand.SUCCESS for seed in range(1, EPISODES + 1))
        return 0.1 * self.steps / (time.process_time() - begun), good


def main() -> None:
    """Print a row for each task."""
    print("| task | times real time | with two cameras | successes |\n|---|---|---|---|")
    for name in sys.argv[1:]:
        player = Watched(name)
        alone, _ = player.factor()
        player.watch()
        watched, good = player.factor()
        for view in player.views:
            view.close()
        print(f"| `{name}` | {alone:.0f} | {watched:.0f} | {good} of {EPISODES} |")


if __name__ == "__main__":
    main()
