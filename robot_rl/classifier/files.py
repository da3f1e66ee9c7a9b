"""A classifier on the disk: `classifiers/NAME/v0001.safetensors` and `v0001.json`, and so on.

The JSON is written last, so that a version is whole or not there; it holds the checksum of the
weights and of itself.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from robot_rl.classifier.frames import look, numbers_of
from robot_rl.classifier.network import Network, Trunk
from robot_rl.classifier.options import ClassifierConfig, Inputs
from robot_rl.classifier.score import Rule, unsure
from robot_rl.classifier.statistics import Platt
from robot_rl.classifier.strange import Usual
from robot_rl.machine.small_files import read_json, require_seal, seal, write_bytes, write_json
from robot_rl.machine.validation import from_json
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.networks.threads import one_thread
from robot_rl.types import Array, ConfigError, DataError, Observation

BATCH = 64
"""Frames that are looked at together, so that a long episode needs little memory."""
USUAL = "usual/"
"""What the camera behind it usually sees, among the tensors of a version; those of versions before
it was measured have none.
"""


@dataclass(frozen=True)
class About:
    """What stands in the JSON file of a version."""

    version: int
    data_sha256: str
    weights_sha256: str
    trunk: Trunk
    inputs: Inputs
    rule: Rule
    platt: Platt
    metrics: Mapping[str, Any]
    sources: tuple[str, ...] = ()
    options: ClassifierConfig = field(default_factory=ClassifierConfig)


class Classifier:
    """One version of a classifier, ready to judge."""

    def __init__(self, about: About, network: Network, usual: Usual | None = None):
        self.about = about
        self.version, self.rule = about.version, about.rule
        self.metrics, self.inputs = about.metrics, about.inputs
        self.network, self._usual = network.eval(), usual

    def probability(self, observation: Observation) -> float:
        """Of success, in one observation. Raises DataError if it lacks what this looks at."""
        return self.judge(observation)[0]

    @one_thread()
    def judge(self, observation: Observation) -> tuple[float, float | None]:
        """The probability of success in one observation, and how strange that is: above 1 it is
        doubtful, whatever it looks like; None if this version does not know what is usual.
        """
        images, numbers = self._look([observation])
        strange = self._usual.strangeness(images) if self._usual else None
        probability = self._of_frames(images, numbers, strange)
        return float(probability[0]), None if strange is None else float(strange[0])

    def probabilities(self, observations: Sequence[Observation]) -> Array:
        """Of success, in each of several observations, `(n,)`."""
        return self.of_frames(*self._look(observations))

    def of_frames(self, images: Mapping[str, Array], numbers: Array) -> Array:
        """Of success, in frames as `frames.look` gives them, `(n,)`."""
        known = self._usual if len(numbers) else None
        return self._of_frames(images, numbers, known.strangeness(images) if known else None)

    def _look(self, observations: Sequence[Observation]) -> tuple[dict[str, Array], Array]:
        """What it sees of observations, and is told beside it."""
        images = {
            camera: np.stack([look(each, camera, self.inputs) for each in observations])
            for camera in self.inputs.cameras
            if observations
        }
        numbers = [numbers_of(each, self.inputs) for each in observations]
        return images, np.stack(numbers) if numbers else np.zeros((0, 0))

    def _of_frames(
        self, images: Mapping[str, Array], numbers: Array, strange: Array | None
    ) -> Array:
        """Probabilities of frames of this strangeness."""
        p = self.about.platt(logits_of(self.network, images, numbers))
        return p if strange is None else unsure(p, strange > 1.0, self.rule)


def logits_of(network: Network, images: Mapping[str, Array], numbers: Array) -> Array:
    """The network's answers to frames, `(n,)`, before they are calibrated."""
    answers = [np.zeros(0, np.float32)]
    with torch.no_grad():
        for first in range(0, len(numbers), BATCH):
            part = slice(first, first + BATCH)
            seen = {camera: torch.from_numpy(each[part]) for camera, each in images.items()}
            answers.append(network(seen, torch.from_numpy(numbers[part])).numpy())
    return np.concatenate(answers)


def write(
    folder: Path, about: Mapping[str, Any], network: Network, usual: Usual | None = None
) -> Classifier:
    """Write the next version of a classifier. `about` is the rest of what its JSON file says."""
    version = max(versions_in(folder), default=0) + 1
    tensors = {name: each.contiguous() for name, each in network.state_dict().items()}
    ranges = usual.ranges if usual else {}
    tensors |= {USUAL + name: torch.from_numpy(each) for name, each in ranges.items()}
    weights = save_tensors(tensors)
    whole = About(version=version, weights_sha256=_sha256(weights), **about)
    files = files_of(folder, version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be made: {error.strerror}: make room on that disk, or make it writable"
        ) from error
    write_bytes(files["safetensors"], weights)
    write_json(files["json"], seal(asdict(whole)), indent=2)
    return Classifier(whole, network, usual)


def load(folder: Path, version: int = 0) -> Classifier:
    """A version of a classifier; 0: the newest.

    Raises ConfigError if there is none, DataError if its files are damaged.
    """
    folder, there = Path(folder), versions_in(Path(folder))
    if not there or (version and version not in there):
        what = f"version {version} of classifier" if there else "classifier"
        has = f"; there are versions {', '.join(map(str, there))}" if there else ""
        raise ConfigError(
            f"there is no {what} {folder.name!r} in {folder.parent}{has}. One is made of labelled"
            " frames: robot-rl outcomes TASK collects them, and then: robot-rl reward train"
            f" {folder.name} --from RUN"
        )
    version = version or there[-1]
    try:
        about, weights = _read(folder, version)
        inputs = about.inputs
        network = Network(inputs.cameras, inputs.size, len(inputs.numbers), about.trunk)
        tensors = load_tensors(weights)
        usual = _usual(tensors, inputs)
        network.load_state_dict(tensors)
    except (DataError, ConfigError, OSError, RuntimeError, ValueError) as error:
        file = files_of(folder, version)["json"]
        raise DataError(
            f"version {version} of classifier {folder.name!r} is damaged: {_first_line(error)}. Put"
            f" back a copy of {file.stem}.json and {file.stem}.safetensors in {folder}, or remove"
            " both to go on with the version before it, or train anew: robot-rl reward train"
            f" {folder.name} --from RUN"
        ) from error
    return Classifier(about, network, usual)


def _usual(tensors: dict[str, torch.Tensor], inputs: Inputs) -> Usual | None:
    """What a version's cameras usually see, taken out of its tensors. Raises DataError if it is not
    known of each of them, or of none.
    """
    names = [name for name in tensors if name.startswith(USUAL)]
    ranges = {name.removeprefix(USUAL): tensors.pop(name).numpy() for name in names}
    if ranges and ranges.keys() != {*inputs.cameras}:
        raise DataError("what its cameras usually see is not there of each of them")
    return Usual(ranges) if ranges else None


def _read(folder: Path, version: int) -> tuple[About, bytes]:
    files = files_of(folder, version)
    data = read_json(files["json"])
    require_seal(data)
    data.pop("crc32", None)
    about = from_json(About, data, source=files["json"].name)
    weights = files["safetensors"].read_bytes()
    if _sha256(weights) != about.weights_sha256 or about.version != version:
        raise DataError("the weights are not those that its JSON file was written with")
    return about, weights


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
