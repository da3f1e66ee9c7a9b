"""The loops of the arms that one owner ticks: one arm's, or those of all that stand in one world."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.outline import capsules_from
from robot_rl.geometry import IDENTITY, pose_inverse, pose_multiply
from robot_rl.types import Array


class Stand(NamedTuple):
    """Where an arm stands: its name, and the pose `(7,)` of its base on the bench."""

    name: str = "arm"
    pose_bench_base: Array = IDENTITY


def stand_of(config: ArmConfig) -> Stand:
    """That of an entry of a hardware file."""
    return Stand(config.name, np.array(config.pose_bench_base))


class ArmLoops:
    """Loops with one clock, whose arms keep out of each other. Used by the thread that ticks them:
    in lockstep the server's (`lockstep.py`), on the real clock that of the loop's process
    (`loop_process.py`).

    A fault of one arm is its own: the others go on.
    """

    def __init__(self, loops: Sequence[ArmLoop], stands: Sequence[Stand]):
        self.loops = tuple(loops)
        self.tick_s = self.loops[0].tick_s
        self.tick: Callable[[float], None] = self._tick_each
        if len(self.loops) == 1:
            self.tick = self.loops[0].tick
        self._seen = [*self._expect_each_other(list(zip(self.loops, stands, strict=True)))]
        self.tell()

    @property
    def first(self) -> ArmLoop:
        """The loop whose count of ticks is that of all."""
        return self.loops[0]

    def _expect_each_other(
        self, arms: Sequence[tuple[ArmLoop, Stand]]
    ) -> Iterator[tuple[Array, Array, ArmLoop]]:
        """For each arm and each other one: the rows `(k, 7)` of its neighbours that the other fills,
        the other's base seen from its own, and the other.
        """
        for loop, stand in arms:
            others = [(other, there) for other, there in arms if other is not loop]
            names = [
                f"{there.name}'s {part}" for other, there in others for part in other.outline_names
            ]
            if names:
                rows, filled = loop.expect_neighbours(names), 0
                for other, there in others:
                    own, count = pose_inverse(stand.pose_bench_base), len(other.outline_names)
                    pose = pose_multiply(own, there.pose_bench_base)
                    yield rows[filled : filled + count], pose, other
                    filled += count

    def tell(self) -> None:
        """Tell each arm where the others were last measured."""
        for rows, pose, other in self._seen:
            rows[:] = capsules_from(pose, other.outline())

    def _tick_each(self, t: float) -> None:
        """One period of every arm at the time `t` [s]: the world goes on with the last one's
        torques, so that each measures the same moment.
        """
        self.tell()
        for loop in self.loops:
            loop.tick(t)

    def reset(self, asked: ArmLoop, seed: int) -> None:
        """One of the arms is asked to reset the world: the loops of all begin anew. Raises
        DeviceError if it is not simulated.
        """
        asked.reset(seed)
        for loop in self.loops:
            if loop is not asked:
                loop.begin_anew()
        self.tell()
