"""The newest state of every arm, and never an old one: of a loop that hangs only the last is to be
had.
"""

import time
from collections.abc import Sequence

from robot_rl.controllers.client import ArmClient
from robot_rl.types import ArmStaleError, ArmState

STALE_PERIODS = 2.0  # a state that is older than so many control periods is none


class ArmStates:
    """What the arms report, as long as it is news. In lockstep, where an arm's time stands still,
    everything is.
    """

    def __init__(self, arms: Sequence[ArmClient], period_s: float):
        self._arms, self._period_s = arms, period_s
        # the newest sequence of each, and since when it is known
        self._seen = [(-1, 0.0)] * len(arms)
        self._stale = [-1] * len(arms)  # the sequence that was found to be none: it stays that

    def read(self, after: Sequence[ArmState] = ()) -> list[ArmState]:
        """The newest states, which came later than those `after` which they have to.

        Raises ArmStaleError with the arm's name if one is too old, or has nothing new to say.
        """
        states = [arm.state() for arm in self._arms]
        for index, (arm, state) in enumerate(zip(self._arms, states, strict=True)):
            if arm.info.clock == "lockstep":
                continue
            age_s = self._age_s(index, state)
            frozen = bool(after) and state.sequence == after[index].sequence
            if (
                frozen
                or state.sequence == self._stale[index]
                or age_s > STALE_PERIODS * self._period_s
            ):
                self._stale[index] = state.sequence
                raise ArmStaleError(
                    f"arm '{arm.info.name}' has no fresh state: its newest is {age_s:.1f} s old."
                    " Its loop hangs, or its robot is silent: is its process (`robot-rl arm`)"
                    " alive, the robot on, the cable in?",
                    arm.info.name,
                )
        return states

    def _age_s(self, index: int, state: ArmState) -> float:
        """How old a state is at least: as its arm says, or for how long it has been the newest."""
        now = time.monotonic()
        if state.sequence != self._seen[index][0]:
            self._seen[index] = (state.sequence, now)
        return max(state.age_s, now - self._seen[index][1])
