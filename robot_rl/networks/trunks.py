"""A trunk that looks at each camera's image, and per camera a small readout of it that the critics'
loss trains.

A frozen trunk runs once per frame; what it makes of the frame is cached, and an update runs the
readouts alone.
"""

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from itertools import cycle
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from robot_rl.config.kinds import is_name, load_own
from robot_rl.types import ConfigError

SPATIAL_EMBEDDINGS = 8
"""Per channel of a feature map, as SERL and HIL-SERL."""

MODULE = "module:"
"""What the name of a user's own trunk begins with: `module:package.module:ClassName`."""


class TrunkVision(nn.Module):
    """All cameras of a policy: `(B, size)` features of `{camera: uint8 (B, H, W, 3)}`.

    A trunk gives `(B, F)` or maps `(B, C, H', W')` of uint8 images `(B, H, W, 3)`. A frozen one is
    made once and looks through all cameras, one that is trained is made once per camera. `look` and
    `readouts` are the two halves of `forward`; between them lies what is cached of a frame. Raises
    ConfigError if the trunk does not give that.
    """

    def __init__(
        self,
        cameras: tuple[str, ...],
        image_size: tuple[int, int],
        features: int,
        cls: type[nn.Module],
    ):
        super().__init__()
        self.names = cameras
        frozen = is_frozen(cls)
        self.trunks = nn.ModuleList(make_trunk(cls) for _ in cameras[: 1 if frozen else None])
        self.trunks.train(not frozen)
        shape = output_shape(self.trunks[0], image_size)
        self.readouts = Readouts(len(cameras), shape, features)
        self.cached_size = len(cameras) * shape.numel()
        self.size = features * len(cameras)

    def set_dtype(self, dtype: torch.dtype) -> None:
        """A trunk chooses its own precision."""

    def look(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        """What the trunk makes of each camera's image, side by side: `(B, cached_size)`."""
        seen = (
            trunk(images[name]).flatten(1)
            for name, trunk in zip(self.names, cycle(self.trunks), strict=False)
        )
        return torch.cat(list(seen), -1)

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        return self.readouts(self.look(images))


class Readouts(nn.Module):
    """Features `(B, features per camera)` of what a trunk makes of every camera's image, side by
    side.
    """

    def __init__(self, cameras: int, shape: torch.Size, features: int):
        super().__init__()
        self.cameras = nn.ModuleList(Readout(shape, features) for _ in range(cameras))

    def forward(self, seen: Tensor) -> Tensor:
        parts = seen.float().chunk(len(self.cameras), -1)
        return torch.cat(
            [camera(part) for camera, part in zip(self.cameras, parts, strict=True)], -1
        )


class Readout(nn.Module):
    """`tanh(LayerNorm(dense))` of one camera's `(F,)`; of a map `(C, H, W)` through spatial learned
    embeddings before.

    `e[c, k] = sum over places p of map[c, p] kernel[c, p, k]`: each channel weighs its places in K
    learned ways (rail-berkeley/serl, `SpatialLearnedEmbeddings`). SERL's dropout behind it is left
    out: in the release it is active for the actor alone.
    """

    def __init__(self, shape: torch.Size, features: int):
        super().__init__()
        self.kernel: nn.Parameter | None = None
        n_in = shape[0]
        if len(shape) == 3:
            kernel = torch.empty(shape[0], shape[1] * shape[2], SPATIAL_EMBEDDINGS)
            self.kernel = nn.Parameter(nn.init.trunc_normal_(kernel, std=shape.numel() ** -0.5))
            n_in *= SPATIAL_EMBEDDINGS
        self.project = nn.Linear(n_in, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, seen: Tensor) -> Tensor:
        if self.kernel is not None:
            maps = seen.unflatten(-1, self.kernel.shape[:2])
            seen = torch.einsum("bcp,cpk->bck", maps, self.kernel).flatten(1)
        return torch.tanh(self.norm(self.project(seen)))


def output_shape(trunk: nn.Module, image_size: tuple[int, int]) -> torch.Size:
    """The shape of what a trunk makes of one image: `(F,)` or `(C, H', W')`. Raises ConfigError if
    it is neither.
    """
    name, wanted = type(trunk).__name__, "float (1, F) or (1, C, H', W')"
    try:
        with torch.no_grad():
            out = trunk(torch.zeros(1, *image_size, 3, dtype=torch.uint8))
    except Exception as error:  # another's code
        raise ConfigError(
            f"the encoder {name} fails on a uint8 image {(1, *image_size, 3)}: {error!r}"
        ) from error
    if (
        not isinstance(out, Tensor)
        or not out.is_floating_point()
        or out.ndim not in (2, 4)
        or len(out) != 1
    ):
        found = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(
            f"the encoder {name} gives {found} of a uint8 image {(1, *image_size, 3)}; wanted"
            f" {wanted}"
        )
    return out.shape[1:]


def module_class(encoder: str) -> type[nn.Module]:
    """The class that `module:package.module:ClassName` names: of a file in the working directory,
    or installed.

    A run, a checkpoint or a learner may say the name: of the working directory, files alone are
    looked at, none of its folders. Raises ConfigError if there is none, or if it is no
    `torch.nn.Module`.
    """
    path, _, name = encoder.removeprefix(MODULE).partition(":")
    if not name or not all(is_name(part) for part in path.split(".")):
        raise ConfigError(
            f"encoder {encoder!r} names no class; wanted: {MODULE}package.module:ClassName"
        )
    own = Path.cwd() / f"{path}.py"
    if "." not in path and own.is_file():
        if str(own.parent) not in sys.path:
            sys.path.append(str(own.parent))  # for what it imports itself
        module = load_own(own)
    else:
        module = _installed(encoder, path)
    return own_class(module, name, encoder)


def own_class(module: ModuleType, name: str, encoder: str) -> type[nn.Module]:
    """The class of a user's module. Raises ConfigError if there is none, or if it is no
    `torch.nn.Module`.
    """
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise ConfigError(
            f"encoder {encoder!r}: {module.__file__} holds no torch.nn.Module of the name {name!r}"
        )
    return found


def _installed(encoder: str, path: str) -> ModuleType:
    """A module of an installed package. Raises ConfigError if there is none."""
    here = Path.cwd()
    elsewhere = [entry for entry in sys.path if entry and Path(entry) != here]
    try:
        if PathFinder.find_spec(path.partition(".")[0], elsewhere) is None:
            raise ModuleNotFoundError(
                f"there is no {path.partition('.')[0]}.py in it, and no such package installed"
            )
        return importlib.import_module(path)
    except ImportError as error:
        raise ConfigError(f"encoder {encoder!r} cannot be imported from {here}: {error}") from error


def make_trunk(cls: type[nn.Module]) -> nn.Module:
    """A trunk of a user's own class. Raises ConfigError if it cannot be made, or cannot be trained
    as it should.

    A batch normalisation cannot: the actor's batch is one observation, and target and average
    follow parameters alone.
    """
    try:
        trunk = cls()
    except Exception as error:  # another's code
        raise ConfigError(
            f"the encoder {cls.__name__} cannot be made without arguments: {error!r}"
        ) from error
    for name, part in trunk.named_modules():
        if isinstance(part, _BatchNorm) and not is_frozen(cls):
            raise ConfigError(f"the encoder {cls.__name__} has a batch normalisation ({name}): use GroupNorm or "
                              "LayerNorm, or set `frozen = True` in the class")  # fmt: skip
    return trunk


def is_frozen(cls: type[nn.Module]) -> bool:
    """Whether a class of trunks says `frozen = True`: it is never trained, and runs once per frame."""
    return bool(getattr(cls, "frozen", False))
