"""What learning has to say of grippers: a batch's choices, what they cost, and HIL-SERL's separate
critic.

Where nothing is chosen, choices are None, and each equation is that of the continuous entries alone.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from robot_rl.learner.agents._parts import Batch
from robot_rl.networks.choices import taken
from robot_rl.networks.critic import Critics, ensemble_values
from robot_rl.networks.policy import Policy


class Done(NamedTuple):
    """What was executed: numbers `(B, C)` and a choice `(B,)`; and the choice that was ordered.

    The two differ where a hand did not carry an order out, being there already or having moved just
    before.
    """

    action: Tensor
    choice: Tensor | None
    ordered: Tensor | None


def done(policy: Policy, batch: Batch, chosen: bool) -> Done:
    """What was executed in a batch; without its choices unless they are `chosen`."""
    action, choice = policy.parts.split(batch["action"])
    if not chosen:
        return Done(action, None, None)
    return Done(action, choice, policy.parts.number(batch["ordered"]))


def rewards(batch: Batch, toggle_penalty: float) -> Tensor:
    """The batch's rewards `(B,)`, less a penalty for each order that a hand carried out."""
    return batch["reward"] - toggle_penalty * batch["toggles"]


def squared_errors(q: Tensor, target: Tensor, made: Done) -> Tensor:
    """Squared error `(E, B)` of the values `q (E, B, K)` of what was executed.

    An order that was not carried out came to the same as staying, so it has the same target. Without
    that no data would ever speak of opening an open hand, and a target would hold whatever the
    critics' output for it happens to be.
    """
    errors = (taken(q, made.choice) - target).square()
    if made.choice is None or made.ordered is None:
        return errors
    refused = made.ordered != made.choice
    return errors + refused * (taken(q, made.ordered) - target).square()


def misses(policy: Policy, mean: Tensor, log_choices: Tensor | None, batch: Batch) -> Tensor:
    """How far a policy is from a batch's actions, `|tanh mu(s) - a|^2 - log pi(d|s)` `(B,)`, over
    the numbers that a person gave; log pi(d|s) is then of the grippers that they told.
    """
    action, choice = policy.parts.split(batch["action"])
    errors = (torch.tanh(mean) - action).square()
    if (corrected := batch.get("corrected")) is not None:
        errors = errors * policy.parts.numbers(corrected)
    distance = errors.sum(-1)
    if log_choices is None:
        return distance
    if corrected is None:
        return distance - taken(log_choices, choice)
    return distance - policy.parts.log_told(log_choices, batch["action"], corrected)


def hand_loss(
    policy: Policy, targets: Critics, batch: Batch, here: Tensor, there: Tensor, penalty: float
) -> Tensor:
    """HIL-SERL's DQN of the grippers, blind to the arm's action: the mean squared error to

    `y = R - penalty toggles + discount^m (1 - terminated) Q'_g(s', argmax_d Q_g(s', d))`.

    `here` and `there` are the features `(B, F)` of s and s'. The encoder does not learn by it
    (HIL-SERL gives Q_g an encoder of its own).
    """
    with torch.no_grad():
        best = policy.hand_values(there).argmax(-1)
        value = taken(ensemble_values(targets.weights(), there)[0], best)
        y = rewards(batch, penalty) + batch["discount"] * (1.0 - batch["terminated"]) * value
    q = policy.hand_values(here)[None]
    return squared_errors(q, y, done(policy, batch, chosen=True)).mean()
