"""What the numbers of an action are: their names, their order, and which of them are choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.types.arm import Array
from robot_rl.types.errors import DataError

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""What a twist's six numbers are called, in a hardware file, a task file and an action's names."""

CLOSE, STAY, OPEN = -1.0, 0.0, 1.0
"""What a gripper's entry of an action, and an operator's button for it, may be."""

_MOST = 1 << 16


@dataclass(frozen=True)
class ActionSpec:
    """The numbers of an action `(A,)` float32, in their order.

    `names`: an arm's axes in the order of AXES ("panda.x"), then its gripper ("hand"), then the
    next arm's. `discrete` are the indices of the grippers' entries, whose values are CLOSE, STAY
    and OPEN; all others are in [-1, 1]. Raises DataError for names that are not told apart or end
    in no axis, and for an index that is none.
    """

    names: tuple[str, ...]
    discrete: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise DataError(f"the names of an action's numbers differ; these do not: {self.names}")
        if sorted(set(self.discrete) & set(range(self.size))) != list(self.discrete):
            raise DataError(
                f"an action's choices are some of the indices 0 to {self.size - 1}, ascending; not"
                f" {self.discrete}"
            )
        if odd := [
            n for i in self.continuous if (n := self.names[i]).rpartition(".")[2] not in AXES
        ]:
            raise DataError(f"an action's numbers end in {', '.join(AXES)}, or are choices: {odd}")

    @property
    def size(self) -> int:
        """A."""
        return len(self.names)

    @property
    def continuous(self) -> tuple[int, ...]:
        """The indices of all entries that are no choice."""
        choices = set(self.discrete)
        return tuple(i for i in range(self.size) if i not in choices)

    @property
    def arms(self) -> list[str]:
        """The names of the arms, in their order."""
        return list(dict.fromkeys(self.names[i].rpartition(".")[0] for i in self.continuous))

    @property
    def freed(self) -> Array:
        """Which of the six axes of each arm an action moves: 1 or 0 `(arms, 6)`."""
        return self.moves(np.ones(self.size))

    @property
    def holders(self) -> tuple[int, ...]:
        """The number of the arm that each gripper sits on: its entry stands behind that arm's."""
        arms = self.arms
        return tuple(arms.index(self.names[i - 1].rpartition(".")[0]) for i in self.discrete)

    @staticmethod
    def unnamed(size: int) -> "ActionSpec":
        """Of a recording or a policy of before actions had names: six numbers for each arm."""
        return ActionSpec(tuple(f"{i // 6}.{AXES[i % 6]}" for i in range(size)))

    @property
    def plain(self) -> tuple[str, ...]:
        """The names by which two specs are compared: without the arm's, where there is one arm, and
        "gripper" for its gripper. () where nothing has to be said: one arm's six axes, or unnamed.
        """
        if self == ActionSpec.unnamed(self.size):
            return ()
        names = self.names
        if len({names[i].rpartition(".")[0] for i in self.continuous}) == 1:
            ends = [name.rpartition(".")[2] for name in names]
            names = tuple("gripper" if i in self.discrete else ends[i] for i in range(self.size))
        return () if names == AXES else names

    def fits(self, other: "ActionSpec") -> bool:
        """Whether the two mean the same numbers, in the same order."""
        mine, theirs = ((spec.size, spec.discrete, spec.plain) for spec in (self, other))
        return mine == theirs

    def moves(self, action: Array) -> Array:
        """The action as six numbers for each arm `(arms, 6)`: 0 along the axes that are held.
        ValueError for an action of another size.
        """
        numbers, full = np.reshape(action, self.size), np.zeros(6 * len(self.arms))
        full[list(self._places)] = numbers[list(self.continuous)]
        return full.reshape(-1, 6)

    def choices(self, action: Array | Sequence[float]) -> Array:
        """What the action wants of each gripper: the nearest of CLOSE, STAY, OPEN."""
        return np.clip(np.rint(np.asarray(action, np.float64)[list(self.discrete)]), CLOSE, OPEN)

    def pick(self, moves: Array, choices: Array | Sequence[float] = ()) -> Array:
        """The action `(A,)` of six numbers for each arm, without those of the axes that are held.
        Without `choices` the grippers stay.
        """
        action = np.full(self.size, STAY, np.float32)
        action[list(self.continuous)] = np.ravel(moves)[list(self._places)]
        if len(choices):
            action[list(self.discrete)] = choices
        return action

    @property
    def _places(self) -> tuple[int, ...]:
        """Where each continuous entry stands among the six numbers of every arm."""
        arms, parts = self.arms, [self.names[i].rpartition(".") for i in self.continuous]
        return tuple(6 * arms.index(arm) + AXES.index(axis) for arm, _, axis in parts)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"names": list(self.names), "discrete": list(self.discrete)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "ActionSpec":
        """Of what holds `actions`, as `to_json` makes them, or the `action_size` of before there
        were names. DataError for anything else.
        """
        if not isinstance(data, Mapping):
            raise DataError(f"this names no action's numbers: {data!r:.100}")
        actions, size = data.get("actions"), data.get("action_size")
        if actions is None and type(size) is int and 0 <= size <= _MOST:
            return ActionSpec.unnamed(size)
        if isinstance(actions, Mapping) and actions.keys() == {"names", "discrete"}:
            names, discrete = actions["names"], actions["discrete"]
            lists = isinstance(names, list | tuple) and isinstance(discrete, list | tuple)
            if lists and {type(n) for n in names} <= {str} and {type(i) for i in discrete} <= {int}:
                return ActionSpec(tuple(names), tuple(discrete))
        raise DataError(f"these are no names of an action's numbers: {actions!r:.100} {size!r:.20}")
