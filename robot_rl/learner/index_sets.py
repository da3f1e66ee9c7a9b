"""Sets of slots that can be drawn from: to add, to discard and to draw take the same time whatever
is in them.
"""

import numpy as np

from robot_rl.types import Array


class IndexSet:
    """A set of integers below `capacity`.

    The members lie side by side, in an order that depends on what was added and discarded, and on
    nothing else.
    """

    def __init__(self, capacity: int):
        self._members = np.zeros(capacity, np.int32)
        # of each member among the members, from 1; 0: not a member
        self._position = np.zeros(capacity, np.int32)
        self.size = 0

    def add(self, index: int) -> None:
        if not self._position[index]:
            self._members[self.size] = index
            self.size += 1
            self._position[index] = self.size

    def discard(self, index: int) -> None:
        """Take it out, if it is in: the last member moves to its place."""
        position = self._position[index]
        if position:
            self.size -= 1
            last = self._members[self.size]
            self._members[position - 1], self._position[last] = last, position
            self._position[index] = 0

    def at(self, places: Array) -> Array:
        """The members at these places (from 0 to `size`, exclusive)."""
        return self._members[places].astype(np.int64)

    def all(self) -> Array:
        """The members, in their order."""
        return self.at(np.arange(self.size))

    @property
    def nbytes(self) -> int:
        return self._members.nbytes + self._position.nbytes


def draw(generator: np.random.Generator, sets: tuple[IndexSet, ...], n: int) -> Array:
    """`n` members of the union of disjoint sets: uniform, with replacement. They must not all be
    empty.
    """
    sets = tuple(one for one in sets if one.size)
    places = generator.integers(0, sum(one.size for one in sets), n)
    if len(sets) == 1:
        return sets[0].at(places)
    out = np.empty(n, np.int64)
    below = 0
    for one in sets:
        chosen = (places >= below) & (places < below + one.size)
        out[chosen] = one.at(places[chosen] - below)
        below += one.size
    return out
