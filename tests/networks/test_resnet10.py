"""The ResNet-10 is the published one: its weights fit by either name, and give what the paper's
code computes.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from robot_rl.networks import resnet10
from robot_rl.networks.resnet10 import CHANNELS, MEAN, STD, ResNet10, load_weights, pad_same
from robot_rl.types import ConfigError

DOCS = Path(__file__).parents[2] / "docs" / "seeing.md"
Weights = dict[str, Tensor]


def flax_weights() -> Weights:
    """Random weights with the names and shapes of SERL's resnet10_params: kernels are (height,
    width, in, out).
    """
    g = torch.Generator().manual_seed(0)
    out = {"conv_init/kernel": (7, 7, 3, 64), "norm_init/scale": (64,), "norm_init/bias": (64,)}
    for i, n in enumerate(CHANNELS):
        n_in, block = CHANNELS[max(i - 1, 0)], f"ResNetBlock_{i}"
        out |= {f"{block}/Conv_0/kernel": (3, 3, n_in, n), f"{block}/Conv_1/kernel": (3, 3, n, n)}
        norms = ["MyGroupNorm_0", "MyGroupNorm_1"] + ["norm_proj"] * (n_in != n)
        out |= {f"{block}/{norm}/{part}": (n,) for norm in norms for part in ("scale", "bias")}
        if n_in != n:
            out[f"{block}/conv_proj/kernel"] = (1, 1, n_in, n)
    out["output_head/kernel"] = (512, 1000)  # the classifier's, which nobody wants
    return {
        name: 0.05 * torch.randn(shape, generator=g) + float("scale" in name)
        for name, shape in out.items()
    }


def port_weights(wrapped: bool) -> Weights:
    """The same with the names of helper2424/resnet10, whose revisions wrap convolutions and norms
    or do not.
    """
    names = {
        "conv_init": "embedder.0",
        "norm_init": "embedder.1",
        "Conv_0": "conv1",
        "Conv_1": "conv2",
    }
    names |= {
        "MyGroupNorm_0": "norm1",
        "MyGroupNorm_1": "norm2",
        "conv_proj": "shortcut.0",
        "norm_proj": "shortcut.1",
    }
    out = {}
    for name, tensor in flax_weights().items():
        *block, layer, kind = name.split("/")
        if layer == "output_head":
            continue
        prefix = f"encoder.stages.{block[0][-1]}." if block else ""
        wrapper = (
            ""
            if not wrapped or layer == "conv_init"
            else ".conv"
            if kind == "kernel"
            else ".group_norm"
        )
        part = "bias" if kind == "bias" else "weight"
        out[f"{prefix}{names[layer]}{wrapper}.{part}"] = (
            tensor.permute(3, 2, 0, 1).contiguous() if kind == "kernel" else tensor
        )
    return out


def as_published(weights: Weights, image: Tensor) -> Tensor:
    """The computation once more, after resnet_v1.py: flax pads "SAME" wherever it is not told
    otherwise.
    """

    def same(x: Tensor, window: int, stride: int) -> Tensor:
        totals = [max((-(-n // stride) - 1) * stride + window - n, 0) for n in x.shape[2:]]
        top, left = (total // 2 for total in totals)
        return F.pad(x, (left, totals[1] - left, top, totals[0] - top))

    def conv(x: Tensor, name: str, stride: int) -> Tensor:
        kernel = weights[f"{name}/kernel"]
        x = F.pad(x, (3, 3, 3, 3)) if name == "conv_init" else same(x, len(kernel), stride)
        return F.conv2d(x, kernel.permute(3, 2, 0, 1), stride=stride)

    def norm(x: Tensor, name: str) -> Tensor:
        return F.group_norm(x, 4, weights[f"{name}/scale"], weights[f"{name}/bias"], 1e-5)

    x = ((image.float() / 255.0 - torch.tensor(MEAN)) / torch.tensor(STD)).permute(0, 3, 1, 2)
    x = F.max_pool2d(same(F.relu(norm(conv(x, "conv_init", 2), "norm_init")), 3, 2), 3, 2)
    for i in range(4):
        block, stride = f"ResNetBlock_{i}", 1 if i == 0 else 2
        y = F.relu(norm(conv(x, f"{block}/Conv_0", stride), f"{block}/MyGroupNorm_0"))
        y = norm(conv(y, f"{block}/Conv_1", 1), f"{block}/MyGroupNorm_1")
        if i:
            x = norm(conv(x, f"{block}/conv_proj", stride), f"{block}/norm_proj")
        x = F.relu(x + y)
    return x


def save_torch(weights: Weights, path: Path) -> None:
    torch.save(weights, path)


WAYS: dict[str, tuple[str, Callable[[Weights, Path], None], Callable[[], Weights]]] = {
    "flax": ("a.safetensors", save_file, flax_weights),
    "port": ("a.safetensors", save_file, lambda: port_weights(False)),
    "wrapped port": ("a.safetensors", save_file, lambda: port_weights(True)),
    "port, torch": ("pytorch_model.bin", save_torch, lambda: port_weights(True)),
    "flax, torch": ("a.pt", save_torch, flax_weights),
}


@pytest.mark.parametrize("way", WAYS)
def test_published_weights_of_every_format_give_the_published_maps(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resnet10, "convolution_dtype", lambda device: torch.float32)
    name, save, weights = WAYS[way]
    save(weights(), tmp_path / name)
    trunk = ResNet10()
    load_weights(trunk, tmp_path / name)
    image = torch.randint(0, 256, (2, 70, 50, 3), dtype=torch.uint8)  # odd sizes on the way
    maps = trunk(image)
    assert maps.shape == (2, 512, 3, 2)
    assert torch.allclose(maps, as_published(flax_weights(), image), atol=1e-3)


def test_the_trunk_has_the_published_number_of_weights() -> None:
    """36 tensors with 4,905,792 numbers are in resnet10_params.pkl, without its classifier's head."""
    trunk = ResNet10()
    assert (len(trunk.state_dict()), sum(p.numel() for p in trunk.parameters())) == (36, 4_905_792)
    assert trunk(torch.zeros(1, 128, 128, 3, dtype=torch.uint8)).shape == (1, 512, 4, 4)


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (5, 4)])
def test_same_padding_halves_and_rounds_up(size: tuple[int, int]) -> None:
    out = F.max_pool2d(pad_same(torch.rand(1, 1, *size)), 3, 2)
    assert out.shape[2:] == tuple(-(-n // 2) for n in size)


def test_sixteen_bit_convolutions_change_the_maps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk, image = ResNet10(), torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8)
    maps = []
    for dtype in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(resnet10, "convolution_dtype", lambda device, dtype=dtype: dtype)
        maps.append(trunk(image))
    assert maps[1].dtype == torch.float32
    assert (maps[0] - maps[1]).norm() / maps[0].norm() < 0.03


def test_what_does_not_fit_is_named_with_both_shapes(tmp_path: Path) -> None:
    weights = port_weights(False)
    weights["embedder.0.weight"] = torch.zeros(64, 3, 3, 3)
    del weights["encoder.stages.2.norm1.bias"]
    save_file(weights, tmp_path / "a.safetensors")
    with pytest.raises(ConfigError) as error:
        load_weights(ResNet10(), tmp_path / "a.safetensors")
    assert "conv_init.weight is (64, 3, 3, 3), wanted (64, 3, 7, 7)" in str(error.value)
    assert "blocks.2.norm1.bias is missing" in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.safetensors", None, "no file .*download"),
        ("a.pkl", b"", "is a pickle.*convert"),
        ("a.safetensors", b"junk", "cannot be read"),
        ("a.pt", b"junk", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_to_do(
    name: str, content: bytes | None, said: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load_weights(ResNet10(), tmp_path / name)


def test_the_documented_conversion_makes_a_file_that_fits(tmp_path: Path) -> None:
    """The lines of docs/seeing.md, run on a pickle of nested arrays as flax leaves them."""
    import pickle

    tree: dict = {}
    for name, tensor in flax_weights().items():
        *path, leaf = name.split("/")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[leaf] = tensor.numpy()
    (tmp_path / "resnet10_params.pkl").write_bytes(pickle.dumps(tree))
    found = re.search(r"```python\n(import pickle\n.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    subprocess.run([sys.executable, "-c", found.group(1)], cwd=tmp_path, check=True, timeout=60)
    trunk = ResNet10()
    load_weights(trunk, tmp_path / "resnet10.safetensors")
    assert torch.equal(
        trunk.conv_init.weight, flax_weights()["conv_init/kernel"].permute(3, 2, 0, 1)
    )
