"""ResNet-10 (GroupNorm, ImageNet) as SERL and HIL-SERL use it, and its published weights.

Four stages of one basic block each (arXiv 1512.03385) with GroupNorm of 4 groups. `SAME` padding is
that of TensorFlow and flax: one more pixel behind than before where the count is odd, so that the
published weights see what they were trained on. Sources: resnet_v1.py of rail-berkeley/serl, and
helper2424/resnet10, its port for LeRobot.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from robot_rl.networks.encoders import convolution_dtype
from robot_rl.types import ConfigError

CHANNELS = (64, 128, 256, 512)
GROUPS = 4
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours, in 0..1

_NAMES = (
    (r"/", "."),
    (r"^params\.", ""),
    (r"^embedder\.0\.", "conv_init."),
    (r"^embedder\.1\.", "norm_init."),
    (r"^(encoder\.stages\.|ResNetBlock_)", "blocks."),
    (r"\.shortcut\.0\.", ".conv_proj."),
    (r"\.shortcut\.1\.", ".norm_proj."),
    (r"\.Conv_0\.", ".conv1."),
    (r"\.Conv_1\.", ".conv2."),
    (r"\.MyGroupNorm_0\.", ".norm1."),
    (r"\.MyGroupNorm_1\.", ".norm2."),
    (r"\.(conv|group_norm)\.", "."),  # a wrapper, in some revisions of the port
    (r"\.(scale|kernel)$", ".weight"),
)
"""What a part is called in the published files, and here; one after the other."""


class ResNet10(nn.Module):
    """The trunk: feature maps `(B, 512, H/32, W/32)` of uint8 images `(B, H, W, 3)`. It is never
    trained.
    """

    frozen = True
    scale: Tensor
    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
        self.register_buffer("scale", 1.0 / (255.0 * std), persistent=False)
        self.register_buffer("shift", -mean / std, persistent=False)
        self.conv_init = nn.Conv2d(3, CHANNELS[0], 7, 2, padding=3, bias=False)
        self.norm_init = nn.GroupNorm(GROUPS, CHANNELS[0])
        sizes = zip((CHANNELS[0], *CHANNELS[:-1]), CHANNELS, strict=True)
        self.blocks = nn.Sequential(*(BasicBlock(n_in, n_out) for n_in, n_out in sizes))

    def forward(self, image: Tensor) -> Tensor:
        dtype = convolution_dtype(image.device)
        x = image.permute(0, 3, 1, 2) * self.scale + self.shift  # stays channels-last
        with torch.autocast(image.device.type, dtype, enabled=dtype != torch.float32):
            x = F.relu(self.norm_init(self.conv_init(x)))
            # after the relu a border of zeros is never the maximum
            return self.blocks(F.max_pool2d(pad_same(x), 3, 2)).float()


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a way past them; where the channels double, the size halves."""

    def __init__(self, n_in: int, n_out: int):
        super().__init__()
        stride = 1 if n_in == n_out else 2
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=2 - stride, bias=False)
        self.norm1 = nn.GroupNorm(GROUPS, n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, n_out)
        if stride == 2:
            self.conv_proj = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.norm_proj = nn.GroupNorm(GROUPS, n_out)
        self.halves = stride == 2

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(pad_same(x) if self.halves else x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + (self.norm_proj(self.conv_proj(x)) if self.halves else x))


def pad_same(x: Tensor) -> Tensor:
    """`x (B, C, H, W)` with the zeros around it that "SAME" means for windows of 3 and a stride of
    2.
    """
    height, width = x.shape[2:]
    return F.pad(x, (width % 2, 1, height % 2, 1))


def load_weights(trunk: nn.Module, path: Path) -> None:
    """Fill a `ResNet10` from a local file of published weights: `.safetensors`, or a state dict of
    PyTorch.

    Names may be those of helper2424/resnet10 (any revision) or of SERL's flax parameters joined by
    "/" (docs/seeing.md converts its pickle, which is never opened here). Raises ConfigError if
    there is no such file, or if a tensor is missing or of another shape; tensors of a classifier's
    head are passed over.
    """
    found = {_name(name): _weight(name, tensor) for name, tensor in _read(path).items()}
    wanted = trunk.state_dict()
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [
        f"{name} is {tuple(found[name].shape)}, wanted {tuple(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if problems:
        raise ConfigError(f"{path} does not hold the weights of a ResNet-10: {'; '.join(problems)}")
    trunk.load_state_dict({name: found[name] for name in wanted})


def save_weights(trunk: ResNet10, path: Path) -> None:
    """Write a `.safetensors` file that `load_weights` reads."""
    save_file(trunk.state_dict(), path)


def _name(published: str) -> str:
    for pattern, ours in _NAMES:
        published = re.sub(pattern, ours, published)
    return published


def _weight(published: str, tensor: Tensor) -> Tensor:
    """flax keeps a convolution's kernel as (height, width, in, out), PyTorch as (out, in, height,
    width).
    """
    return (
        tensor.permute(3, 2, 0, 1) if published.endswith("kernel") and tensor.ndim == 4 else tensor
    )


def _read(path: Path) -> Mapping[str, Tensor]:
    if not path.is_file():
        raise ConfigError(
            f"there is no file {path} with the weights of the ResNet-10; download model.safetensors"
            " of helper2424/resnet10 from the Hugging Face hub, or convert SERL's"
            " resnet10_params.pkl (docs/seeing.md)"
        )
    if path.suffix == ".pkl":
        raise ConfigError(f"{path} is a pickle, which can execute anything and is never opened here; docs/seeing.md "
                          "says how to convert it to .safetensors where you trust it")  # fmt: skip
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        data = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor for name, tensor in data.items() if isinstance(tensor, Tensor)}
    except Exception as error:  # the readers raise many kinds
        wanted = "a .safetensors file or a state dict of PyTorch"
        raise ConfigError(
            f"{path} cannot be read as {wanted}: {str(error).splitlines()[0]}"
        ) from error
