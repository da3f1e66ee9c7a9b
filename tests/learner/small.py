"""Small agents and batches for the tests of the learner."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from robot_rl.learner.agents.rlpd import Agent
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, SpaceSpec

PIXELS = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((40, 40, 3), "uint8")}, 3
)
SPACES = {
    "none": SpaceSpec.unnamed(
        {"state/tcp_pose": ((6,), "float32"), "state/x": ((2,), "float32")}, 3
    ),
    "goal": PIXELS,
    "goal_points": PIXELS,
    "end_to_end": PIXELS,
    "resnet10": PIXELS,
}
TWO_HANDS = ActionSpec(("left.x", "left.rz", "left hand", "right.x", "right hand"), (2, 4))


def spec_of(encoder: str = "none", actions: ActionSpec | None = None, **options: Any) -> PolicySpec:
    space = SPACES[encoder] if actions is None else replace(SPACES[encoder], actions=actions)
    return PolicySpec.from_space(space, encoder, camera_features=8, hidden=(32, 32), **options)


def make_agent(
    encoder: str = "none", seed: int = 0, actions: ActionSpec | None = None, **options: Any
) -> Agent:
    small: dict[str, Any] = {"hidden": (32, 32), "batch_size": 16, "critics": 2, "actor_period": 1}
    config = RLPDConfig(**(small | options))
    return Agent(spec_of(encoder, actions, hand=config.hand), config, seed)


def make_batch(agent: Agent, seed: int = 0, size: int = 16) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    spec = agent.spec
    batch = {
        "state": torch.randn(size, spec.state_size, generator=g),
        "next_state": torch.randn(size, spec.state_size, generator=g),
        "action": torch.rand(size, spec.action_size, generator=g) * 2 - 1,
        "reward": torch.rand(size, generator=g),
        "terminated": torch.zeros(size),
        "discount": torch.full((size,), agent.config.discount),
        "demo": (torch.arange(size) < size // 2).float(),
    }
    if hands := list(spec.actions.discrete):
        orders = torch.randint(-1, 2, (2, size, len(hands)), generator=g).float()
        batch["ordered"], done = orders[0], orders[0] * orders[1].abs()  # a third are refused
        batch["action"][:, hands] = done
        batch["toggles"] = done.abs().sum(-1)
    if spec.info.cached:
        for name in ("vision", "next_vision"):
            batch[name] = torch.randn(size, agent.policy.cached_size, generator=g).half()
    else:
        for camera in spec.cameras:
            for prefix in ("image/", "next/image/"):
                shape = (size, *spec.image_size, 3)
                batch[prefix + camera] = torch.randint(
                    0, 256, shape, generator=g, dtype=torch.uint8
                )
    return batch


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def snapshot(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
