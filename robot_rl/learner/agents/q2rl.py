"""Q2RL (arXiv 2605.05172): a copy of the demonstrations acts until the policy that learns promises more
than the copy came to.

For who has demonstrations and nobody to correct. The copy stays as it is, acts alone at first, and
what it came to then is learnt as its value. From then on either acts in each state, as a gate says
(`networks/gate.py`); the policy is `rlpd_bc`'s.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robot_rl.learner.agents import rlpd, rlpd_bc
from robot_rl.learner.agents._hand import rewards
from robot_rl.learner.agents._parts import Batch, frozen_copy
from robot_rl.networks.critic import ensemble_values
from robot_rl.networks.gate import Gate, GateSpec
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ConfigError


@dataclass(frozen=True)
class Config(rlpd_bc.Config):
    """The options of `rlpd_bc`, and the gate's.

    Attributes:
        rollout_steps: so many own steps the copy acts alone; the paper has 25 to 100 episodes.
        gate_margin: how much more than whoever acts the other one has to promise; success is 1. The
            paper's gate has none.
    """

    rollout_steps: int = 1_000
    gate_margin: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bc_initial_updates < 1:
            raise ConfigError(
                "bc_initial_updates is 0: q2rl begins with a copy of the demonstrations, which takes some"
            )
        if self.rollout_steps < 1:
            raise ConfigError(f"rollout_steps must be at least 1, not {self.rollout_steps}")
        if not 0.0 <= self.gate_margin < 1.0:
            raise ConfigError(f"gate_margin must be at least 0 and below 1, not {self.gate_margin}")
        if self.hand != "joint":
            raise ConfigError("hand must be joint: a gate decides of arm and hand together")

    @property
    def policy_options(self) -> dict[str, Any]:
        gate = GateSpec(self.critics, self.gate_margin)
        return super().policy_options | {"gate": gate}


class Agent(rlpd.Agent):
    """RLPD's agent, whose critics are the gate's, and the value of the copy."""

    config: Config

    def __init__(self, spec: PolicySpec, config: Config, seed: int, device: str = "cpu"):
        if spec.renewed or spec.info.trained != "nothing":
            raise ConfigError(
                f"q2rl's copy needs the features that it was cloned with, and encoder {spec.encoder} goes"
                " on learning: take --learner.encoder goal, and --learner.pretrain.renew-at with nothing"
            )
        super().__init__(spec, config, seed, device)
        value = gate_of(self.policy).value
        self.optimizers["value_optimizer"] = self.adam(value.parameters())

    def networks(self) -> dict[str, torch.nn.Module]:
        gate = gate_of(self.policy)
        self.critics = gate.critics
        return {"target_value": frozen_copy(gate.value)}

    def update(self, batch: Batch, env_steps: int = 0) -> dict[str, Tensor]:
        """RLPD's update, and one of the value of the copy while that acts alone."""
        gates = [gate_of(policy) for policy in (self.policy, self.average)]
        if self.updates == 0:  # it has been cloned
            for gate in gates:
                gate.base.load_state_dict(self.policy.head.state_dict())
        metrics = super().update(batch, env_steps)
        if env_steps <= self.config.rollout_steps:
            return metrics | {"value_loss": self._learn_value(batch)}
        for gate in gates:
            gate.is_open.fill_(1.0)
        return metrics | (self._promised(batch) if "actor_loss" in metrics else {})

    def value_target(self, batch: Batch) -> Tensor:
        """`R + discount^m (1 - terminated) V'(s')` `(B,)`, as the critics' target, of what was done."""
        with torch.no_grad():
            later = self.features(batch, "next")
            behind = ensemble_values(dict(self.modules["target_value"].named_parameters()), later)[
                0
            ]
        reward = (
            rewards(batch, self.config.toggle_penalty)
            if self.spec.joint_choices
            else batch["reward"]
        )
        return reward + batch["discount"] * (1.0 - batch["terminated"]) * behind

    def _learn_value(self, batch: Batch) -> Tensor:
        gate, size = gate_of(self.policy), len(batch["reward"])
        own = torch.arange(size, device=self.device) >= round(size * self.config.demo_fraction)
        with torch.no_grad():
            features = self.features(batch)
        error = (gate.worth(features) - self.value_target(batch)).square()
        loss = self.step("value_optimizer", (own * error).sum() / own.sum().clamp(min=1))
        with torch.no_grad():
            ours, theirs = self.modules["target_value"].parameters(), gate.value.parameters()
            torch._foreach_lerp_([*ours], [*theirs], self.config.tau)
        return loss

    @torch.no_grad()
    def _promised(self, batch: Batch) -> dict[str, Tensor]:
        """How much more the policy promises than the copy came to, and where it does not."""
        features, gate = self.features(batch), gate_of(self.policy)
        ours = self.policy.proposed(self.policy.head, features)
        gain = gate.gain(features, *self.policy.parts.split(ours))
        return {"gate_gain": gain.mean(), "gate_base": (gain <= 0.0).float().mean()}


def gate_of(policy: Policy) -> Gate:
    assert policy.gate is not None
    return policy.gate
