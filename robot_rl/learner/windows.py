"""Windows of several steps inside an episode: n-step returns, cut short at the episode's end."""

from dataclasses import dataclass

import numpy as np

from robot_rl.types import Array, DataError, Provenance


@dataclass(frozen=True)
class Window:
    """How far a sample reaches from its first action on: never beyond its episode, and from the
    policy's actions never into an operator's.

    `n_step` rewards are summed, each worth `discount` less than the one before it, and the next
    observation is the one behind the last of them. Where an operator takes over from the policy it
    is the one that was taken over, and counts for what the policy makes of it: rewards from there on
    would make of being stuck what a rescue is worth.

    `ends_at_takeover`: the return ends there, as a failure does.
    """

    n_step: int = 1
    discount: float = 1.0
    ends_at_takeover: bool = False

    def __post_init__(self) -> None:
        if self.n_step < 1 or not 0.0 <= self.discount <= 1.0:
            raise DataError(
                f"a window has an n_step of at least 1 and a discount between 0 and 1, not {self}"
            )


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


def up_to_takeover(
    path: Array, held: Array, successor: Array, provenance: Array
) -> tuple[Array, Array]:
    """Cut paths `(n, B)`, in place of what is `held`, behind the first step of the policy that a
    correction follows: the last slots held, and whether it is such a one, `(B,)`.
    """
    following = successor[path]
    corrected = provenance[np.maximum(following, 0)] == Provenance.HUMAN
    taken = corrected & (following >= 0) & (provenance[path] != Provenance.HUMAN)
    held &= np.cumsum(taken, 0) - taken == 0
    end = held.sum(0) - 1, np.arange(path.shape[1])
    return path[end], taken[end]


def returns(rewards: Array, held: Array, discount: float) -> tuple[Array, Array]:
    """`R = sum_k discount^k r_k` over the m steps held, and `discount^m`, both `(B,)` float32.

    `R + discount^m V(last observation)` is the m-step return where the episode did not terminate.
    """
    weights = held * discount ** np.arange(len(held))[:, None]
    return (weights * rewards).sum(0).astype(np.float32), (discount ** held.sum(0)).astype(
        np.float32
    )
