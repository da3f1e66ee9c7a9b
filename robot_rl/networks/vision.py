"""Which encoders there are, by name, and what each of them means for replay, augmentation and training."""

from dataclasses import dataclass
from typing import Literal

from robot_rl.networks.encoders import Vision
from robot_rl.networks.resnet10 import ResNet10
from robot_rl.networks.trunks import MODULE, TrunkVision, is_frozen, module_class
from robot_rl.types import ConfigError
from robot_rl.validation import nearest


@dataclass(frozen=True)
class Traits:
    """What an encoder means for everything around it.

    cached: a frozen part looks at each frame once, and what it sees lies in the replay in place of the images.
    trained: what the critics' loss trains: nothing of it, the readouts behind its frozen trunk, or all.
    shifted: its images may be shifted (DrQ). Where the goal is learnt from the picture they may not: a shift moves the
        goal that the picture shows. There the light changes.
    """

    cached: bool
    trained: Literal["nothing", "readouts", "all"]
    shifted: bool = True


ENCODERS = {
    "none": Traits(cached=False, trained="nothing"),
    "goal": Traits(cached=True, trained="nothing", shifted=False),
    "end_to_end": Traits(cached=False, trained="all"),
    "resnet10": Traits(cached=True, trained="readouts"),
}


def traits_of(encoder: str) -> Traits:
    """The traits of an encoder by name; a user's own module is imported for it. Raises ConfigError if there is none."""
    if encoder.startswith(MODULE):
        frozen = is_frozen(module_class(encoder))
        return Traits(cached=frozen, trained="readouts" if frozen else "all")
    check_name(encoder)
    return ENCODERS[encoder]


def check_name(encoder: str, *others: str) -> None:
    """Raise ConfigError if no encoder has this name; a user's own module is not looked for yet."""
    if not encoder.startswith(MODULE) and encoder not in (*ENCODERS, *others):
        names = nearest(encoder, (*ENCODERS, *others, f"{MODULE}package.module:ClassName"))
        raise ConfigError(f"{encoder!r} is no encoder; there are: {names}")


def make_vision(
    encoder: str,
    cameras: tuple[str, ...],
    image_size: tuple[int, int],
    features: int,
    goal_size: int,
    gravity_size: int = 0,
) -> Vision | TrunkVision:
    """The network of an encoder (not "none") for these cameras, with random weights."""
    if encoder in ("goal", "end_to_end"):
        return Vision(cameras, image_size, features, goal_size, gravity_size)
    if encoder == "resnet10":
        return TrunkVision(cameras, image_size, features, ResNet10)
    return TrunkVision(cameras, image_size, features, module_class(encoder))
