"""Which encoders there are, by name, and all that each of them means for replay, augmentation and
training.

An encoder is a row of `ENCODERS`, a user's file `./encoders/NAME.py` with a `torch.nn.Module`
called `Encoder`, or one that `module:package.module:ClassName` names. What is asked about an
encoder is asked of its row, never by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from robot_rl.config.kinds import find, names_of
from robot_rl.machine.validation import nearest
from robot_rl.networks.encoders import KeyPoints, Network, SmallCNN, Vision
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.goal_places import PlacedGoalVision
from robot_rl.networks.resnet10 import ResNet10, load_weights
from robot_rl.networks.trunks import MODULE, TrunkVision, is_frozen, module_class, own_class
from robot_rl.types import Array, ConfigError, DataError

FOLDER = "networks/encoders"
"""The kind under which a user's own files are found."""
LARGEST = float(np.finfo(np.float16).max)
Augment = Callable[[str, Array, int], Tensor]


@dataclass(frozen=True)
class EncoderInfo:
    """What an encoder means for everything around it.

    cached: a frozen part looks at each frame once, and what it sees lies in the replay in place of
    the images.
    trained: what the critics' loss trains: nothing of it, the readouts behind its frozen trunk, or
        all.
    shifted: its images may be shifted (DrQ). Where the goal is learnt from the picture they may
        not: a shift moves the goal that the picture shows. There the light changes.
    goal: it is pretrained to predict where the goal is, and its prediction follows its features.
    network: what looks through each camera, where there is no `trunk`.
    features: per camera, where the options do not say.
    trunk: the class of the network behind which readouts are trained; None: a `network` per camera.
    load: fills such a trunk from the file of published weights with which it begins.
    """

    cached: bool
    trained: Literal["nothing", "readouts", "all"]
    shifted: bool = True
    goal: bool = False
    network: Network = SmallCNN
    features: int = 64
    trunk: type[nn.Module] | None = None
    load: Callable[[nn.Module, Path], None] | None = None

    @property
    def variants(self) -> int:
        """Versions of a frame that are cached, where the options do not say: shifted ones, or just
        the frame.
        """
        return 4 if self.cached and self.shifted else 1


ENCODERS = {
    "none": EncoderInfo(cached=False, trained="nothing"),
    "goal": EncoderInfo(cached=True, trained="nothing", shifted=False, goal=True),
    "goal_points": EncoderInfo(
        cached=True, trained="nothing", shifted=False, goal=True, network=KeyPoints
    ),
    "end_to_end": EncoderInfo(cached=False, trained="all"),
    "resnet10": EncoderInfo(
        cached=True, trained="readouts", features=256, trunk=ResNet10, load=load_weights
    ),
}
AUTO = "goal"
"""What "auto" stands for where there are cameras."""
UNSEEN = "end_to_end"
"""And where the pictures of the demonstrations do not show where the goal is."""


def encoder_info(encoder: str) -> EncoderInfo:
    """The info of an encoder by name; a user's own module is imported for it. Raises ConfigError
    if there is none.
    """
    check_name(encoder)
    if encoder in ENCODERS:
        return ENCODERS[encoder]
    if encoder.startswith(MODULE):
        trunk = module_class(encoder)
    else:
        trunk = own_class(find(FOLDER, encoder), "Encoder", encoder)
    frozen = is_frozen(trunk)
    return EncoderInfo(cached=frozen, trained="readouts" if frozen else "all", trunk=trunk)


def is_encoder(name: str) -> bool:
    """Whether there is an encoder of this name; a user's own is not imported for it."""
    return name.startswith(MODULE) or name in ENCODERS or name in names_of(FOLDER)


def check_name(encoder: str, *others: str) -> None:
    """Raise ConfigError if no encoder has this name; a user's own module is not looked for yet."""
    if not is_encoder(encoder) and encoder not in others:
        own = (*names_of(FOLDER), f"{MODULE}package.module:ClassName")
        names = nearest(encoder, (*ENCODERS, *others, *own))
        raise ConfigError(f"{encoder!r} is no encoder; there are: {names}")


def make_vision(
    encoder: str,
    cameras: tuple[str, ...],
    image_size: tuple[int, int],
    features: int,
    goal_size: int,
    told: Sequence[tuple[str, int]] = (),
    still: tuple[str, ...] = (),
) -> Vision | TrunkVision:
    """The network of an encoder (not "none") for these cameras, with random weights."""
    info = encoder_info(encoder)
    if goal_size and still:
        return PlacedGoalVision(cameras, still, image_size, features, goal_size, told, info.network)
    if goal_size:
        return GoalVision(cameras, image_size, features, goal_size, told, info.network)
    if info.trunk is None:
        return Vision(cameras, image_size, features, info.network)
    return TrunkVision(cameras, image_size, features, info.trunk)


@torch.no_grad()
def encode(
    vision: Vision | TrunkVision,
    images: Mapping[str, Array],
    told: Array | None = None,
    augment: Augment = lambda camera, frames, first: torch.from_numpy(frames),
    slice_size: int = 64,
) -> Array:
    """What is cached of frames `(N, H, W, 3)` per camera: `(N, V)` float16. An encoder may be
    `told (N, T)` something besides.

    `augment(camera, frames, index of the first)` changes the frames before. In slices, because
    large temporaries are slow on a CPU. Raises DataError if a number does not fit into 16 bit.
    """
    device = next(vision.parameters()).device
    count = len(next(iter(images.values())))
    out = np.empty((count, vision.cached_size), np.float16)
    for i in range(0, count, slice_size):
        rows = slice(i, i + slice_size)
        part = {n: augment(n, np.ascontiguousarray(array[rows]), i) for n, array in images.items()}
        besides = None if told is None else torch.from_numpy(told[rows]).to(device)
        seen = vision.look({name: tensor.to(device) for name, tensor in part.items()}, besides)
        if not bool((seen.abs() <= LARGEST).all()):
            raise DataError(
                f"the encoder's features reach {float(seen.abs().max()):g}; they are cached in 16"
                f" bit, which holds {LARGEST:g}: divide them in the encoder"
            )
        out[rows] = seen.cpu().numpy()
    return out
