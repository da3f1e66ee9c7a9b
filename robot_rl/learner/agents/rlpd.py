"""RLPD: soft actor-critic on half demonstrations, half own experience (arXiv 2302.02948), with a decaying BC term.

`Agent.update` is the algorithm in the order of the paper; the three functions above it are its equations. They work
on tensors alone, so that `Agent.compile` can hand them to torch.compile. Nothing here logs or leaves the device.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

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
from robot_rl.learner.divergence import LARGEST_TEMPERATURE
from robot_rl.learner.schedule import linear_decay
from robot_rl.networks.critic import Critics, detached, ensemble_values, members_of
from robot_rl.networks.encoders import convolution_dtype
from robot_rl.networks.policy import Policy, PolicySpec, squashed_sample
from robot_rl.types import Array, ConfigError


@dataclass(frozen=True)
class RLPDConfig:
    """Every default with its source.

    Attributes:
        critics: RLPD has 10 (sec. 4.3), HIL-SERL's release 2. In peg insertion from state, one seed, at 2,000 steps: 31
            of 50 with 2 critics, 33 of 40 with 5; at 2,500 steps 86 of 100 with 2 critics and twice the updates, 92
            with 5.
        target_subset: how many of the critics, drawn anew each time, the target is the least of; RLPD and HIL-SERL: 2.
        discount: HIL-SERL's default; about 3 s of horizon at 10 Hz.
        n_step: rewards in the critic's target before it is bootstrapped, within the episode; 1 as RLPD and HIL-SERL.
        tau: share of the newest critics in the target's, per update; RLPD and HIL-SERL agree.
        learning_rate: of Adam; RLPD and HIL-SERL agree.
        hidden: widths of the layers of actor and critics; RLPD and HIL-SERL agree.
        batch_size: RLPD and HIL-SERL agree.
        demo_fraction: share of the demonstrations in each batch (RLPD, sec. 4.1).
        initial_temperature: HIL-SERL's; RLPD has 1.0, but with returns in [0, 1] a large entropy bonus drowns the
            reward.
        target_entropy_per_action: -1 for each entry of the action, as SAC (arXiv 1812.05905, table 1). RLPD and
            HIL-SERL have -1/2, which leaves a std of 0.2: 1.6 mm of an 8 mm move, where a peg has 0.5 mm of air.
        backup_entropy: no entropy in the critic's target, as RLPD for sparse rewards, and HIL-SERL.
        actor_period: the actor and the temperature move at each n-th update. RLPD: once per 20; HIL-SERL: 2.
        average_rate: share that the newest policy has in the running average of policies, per update of the actor. The
            average is what a checkpoint offers for evaluation and use (Polyak and Juditsky 1992); the actor explores
            with the newest one.
        bc_weight: of the BC term at the start. The term counts only where the critics rate the demonstrated action
            above the policy's (the Q filter of arXiv 1709.10089, eq. 6). Weight 2 brought pixel runs to 90 % in a third
            of the steps, and kept to the end it left them swinging: hence the decay.
        bc_decay_steps: the environment step at which it has gone linearly to zero.
        bc_initial_updates: regression of the actor on the demonstrations before the first environment step. 0 for
            learning from a random policy.
    """

    critics: int = 5
    target_subset: int = 2
    discount: float = 0.97
    n_step: int = 1
    tau: float = 0.005
    learning_rate: float = 3e-4
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    demo_fraction: float = 0.5
    initial_temperature: float = 0.01
    target_entropy_per_action: float = -1.0
    backup_entropy: bool = False
    actor_period: int = 2
    average_rate: float = 1e-3
    bc_weight: float = 2.0
    bc_decay_steps: int = 5_000
    bc_initial_updates: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.target_subset <= self.critics:
            raise ConfigError(f"target_subset must be between 1 and critics ({self.critics}), not {self.target_subset}")
        if not 0.0 <= self.demo_fraction <= 1.0:
            raise ConfigError(f"demo_fraction must be between 0 and 1, not {self.demo_fraction}")
        if self.n_step < 1:
            raise ConfigError(f"n_step must be at least 1, not {self.n_step}")
        if not 0.0 < self.discount <= 1.0:
            raise ConfigError(f"discount must be more than 0 and at most 1, not {self.discount}")
        for name in ("tau", "learning_rate", "average_rate"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(f"{name} must be more than 0 and at most 1, not {getattr(self, name)}")
        if not 0.0 < self.initial_temperature <= LARGEST_TEMPERATURE:
            raise ConfigError(f"initial_temperature must be more than 0 and at most {LARGEST_TEMPERATURE:g}, not "
                              f"{self.initial_temperature}")  # fmt: skip
        for name in ("batch_size", "actor_period"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")

    def bc_weight_at(self, env_steps: int) -> float:
        """Weight of the BC term after so many own steps."""
        return linear_decay(self.bc_weight, self.bc_decay_steps, env_steps)


class Agent:
    """Policy, critics, targets, temperature and their optimisers.

    ```
    agent = Agent(spec, config, seed=0)
    agent.policy.normaliser.fit(demo_states); agent.compile()
    while learning:
        metrics = agent.update(batch, bc_weight)     # tensors; read them now and then
    ```
    Batches are those of `data/replay.py`, gathered with this config's `n_step` and `discount`. They hold images, or
    what is cached of them where (a part of) the encoder is frozen.
    """

    offline: ClassVar[bool] = False
    has_critic: ClassVar[bool] = True

    def __init__(self, spec: PolicySpec, config: RLPDConfig, seed: int, device: str = "cpu"):
        self.spec, self.config, self.device = spec, config, torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            policy = Policy(spec)
            critics = Critics(policy.feature_size + spec.action_size, config.hidden, config.critics)
        self.policy, self.critics = policy.to(self.device), critics.to(self.device)
        self.target_critics = frozen_copy(self.critics)
        self.target_vision: nn.Module | None = None
        self._trained_vision = self.policy.trained_vision
        trained = self.policy.trained_names()
        for name, parameter in self.policy.named_parameters():
            parameter.requires_grad_(name in trained)
        if self.policy.vision is not None and self._trained_vision is not None:
            self.policy.vision.set_dtype(convolution_dtype(self.device))
            self.target_vision = frozen_copy(self._trained_vision)
        self.log_temperature = torch.tensor(config.initial_temperature, device=self.device).log().requires_grad_()
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.updates = 0
        self.average = frozen_copy(self.policy)
        self._make_optimizers()
        self._target_fn: Callable[..., Tensor] = self.critic_target
        self._critic_fn: Callable[..., tuple[Tensor, Tensor, Tensor]] = self.critic_loss
        self._actor_fn: Callable[..., tuple[Tensor, Tensor, Tensor]] = self.actor_loss

    def _make_optimizers(self) -> None:
        """One optimiser per loss, each over what that loss trains and nothing else."""
        rate = self.config.learning_rate
        self._trained: list[Tensor] = [*self.critics.parameters()]
        self._targets: list[Tensor] = [*self.target_critics.parameters()]
        if self._trained_vision is not None and self.target_vision is not None:
            self._trained += [*self._trained_vision.parameters()]
            self._targets += [*self.target_vision.parameters()]
        self._averaged, self._averages = averaged(self.policy, self.average)
        self.critic_optimizer = torch.optim.Adam(self._trained, rate, fused=True)
        self.actor_optimizer = torch.optim.Adam(self.policy.head.parameters(), rate, fused=True)
        self.temperature_optimizer = torch.optim.Adam([self.log_temperature], rate)

    def begin_average(self) -> None:
        """The average begins with the policy as it is now: scaled, pretrained, cloned."""
        self.average.load_state_dict(self.policy.state_dict())

    def compile(self) -> None:
        """Compile the three equations when they are first called; without a working compiler they stay as they are."""
        self._target_fn = Compiled(self.critic_target)
        self._critic_fn = Compiled(self.critic_loss)
        self._actor_fn = Compiled(self.actor_loss)

    def features(self, batch: Batch, prefix: str, vision: nn.Module | None) -> Tensor:
        """What critics and actor see `(B, F)`; `prefix` is "" or "next". `vision` is what is trained of the encoder."""
        return features(self.policy, batch, prefix, vision)

    def critic_target(self, batch: Batch, noise: Tensor, members: Tensor) -> Tensor:
        """`y = R + discount^m (1 - terminated) min_i Q'_i(s', a')` over the target critics `members`, `(B,)`.

        R sums the m rewards up to s', m = `n_step` or fewer at the end of the episode; the batch holds R (`reward`) and
        discount^m. A time limit is no termination: there the value is bootstrapped.
        """
        online = self.features(batch, "next", self._trained_vision)
        target = online if self.target_vision is None else self.features(batch, "next", self.target_vision)
        mean, log_std = self.policy.head(online)
        action, log_prob = squashed_sample(mean, log_std, noise)
        weights = members_of(self.target_critics.weights(), members)
        value = ensemble_values(weights, torch.cat([target, action], -1)).amin(0)
        if self.config.backup_entropy:
            value = value - self.log_temperature.exp() * log_prob
        return batch["reward"] + batch["discount"] * (1.0 - batch["terminated"]) * value

    def critic_loss(self, batch: Batch, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Squared error of every critic, summed over the critics; their mean value `(B,)`; the features `(B, F)`."""
        features = self.features(batch, "", self._trained_vision)
        q = self.critics(features, batch["action"])
        return (q - target).square().mean(1).sum(), q.detach().mean(0), features.detach()

    def actor_loss(
        self, features: Tensor, batch: Batch, q_data: Tensor, noise: Tensor, bc_weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`temperature log pi - mean_i Q_i` plus the BC term; the log-densities `(B,)`; the BC term alone.

        The BC term is the squared distance of the policy's mode to the action taken, over demonstrations and
        corrections, where the critics rate that action (`q_data`) above the policy's.
        """
        mean, log_std = self.policy.head(features)
        action, log_prob = squashed_sample(mean, log_std, noise)
        q = ensemble_values(detached(self.critics.weights()), torch.cat([features, action], -1)).mean(0)
        sac = (self.log_temperature.exp().detach() * log_prob - q).mean()
        counted = batch["demo"] * (q_data > q.detach())
        distance = (torch.tanh(mean) - batch["action"]).square().sum(-1)
        bc = (counted * distance).sum() / batch["demo"].sum().clamp(min=1.0)
        return sac + bc_weight * bc, log_prob.detach(), bc.detach()

    def update(self, batch: Batch, bc_weight: float = 0.0) -> dict[str, Tensor]:
        """One step of the critics, and of actor and temperature if it is their turn. Returns metrics as tensors."""
        # critics: a target from a random subset of the target critics, without replacement
        members = torch.randperm(self.config.critics, generator=self.generator, device=self.device)
        with torch.no_grad():
            target = self._target_fn(batch, self._noise(batch), members[: self.config.target_subset])
        loss, q_data, features = self._critic_fn(batch, target)
        self.critic_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_optimizer.step()
        with torch.no_grad():  # Polyak: target <- (1 - tau) target + tau online
            torch._foreach_lerp_(self._targets, self._trained, self.config.tau)
        metrics = {"critic_loss": loss.detach(), "q_mean": q_data.mean(), "target_mean": target.mean()}
        self.updates += 1
        if self.updates % self.config.actor_period == 0:
            metrics |= self._update_actor(features, batch, q_data, bc_weight)
        return metrics

    def _update_actor(self, features: Tensor, batch: Batch, q_data: Tensor, bc_weight: float) -> dict[str, Tensor]:
        weight = torch.tensor(bc_weight, device=self.device)
        loss, log_prob, bc = self._actor_fn(features, batch, q_data, self._noise(batch), weight)
        self.actor_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.actor_optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self._averages, self._averaged, self.config.average_rate)
        # temperature: rises while the entropy is below its target
        entropy = -log_prob.mean()
        goal = self.config.target_entropy_per_action * self.spec.action_size
        self.temperature_optimizer.zero_grad(set_to_none=True)
        (self.log_temperature.exp() * (entropy - goal)).backward()
        self.temperature_optimizer.step()
        temperature = self.log_temperature.detach().exp()
        return {"actor_loss": loss.detach(), "bc_loss": bc, "entropy": entropy, "temperature": temperature}

    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]:
        """One step of plain BC of the actor on a batch of demonstrations, before any reinforcement and any average."""
        with torch.no_grad():
            features = self.features(batch, "", self._trained_vision)
        mean, _ = self.policy.head(features)
        loss = (torch.tanh(mean) - batch["action"]).square().sum(-1).mean()
        self.actor_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.actor_optimizer.step()
        self.begin_average()
        return {"bc_loss": loss.detach()}

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """The policy's modes at the observations `(B, A)`, or at the next ones, and each critic's value of them."""
        features = self.features(batch, prefix, self._trained_vision)
        mean, _ = self.policy.head(features)
        return torch.tanh(mean), self.critics(features, torch.tanh(mean))

    def gradient_norms(self) -> dict[str, Tensor]:
        """Of the newest update."""
        return gradient_norms(critic=self._trained, actor=self.policy.head.parameters())

    def _noise(self, batch: Batch) -> Tensor:
        shape = (batch["action"].shape[0], self.spec.action_size)
        return torch.randn(shape, generator=self.generator, device=self.device)

    def policy_parameters(self) -> dict[str, Array]:
        """What the actor needs anew after each training block."""
        return self.policy.arrays(changing=True)

    def average_parameters(self) -> dict[str, Array]:
        """All of the averaged policy, for evaluation and use."""
        return self.average.arrays(changing=True) | self.average.arrays(changing=False)

    def frozen_parameters(self) -> dict[str, Array]:
        """What the actor needs once: normaliser and frozen encoder."""
        return self.policy.arrays(changing=False)

    def _modules(self) -> dict[str, nn.Module]:
        modules = {
            "policy": self.policy,
            "average": self.average,
            "critics": self.critics,
            "target_critics": self.target_critics,
        }
        return modules if self.target_vision is None else {**modules, "target_vision": self.target_vision}

    def _optimizers(self) -> dict[str, torch.optim.Adam]:
        return {
            "critic_optimizer": self.critic_optimizer,
            "actor_optimizer": self.actor_optimizer,
            "temperature_optimizer": self.temperature_optimizer,
        }

    def state_dict(self) -> dict[str, Tensor]:
        """All of it as flat, named tensors: the next update after `load_state_dict` is the one that would have been."""
        out = state_of(self._modules(), self._optimizers())
        out["log_temperature"] = self.log_temperature.detach()
        out["generator"] = self.generator.get_state()
        out["updates"] = torch.tensor(self.updates)
        return out

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave. Raises DataError if it is another agent's."""
        load_state(self._modules(), self._optimizers(), state)
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        drawn = state["generator"].cpu()
        if drawn.numel() == self.generator.get_state().numel():
            self.generator.set_state(drawn)
        else:  # of another kind of device
            self.generator.manual_seed(zlib.crc32(drawn.numpy().tobytes()))
        self.updates = int(state["updates"])
