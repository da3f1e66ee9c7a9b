"""The policy's last layers: a Gaussian squashed by tanh, and beside it a choice for the grippers."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robot_rl.networks.choices import initial_logits

LOG_STD_RANGE = (-5.0, -1.5)
"""The std of the Gaussian is between 0.007 and 0.22 of the action range, whatever the entropy asks
for: an arm shaken hard learns little in contact. HIL-SERL bounds it to [1e-5, 5], RLPD its logarithm
to [-20, 2]. The entropy is one of all states together, and where critics tell nothing apart, as on
the way to a reward that is 150 steps off, there the policy would pay it: in demonstrations' states
next to no noise, in its own full deflection at random (docs/learning.md).
"""

INITIAL_LOG_STD = -1.5
"""Before it is bounded: a policy begins with half of the most, 0.11."""


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Action `tanh(mean + std * noise) (B, A)` and its log-density `(B,)`.

    `log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))` keeps its digits for large u.
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.9189385332046727  # log sqrt(2 pi)
    return torch.tanh(u), (gaussian - 2.0 * (0.6931471805599453 - u - F.softplus(-2.0 * u))).sum(-1)


def bounded(log_std: Tensor) -> Tensor:
    """Into LOG_STD_RANGE: smoothly below its upper end, so that what is too large can come down."""
    least, most = LOG_STD_RANGE
    return (most - F.softplus(most - log_std)).clamp(min=least)


class ActorHead(nn.Module):
    """Mean and log standard deviation `(B, C)` of the Gaussian before the tanh, from features `(B,
    F)`; and from the same trunk the log-probabilities of the K choices of its `grippers`.
    """

    def __init__(
        self, input_size: int, hidden: tuple[int, ...], action_size: int, grippers: int = 0
    ):
        super().__init__()
        sizes = (input_size, *hidden)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)
        self.output = nn.Linear(sizes[-1], 2 * action_size)
        # begins near the middle of the action range
        nn.init.xavier_uniform_(self.output.weight, gain=0.1)
        nn.init.zeros_(self.output.bias)
        nn.init.constant_(self.output.bias[action_size:], INITIAL_LOG_STD)
        self.choices: nn.Linear | None = None
        if grippers:
            logits = initial_logits(grippers)
            self.choices = nn.Linear(sizes[-1], len(logits))
            nn.init.xavier_uniform_(self.choices.weight, gain=0.1)
            with torch.no_grad():
                self.choices.bias.copy_(logits)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std, _ = self.distributions(features)
        return mean, log_std

    def distributions(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Mean and log standard deviation `(B, C)`, and `log pi(d|s) (B, K)`, None without choices."""
        x = features
        for layer in self.layers:
            x = F.relu(layer(x))
        mean, log_std = self.output(x).chunk(2, -1)
        log_choices = None if self.choices is None else F.log_softmax(self.choices(x), -1)
        return mean, bounded(log_std), log_choices
