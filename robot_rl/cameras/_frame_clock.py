"""When a camera's frames were taken, on the monotonic clock, however often the system's clock is
set meanwhile.

NTP and people set the system's clock, by anything. A frame's age must not follow: a fresh frame
would be called stale, and a stale one be shown. What librealsense says of a frame is its time on
the system's clock; global time is a straight line through the last 15 pairs of the camera's clock
and the system's, a second apart, and so is wrong for a while after that was set. With such frames
comes the count of the camera's own clock, which nobody sets.
"""

import math
from collections import deque

WINDOW_S = 30.0
"""Over so long the quickest frame is looked for: two clocks of 50 ppm drift apart by 3 ms
meanwhile.
"""
LEARN_S = 2.0
"""From the first frame on, the system's clock says for so long how long the quickest frame is on
its way.
"""
STEP_S = 0.005
"""The system's clock was set if it went so much more, or less, than the monotonic one between two
frames.
"""
IN_FLIGHT_S = 2.0
"""For so long after that frames may come that have the time from before."""
LONGEST_S = 1.0
"""On its way is no frame for longer than that while the two clocks are compared."""
WRAP_S = 2**32 * 1e-6
"""The camera's clock counts microseconds in 32 bits: 71 minutes."""


class FrameClock:
    """One camera's, from one opening to the next; for one thread.

    By the camera's own clock: what all frames have in common is their way through exposure, bus and
    driver, which is that of the quickest one, and is learnt from the system's clock at the
    beginning; what a frame has more is how late it came. Without it the time on the system's clock
    is all there is, as the kernel wrote it when the frame came in.
    """

    def __init__(self) -> None:
        self._ahead = self._ahead_before = math.nan
        self._set_t = -math.inf
        # arrival, arrival - device; the least offset first
        self._quickest: deque[tuple[float, float]] = deque()
        self._device_s, self._wraps = -math.inf, 0
        self._begun_t, self._way_s, self._is_learning = math.nan, math.inf, True

    def taken(
        self, arrived: float, ahead: float, system_s: float | None, device_s: float | None
    ) -> float:
        """When a frame was taken [s, monotonic clock], not later than it `arrived` [s].

        `ahead` [s]: what the system's clock is ahead of the monotonic one now. `system_s`,
        `device_s` [s]: the frame's time on the system's clock and on the camera's own, as far as
        they are known.
        """
        self._note_steps(arrived, ahead)
        if device_s is not None:
            age = self._age_by_device(arrived, system_s, device_s)
        else:
            age = self._age_by_system(arrived, system_s)
        return arrived - max(0.0, age)

    def _note_steps(self, arrived: float, ahead: float) -> None:
        if abs(ahead - self._ahead) > STEP_S:
            self._ahead_before, self._set_t, self._is_learning = self._ahead, arrived, False
        self._ahead = ahead

    def _age_by_system(self, arrived: float, system_s: float | None) -> float:
        """By the system's clock; if it was set a moment ago, by what it said before or after,
        whichever can be.
        """
        if system_s is None:
            return 0.0
        ages = [arrived + self._ahead - system_s]
        if arrived - self._set_t < IN_FLIGHT_S:
            ages.append(arrived + self._ahead_before - system_s)
        return min((age for age in ages if age >= 0.0), default=0.0)

    def _age_by_device(self, arrived: float, system_s: float | None, device_s: float) -> float:
        """How much later it came than the quickest of late, and what the quickest takes."""
        device_s += self._wraps * WRAP_S
        if device_s < self._device_s - 0.5 * WRAP_S:
            self._wraps += 1
            device_s += WRAP_S
        elif device_s < self._device_s:  # the camera began to count anew
            self._quickest.clear()
        self._device_s = device_s
        offset = arrived - device_s
        while self._quickest and self._quickest[-1][1] >= offset:
            self._quickest.pop()
        self._quickest.append((arrived, offset))
        while self._quickest[0][0] < arrived - WINDOW_S:
            self._quickest.popleft()
        late = offset - self._quickest[0][1]
        self._learn_way(arrived, system_s, late)
        return late + (self._way_s if self._way_s < LONGEST_S else 0.0)

    def _learn_way(self, arrived: float, system_s: float | None, late: float) -> None:
        if math.isnan(self._begun_t):
            self._begun_t = arrived
        if arrived - self._begun_t > LEARN_S or system_s is None:
            self._is_learning = False
        if (
            self._is_learning
            and system_s is not None
            and (way := arrived + self._ahead - system_s - late) >= 0.0
        ):
            self._way_s = min(self._way_s, way)
