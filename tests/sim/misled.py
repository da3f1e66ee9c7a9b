"""A scripted operator who sees the world otherwise than it is."""

from collections.abc import Callable, Iterable
from typing import cast

from robot_rl.config import Task, with_judge
from robot_rl.interfaces import Given, World
from robot_rl.teleop import scripted
from robot_rl.types import OperatorCommand, WorldState
from tests.sim.player import Player

Seen = Callable[[WorldState], WorldState]


class Misled:
    """A player's world as it is `seen`."""

    def __init__(self, player: Player, seen: Seen):
        self._player, self._seen = player, seen

    @property
    def latest(self) -> WorldState:
        return self._seen(self._player.latest)


def successes(task: Task, seen: Seen, seeds: Iterable[int], steps: int) -> int:
    """Demonstrations of a task that succeed within so many steps, of one for each seed."""
    player = Player(task)
    given = Given(
        task=with_judge(task, "simulator"),
        world=cast(World, Misled(player, seen)),
        mode="demonstrate",
    )
    player.operator = scripted.Teleop(scripted.OperatorHabits(), given)
    return sum(player.go_on(player.begin(s), steps) == OperatorCommand.SUCCESS for s in seeds)
