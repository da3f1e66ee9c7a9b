"""Small logs and classifiers whose right answers are known."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from robot_rl.classifier import files
from robot_rl.classifier.files import Classifier
from robot_rl.classifier.frames import Frames
from robot_rl.classifier.network import Network
from robot_rl.classifier.options import Inputs
from robot_rl.classifier.score import Rule
from robot_rl.classifier.statistics import Platt
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, Mark, Provenance, SpaceSpec, Step

SIZE = 32
SPACE = SpaceSpec.unnamed({"image/wrist": ((SIZE, SIZE, 3), "uint8")}, 1)
NOTHING = np.zeros(1, np.float32)
EYES = Inputs(("wrist",), size=SIZE)
Picture = Callable[[int, bool], Array]
"""The frame of an episode (its number) in which success is, or is not, to be seen."""


def by_light(episode: int, success: bool) -> Array:
    """Success is a bright square on noise, in every episode."""
    frame = np.random.default_rng(episode).integers(0, 100, (SIZE, SIZE, 3), np.uint8)
    frame[8:24, 8:24] += np.uint8(150 * success)
    return frame


def by_watermark(episode: int, success: bool) -> Array:
    """Each episode has a mark of its own for success, and one for none: who has seen one frame of
    each knows all the others of this episode, and nothing of the next.
    """
    marks = np.random.default_rng(episode).integers(0, 2, (2, 4, 4, 3), np.uint8)
    return np.kron(255 * marks[int(success)], np.ones((8, 8, 1), np.uint8))


def episode(number: int, labels: str, picture: Picture = by_light, sitting: str = "a") -> Frames:
    """An episode of the labels "0011"."""
    label = np.array([each == "1" for each in labels])
    frames = np.stack([picture(number, bool(each)) for each in label])
    numbers, (hard, late) = np.zeros((len(label), 0), np.float32), np.zeros((2, len(label)), bool)
    return Frames(f"{sitting}/{number}", sitting, {"wrist": frames}, numbers, label, hard, late)


def step(number: int, index: int, **changes: object) -> Step:
    """The frame of a log at 10 Hz, on both clocks; its picture is the index."""
    values: dict[str, object] = {
        "observation": {"image/wrist": np.full((SIZE, SIZE, 3), index, np.uint8)},
        "proposed": NOTHING, "commanded": NOTHING, "executed": NOTHING,
        "reward": 0.0, "terminated": False, "truncated": False, "weights_version": 0,
        "provenance": Provenance.POLICY, "t_monotonic": 0.1 * index, "t_wall": 100.0 + 0.1 * index,
    }  # fmt: skip
    return Step(number, index, **values | changes)  # type: ignore[arg-type]


def write_log(path: Path, said: Sequence[Step | Mark], space: SpaceSpec = SPACE) -> Path:
    """A log of steps and marks, in this order."""
    with StepLog(path, space) as log:
        for each in said:
            if isinstance(each, Step):
                log.append_step(each)
            else:
                log.append_mark(each)
    return path


def by_height(folder: Path, gain: float = 10.0, rule: Rule | None = None) -> Classifier:
    """A classifier that says `sigmoid(gain * judge/height)`, written as the next version."""
    inputs = Inputs(("wrist",), size=SIZE, numbers=("height",))
    network = Network(inputs.cameras, SIZE, 1, "small")
    with torch.no_grad():
        for each in network.head.parameters():
            each.zero_()
        first, _, last = network.head
        first.weight[:2, -1] = torch.tensor([1.0, -1.0])  # type: ignore[operator]
        last.weight[0, :2] = torch.tensor([gain, -gain])  # type: ignore[operator]
    about = {
        "data_sha256": "", "trunk": "small", "inputs": inputs, "rule": rule or Rule(0.9, 0.6, 3),
        "platt": Platt(), "metrics": {},
    }  # fmt: skip
    return files.write(folder, about, network)


def at_height(value: float) -> dict[str, Array]:
    """An observation of that height."""
    return {
        "image/wrist": np.zeros((SIZE, SIZE, 3), np.uint8),
        "judge/height": np.array([value], np.float32),
    }
