"""What the grippers of a policy do: close, stay or open, one choice for all of them together.

G grippers have K = 3^G joint choices, numbered as HIL-SERL does: in base 3, close 0, stay 1, open
2, the last gripper's digit last.
"""

import math

import torch
from torch import Tensor, nn

from robot_rl.types import ActionSpec

INITIAL_STAY = 0.9
"""The probability with which a policy begins to leave a gripper as it is: at 10 Hz one order a
second. Of three even choices two in three would be orders, and nothing would ever be held.
"""


def initial_logits(grippers: int) -> Tensor:
    """Log-probabilities `(K,)` of the choices that a policy begins with."""
    order = math.log((1.0 - INITIAL_STAY) / 2)
    one = torch.tensor([order, math.log(INITIAL_STAY), order])
    return torch.cartesian_prod(*[one] * grippers).reshape(-1, grippers).sum(-1)


class ActionParts(nn.Module):
    """Takes actions `(B, A)` apart into numbers and a choice, and puts them together again.

    Without grippers an action is all numbers, and the choice is None.
    """

    continuous: Tensor
    discrete: Tensor
    order: Tensor
    entries: Tensor

    def __init__(self, actions: ActionSpec):
        super().__init__()
        self.grippers = len(actions.discrete)
        places = torch.tensor([*actions.continuous, *actions.discrete], dtype=torch.long)
        digits = [torch.tensor([-1.0, 0.0, 1.0])] * self.grippers
        table = (
            torch.cartesian_prod(*digits).reshape(-1, self.grippers) if digits else torch.empty(0)
        )
        # on the policy's device, and in no checkpoint
        for name, tensor in (
            ("continuous", places[: len(actions.continuous)]),
            ("discrete", places[len(actions.continuous) :]),
            ("order", places.argsort()),
            ("entries", table),
        ):
            self.register_buffer(name, tensor, persistent=False)

    def split(self, action: Tensor) -> tuple[Tensor, Tensor | None]:
        """The continuous entries `(B, C)`, and the number of the choice `(B,)`."""
        if not self.grippers:
            return action, None
        return self.numbers(action), self.number(action[:, self.discrete])

    def numbers(self, action: Tensor) -> Tensor:
        """The continuous entries `(B, C)` alone."""
        return action[:, self.continuous] if self.grippers else action

    def log_told(self, log_choices: Tensor, action: Tensor, told: Tensor) -> Tensor:
        """Log-probability `(B,)` of the choices in actions `(B, A)` for the grippers that are `told`
        `(B, A)`, whatever the others do; 0 where none is.
        """
        free = told[:, None, self.discrete] == 0.0
        agree = self.entries == action[:, None, self.discrete].round()
        log = log_choices.masked_fill(~(agree | free).all(-1), -torch.inf).logsumexp(-1)
        return log.masked_fill(free.all(-1).squeeze(1), 0.0)

    def number(self, entries: Tensor) -> Tensor:
        """The number of the choice `(B,)` whose entries, the nearest of -1, 0 and 1, are these
        `(B, G)`.
        """
        number = torch.zeros_like(entries[:, 0], dtype=torch.long)
        for digit in (entries.round() + 1.0).long().unbind(-1):
            number = 3 * number + digit
        return number

    def join(self, continuous: Tensor, choice: Tensor | None) -> Tensor:
        """The action `(B, A)` of its parts."""
        if choice is None:
            return continuous
        return torch.cat([continuous, self.entries[choice]], -1)[:, self.order]


def taken(values: Tensor, choice: Tensor | None) -> Tensor:
    """Of values `(..., B, K)` those of the choices `(B,)` that were made; without grippers the
    values `(..., B)` themselves.
    """
    if choice is None:
        return values
    return values.gather(-1, choice.expand(values.shape[:-1])[..., None]).squeeze(-1)


def expected(values: Tensor, log_choices: Tensor | None) -> Tensor:
    """`sum_d pi(d|s) values(s, d)`, computed and not sampled: of `(..., B, K)`, with log pi `(B, K)`;
    without grippers the values `(..., B)` themselves.
    """
    return values if log_choices is None else (log_choices.exp() * values).sum(-1)


def entropy_of(log_choices: Tensor) -> Tensor:
    """`-sum_d pi(d|s) log pi(d|s)` `(B,)` in nats; at most G log 3."""
    return -expected(log_choices, log_choices)
