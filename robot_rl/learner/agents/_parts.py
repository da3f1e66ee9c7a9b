"""What every agent is made of: what it offers, the features of a batch, and its state as flat, named tensors."""

import copy
from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from robot_rl.networks.policy import Policy
from robot_rl.types import Array, DataError

Batch = Mapping[str, Tensor]
M = TypeVar("M", bound=nn.Module)


class AnyAgent(Protocol):
    """What `learner/training.py` asks of an agent, whichever it is.

    ```
    agent = Agent(spec, config, seed, device)
    agent.policy.normaliser.fit(demo_states); agent.begin_average()
    for batch in demonstrations: agent.clone_behaviour(batch)      # config.bc_initial_updates
    while learning: metrics = agent.update(batch, bc_weight)       # tensors; read them now and then
    modes, q = agent.assess(batch, "next")                         # (B, A), and (critics, B) of these
    ```
    offline: it learns from the demonstrations alone, and a run has no steps of its own. has_critic: whether it learns
    what a state is worth; without one `assess` has no row of `q`. `gradient_norms` are those of the newest update.
    """

    offline: ClassVar[bool]
    has_critic: ClassVar[bool]
    policy: Policy
    average: Policy

    def compile(self) -> None: ...
    def begin_average(self) -> None: ...
    def clone_behaviour(self, batch: Batch) -> dict[str, Tensor]: ...
    def update(self, batch: Batch, bc_weight: float = 0.0) -> dict[str, Tensor]: ...
    def assess(self, batch: Batch, prefix: str = "") -> tuple[Tensor, Tensor]: ...
    def gradient_norms(self) -> dict[str, Tensor]: ...
    def policy_parameters(self) -> dict[str, Array]: ...
    def average_parameters(self) -> dict[str, Array]: ...
    def frozen_parameters(self) -> dict[str, Array]: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...


def features(policy: Policy, batch: Batch, prefix: str, vision: nn.Module | None) -> Tensor:
    """What the networks of an agent see `(B, F)`; `prefix` is "" or "next". `vision` is what is trained of the encoder:
    it reads images or the cache; None: the cache is all."""
    state = batch["next_state" if prefix else "state"]
    if not policy.spec.cameras:
        return policy.features(state, None)
    if policy.spec.traits.cached:
        cached = batch["next_vision" if prefix else "vision"].float()
        return policy.features(state, cached if vision is None else vision(cached))
    head = "next/image/" if prefix else "image/"
    images = {name: batch[head + name] for name in policy.spec.cameras}
    return policy.features(state, vision(images) if vision is not None else None)


def gradient_norms(**parameters: Iterable[Tensor]) -> dict[str, Tensor]:
    """`NAME_grad_norm` over the newest gradients of each group of parameters that has any."""
    gradients = {name: [p.grad for p in group if p.grad is not None] for name, group in parameters.items()}
    return {f"{name}_grad_norm": torch.nn.utils.get_total_norm(g) for name, g in gradients.items() if g}


def averaged(policy: Policy, average: Policy) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters that learning changes, and those of the running average that follow them, in one order."""
    ours, theirs = dict(policy.named_parameters()), dict(average.named_parameters())
    names = [name for name in policy.trained_names() if name in ours]
    return [ours[name] for name in names], [theirs[name] for name in names]


def frozen_copy(module: M) -> M:
    return copy.deepcopy(module).requires_grad_(False)


def state_of(modules: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Adam]) -> dict[str, Tensor]:
    """Networks and optimisers as flat, named tensors."""
    out = {f"{m}.{n}": t for m, module in modules.items() for n, t in module.state_dict().items()}
    for name, optimizer in optimizers.items():
        for i, moments in optimizer.state_dict()["state"].items():
            out |= {f"{name}.{i}.{key}": value for key, value in moments.items()}
    return out


def load_state(
    modules: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Adam], state: Mapping[str, Tensor]
) -> None:
    """Take over what `state_of` gave. Raises DataError if it is another agent's."""
    try:
        for name, module in modules.items():
            module.load_state_dict({n.removeprefix(name + "."): t for n, t in state.items() if _of(n, name)})
        for name, optimizer in optimizers.items():
            moments: dict[int, dict[str, Tensor]] = {}
            for key, value in state.items():
                if _of(key, name):
                    _, i, moment = key.split(".")
                    moments.setdefault(int(i), {})[moment] = value.clone()
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except (KeyError, RuntimeError) as error:
        raise DataError(f"this checkpoint was made with other networks than this run's: {error}") from error


def _of(name: str, module: str) -> bool:
    return name.startswith(module + ".")
