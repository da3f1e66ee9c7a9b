"""What each hand holds, by where it was: a hand knows to a tenth of a millimetre how far it has
carried something since it took hold of it, and no camera sees that as well.
"""

from collections.abc import Collection, Sequence

import numpy as np

from robot_rl import geometry
from robot_rl.types import Array

TOGETHER_M = 0.02
"""[m]: two hands that hold one thing stay so near to how they took it; two that hold two do not."""


class Grasps:
    """Where each hand has taken hold of what it holds.

    ```
    grasps = Grasps([arm.pose_bench_base for arm in hardware.arms])
    grasps.see(tools, holding)     # tools (7,) in the base of each arm; numbers of those that hold
    grasps.carried(0)              # (6,) [m, rad]: its tool, seen from there; zeros: holds nothing
    ```
    What is handed over from hand to hand was taken where the first one took it: once that one lets
    go, the second one is told how far the thing has been carried in all.
    """

    def __init__(self, bases: Sequence[Sequence[float]]):
        """`bases`: the pose of each arm's base on the bench."""
        self._bases = [np.array(base) for base in bases]
        self._tools: list[Array] = []
        self._taken: list[Array | None] = [None for _ in bases]
        # of a hand that took hold while another one held: where that one was, seen from it
        self._beside: dict[tuple[int, int], Array] = {}

    def see(self, tools: Sequence[Array], holding: Collection[int]) -> None:
        """The tools are here now, and these hands hold something."""
        now = [
            geometry.pose_multiply(base, tool)
            for base, tool in zip(self._bases, tools, strict=True)
        ]
        for arm, taken in enumerate(self._taken):
            if taken is not None and arm not in holding:
                self._let_go(arm, taken)
        for arm in holding:
            if self._taken[arm] is None:
                self._taken[arm] = now[arm]
                for other in set(holding) - {arm}:
                    self._beside[arm, other] = geometry.pose_delta(now[arm], now[other])
        self._tools = now

    def carried(self, arm: int) -> Array:
        """Its tool, seen from where its hand has taken hold `(6,)`; zeros while it holds nothing."""
        taken = self._taken[arm]
        return np.zeros(6) if taken is None else geometry.pose_delta(taken, self._tools[arm])

    def _let_go(self, arm: int, taken: Array) -> None:
        """A hand holds nothing any more. Who holds it now, if somebody took hold of it meanwhile?"""
        self._taken[arm] = None
        for (taker, giver), beside in list(self._beside.items()):
            if arm not in (taker, giver):
                continue
            del self._beside[taker, giver]
            before = self._tools[arm], self._tools[taker]
            moved = geometry.pose_delta(before[1], before[0]) - beside
            if giver == arm and np.linalg.norm(moved[:3]) < TOGETHER_M:
                back = geometry.pose_multiply(taken, geometry.pose_inverse(before[0]))
                self._taken[taker] = geometry.pose_multiply(back, before[1])
