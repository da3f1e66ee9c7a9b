"""Trunks and their readouts, and modules of a user's own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl.learner.options import LearnerConfig
from robot_rl.networks.policy import LivePolicy, Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.trunks import Readout, TrunkVision
from robot_rl.networks.vision import ENCODERS, encoder_info, make_vision
from robot_rl.types import ConfigError
from tests.networks.test_policy import SPACE, observe

MINE = '''
import torch
from torch import nn

class Mean(nn.Module):
    """The mean colour of an image."""
    frozen = True
    def __init__(self):
        super().__init__()
        self.register_buffer("gain", torch.ones(3))
    def forward(self, image):
        return image.float().mean((1, 2)) / 255.0 * self.gain

class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 8, 8)
    def forward(self, image):
        return self.conv(image.permute(0, 3, 1, 2) / 255.0)

class Batch(Trained):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(5)

class Size(nn.Module):
    def __init__(self, size):
        super().__init__()

class Whole(nn.Module):
    def forward(self, image):
        return image

class Fails(nn.Module):
    def forward(self, image):
        return image.no_such_thing

not_a_module = 3
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a user's module in the working directory."""
    (tmp_path / "my_eyes.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "module:my_eyes"


def images(count: int = 2) -> dict[str, torch.Tensor]:
    return {
        name: torch.randint(0, 256, (count, 40, 48, 3), dtype=torch.uint8)
        for name in ("wrist", "front")
    }


def test_a_frozen_module_of_ones_own_sees_through_all_cameras_once(mine: str) -> None:
    assert (
        encoder_info(mine + ":Mean").cached and encoder_info(mine + ":Mean").trained == "readouts"
    )
    policy = Policy(PolicySpec.from_space(SPACE, mine + ":Mean", camera_features=7))
    vision, seen = policy.vision, images()
    assert isinstance(vision, TrunkVision) and len(vision.trunks) == 1 and vision.cached_size == 6
    colours = torch.cat(
        [seen[name].float().mean((1, 2)) / 255.0 for name in ("wrist", "front")], -1
    )
    assert torch.allclose(vision.look(seen), colours)
    assert torch.equal(vision(seen), vision.readouts(vision.look(seen)))
    assert not any(name.startswith("vision.trunks") for name in policy.trained_names())
    live = LivePolicy(
        json.loads(json.dumps(policy.spec.to_json())), policy.arrays(True) | policy.arrays(False)
    )
    assert np.array_equal(
        live.act(observe(), greedy=True), policy.act(observe(), True, np.random.default_rng(0))
    )


def test_a_trained_module_of_ones_own_is_one_per_camera(mine: str) -> None:
    assert (
        not encoder_info(mine + ":Trained").cached
        and encoder_info(mine + ":Trained").trained == "all"
    )
    policy = Policy(PolicySpec.from_space(SPACE, mine + ":Trained"))
    assert isinstance(policy.vision, TrunkVision) and len(policy.vision.trunks) == 2
    assert {"vision.trunks.0.conv.weight", "vision.trunks.1.conv.weight"} <= set(
        policy.trained_names()
    )
    assert policy.trained_vision is policy.vision
    changed = images()
    features = policy.vision(changed)
    changed["front"] = changed["front"].flip(1)
    assert torch.equal(features[:, :64], policy.vision(changed)[:, :64])
    assert not torch.equal(features[:, 64:], policy.vision(changed)[:, 64:])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Batch", r"batch normalisation \(norm\)"),
        ("Size", "without arguments"),
        ("Whole", r"gives torch.uint8 \(1, 40, 48, 3\)"),
        ("Fails", "fails on a uint8 image"),
        ("not_a_module", "no torch.nn.Module of the name 'not_a_module'"),
        ("Nobody", "no torch.nn.Module of the name 'Nobody'"),
        ("", "names no class"),
    ],
)
def test_a_module_that_will_not_do_says_why(name: str, said: str, mine: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Policy(PolicySpec.from_space(SPACE, f"{mine}:{name}"))


def test_a_module_that_is_nowhere_says_where_it_was_looked_for(mine: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be imported from {Path.cwd()}"):
        encoder_info("module:nowhere.at_all:Eye")


def test_an_encoder_that_there_is_not_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'resnet10'"):
        LearnerConfig(encoder="resnet18")
    with pytest.raises(ConfigError, match="encoder_weights"):
        LearnerConfig(encoder="resnet10")
    assert LearnerConfig(encoder="module:a.b:C").encoder == "module:a.b:C"


def test_spatial_embeddings_weigh_the_places_of_each_channel() -> None:
    readout = Readout(torch.Size((5, 3, 2)), 4)
    assert readout.kernel is not None
    maps = torch.randn(6, 5, 3, 2)
    kernel = readout.kernel.reshape(5, 3, 2, 8)
    summed = (maps[..., None] * kernel).sum((2, 3)).reshape(6, 40)
    wanted = torch.tanh(readout.norm(readout.project(summed)))
    assert torch.allclose(readout(maps.flatten(1)), wanted, atol=1e-6)


@pytest.mark.parametrize("encoder", [name for name, info in ENCODERS.items() if info.cached])
def test_what_is_cached_and_what_is_trained_make_the_whole(encoder: str) -> None:
    vision, seen = (
        make_vision(encoder, ("wrist", "front"), (40, 48), 8, 6 * ENCODERS[encoder].goal),
        images(),
    )
    cached = vision.look(seen)
    assert cached.shape == (2, vision.cached_size)
    whole = vision.readouts(cached) if isinstance(vision, TrunkVision) else cached
    assert torch.equal(whole, vision(seen)) and whole.shape == (2, vision.size)
