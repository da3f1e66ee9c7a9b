"""What it counts to miss a goal, in the training of an encoder (`learner/pretrain.py`)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from robot_rl.types import Array

NEAR_M = 0.009
"""[m]: an error counts half as much here as at the goal."""

FINE = (4e-4, 3e-3)
"""[m, rad]: below this error the loss is quadratic."""


def misses(seen: Tensor, goals: Tensor, std: Tensor) -> Tensor:
    """What the predicted goals `(B, 6 per arm)` [m, rad] are off by, each number by the standard
    deviation `std` of its own; where the goal is nan, something finite.

    Linear, but below `FINE` quadratic: a millimetre pulls as well in a task whose goals are far
    apart.
    """
    fine = torch.tensor(FINE, device=std.device).repeat_interleave(3).repeat(len(std) // 6)
    return F.smooth_l1_loss(seen / fine, goals.nan_to_num() / fine, reduction="none") * fine / std


def near_weights(goals: Tensor, train: Array) -> Tensor:
    """What each number of the `goals` counts `(N, 6 per arm)`, 1 on average: a millimetre is little
    on the way, and all at the entrance. Where nobody knows the goal it is 0.
    """
    weights = 1.0 / (NEAR_M + _away(goals))
    return (weights / weights[train].mean()).repeat_interleave(6, 1)


def nearest(goals: Tensor) -> Tensor:
    """How far away the nearest of the arms' goals `(N, 6 per arm)` is `(N,)` [m]."""
    return _away(goals).amin(1)


def _away(goals: Tensor) -> Tensor:
    """How far away each arm's goal is `(N, arms)` [m]: infinitely far where nobody knows it."""
    return goals.unflatten(1, (-1, 6))[..., :3].norm(dim=-1).nan_to_num(nan=torch.inf)
