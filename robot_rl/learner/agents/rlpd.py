"""RLPD: soft actor-critic on half demonstrations, half own experience (arXiv 2302.02948), with a
decaying BC term.

Where a task moves grippers, a categorical head chooses for them beside the Gaussian, and each critic
values every choice, given the continuous action (`_hand.py`); expectations over choices are computed.

`Agent.update` is the algorithm in the order of the paper; the three functions above it are its
equations. They work on tensors alone, so that `Agent.compile` can hand them to torch.compile.
Nothing here logs or leaves the device.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robot_rl.learner.agents._hand import done, hand_loss, misses, rewards, squared_errors
from robot_rl.learner.agents._parts import (
    AgentConfig,
    BaseAgent,
    Batch,
    LearnFn,
    SamplingPlan,
    features,
    frozen_copy,
)
from robot_rl.learner.compilation import Compiled
from robot_rl.learner.divergence import LARGEST_TEMPERATURE
from robot_rl.learner.schedule import linear_decay
from robot_rl.learner.windows import Window
from robot_rl.networks.actor_head import LOG_STD_MAX, LOG_STD_MIN, squashed_sample
from robot_rl.networks.choices import entropy_of, expected, taken
from robot_rl.networks.critic import Critics, detached, ensemble_values, members_of
from robot_rl.networks.policy_spec import HANDS, PolicySpec
from robot_rl.types import ConfigError


@dataclass(frozen=True)
class Config(AgentConfig):
    """Every default with its source.

    Attributes:
        critics: RLPD has 10 (sec. 4.3), HIL-SERL's release 2. In peg insertion from state, one
            seed, at 2,000 steps: 31 of 50 with 2 critics, 33 of 40 with 5; at 2,500 steps 86 of 100
            with 2 critics and twice the updates, 92 with 5.
        target_subset: how many of the critics, drawn anew each time, the target is the least of;
            RLPD and HIL-SERL: 2.
        discount: HIL-SERL's default; about 3 s of horizon at 10 Hz.
        n_step: rewards in the critic's target before it is bootstrapped, within the episode; 1 as
            RLPD and HIL-SERL.
        rescue_worth: what a return counts for behind a take-over, where an operator acts in the
            policy's place. 1: each bad state is worth what a rescue makes of it, and a policy is
            content to wait for one; 0: it is a failure. RLIF (arXiv 2311.12996) has a cost there in
            the place of any other reward.
        tau: share of the newest critics in the target's, per update; RLPD and HIL-SERL agree.
        learning_rate: of Adam; RLPD and HIL-SERL agree.
        hidden: widths of the layers of actor and critics; RLPD and HIL-SERL agree.
        batch_size: RLPD and HIL-SERL agree.
        demo_fraction: share of the demonstrations in each batch (RLPD, sec. 4.1).
        initial_temperature: HIL-SERL's; RLPD has 1.0, but with returns in [0, 1] a large entropy
            bonus drowns the reward.
        target_entropy_per_action: -1 for each entry of the action, as SAC (arXiv 1812.05905, table
            1). RLPD and HIL-SERL have -1/2, which leaves a std of 0.2: 1.6 mm of an 8 mm move,
            where a peg has 0.5 mm of air.
        log_std_max: of the policy's noise in each state. The entropy is one of all states together:
            where critics tell nothing apart the policy pays it, up to full deflection at random. In
            contact that helps, 150 steps before a reward it does not (docs/long_tasks.md).
        backup_entropy: no entropy in the critic's target, as RLPD for sparse rewards, and HIL-SERL.
        actor_period: the actor and the temperature move at each n-th update. RLPD: once per 20;
            HIL-SERL: 2.
        average_rate: share that the newest policy has in the running average of policies, per
            update of the actor. The average is what a checkpoint offers for evaluation and use
            (Polyak and Juditsky 1992); the actor explores with the newest one.
        bc_weight: of the BC term at the start. The term counts only where the critics rate the
            demonstrated action above the policy's (the Q filter of arXiv 1709.10089, eq. 6). Weight
            2 brought pixel runs to 90 % in a third of the steps, and kept to the end it left them
            swinging: hence the decay.
        bc_decay_steps: the environment step at which it has gone linearly to zero.
        bc_while_helped: of the BC term, the least while the policy needs help: it falls to zero with
            the share of the newest 20 own episodes that succeed without help, whatever the step.
            Where it is 0 a policy that cannot do a long task yet forgets at `bc_decay_steps` what
            it could (docs/long_tasks.md).
        bc_initial_updates: regression of the actor on the demonstrations before the first
            environment step. 0 for learning from a random policy.
        hand: what moves grippers. "joint": policy and critics. "separate": HIL-SERL's DQN of the
            grippers alone, which does not explore by itself.
        toggle_penalty: what an order that a hand carries out costs in the critics' target, not in
            any logged reward. HIL-SERL, LeRobot: 0.02; success is 1.
        target_entropy_per_choice: of each gripper's choice, as a share of log 3, the most there is.
            0.01: one order in 750 steps that the critics did not ask for. With 0.1, one in 50, a
            hand let go of what it carried as soon as its temperature had risen (docs/long_tasks.md);
            SAC for discrete actions has 0.98 (arXiv 1910.07207).
    """

    critics: int = 5
    target_subset: int = 2
    discount: float = 0.97
    n_step: int = 1
    rescue_worth: float = 1.0
    tau: float = 0.005
    learning_rate: float = 3e-4
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    demo_fraction: float = 0.5
    initial_temperature: float = 0.01
    target_entropy_per_action: float = -1.0
    log_std_max: float = LOG_STD_MAX
    backup_entropy: bool = False
    actor_period: int = 2
    average_rate: float = 1e-3
    bc_weight: float = 2.0
    bc_decay_steps: int = 5_000
    bc_while_helped: float = 0.0
    bc_initial_updates: int = 0
    hand: str = "joint"
    toggle_penalty: float = 0.02
    target_entropy_per_choice: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.target_subset <= self.critics:
            raise ConfigError(
                f"target_subset must be between 1 and critics ({self.critics}), not"
                f" {self.target_subset}"
            )
        if not 0.0 <= self.demo_fraction <= 1.0:
            raise ConfigError(f"demo_fraction must be between 0 and 1, not {self.demo_fraction}")
        if self.n_step < 1:
            raise ConfigError(f"n_step must be at least 1, not {self.n_step}")
        if not 0.0 < self.discount <= 1.0:
            raise ConfigError(f"discount must be more than 0 and at most 1, not {self.discount}")
        if not LOG_STD_MIN < self.log_std_max <= LOG_STD_MAX:
            raise ConfigError(f"log_std_max must be more than {LOG_STD_MIN:g} and at most {LOG_STD_MAX:g}"
                              f", not {self.log_std_max}")  # fmt: skip
        if not 0.0 <= self.rescue_worth <= 1.0:
            raise ConfigError(f"rescue_worth must be between 0 and 1, not {self.rescue_worth}")
        if not 0.0 < self.tau <= 1.0:
            raise ConfigError(f"tau must be more than 0 and at most 1, not {self.tau}")
        if not 0.0 < self.initial_temperature <= LARGEST_TEMPERATURE:
            raise ConfigError(f"initial_temperature must be more than 0 and at most {LARGEST_TEMPERATURE:g}, not "
                              f"{self.initial_temperature}")  # fmt: skip
        if self.actor_period < 1:
            raise ConfigError(f"actor_period must be at least 1, not {self.actor_period}")
        if self.hand not in HANDS:
            raise ConfigError(f"hand must be {' or '.join(HANDS)}, not {self.hand!r}")
        if not 0.0 <= self.bc_while_helped < math.inf:
            raise ConfigError(f"bc_while_helped must be at least 0, not {self.bc_while_helped}")
        if not 0.0 <= self.toggle_penalty < math.inf:
            raise ConfigError(f"toggle_penalty must be at least 0, not {self.toggle_penalty}")
        if not 0.0 <= self.target_entropy_per_choice < 1.0:
            raise ConfigError("target_entropy_per_choice must be at least 0 and less than 1, not "
                              f"{self.target_entropy_per_choice}")  # fmt: skip

    @property
    def policy_options(self) -> dict[str, Any]:
        return super().policy_options | {"hand": self.hand, "log_std_max": self.log_std_max}

    def bc_weight_at(self, env_steps: int, alone: float = 1.0) -> float:
        """Weight of the BC term after so many own steps, where a share `alone` of the newest own
        episodes succeeded without help.
        """
        decayed = linear_decay(self.bc_weight, self.bc_decay_steps, env_steps)
        return max(decayed, self.bc_while_helped * (1.0 - alone))


class Agent(BaseAgent):
    """Policy, critics, targets, temperature and their optimisers.

    ```
    agent = Agent(spec, config, seed=0)
    agent.policy.normaliser.fit(demo_states); agent.compile()
    while learning:
        metrics = agent.update(batch, env_steps)     # tensors; read them now and then
    ```
    Batches are those of `learner/replay.py`, gathered with this config's `n_step` and `discount`.
    They hold images, or what is cached of them where (a part of) the encoder is frozen.
    """

    has_critic = True
    moves_grippers: ClassVar[bool] = True
    config: Config
    critics: Critics

    def __init__(self, spec: PolicySpec, config: Config, seed: int, device: str = "cpu"):
        super().__init__(spec, config, seed, device)
        self._trained_vision = self.policy.trained_vision
        self.target_critics = self.modules["target_critics"] = frozen_copy(self.critics)
        self._trained: list[Tensor] = [*self.critics.parameters()]
        self._targets: list[Tensor] = [*self.target_critics.parameters()]
        self.target_vision: nn.Module | None = None
        if self._trained_vision is not None:
            self.target_vision = self.modules["target_vision"] = frozen_copy(self._trained_vision)
            self._trained += [*self._trained_vision.parameters()]
            self._targets += [*self.target_vision.parameters()]
        start = torch.tensor(config.initial_temperature, device=self.device)
        self.log_temperature = start.log().requires_grad_()
        self._temperatures = {"log_temperature": self.log_temperature}
        if spec.joint_choices:
            self.log_choice_temperature = start.log().requires_grad_()
            self._temperatures["log_choice_temperature"] = self.log_choice_temperature
        # one optimiser per loss, each over what that loss trains and nothing else
        self.optimizers = {
            "critic_optimizer": self.adam(self._trained),
            "actor_optimizer": self.adam(self.policy.head.parameters()),
            "temperature_optimizer": self.adam(self._temperatures.values()),
        }
        if self.policy.hand is not None:
            self.target_hand = self.modules["target_hand"] = frozen_copy(self.policy.hand)
            self.optimizers["hand_optimizer"] = self.adam(self.policy.hand.parameters())
        self._bc_weight = torch.zeros((), device=self.device)
        self._learn_fn: LearnFn = self.learn
        self._clone_fn: LearnFn = self.clone
        self._target_fn: Callable[..., Tensor] = self.critic_target
        self._critic_fn: Callable[..., tuple[Tensor, Tensor, Tensor]] = self.critic_loss
        self._actor_fn: Callable[..., tuple[Tensor, ...]] = self.actor_loss

    def networks(self) -> dict[str, nn.Module]:
        size = self.policy.feature_size + len(self.spec.actions.continuous)
        outputs = self.spec.joint_choices or 1
        self.critics = Critics(size, self.config.hidden, self.config.critics, outputs)
        return {"critics": self.critics}

    @property
    def plan(self) -> SamplingPlan:
        """Half demonstrations and corrections, half own experience (RLPD, sec. 4.1)."""
        config = self.config
        window = Window(config.n_step, config.discount, config.rescue_worth)
        return SamplingPlan(config.batch_size, config.demo_fraction, window)

    @property
    def period(self) -> int:
        return self.config.actor_period

    def scheduled(self, env_steps: int) -> dict[str, float]:
        return {"bc_weight": self.config.bc_weight_at(env_steps, self.alone)}

    def compile(self) -> None:
        """Compile the three equations when they are first called; without a working compiler they
        stay as they are. On a GPU an update of them is recorded, too.
        """
        self._target_fn = Compiled(self.critic_target)
        self._critic_fn = Compiled(self.critic_loss)
        self._actor_fn = Compiled(self.actor_loss)
        self._learn_fn, self._clone_fn = self.captured(self.learn), self.captured(self.clone)

    def critic_target(self, batch: Batch, noise: Tensor, members: Tensor) -> Tensor:
        """`y = R + discount^m (1 - terminated) sum_d pi(d|s') min_i Q'_i(s', a', d)` over the
        target critics `members`, `(B,)`; without choices d the sum is `min_i Q'_i(s', a')`.

        R sums the m rewards up to s', m = `n_step` or fewer at the end of the episode; the batch
        holds R (`reward`) and discount^m. A time limit is no termination: there the value is
        bootstrapped. R is less the penalty for toggles that were executed.
        """
        target = online = self.features(batch, "next")
        if self.target_vision is not None:
            target = features(self.policy, batch, "next", self.target_vision)
        mean, log_std, log_choices = self.policy.head.distributions(online)
        action, log_prob = squashed_sample(mean, log_std, noise)
        weights = members_of(self.target_critics.weights(), members)
        values = ensemble_values(weights, torch.cat([target, action], -1)).amin(0)
        value, reward = expected(values, log_choices), batch["reward"]
        if self.config.backup_entropy:
            value = value - self.log_temperature.exp() * log_prob
        if log_choices is not None:
            reward = rewards(batch, self.config.toggle_penalty)
            if self.config.backup_entropy:
                value = value + self.log_choice_temperature.exp() * entropy_of(log_choices)
        return reward + batch["discount"] * (1.0 - batch["terminated"]) * value

    def critic_loss(self, batch: Batch, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Squared error of every critic, summed over the critics; their mean value `(B,)` of what
        was executed; the features `(B, F)`.
        """
        features = self.features(batch)
        made = done(self.policy, batch, chosen=self.spec.joint_choices > 0)
        q = self.critics(features, made.action)
        loss = squared_errors(q, target, made).mean(1).sum()
        return loss, taken(q, made.choice).detach().mean(0), features.detach()

    def actor_loss(
        self, features: Tensor, batch: Batch, q_data: Tensor, noise: Tensor, bc_weight: Tensor
    ) -> tuple[Tensor, ...]:
        """`temperature log pi - sum_d pi(d|s) mean_i Q_i(s, a, d)` less the weighted entropy of the
        choices, plus the BC term; the log-densities `(B,)`; the BC term alone; with choices, their
        entropy.

        The BC term is the squared distance of the policy's mode to the action taken, and the
        cross-entropy of the choice, over demonstrations and corrections, where the critics rate
        that action (`q_data`) above the policy's.
        """
        seen = self.disturbed(batch, features)
        mean, log_std, log_choices = self.policy.head.distributions(seen)
        action, log_prob = squashed_sample(mean, log_std, noise)
        values = ensemble_values(
            detached(self.critics.weights()), torch.cat([features, action], -1)
        ).mean(0)
        q = expected(values, log_choices)
        sac = (self.log_temperature.exp().detach() * log_prob - q).mean()
        counted = batch["demo"] * (q_data > q.detach())
        distance = misses(self.policy, mean, log_choices, batch)
        bc = (counted * distance).sum() / batch["demo"].sum().clamp(min=1.0)
        if log_choices is None:
            return sac + bc_weight * bc, log_prob.detach(), bc.detach()
        spread = entropy_of(log_choices).mean()
        sac = sac - self.log_choice_temperature.exp().detach() * spread
        return sac + bc_weight * bc, log_prob.detach(), bc.detach(), spread.detach()

    def update(self, batch: Batch, env_steps: int = 0) -> dict[str, Tensor]:
        """One step of the critics, and of actor and temperature if it is their turn. Returns
        metrics as tensors.
        """
        self.updates += 1
        self._bc_weight.fill_(self.config.bc_weight_at(env_steps, self.alone))
        return self._learn_fn(batch, self.updates % self.config.actor_period == 0)

    def learn(self, batch: Batch, acts: bool) -> dict[str, Tensor]:
        """The update itself, which reads nothing but tensors; `acts`: it is the actor's turn."""
        # critics: a target from a random subset of the target critics, without replacement
        members = torch.randperm(self.config.critics, generator=self.generator, device=self.device)
        with torch.no_grad():
            target = self._target_fn(
                batch, self._noise(batch), members[: self.config.target_subset]
            )
        loss, q_data, features = self._critic_fn(batch, target)
        self.step("critic_optimizer", loss)
        with torch.no_grad():  # Polyak: target <- (1 - tau) target + tau online
            torch._foreach_lerp_(self._targets, self._trained, self.config.tau)
        metrics = {
            "critic_loss": loss.detach(),
            "q_mean": q_data.mean(),
            "target_mean": target.mean(),
        }
        if self.policy.hand is not None:
            metrics |= self._update_hand(features, batch)
        return metrics | (self._update_actor(features, batch, q_data) if acts else {})

    def _update_actor(self, features: Tensor, batch: Batch, q_data: Tensor) -> dict[str, Tensor]:
        loss, log_prob, bc, *spread = self._actor_fn(
            features, batch, q_data, self._noise(batch), self._bc_weight
        )
        self.step("actor_optimizer", loss)
        self.follow_average()
        # temperatures: each rises while its entropy is below its target
        entropy = -log_prob.mean()
        goal = self.config.target_entropy_per_action * len(self.spec.actions.continuous)
        excess = self.log_temperature.exp() * (entropy - goal)
        if spread:
            goal = self.config.target_entropy_per_choice * math.log(self.spec.choices)
            excess = excess + self.log_choice_temperature.exp() * (spread[0] - goal)
        self.step("temperature_optimizer", excess)
        metrics = {"actor_loss": loss.detach(), "bc_loss": bc, "entropy": entropy}
        metrics |= {name[4:]: log.detach().exp() for name, log in self._temperatures.items()}
        return metrics | ({"choice_entropy": spread[0]} if spread else {})

    def _update_hand(self, features: Tensor, batch: Batch) -> dict[str, Tensor]:
        """One step of a separate hand's critic and of its target."""
        assert self.policy.hand is not None
        with torch.no_grad():
            there = self.features(batch, "next")
        penalty = self.config.toggle_penalty
        loss = hand_loss(self.policy, self.target_hand, batch, features, there, penalty)
        self.step("hand_optimizer", loss)
        with torch.no_grad():
            ours, theirs = self.target_hand.parameters(), self.policy.hand.parameters()
            torch._foreach_lerp_([*ours], [*theirs], self.config.tau)
        return {"hand_loss": loss.detach()}

    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]:
        """One step of plain BC of the actor on a batch of demonstrations, before any reinforcement
        and any average.
        """
        return self._clone_fn(batch)

    def clone(self, batch: Batch) -> dict[str, Tensor]:
        """The step itself, which reads nothing but tensors."""
        with torch.no_grad():
            features = self.disturbed(batch, self.features(batch))
        mean, _, log_choices = self.policy.head.distributions(features)
        loss = misses(self.policy, mean, log_choices, batch).mean()
        self.step("actor_optimizer", loss)
        with torch.no_grad():
            torch._foreach_copy_(self.averages, self.averaged)
        return {"bc_loss": loss.detach()}

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """The policy's modes at the observations `(B, A)`, or at the next ones, and each critic's
        value of them.
        """
        features = self.features(batch, prefix)
        modes = self.policy.modes(features)
        action, choice = self.policy.parts.split(modes)
        values = self.critics(features, action)
        return modes, taken(values, choice if self.spec.joint_choices else None)

    def _noise(self, batch: Batch) -> Tensor:
        shape = (batch["action"].shape[0], len(self.spec.actions.continuous))
        return torch.randn(shape, generator=self.generator, device=self.device)

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {n: log.detach() for n, log in self._temperatures.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        super().load_state_dict(state)
        with torch.no_grad():
            for name, log in self._temperatures.items():
                log.copy_(state[name])
