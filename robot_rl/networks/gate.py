"""A gate in front of the arm: a base that stays as it is and a policy that learns both propose, and
who promises more acts (Q2RL, arXiv 2605.05172).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robot_rl.networks.actor_head import ActorHead
from robot_rl.networks.choices import taken
from robot_rl.networks.critic import Critics, ensemble_values


@dataclass(frozen=True)
class GateSpec:
    """All that is needed to build a `Gate` beside a policy.

    `critics`: how many value the policy's action; their mean counts. `margin`: so much more than
    whoever acts the other one has to promise, or two values that cross at each step would make an
    arm that does a little of both.
    """

    critics: int
    margin: float


class Gate(nn.Module):
    """Who acts, the base or the policy.

    The base is worth what it came to: `value` is learnt from its own episodes. In the paper its
    action counts besides, by `log pi_b(a_b|s) + H(pi_b)` times a temperature, which is zero on
    average; at the temperatures here, 5e-4 and less, it is smaller than any critic's error, and left
    out. The policy's action is worth the mean of `critics`. Until the gate `is_open` the base acts.
    """

    is_open: Tensor

    def __init__(
        self, features: int, hidden: tuple[int, ...], numbers: int, outputs: int, spec: GateSpec,
        base: ActorHead,
    ):  # fmt: skip
        super().__init__()
        self.base, self.margin = base, spec.margin
        self.value = Critics(features, hidden, 1)
        self.critics = Critics(features + numbers, hidden, spec.critics, outputs)
        self.register_buffer("is_open", torch.zeros(()))
        self.begin_episode()

    def begin_episode(self) -> None:
        """The base acts first."""
        self.base_acts = True

    def worth(self, features: Tensor) -> Tensor:
        """What the base comes to from here `(B,)`."""
        return ensemble_values(self.value.weights(), features)[0]

    def gain(self, features: Tensor, action: Tensor, choice: Tensor | None) -> Tensor:
        """What the policy's action promises beyond that `(B,)`."""
        return taken(self.critics(features, action), choice).mean(0) - self.worth(features)

    def closes(self, gain: float) -> bool:
        """Whether the base acts now, at so much gain; remembered up to the next step."""
        least = self.margin if self.base_acts else -self.margin
        self.base_acts = not self.is_open or gain < least
        return self.base_acts
