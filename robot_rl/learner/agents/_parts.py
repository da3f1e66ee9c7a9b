"""What every algorithm is made of: the class that it builds on, and the features of a batch."""

import copy
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from robot_rl.learner.batches import SamplingPlan as SamplingPlan
from robot_rl.learner.compilation import Captured
from robot_rl.networks.encoders import convolution_dtype
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import Array, ConfigError, DataError

Batch = Mapping[str, Tensor]
LearnFn = Callable[..., dict[str, Tensor]]
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class AgentConfig:
    """The options that every algorithm has; its own `Config` adds to them, or has other defaults."""

    hidden: tuple[int, ...] = (256, 256)
    """Widths of the policy's layers."""
    batch_size: int = 256
    """Transitions in an update."""
    learning_rate: float = 3e-4
    """Of Adam."""
    average_rate: float = 1e-3
    """Share that the newest policy has in the running average of policies, per update of it."""
    bc_initial_updates: int = 0
    """Updates on the demonstrations alone before the first own step."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "average_rate"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ConfigError(
                    f"{name} must be more than 0 and at most 1, not {getattr(self, name)}"
                )
        if self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {self.batch_size}")

    @property
    def policy_options(self) -> dict[str, Any]:
        """Fields of the `PolicySpec` that follow from them."""
        return {"hidden": self.hidden}


class BaseAgent:
    """A learning algorithm: a policy, its running average, further networks and optimisers.

    `learner/training.py` is its caller, and asks for nothing else:

    ```
    agent = Agent(spec, config, seed, device)
    agent.policy.normaliser.fit(demo_states); agent.begin_average()
    for batch in demonstrations:                                # config.bc_initial_updates
        agent.clone_behaviour(batch)
    while learning:                                             # batches as agent.plan says
        metrics = agent.update(batch, env_steps)                # tensors; read them now and then
    modes, q = agent.assess(batch, "next")                      # (B, A), (critics, B) of these
    ```
    An algorithm is a file with a dataclass `Config(AgentConfig)` and a class `Agent(BaseAgent)`,
    which must define `update` alone. There is an optimiser (Adam) of each of the `modules`, called
    NAME_optimizer, unless the algorithm puts others into `optimizers`. `state_dict`, from which a
    resumed run goes on, holds both and the `generator`.
    """

    offline: ClassVar[bool] = False
    """It learns from the demonstrations alone, and a run has no steps of its own."""
    has_critic: ClassVar[bool] = False
    """It learns what a state is worth; without a critic `assess` has no row of `q`."""
    moves_grippers: ClassVar[bool] = False
    """It learns choices beside numbers (`networks/choices.py`); a task that moves grippers needs it."""
    alone: float = 0.0
    """The share of the newest own episodes that succeeded without help, as the learner says it."""
    config: Any

    def __init__(self, spec: PolicySpec, config: Any, seed: int, device: str = "cpu"):
        if spec.choices and not self.moves_grippers:
            moved = ", ".join(spec.actions.names[i] for i in spec.actions.discrete)
            raise ConfigError(
                f"{type(self).__module__.rpartition('.')[2]} moves no gripper, and the task wants"
                f" {moved} moved: take --learner.algorithm rlpd, hg_dagger or bc"
            )
        self.spec, self.config, self.device = spec, config, torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = Policy(spec).to(self.device)
            self.modules: dict[str, nn.Module] = {"policy": self.policy} | {
                name: module.to(self.device) for name, module in self.networks().items()
            }
        changing = self.policy.trained_names()
        for name, parameter in self.policy.named_parameters():
            parameter.requires_grad_(name in changing)
        if self.policy.vision is not None and self.policy.trained_vision is not None:
            self.policy.vision.set_dtype(convolution_dtype(self.device))
        self.average = self.modules["average"] = frozen_copy(self.policy)
        self.averaged, self.averages = averaged(self.policy, self.average)
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            f"{name}_optimizer": self.adam(trained)
            for name, module in self.modules.items()
            if (trained := [p for p in module.parameters() if p.requires_grad])
        }
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.updates = 0
        self._captured: list[Captured] = []

    def adam(self, trained: Iterable[Tensor]) -> torch.optim.Adam:
        """An optimiser of these parameters, at the config's rate."""
        rate, on_gpu = self.config.learning_rate, self.device.type == "cuda"
        return torch.optim.Adam(trained, rate, fused=True, capturable=on_gpu)

    def captured(self, learn: LearnFn) -> LearnFn:
        """`learn(batch, *turn)` as it is on a CPU, in one launch on a GPU (`Captured`)."""
        if self.device.type != "cuda":
            return learn
        self._captured.append(Captured(learn, self.generator))
        return self._captured[-1]

    def networks(self) -> dict[str, nn.Module]:
        """Further networks by name, made behind the policy. None, if not said."""
        return {}

    @property
    def plan(self) -> SamplingPlan:
        """What its batches are: half of each from demonstrations and corrections, if not said."""
        return SamplingPlan(self.config.batch_size)

    @property
    def period(self) -> int:
        """After so many updates each part of the algorithm has had its turn; 1, if not said."""
        return 1

    def compile(self) -> None:
        """Compile what an update calls, when it is first called. Nothing, if not said."""

    def scheduled(self, env_steps: int) -> dict[str, float]:
        """Figures for the metrics that follow from the number of own steps. None, if not said."""
        return {}

    def update(self, batch: Batch, env_steps: int = 0) -> dict[str, Tensor]:
        """One update, `env_steps` own steps into the run. Returns metrics as tensors."""
        raise NotImplementedError

    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]:
        """One update on a batch of demonstrations, before any own step. An update, if not said."""
        return self.update(batch)

    @torch.no_grad()
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]:
        """The policy's modes at the observations `(B, A)`, or at the next ones with `prefix`
        "next", and each critic's value of them `(critics, B)`."""
        modes = self.policy.modes(self.features(batch, prefix))
        return modes, modes.new_empty(0, len(modes))

    def gradient_norms(self) -> dict[str, Tensor]:
        """`NAME_grad_norm` of the newest update, by optimiser; the policy's is `actor`."""
        norms = {}
        for name, optimizer in self.optimizers.items():
            trained = (p for group in optimizer.param_groups for p in group["params"])
            if gradients := [p.grad for p in trained if p.grad is not None]:
                kind = name.removesuffix("_optimizer")
                kind = "actor" if kind in ("optimizer", "policy") else kind
                norms[f"{kind}_grad_norm"] = torch.nn.utils.get_total_norm(gradients)
        return norms

    def features(self, batch: Batch, prefix: str = "") -> Tensor:
        """What the policy's head sees `(B, F)`, or of the next observations with `prefix` "next"."""
        return features(self.policy, batch, prefix, self.policy.trained_vision)

    def disturbed(self, batch: Batch, features: Tensor) -> Tensor:
        """What the policy learns to act on `(B, F)`: these `features` of the batch, with the noise
        of `learner.sight_noise` if there is any.
        """
        if "disturbed" not in batch:
            return features
        return self.policy.features(batch["state"], batch["disturbed"].float())

    def step(self, name: str, loss: Tensor) -> Tensor:
        """One step of the optimiser `name` down a loss; the loss, without its graph."""
        self.optimizers[name].zero_grad(set_to_none=True)
        loss.backward()
        self.optimizers[name].step()
        return loss.detach()

    def follow_average(self) -> None:
        """The average goes `average_rate` of the way to the policy."""
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, self.averaged, self.config.average_rate)

    def follow(self, name: str, leader: str, rate: float) -> None:
        """A module's parameters go this share of the way to those of another."""
        ours, theirs = (self.modules[n].parameters() for n in (name, leader))
        with torch.no_grad():
            torch._foreach_lerp_([*ours], [*theirs], rate)

    def begin_average(self) -> None:
        """The average begins with the policy as it is now: scaled, pretrained, cloned."""
        self.average.load_state_dict(self.policy.state_dict())

    def policy_parameters(self) -> dict[str, Array]:
        """What the actor needs anew after each training block."""
        return self.policy.arrays(changing=True)

    def average_parameters(self) -> dict[str, Array]:
        """All of the averaged policy, for evaluation and use."""
        return self.average.arrays(changing=True) | self.average.arrays(changing=False)

    def frozen_parameters(self) -> dict[str, Array]:
        """What the actor needs once: normaliser and frozen encoder."""
        return self.policy.arrays(changing=False)

    def state_dict(self) -> dict[str, Tensor]:
        """All of it as flat, named tensors: the next update after `load_state_dict` is the one that
        would have been."""
        out = {
            f"{m}.{n}": t for m, net in self.modules.items() for n, t in net.state_dict().items()
        }
        for name, optimizer in self.optimizers.items():
            for i, moments in optimizer.state_dict()["state"].items():
                out |= {f"{name}.{i}.{key}": value for key, value in moments.items()}
        return out | {
            "generator": self.generator.get_state(),
            "updates": torch.tensor(self.updates),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave. Raises DataError if it is another agent's."""
        try:
            for name, module in self.modules.items():
                module.load_state_dict(_part(state, name))
            for name, optimizer in self.optimizers.items():
                moments: dict[int, dict[str, Tensor]] = {}
                for key, value in _part(state, name).items():
                    i, moment = key.split(".")
                    moments.setdefault(int(i), {})[moment] = value.clone()
                optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
            self.updates = int(state["updates"])
            for recorded in self._captured:
                recorded.forget()  # the optimisers have other tensors now
        except (KeyError, RuntimeError) as error:
            raise DataError(
                f"this checkpoint was made with other networks than this run's: {error}"
            ) from error
        if "generator" in state:  # (behaviour cloning's have none from before it had one)
            self._load_generator(state["generator"].cpu())

    def _load_generator(self, drawn: Tensor) -> None:
        if drawn.numel() == self.generator.get_state().numel():
            self.generator.set_state(drawn)
        else:  # of another kind of device
            self.generator.manual_seed(zlib.crc32(drawn.numpy().tobytes()))


def features(policy: Policy, batch: Batch, prefix: str, vision: nn.Module | None) -> Tensor:
    """What the networks of an agent see `(B, F)`; `prefix` is "" or "next". `vision` is what is
    trained of the encoder:
    it reads images or the cache; None: the cache is all."""
    state = batch["next_state" if prefix else "state"]
    if not policy.spec.cameras:
        return policy.features(state, None)
    if policy.info.cached:
        cached = batch["next_vision" if prefix else "vision"].float()
        return policy.features(state, cached if vision is None else vision(cached))
    head = "next/image/" if prefix else "image/"
    images = {name: batch[head + name] for name in policy.spec.cameras}
    return policy.features(state, vision(images) if vision is not None else None)


def averaged(policy: Policy, average: Policy) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters that learning changes, and those of the running average that follow them, in
    one order.
    """
    ours, theirs = dict(policy.named_parameters()), dict(average.named_parameters())
    names = [name for name in policy.trained_names() if name in ours]
    return [ours[name] for name in names], [theirs[name] for name in names]


def frozen_copy(module: M) -> M:
    return copy.deepcopy(module).requires_grad_(False)


def _part(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one module or optimiser, by their names in it."""
    return {
        key.removeprefix(name + "."): t for key, t in state.items() if key.startswith(name + ".")
    }
