"""An ensemble of independent critics, evaluated as batched matrices.

Each of the E members has its own weights in every layer, the last one included (HIL-SERL's released
ensemble shares its final layer, hil-serl issue 33, so that its members cannot disagree). LayerNorm
after each hidden layer bounds the values that a critic can extrapolate to (RLPD, arXiv 2302.02948,
sec. 4.2). Where grippers choose, a critic has a value for each of their K choices.
"""

from collections.abc import Mapping
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Weights = Mapping[str, Tensor]
"""The weights of an ensemble by name, the member first: `w0 (E, D, H)`, `b0 (E, 1, H)`, `g0`, `h0`,
...
"""


def ensemble_values(weights: Weights, x: Tensor) -> Tensor:
    """Values `(E, B)` of the inputs `x (B, D)`, or `(E, B, K)` of K choices. A pure function: a
    subset or a detached copy goes in as well.
    """
    layers = sum(name.startswith("w") for name in weights)
    members = weights["w0"].shape[0]
    x = x.expand(members, *x.shape)
    for i in range(layers - 1):
        x = torch.baddbmm(weights[f"b{i}"], x, weights[f"w{i}"])
        x = F.relu(F.layer_norm(x, x.shape[-1:]) * weights[f"g{i}"] + weights[f"h{i}"])
    return torch.baddbmm(weights[f"b{layers - 1}"], x, weights[f"w{layers - 1}"]).squeeze(-1)


def members_of(weights: Weights, members: Tensor) -> dict[str, Tensor]:
    """The weights of some members only, by their indices `(M,)`."""
    return {name: weight[members] for name, weight in weights.items()}


def detached(weights: Weights) -> dict[str, Tensor]:
    """The same weights, through which a gradient passes to the inputs but not into the weights."""
    return {name: weight.detach() for name, weight in weights.items()}


class Critics(nn.Module):
    """E critics of (features, action) with hidden layers of the sizes `hidden`.

    `outputs`: K choices, of which each has a value of its own; 1: nothing is chosen.
    """

    def __init__(self, input_size: int, hidden: tuple[int, ...], members: int, outputs: int = 1):
        super().__init__()
        sizes = (input_size, *hidden, outputs)
        for i, (n_in, n_out) in enumerate(pairwise(sizes)):
            last = i == len(hidden)
            w = torch.empty(members, n_in, n_out)
            for member in w:
                # returns lie in [0, 1]: an output that begins at +-1 would be optimism that takes
                # long to unlearn
                nn.init.xavier_uniform_(member, gain=0.01 if last else 1.0)
            self.register_parameter(f"w{i}", nn.Parameter(w))
            self.register_parameter(f"b{i}", nn.Parameter(torch.zeros(members, 1, n_out)))
            if not last:
                self.register_parameter(f"g{i}", nn.Parameter(torch.ones(members, 1, n_out)))
                self.register_parameter(f"h{i}", nn.Parameter(torch.zeros(members, 1, n_out)))

    def weights(self) -> dict[str, Tensor]:
        """The live weights, for `ensemble_values`."""
        return dict(self.named_parameters())

    def forward(self, features: Tensor, action: Tensor) -> Tensor:
        """Values `(E, B)`, or `(E, B, K)`, of `features (B, F)` and `action (B, A)`, of its
        continuous entries where there are choices.
        """
        return ensemble_values(self.weights(), torch.cat([features, action], -1))
