"""Behaviour cloning: regression of the policy on what the operator did. The baseline that reinforcement has to beat.

A run with it makes no steps of its own. `agents/hg_dagger.py` is the same agent with corrections.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robot_rl.learner.agents._parts import (
    Batch,
    averaged,
    features,
    frozen_copy,
    gradient_norms,
    load_state,
    state_of,
)
from robot_rl.learner.compilation import Compiled
from robot_rl.networks.encoders import convolution_dtype
from robot_rl.networks.policy import LOG_STD_RANGE, Policy, PolicySpec
from robot_rl.types import Array


@dataclass(frozen=True)
class BCConfig:
    """Every default with its source.

    Attributes:
        bc_initial_updates: regression on the demonstrations; HIL-SERL's train_bc.py and train_hgdagger.py.
        learning_rate: as there.
        hidden: as RLPD's actor here, so that the two differ in what they learn from alone; SERL's BC has the same.
        batch_size: as there.
        average_rate: share that the newest policy has in the running average of policies, per update; as RLPD's here.
    """

    bc_initial_updates: int = 20_000
    learning_rate: float = 3e-4
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    average_rate: float = 1e-3

    # what RLPD makes options of: batches of single steps of the operator's alone, imitated to the end
    demo_fraction: ClassVar[float] = 1.0
    n_step: ClassVar[int] = 1
    discount: ClassVar[float] = 1.0
    actor_period: ClassVar[int] = 1

    def bc_weight_at(self, env_steps: int) -> float:
        """There is nothing that it could be weighed against."""
        return 1.0


class Agent:
    """Policy, its running average and one optimiser.

    The std is held at its least, 0.007 of the action range: a sample is the mode, and the mode is what acts while an
    operator corrects (HG-DAgger, arXiv 1810.02890: the novice's own action) as in evaluation. What acts is the
    average, for it is what the corrections are meant for.
    """

    offline: ClassVar[bool] = True
    has_critic: ClassVar[bool] = False

    def __init__(self, spec: PolicySpec, config: BCConfig, seed: int, device: str = "cpu"):
        self.spec, self.config, self.device = spec, config, torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = Policy(spec).to(self.device)
        with torch.no_grad():
            self.policy.head.output.weight[spec.action_size :] = 0.0
            self.policy.head.output.bias[spec.action_size :] = LOG_STD_RANGE[0]
        trained = self.policy.trained_names()
        for name, parameter in self.policy.named_parameters():
            parameter.requires_grad_(name in trained)
        if self.policy.vision is not None and self.policy.trained_vision is not None:
            self.policy.vision.set_dtype(convolution_dtype(self.device))
        self.average = frozen_copy(self.policy)
        self._trained, self._averages = averaged(self.policy, self.average)
        self.optimizer = torch.optim.Adam(self._trained, config.learning_rate, fused=True)
        self._loss_fn: Callable[[Batch], Tensor] = self.loss
        self.updates = 0

    def begin_average(self) -> None:
        """The average begins with the policy as it is now: scaled, pretrained."""
        self.average.load_state_dict(self.policy.state_dict())

    def compile(self) -> None:
        """Compile the loss when it is first called; without a working compiler it stays as it is."""
        self._loss_fn = Compiled(self.loss)

    def loss(self, batch: Batch) -> Tensor:
        """`mean |tanh mu(s) - a|^2` over what the operator did: the BC term of RLPD (arXiv 1709.10089, eq. 5), without
        its filter."""
        mean, _ = self.policy.head(features(self.policy, batch, "", self.policy.trained_vision))
        distance = (torch.tanh(mean) - batch["action"]).square().sum(-1)
        return (batch["demo"] * distance).sum() / batch["demo"].sum().clamp(min=1.0)

    def update(self, batch: Batch, bc_weight: float = 1.0) -> dict[str, Tensor]:
        """One step of regression. `bc_weight` has nothing to weigh here."""
        loss = self._loss_fn(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self._averages, self._trained, self.config.average_rate)
        self.updates += 1
        return {"bc_loss": loss.detach()}

    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]:
        """One step of regression on a batch of demonstrations: the same."""
        return self.update(batch)

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """Actions at the observations `(B, A)`, or at the next ones, of the policy that acts; values of no critic."""
        mean, _ = self.average.head(features(self.average, batch, prefix, self.average.trained_vision))
        return torch.tanh(mean), mean.new_empty(0, len(mean))

    def gradient_norms(self) -> dict[str, Tensor]:
        """Of the newest update."""
        return gradient_norms(actor=self._trained)

    def policy_parameters(self) -> dict[str, Array]:
        """What the actor needs anew after each training block: of the average, which is what acts."""
        return self.average.arrays(changing=True)

    def average_parameters(self) -> dict[str, Array]:
        """All of the averaged policy, for evaluation and use."""
        return self.average.arrays(changing=True) | self.average.arrays(changing=False)

    def frozen_parameters(self) -> dict[str, Array]:
        """What the actor needs once: normaliser and frozen encoder."""
        return self.policy.arrays(changing=False)

    def state_dict(self) -> dict[str, Tensor]:
        """All of it as flat, named tensors: the next update after `load_state_dict` is the one that would have been."""
        out = state_of({"policy": self.policy, "average": self.average}, {"optimizer": self.optimizer})
        return out | {"updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave. Raises DataError if it is another agent's."""
        load_state({"policy": self.policy, "average": self.average}, {"optimizer": self.optimizer}, state)
        self.updates = int(state["updates"])
