"""Whether what is learnt is still made of numbers.

Asked of the losses at each report, and of every tensor before each publication and checkpoint:
nothing else is handed out.
"""

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor

from robot_rl.learner.replay import Replay
from robot_rl.stream.codec import LARGEST
from robot_rl.types import DivergedError

LARGEST_TEMPERATURE = LARGEST
"""The weight of the entropy against rewards: with more than the largest reward, noise is all that
is learnt.
"""

LARGEST_LOSS = 1e16
"""Of any other figure of an update. The largest reward for ever is a value of 3e7 at a discount of
0.97, and five critics that miss all of it have a loss of 5e15; a task with rewards up to 1 learns
with losses below 10."""


def diverged_figure(means: Mapping[str, float]) -> str | None:
    """The figure, as `critic_loss is nan`, that is no number or beyond all that can be; None if
    there is none.
    """
    for name, value in means.items():
        largest = LARGEST_TEMPERATURE if name.endswith("temperature") else LARGEST_LOSS
        if not abs(value) <= largest:  # true of NaN as well
            return f"{name} is {value:.4g}"
    return None


def tensor_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a number that is none; None if all are finite.

    By the sum of each, which is finite only if all of it is: a millisecond for four million numbers
    on one core.
    """
    on: dict[torch.device, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            on[tensor.device][name] = tensor.detach()
    for there in on.values():
        finite = (
            torch.stack([tensor.float().sum() for tensor in there.values()]).isfinite().tolist()
        )
        if not all(finite):
            return list(there)[finite.index(False)]
    return None


def diverged(
    done: str, learning_rate: float, means: Mapping[str, float], replay: Replay
) -> DivergedError:
    """The error that says what has been `done`, and with which numbers learning has diverged."""
    rate = f"learning rate {learning_rate:g}"
    if "temperature" in means:
        rate += f", temperature {means['temperature']:.4g}"
    seen = "nothing has been learnt from yet"
    if len(replay):
        reward, name, state = replay.extremes()
        seen = (
            f"the largest reward learnt from is {reward:g}, the largest observed number {state:g}"
            f" ('{name}')"
        )
    return DivergedError(f"learning has diverged {done}; {rate}; {seen}")
