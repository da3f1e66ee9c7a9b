"""Behaviour cloning: regression of the policy on what the operator did. The baseline that
reinforcement has to beat.

A run with it makes no steps of its own. `agents/hg_dagger.py` is the same agent with corrections.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robot_rl.learner.agents._hand import misses
from robot_rl.learner.agents._parts import (
    AgentConfig,
    BaseAgent,
    Batch,
    LearnFn,
    SamplingPlan,
    features,
)
from robot_rl.learner.compilation import Compiled
from robot_rl.networks.actor_head import LOG_STD_MIN
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import Array


@dataclass(frozen=True)
class Config(AgentConfig):
    """Every default with its source.

    Attributes:
        bc_initial_updates: regression on the demonstrations; HIL-SERL's train_bc.py and
            train_hgdagger.py.
        learning_rate: as there.
        hidden: as RLPD's actor here, so that the two differ in what they learn from alone; SERL's
            BC has the same.
        batch_size: as there.
        average_rate: share that the newest policy has in the running average of policies, per
            update; as RLPD's here.
    """

    bc_initial_updates: int = 20_000
    learning_rate: float = 3e-4
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    average_rate: float = 1e-3


class Agent(BaseAgent):
    """Policy, its running average and one optimiser.

    The std is held at its least, 0.007 of the action range: a sample is the mode, and the mode is
    what acts while an operator corrects (HG-DAgger, arXiv 1810.02890: the novice's own action) as
    in evaluation. What acts is the average, for it is what the corrections are meant for. Choices of
    grippers are sampled: of several steps that look alike an operator closes in one, and the
    likeliest choice in each of them is to stay.
    """

    offline: ClassVar[bool] = True
    moves_grippers: ClassVar[bool] = True
    config: Config

    def __init__(self, spec: PolicySpec, config: Config, seed: int, device: str = "cpu"):
        super().__init__(spec, config, seed, device)
        numbers = len(spec.actions.continuous)
        with torch.no_grad():
            for head in (self.policy.head, self.average.head):
                head.output.weight[numbers:] = 0.0
                head.output.bias[numbers:] = LOG_STD_MIN
        self.optimizers = {"optimizer": self.adam(self.averaged)}
        self._loss_fn: Callable[[Batch], Tensor] = self.loss
        self._learn_fn: LearnFn = self.learn

    @property
    def plan(self) -> SamplingPlan:
        """What the operator did, alone."""
        return SamplingPlan(self.config.batch_size, demo_fraction=1.0)

    def compile(self) -> None:
        """Compile the loss when it is first called; without a working compiler it stays as it is.
        On a GPU an update is recorded, too.
        """
        self._loss_fn, self._learn_fn = Compiled(self.loss), self.captured(self.learn)

    def loss(self, batch: Batch) -> Tensor:
        """`mean |tanh mu(s) - a|^2` over what the operator did: the BC term of RLPD (arXiv
        1709.10089, eq. 5), without its filter. Cross-entropy of the grippers' choices beside it."""
        seen = self.disturbed(batch, self.features(batch))
        mean, _, log_choices = self.policy.head.distributions(seen)
        distance = misses(self.policy, mean, log_choices, batch)
        return (batch["demo"] * distance).sum() / batch["demo"].sum().clamp(min=1.0)

    def update(self, batch: Batch, env_steps: int = 0) -> dict[str, Tensor]:
        """One step of regression."""
        self.updates += 1
        return self._learn_fn(batch)

    def learn(self, batch: Batch) -> dict[str, Tensor]:
        """The update itself, which reads nothing but tensors."""
        loss = self.step("optimizer", self._loss_fn(batch))
        self.follow_average()
        return {"bc_loss": loss}

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """The modes `(B, A)` of the average, which is what acts; there is no critic."""
        seen = features(self.average, batch, prefix, self.average.trained_vision)
        modes = self.average.modes(seen)
        return modes, modes.new_empty(0, len(modes))

    def policy_parameters(self) -> dict[str, Array]:
        """What the actor needs anew after each training block: of the average, which is what acts."""
        return self.average.arrays(changing=True)
