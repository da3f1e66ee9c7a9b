"""EXPO in small: a base that imitates, small edits of what it does, and critics that choose among them
(arXiv 2507.07986; EXPO-FT, 2605.25477, sec. 4).

The base learns by imitation alone, of demonstrations and corrections, so that it is never worse than
these; a wrong critic can move an action by `reach` and no more. The edit policy climbs the critics.
Acting, and in the critics' target alike, the best of the base's action and its edits counts.

Where a task moves grippers their choices are the base's, drawn from what it has seen an operator do;
critics know them, and value an action over all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robot_rl.learner.agents._hand import done, misses, rewards, squared_errors
from robot_rl.learner.agents._parts import (
    AgentConfig,
    BaseAgent,
    Batch,
    SamplingPlan,
    features,
    frozen_copy,
)
from robot_rl.learner.compilation import Compiled
from robot_rl.learner.divergence import LARGEST_TEMPERATURE
from robot_rl.learner.windows import Window
from robot_rl.networks.choices import expected, taken
from robot_rl.networks.critic import detached, ensemble_values, members_of
from robot_rl.networks.edits import EditSpec, candidate_values
from robot_rl.networks.policy import PolicySpec
from robot_rl.types import Array, ConfigError


@dataclass(frozen=True)
class Config(AgentConfig):
    """Every default with its source.

    Attributes:
        edits: how many of the base's action are looked at, beside it; EXPO-FT: 8.
        backup_edits: how many in the critics' target. EXPO has as many as act; each costs as much
            as RLPD's target.
        reach: how far an edit goes, as a share of the action's range; EXPO: 0.05 to 0.2 where the
            base is good, up to 0.7 where it is not.
        caution: so many standard deviations over the critics must an edit gain to be taken. EXPO
            has 0: young critics then lead a good base astray.
        critics, target_subset: as RLPD's here; EXPO-FT: 10 and 2.
        discount: HIL-SERL's default; about 3 s of horizon at 10 Hz.
        n_step: rewards in the critics' target before it is bootstrapped, within the episode.
        rescue_worth: what a return counts for behind a take-over; see `agents/rlpd.py`.
        tau: share of the newest critics in the target's, per update; as RLPD's.
        learning_rate, hidden, batch_size: as RLPD's here.
        demo_fraction: share of demonstrations and corrections in each batch; as RLPD's.
        initial_temperature: of the edits; a tenth of RLPD's here, as what they can gain is.
        target_entropy_per_action: of the edits, in shares of their reach; as RLPD's here.
        edit_period: the edit policy and its temperature move at each n-th update; EXPO-FT: one in
            20.
        bc_initial_updates: of the base, on the demonstrations, before the first own step; as HG-DAgger,
            with 5,000 a base of 20 demonstrations misses four times as far.
        toggle_penalty: what an order that a hand carries out costs in the critics' target.
    """

    edits: int = 8
    backup_edits: int = 1
    reach: float = 0.2
    caution: float = 1.0
    critics: int = 5
    target_subset: int = 2
    discount: float = 0.97
    n_step: int = 1
    rescue_worth: float = 1.0
    tau: float = 0.005
    demo_fraction: float = 0.5
    initial_temperature: float = 1e-3
    target_entropy_per_action: float = -1.0
    edit_period: int = 2
    bc_initial_updates: int = 20_000
    toggle_penalty: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("edits", "backup_edits", "critics", "n_step", "edit_period"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("reach", "discount", "tau"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(
                    f"{name} must be more than 0 and at most 1, not {getattr(self, name)}"
                )
        for name in ("demo_fraction", "rescue_worth"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if not 1 <= self.target_subset <= self.critics:
            raise ConfigError(
                f"target_subset must be between 1 and critics ({self.critics}), not"
                f" {self.target_subset}"
            )
        if not 0.0 < self.initial_temperature <= LARGEST_TEMPERATURE:
            raise ConfigError(f"initial_temperature must be more than 0 and at most {LARGEST_TEMPERATURE:g}, not "
                              f"{self.initial_temperature}")  # fmt: skip
        if not 0.0 <= self.toggle_penalty < math.inf:
            raise ConfigError(f"toggle_penalty must be at least 0, not {self.toggle_penalty}")

    @property
    def policy_options(self) -> dict[str, Any]:
        edits = EditSpec(self.edits, self.reach, self.caution, self.critics)
        return super().policy_options | {"edits": edits}


class Agent(BaseAgent):
    """Base, edits, critics, their targets, and an optimiser for each.

    What acts is the running average, as in behaviour cloning: the base's mode is what an operator
    corrects, and the only noise is the edits'.
    """

    has_critic = True
    moves_grippers: ClassVar[bool] = True
    config: Config

    def __init__(self, spec: PolicySpec, config: Config, seed: int, device: str = "cpu"):
        super().__init__(spec, config, seed, device)
        assert self.policy.edits is not None
        assert self.average.edits is not None
        self.edits, self._numbers = self.policy.edits, len(spec.actions.continuous)
        self._trained_vision = self.policy.trained_vision
        self.target_critics = self.modules["target_critics"] = frozen_copy(self.edits.critics)
        self._trained: list[Tensor] = [*self.edits.critics.parameters()]
        self._targets: list[Tensor] = [*self.target_critics.parameters()]
        self.target_vision: nn.Module | None = None
        if self._trained_vision is not None:
            self.target_vision = self.modules["target_vision"] = frozen_copy(self._trained_vision)
            self._trained += [*self._trained_vision.parameters()]
            self._targets += [*self.target_vision.parameters()]
        start = torch.tensor(config.initial_temperature, device=self.device)
        self.log_temperature = start.log().requires_grad_()
        rate = config.learning_rate
        self.optimizers = {
            "critic_optimizer": torch.optim.Adam(self._trained, rate, fused=True),
            "base_optimizer": torch.optim.Adam(self.policy.head.parameters(), rate, fused=True),
            "edit_optimizer": torch.optim.Adam(self.edits.head.parameters(), rate, fused=True),
            "temperature_optimizer": torch.optim.Adam([self.log_temperature], rate),
        }
        self._target_fn: Callable[..., Tensor] = self.critic_target
        self._critic_fn: Callable[..., tuple[Tensor, ...]] = self.critic_loss
        self._base_fn: Callable[..., Tensor] = self.base_loss
        self._edit_fn: Callable[..., tuple[Tensor, Tensor]] = self.edit_loss

    @property
    def plan(self) -> SamplingPlan:
        """Half demonstrations and corrections, half own experience (RLPD, sec. 4.1)."""
        config = self.config
        window = Window(config.n_step, config.discount, config.rescue_worth)
        return SamplingPlan(config.batch_size, config.demo_fraction, window)

    @property
    def period(self) -> int:
        return self.config.edit_period

    def compile(self) -> None:
        """Compile the four equations when they are first called; without a working compiler they
        stay as they are.
        """
        self._target_fn, self._critic_fn = Compiled(self.critic_target), Compiled(self.critic_loss)
        self._base_fn, self._edit_fn = Compiled(self.base_loss), Compiled(self.edit_loss)

    def critic_target(self, batch: Batch, noise: Tensor, members: Tensor) -> Tensor:
        """`y = R + discount^m (1 - terminated) max_a min_i Q'_i(s', a)` `(B,)`, over the target critics
        `members`, and over the base's action at s' and as many edits of it as there is noise.
        """
        target = online = self.features(batch, "next")
        if self.target_vision is not None:
            target = features(self.policy, batch, "next", self.target_vision)
        mean, _, log_choices = self.policy.head.distributions(online)
        candidates = self.edits.candidates(online, torch.tanh(mean), noise)
        weights = members_of(self.target_critics.weights(), members)
        value = candidate_values(weights, target, candidates, log_choices).amin(0).amax(0)
        reward = batch["reward"]
        if log_choices is not None:
            reward = rewards(batch, self.config.toggle_penalty)
        return reward + batch["discount"] * (1.0 - batch["terminated"]) * value

    def critic_loss(self, batch: Batch, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Squared error of every critic, summed over the critics; their mean value `(B,)` of what
        was executed; the features `(B, F)`.
        """
        seen = self.features(batch)
        made = done(self.policy, batch, chosen=self.spec.joint_choices > 0)
        q = self.edits.critics(seen, made.action)
        loss = squared_errors(q, target, made).mean(1).sum()
        return loss, taken(q, made.choice).detach().mean(0), seen.detach()

    def base_loss(self, seen: Tensor, batch: Batch) -> Tensor:
        """`mean |tanh mu(s) - a|^2 - log pi(d|s)` over what an operator did; seen `(B, F)`."""
        mean, _, log_choices = self.policy.head.distributions(seen)
        distance = misses(self.policy, mean, log_choices, batch)
        return (batch["demo"] * distance).sum() / batch["demo"].sum().clamp(min=1.0)

    def edit_loss(self, seen: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """`temperature log pi_e(d|s, a) - mean_i Q_i(s, a + d)`, a being the base's action; and the
        log-densities `(B,)`. No gradient reaches base or critics.
        """
        with torch.no_grad():
            mean, _, log_choices = self.policy.head.distributions(seen)
        action, log_prob = self.edits.edited(seen, torch.tanh(mean), noise)
        weights = detached(self.edits.critics.weights())
        values = ensemble_values(weights, torch.cat([seen, action], -1)).mean(0)
        loss = self.log_temperature.exp().detach() * log_prob - expected(values, log_choices)
        return loss.mean(), log_prob.detach()

    def update(self, batch: Batch, env_steps: int = 0) -> dict[str, Tensor]:
        """One step of critics and base, and of the edits if it is their turn. Returns metrics as
        tensors.
        """
        members = torch.randperm(self.config.critics, generator=self.generator, device=self.device)
        with torch.no_grad():
            noise = self._noise(batch, self.config.backup_edits)
            target = self._target_fn(batch, noise, members[: self.config.target_subset])
        loss, q_data, seen = self._critic_fn(batch, target)
        self.step("critic_optimizer", loss)
        with torch.no_grad():  # Polyak: target <- (1 - tau) target + tau online
            torch._foreach_lerp_(self._targets, self._trained, self.config.tau)
        metrics = {
            "critic_loss": loss.detach(),
            "q_mean": q_data.mean(),
            "target_mean": target.mean(),
            "bc_loss": self.step("base_optimizer", self._base_fn(seen, batch)),
        }
        self.updates += 1
        if self.updates % self.config.edit_period == 0:
            metrics |= self._update_edits(seen, batch)
        self.follow_average()
        return metrics

    def _update_edits(self, seen: Tensor, batch: Batch) -> dict[str, Tensor]:
        loss, log_prob = self._edit_fn(seen, self._noise(batch, 1)[0])
        self.step("edit_optimizer", loss)
        entropy = -log_prob.mean()
        goal = self.config.target_entropy_per_action * self._numbers
        self.step("temperature_optimizer", self.log_temperature.exp() * (entropy - goal))
        temperature = self.log_temperature.detach().exp()
        return {"actor_loss": loss.detach(), "entropy": entropy, "temperature": temperature}

    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]:
        """One step of the base on a batch of demonstrations."""
        with torch.no_grad():
            seen = self.features(batch)
        loss = self.step("base_optimizer", self._base_fn(seen, batch))
        self.begin_average()
        return {"bc_loss": loss}

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """What acts at the observations `(B, A)`, or at the next ones, without noise; and each
        critic's value of it.
        """
        seen = features(self.average, batch, prefix, self.average.trained_vision)
        modes = self.average.modes(seen)
        action, choice = self.policy.parts.split(modes)
        values = self.edits.critics(self.features(batch, prefix), action)
        return modes, taken(values, choice if self.spec.joint_choices else None)

    def policy_parameters(self) -> dict[str, Array]:
        """What the actor needs anew after each training block: of the average, which is what acts."""
        return self.average.arrays(changing=True)

    def _noise(self, batch: Batch, count: int) -> Tensor:
        shape = (count, batch["action"].shape[0], self._numbers)
        return torch.randn(shape, generator=self.generator, device=self.device)

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"log_temperature": self.log_temperature.detach()}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
