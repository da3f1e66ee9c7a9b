"""The loops of the arms that one owner ticks: one arm's, or those of all that stand in one world."""

from collections.abc import Callable, Sequence

from robot_rl.controllers.loop import ArmLoop


class ArmLoops:
    """Loops with one clock. Used by the thread that ticks them: in lockstep the server's
    (`lockstep.py`), on the real clock that of the loop's process (`loop_process.py`).

    A fault of one arm is its own: the others go on.
    """

    def __init__(self, loops: Sequence[ArmLoop]):
        self.loops = tuple(loops)
        self.tick_s = self.loops[0].tick_s
        self.tick: Callable[[float], None] = self._tick_each
        if len(self.loops) == 1:
            self.tick = self.loops[0].tick

    @property
    def first(self) -> ArmLoop:
        """The loop whose count of ticks is that of all."""
        return self.loops[0]

    def _tick_each(self, t: float) -> None:
        """One period of every arm at the time `t` [s]: the world goes on with the last one's
        torques, so that each measures the same moment.
        """
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
