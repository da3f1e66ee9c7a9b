"""Windows of several steps inside an episode: n-step returns, cut short at the episode's end."""

from dataclasses import dataclass

import numpy as np

from robot_rl.types import CORRECTS, Array, DataError, Provenance

_CORRECTS = np.array([author in CORRECTS for author in Provenance])
"""By the number of an author: a lookup, since every batch asks."""


@dataclass(frozen=True)
class Window:
    """How far a sample reaches from its first action on; never beyond its episode.

    `n_step` rewards are summed, each worth `discount` less than the one before it, and the next
    observation is the one behind the last of them. What comes behind a take-over, where an operator
    acts in the policy's place, counts a share `rescue_worth`; 0: the return ends there, as a failure
    does.
    """

    n_step: int = 1
    discount: float = 1.0
    rescue_worth: float = 1.0

    def __post_init__(self) -> None:
        shares_are_shares = 0.0 <= self.discount <= 1.0 and 0.0 <= self.rescue_worth <= 1.0
        if self.n_step < 1 or not shares_are_shares:
            raise DataError(
                "a window has an n_step of at least 1, and a discount and a rescue_worth between 0"
                f" and 1, not {self}"
            )

    def weights(self, held: Array, taken: Array) -> tuple[Array, Array]:
        """What each reward of a path counts `(n, B)`, and the value behind it, `(B,)`, float32.

        `held` are the steps that there are, `taken` those that an operator took over behind. With
        these weights w and the discount d, `sum w r + d V(next observation)` is the return where the
        episode did not terminate.
        """
        behind = np.cumsum(held & taken, 0) > 0  # a take-over, at this step or before it
        weights = held * self.discount ** np.arange(len(held))[:, None]
        weights[1:] *= np.where(behind[:-1], self.rescue_worth, 1.0)
        discount = self.discount ** held.sum(0) * np.where(behind[-1], self.rescue_worth, 1.0)
        return weights.astype(np.float32), discount.astype(np.float32)


ONE_STEP = Window()


def follow(successor: Array, first: Array, length: int) -> tuple[Array, Array]:
    """The slots of `length` steps from `first (B,)` on, `(length, B)`, and which of them there are,
    bool.

    `successor` is negative where an episode ends; behind its end a path stays at the last slot.
    """
    path, held = np.empty((length, len(first)), np.int64), np.ones((length, len(first)), bool)
    path[0] = first
    for k in range(1, length):
        following = successor[path[k - 1]]
        held[k] = following >= 0
        path[k] = np.where(held[k], following, path[k - 1])
    return path, held


def taken_over(path: Array, successor: Array, provenance: Array) -> Array:
    """Which steps of paths `(n, B)` are the policy's, with an operator's behind them: bool `(n, B)`."""
    following = successor[path]
    is_corrected = _CORRECTS[provenance[np.maximum(following, 0)]]
    taken: Array = is_corrected & (following >= 0) & ~_CORRECTS[provenance[path]]
    return taken
