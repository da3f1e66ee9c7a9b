"""Small edits of what a policy would do, and critics that choose among them (EXPO, arXiv 2507.07986;
EXPO-FT, 2605.25477).

A base policy imitates, and no critic's error reaches it. An edit policy, which is told what the base
would do, moves that by a small share of the action's range. What acts is the candidate that the
critics rate highest: the base's own action, or one of its edits.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from robot_rl.networks.actor_head import ActorHead, squashed_sample
from robot_rl.networks.choices import expected
from robot_rl.networks.critic import Critics, Weights, ensemble_values


@dataclass(frozen=True)
class EditSpec:
    """What edits there are: `count` of the base's action are looked at, each at most `reach` of the
    action's range, which ends at -1 and 1, on each axis. So many `critics` choose, with `caution`:
    an edit is worth what it gains over the base's action in their mean, less this times the standard
    deviation of that gain over them. What they do not agree on leaves the base as it is.
    """

    count: int
    reach: float
    caution: float
    critics: int


class Edits(nn.Module):
    """An edit policy and critics, for C `numbers` of an action and `outputs` choices of grippers."""

    def __init__(
        self, feature_size: int, hidden: tuple[int, ...], numbers: int, outputs: int, spec: EditSpec
    ):
        super().__init__()
        self.spec = spec
        self.head = ActorHead(feature_size + numbers, hidden, numbers)
        with torch.no_grad():  # the mode of an edit begins as none at all
            self.head.output.weight[:numbers] = 0.0
        self.critics = Critics(feature_size + numbers, hidden, spec.critics, outputs)

    def edited(self, features: Tensor, base: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The base's action `(..., C)` with an edit, and the edit's log-density `(...,)`; features
        `(..., F)`."""
        mean, log_std = self.head(torch.cat([features, base], -1))
        edit, log_prob = squashed_sample(mean, log_std, noise)
        return (base + self.spec.reach * edit).clamp(-1.0, 1.0), log_prob

    def candidates(self, features: Tensor, base: Tensor, noise: Tensor) -> Tensor:
        """The base's action and N edits of it `(N + 1, B, C)`, by their noise `(N, B, C)`."""
        count = len(noise)
        edits, _ = self.edited(
            features.expand(count, *features.shape), base.expand(count, *base.shape), noise
        )
        return torch.cat([base[None], edits])

    def best(
        self, features: Tensor, base: Tensor, log_choices: Tensor | None, noise: Tensor
    ) -> Tensor:
        """The candidate `(B, C)` that gains most, the base's action itself if none does."""
        candidates = self.candidates(features, base, noise)
        values = candidate_values(self.critics.weights(), features, candidates, log_choices)
        gain = values - values[:, :1]
        best = (gain.mean(0) - self.spec.caution * gain.std(0, correction=0)).argmax(0)
        return candidates[best, torch.arange(len(best), device=best.device)]


def candidate_values(
    weights: Weights, features: Tensor, candidates: Tensor, log_choices: Tensor | None
) -> Tensor:
    """Values `(E, N, B)` of candidates `(N, B, C)`; of grippers the mean over the policy's choices."""
    count, size = candidates.shape[:2]
    x = torch.cat([features.expand(count, *features.shape), candidates], -1)
    values = ensemble_values(weights, x.flatten(0, 1))
    return expected(values.unflatten(1, (count, size)), log_choices)
