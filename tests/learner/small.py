"""Small agents and batches for the tests of the learner."""

import numpy as np
import torch

from robot_rl.learner.agents.rlpd import Agent
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.networks.policy import PolicySpec
from robot_rl.types import SpaceSpec

PIXELS = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((40, 40, 3), "uint8")}, 3
)
SPACES = {
    "none": SpaceSpec.unnamed(
        {"state/tcp_pose": ((6,), "float32"), "state/x": ((2,), "float32")}, 3
    ),
    "goal": PIXELS,
    "end_to_end": PIXELS,
    "resnet10": PIXELS,
}


def make_agent(encoder: str = "none", seed: int = 0, **options: object) -> Agent:
    spec = PolicySpec.from_space(SPACES[encoder], encoder, camera_features=8, hidden=(32, 32))
    small = {"hidden": (32, 32), "batch_size": 16, "critics": 2, "actor_period": 1}
    return Agent(spec, RLPDConfig(**(small | options)), seed)  # type: ignore[arg-type]


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
