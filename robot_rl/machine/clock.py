"""Time for control loops: a monotonic deadline clock, and the lockstep clock that never waits.

Both tell time in seconds from an arbitrary origin. `RealClock.wait_until` sleeps to an absolute
deadline, so that the period does not drift with the work done inside it; `LockstepClock` is there
at once.
"""

import time
from typing import Literal, Protocol

ClockKind = Literal["real", "lockstep"]


class Clock(Protocol):
    """What a loop needs of time.

    ```
    deadline = clock.now()
    while running:
        ...one period of work...
        deadline += period_s
        lateness_s = clock.wait_until(deadline)
    ```
    """

    def now(self) -> float:
        """Seconds on this clock."""
        ...

    def wait_until(self, deadline: float) -> float:
        """Wait for the deadline and return how late [s] the caller came (0 if it had to wait)."""
        ...


class RealClock:
    """CLOCK_MONOTONIC. Sleeps to within `spin_s` of the deadline, then spins, because a sleep
    overshoots.
    """

    def __init__(self, spin_s: float = 0.0):
        self._spin_s = spin_s

    def now(self) -> float:
        return time.monotonic()

    def wait_until(self, deadline: float) -> float:
        remaining = deadline - time.monotonic()
        if remaining <= 0.0:
            return -remaining
        if remaining > self._spin_s:
            time.sleep(remaining - self._spin_s)
        while time.monotonic() < deadline:
            pass
        return 0.0


class LockstepClock:
    """Simulated time: it stands still, however long work takes, until somebody waits; and waiting
    costs nothing.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def wait_until(self, deadline: float) -> float:
        self._now = max(self._now, deadline)
        return 0.0
