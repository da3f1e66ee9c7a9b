"""SiLRI (arXiv 2512.24288): a multiplier for each state holds the policy to who corrects."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from robot_rl.learner.agents import rlpd_bc
from robot_rl.networks.actor_head import ActorHead, squashed_sample
from robot_rl.networks.critic import detached, ensemble_values


@dataclass(frozen=True)
class Config(rlpd_bc.Config):
    paper: bool = False
    reward_scale: float = 10.0
    multiplier_rate: float = 3e-6
    bc_weight: float = 0.0
    bc_initial_updates: int = 20_000


class Agent(rlpd_bc.Agent):
    moves_grippers = False
    config: Config

    def __init__(self, spec, config, seed, device="cpu"):
        super().__init__(spec, config, seed, device)
        self.optimizers["expert_optimizer"] = self.adam(self.expert.parameters())
        self.optimizers["multiplier_optimizer"] = torch.optim.Adam(
            self.multiplier.parameters(), config.multiplier_rate
        )

    def networks(self):
        f, a = self.policy.feature_size, self.spec.action_size
        self.expert = ActorHead(f, (256, 256), a, log_std_max=0.0)
        self.multiplier = nn.Sequential(
            nn.Linear(f, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )
        return super().networks() | {"expert": self.expert, "multiplier": self.multiplier}

    def compile(self):
        super().compile()
        self._learn_fn, self._clone_fn = self.learn, self.clone

    def fit_expert(self, seen, batch):
        mean, log_std = self.expert(seen)
        mean = mean.tanh()
        nll = (0.5 * ((batch["action"] - mean) / log_std.exp()).square() + log_std).sum(-1)
        return self.step(
            "expert_optimizer", (batch["demo"] * nll).sum() / batch["demo"].sum().clamp(min=1.0)
        )

    def clone(self, batch):
        with torch.no_grad():
            seen = self.features(batch)
        self.fit_expert(seen, batch)
        return super().clone(batch)

    def _update_actor(self, seen, batch, q_data):
        expert_loss = self.fit_expert(seen, batch)
        with torch.no_grad():
            expert, log_std = self.expert(seen)
            expert, sigma = expert.tanh(), log_std.exp()
            mode = self.policy.head(seen)[0].tanh()
            gap = (expert - mode).norm(dim=-1)
            if self.config.paper:
                slack = gap.square() - 6.0 * sigma.mean(-1) - 0.1
            else:
                slack = gap - sigma.sum(-1) - 0.2
        multiplier = F.softplus(self.multiplier(seen).squeeze(-1))
        self.step("multiplier_optimizer", -(multiplier * slack).mean())
        lam = multiplier.detach()
        mean, log_std = self.policy.head(seen)
        action, log_prob = squashed_sample(mean, log_std, self._noise(batch))
        q = ensemble_values(detached(self.critics.weights()), torch.cat([seen, action], -1)).mean(0)
        gap = expert - mean.tanh()
        gap = gap.square().sum(-1) if self.config.paper else (gap.square().sum(-1) + 1e-8).sqrt()
        value = self.config.reward_scale * (self.log_temperature.exp().detach() * log_prob - q)
        loss = ((value + lam * gap) / (1.0 + lam)).mean()
        self.step("actor_optimizer", loss)
        self.follow_average()
        entropy = -log_prob.detach().mean()
        goal = self.config.target_entropy_per_action * self.spec.action_size
        self.step("temperature_optimizer", self.log_temperature.exp() * (entropy - goal))
        return {
            "actor_loss": loss.detach(),
            "entropy": entropy,
            "expert_loss": expert_loss,
            "multiplier": lam.mean(),
            "multiplier_above_1": (lam > 1).float().mean(),
            "gap": gap.detach().mean(),
            "slack": slack.mean(),
            "sigma": sigma.mean(),
        }
