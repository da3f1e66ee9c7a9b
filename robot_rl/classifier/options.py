"""What a user chooses about a classifier, and what one looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from robot_rl.types import JUDGE_NUMBERS, ConfigError

Crop = tuple[float, float, float, float]
"""x, y, width, height as shares of the frame."""
SIZE = 64
"""Of a picture, if nothing is said [pixels]."""


@dataclass(frozen=True)
class Inputs:
    """What a classifier looks at. Raises ConfigError for a crop or a number that is none."""

    cameras: tuple[str, ...]
    """Their names."""
    crops: Mapping[str, Crop] = field(default_factory=dict)
    """The part of a camera's frame that it sees, x y width height as shares of the frame; all of
    it, if not said."""
    size: int = SIZE
    """Height and width to which that part is resized [pixels]."""
    numbers: tuple[str, ...] = ()
    """Of `judge/height`, `judge/force` and `judge/width` those that it is told."""
    backward: bool = False
    """Whether it looks at a task's way back; else at the way there alone."""

    def __post_init__(self) -> None:
        for camera, (x, y, width, height) in self.crops.items():
            if not (
                min(x, y) >= 0.0
                and min(width, height) > 0.0
                and max(x + width, y + height) <= 1.0 + 1e-9
            ):
                raise ConfigError(f"crops: {camera}: {[x, y, width, height]} is not inside the frame: x, y, width and "
                                  "height are shares of it, from 0 to 1")  # fmt: skip
        if strange := set(self.numbers) - set(JUDGE_NUMBERS):
            raise ConfigError(f"numbers: {sorted(strange)}: there are {', '.join(JUDGE_NUMBERS)}")
        if not 32 <= self.size <= 512:
            raise ConfigError(f"size is {self.size}; it must be from 32 to 512 pixels")


@dataclass(frozen=True)
class ClassifierConfig:
    """How a classifier is made."""

    cameras: tuple[str, ...] = ()
    """Cameras that it looks at; all that the frames have, if not said."""
    crops: Mapping[str, Crop] = field(default_factory=dict)
    """Per camera the part that it sees: x y width height as shares of the frame."""
    size: int = 0
    """That part is resized to so many pixels, along both sides; 0: 64, or what the encoder has learnt
    from."""
    numbers: tuple[str, ...] = ()
    """What it is told beside the pictures, of height, force and width."""
    backward: bool = False
    """Whether it judges the way back of a task that has one."""
    trunk: Literal["small", "resnet10", "encoder"] = "small"
    """A small network of its own, trained with it; or, frozen, a ResNet-10 or a run's encoder."""
    resnet10_weights: str = ""
    """File of the ResNet-10's weights (docs/seeing.md)."""
    encoder: str = ""
    """The run whose encoder it is."""
    frames: int = 3
    """So many frames in a row say success."""
    bound: float = 0.01
    """The rate of false successes per failure episode that shall be proved."""
    steps: int = 600
    """Batches of 128 + 128 frames at most; it stops earlier where the calibration gets worse."""
    learning_rate: float = 1e-3
    """Of Adam."""
    smoothing: float = 0.05
    """Labels are so far inside 0 and 1."""
    shift_pixels: int = 4
    """Pictures are moved by up to so many pixels."""
    light: float = 0.2
    """Gain and brightness of each colour change by up to so much."""

    def __post_init__(self) -> None:
        if not (0.0 < self.bound < 1.0 and self.frames >= 1 and self.steps >= 1):
            raise ConfigError(
                f"bound {self.bound:g}, {self.frames} frames and {self.steps} steps: wanted a bound"
                " between 0 and 1, and at least one frame and step"
            )
        if not (0.0 <= self.smoothing < 0.5 and self.learning_rate > 0.0):
            raise ConfigError("smoothing must be below 0.5, and the learning rate above 0")
        if self.shift_pixels < 0 or not 0.0 <= self.light < 1.0:
            raise ConfigError("shift_pixels must not be negative, and light must be from 0 to 1")
        if (self.trunk == "resnet10") != bool(self.resnet10_weights):
            raise ConfigError(
                "trunk resnet10 and resnet10_weights belong together: name the file of its weights"
                " (docs/seeing.md), or take trunk small"
            )
        if (self.trunk == "encoder") != bool(self.encoder):
            raise ConfigError(
                "trunk encoder and encoder belong together: name the run whose encoder it is, or"
                " take trunk small"
            )
        Inputs(self.cameras, self.crops, self.size or SIZE, self.numbers)
