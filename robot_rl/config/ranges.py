"""Ranges of numbers that can be meant, and the complaint about one that cannot: degrees for
radians, mm for m.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from robot_rl.machine.validation import Place, Problem

_SLIPS = {"rad": (math.radians(1.0), "degrees"), "rad/s": (math.radians(1.0), "degrees/s"),
          "m": (1e-3, "mm"), "m/s": (1e-3, "mm/s")}  # fmt: skip
"""By unit: the unit that people write by mistake, and how much of ours it is."""


@dataclass(frozen=True)
class Range:
    """From `low` (not itself, if `above`) to `high`, in `unit`."""

    low: float
    high: float
    unit: str = ""
    above: bool = False

    def __contains__(self, value: float) -> bool:
        """Whether a number is finite and inside."""
        return (
            math.isfinite(value)
            and (self.low < value if self.above else self.low <= value)
            and value <= self.high
        )

    def __str__(self) -> str:
        least = f"more than {self.low:g}, at most " if self.above else f"{self.low:g} to "
        return f"{least}{self.high:g} {self.unit}".rstrip()

    def complaint(self, value: float) -> str:
        """`= 34: wanted 0 to 3.14 rad; 34 degrees are 0.5934 rad`."""
        factor, slip = _SLIPS.get(self.unit, (1.0, ""))
        # a number that is only a little too large is no slip of the unit
        slipped = abs(value) > 3.0 * max(abs(self.low), abs(self.high)) and value * factor in self
        hint = (
            f"; {value:g} {slip} are {value * factor:.4g} {self.unit}" if slip and slipped else ""
        )
        return f"= {value:g}: wanted {self}{hint}"


def beyond(place: Place, value: float | tuple[float, ...], allowed: Range) -> Iterator[Problem]:
    """The complaint about a number that is not in its range; of a tuple, about the first that is
    not.
    """
    if not isinstance(value, tuple):
        if value not in allowed:
            yield place, allowed.complaint(value)
        return
    for i, number in enumerate(value):
        if number not in allowed:
            yield (*place, i), allowed.complaint(number)
            return
