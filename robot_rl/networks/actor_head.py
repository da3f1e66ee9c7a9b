"""The policy's last layers: a Gaussian squashed by tanh, and beside it a choice for the grippers."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robot_rl.networks.choices import initial_logits

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
"""HIL-SERL bounds the std to [1e-5, 5], RLPD its logarithm to [-20, 2]; 0.007 of the action range
is small enough.
"""

INITIAL_LOG_STD = -1.5
"""A policy begins with a std of 0.22 of the action range, not 1: an arm shaken hard learns little
in contact.
"""


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Action `tanh(mean + std * noise) (B, A)` and its log-density `(B,)`.

    `log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))` keeps its digits for large u.
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.9189385332046727  # log sqrt(2 pi)
    return torch.tanh(u), (gaussian - 2.0 * (0.6931471805599453 - u - F.softplus(-2.0 * u))).sum(-1)


def bounded(log_std: Tensor, most: float) -> Tensor:
    """Between LOG_STD_MIN and `most`, smoothly below this, so that what is too large can come down."""
    return (most - F.softplus(most - log_std)).clamp(min=LOG_STD_MIN)


class ActorHead(nn.Module):
    """Mean and log standard deviation `(B, C)`, at most `log_std_max`, of the Gaussian before the
    tanh, from features `(B, F)`; and from the same trunk the log-probabilities of the K choices of
    its `grippers`.
    """

    def __init__(
        self,
        input_size: int,
        hidden: tuple[int, ...],
        action_size: int,
        grippers: int = 0,
        log_std_max: float = LOG_STD_MAX,
    ):
        super().__init__()
        self.log_std_max = log_std_max
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
        return mean, bounded(log_std, self.log_std_max), log_choices
