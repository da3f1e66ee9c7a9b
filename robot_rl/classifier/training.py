"""Training a classifier: fit on some episodes, calibrated on others, tested on yet others.

Balanced batches, label smoothing and random shifts as HIL-SERL (arXiv 2410.21845) has them; what
stops the fit, calibrates it and chooses its threshold are whole episodes that it never saw, and
what is said of it is counted on others again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from robot_rl.classifier import files, strange
from robot_rl.classifier.encoder import Encoder
from robot_rl.classifier.files import Classifier, logits_of
from robot_rl.classifier.frames import (
    NO_ENDS,
    Ends,
    Frames,
    hash_of,
    inputs_for,
    read_frames,
)
from robot_rl.classifier.network import Network
from robot_rl.classifier.options import ClassifierConfig, Inputs
from robot_rl.classifier.review import read_verdicts
from robot_rl.classifier.score import NO_PREDICATES, Predicates, Rule, doubtful_share
from robot_rl.classifier.split import HELD_OUT, split
from robot_rl.classifier.statistics import choose_rule, negative_log_likelihood, platt, proof
from robot_rl.classifier.worth import episode_scores, figures, where_allowed
from robot_rl.networks.augment import photometric, random_shift
from robot_rl.networks.encoders import convolution_dtype
from robot_rl.networks.resnet10 import load_weights
from robot_rl.types import Array, DataError

HALF = 128
"""Frames of either kind in a batch."""
LOOK_EVERY, PATIENCE = 25, 4
"""Batches between two looks at the calibration episodes, and looks without a better one."""
MINE_AT, MINED = (50, 200), 5
"""After so many batches the network says which frames are hard, and how many of an episode."""
WEIGHT_DECAY = 1e-4
VARIANTS = 4
"""Of each frame where a frozen trunk looks at it once: as it is, and shifted in other light."""

Progress = Callable[[int, int], None]
"""Called now and then with (batches so far, at most)."""


@dataclass
class Table:
    """The frames of several episodes in a row, and of which episode each is."""

    images: dict[str, Array]
    numbers: Array
    label: Array
    hard: Array
    episode: Array

    @classmethod
    def of(cls, episodes: Sequence[Frames]) -> "Table":
        """All of their frames."""
        return cls(
            {
                camera: np.concatenate([each.images[camera] for each in episodes])
                for camera in episodes[0].images
            },
            np.concatenate([each.numbers for each in episodes]),
            np.concatenate([each.label for each in episodes]),
            np.concatenate([each.hard for each in episodes]),
            np.repeat(np.arange(len(episodes)), [len(each.label) for each in episodes]),
        )


def train(
    folder: Path,
    sources: Sequence[Path],
    options: ClassifierConfig,
    *,
    seed: int = 0,
    progress: Progress = lambda done, most: None,
    ends: Ends = NO_ENDS,
    encoder: Encoder | None = None,
    predicates: Predicates = NO_PREDICATES,
) -> Classifier:
    """Train a classifier on the logs of `sources` (run folders, .log files), each up to its end or
    to where it `ends`, and write it as the next version in `folder`; the verdicts that lie there
    win over what was recorded. `encoder` is its trunk, where the options say so; that of the newest
    version in `folder`, if not given. `predicates` are the task's: they are counted, not
    learnt, and the threshold may be lower beside them (`rule_for`).

    Raises ConfigError for sources without frames or cameras, or cameras that the encoder does not
    know, DataError where there are too few episodes.
    """
    inputs = inputs_for(sources, options)
    if options.trunk == "encoder":
        encoder = encoder or Encoder.of_classifier(files.load(folder))
        inputs = encoder.inputs(inputs, options)
    read = read_frames(sources, inputs, read_verdicts(folder), ends, predicates)
    return train_on(
        folder, read, inputs, options, seed=seed, progress=progress, sources=map(str, sources),
        encoder=encoder, predicates=predicates.bounds,
    )  # fmt: skip


def train_on(
    folder: Path,
    episodes: Sequence[Frames],
    inputs: Inputs,
    options: ClassifierConfig,
    *,
    seed: int = 0,
    progress: Progress = lambda done, most: None,
    sources: Iterable[str] = (),
    encoder: Encoder | None = None,
    predicates: Collection[str] = (),
) -> Classifier:
    """The same of frames that were read already."""
    parts = split(episodes, seed)
    fitter = Fitter(parts["fit"], parts["calibrate"], inputs, options, seed, encoder)
    network, batches = fitter.fit(progress)
    # at the frequency at which successes occur, and not in balanced batches
    held = {part: [_logits(network, each) for each in parts[part]] for part in HELD_OUT}
    labels = np.concatenate([each.label for each in parts["calibrate"]])
    calibration = platt(np.concatenate(held["calibrate"]), labels)
    judged = {part: [calibration(z) for z in logits] for part, logits in held.items()}
    rule = rule_for(judged["calibrate"], parts["calibrate"], options)
    # what nobody vouches for may have been seen by a camera that had moved
    usual, _, strangeness = strange.fit([each for each in episodes if not each.unspoken])
    metrics = {
        "episodes": {part: len(each) for part, each in parts.items()},
        "positives": sum(int(each.label.sum()) for each in episodes),
        "negatives": sum(int((~each.label).sum()) for each in episodes),
        "hard": sum(int(each.hard.sum()) for each in episodes),
        "left_out": int(fitter.left_out.sum()),
        "batches": batches,
        "wanted_bound": options.bound,
        "doubtful_rate": doubtful_share(judged["test"], rule),
        "strangeness": strangeness,
    } | {part: figures(judged[part], parts[part], rule, predicates) for part in HELD_OUT}
    about = {
        "data_sha256": hash_of(episodes), "trunk": network.trunk, "inputs": inputs, "rule": rule,
        "platt": calibration, "metrics": metrics, "sources": tuple(sources),
        "options": options,
    }  # fmt: skip
    return files.write(folder, about, network, usual)


def rule_for(
    probabilities: Sequence[Array], episodes: Sequence[Frames], options: ClassifierConfig
) -> Rule:
    """The rule that keeps the bound by the pictures alone. Where that would miss successes of these
    episodes, the one that keeps it in a run: what the task's predicates forbid in any case is nothing
    to be careful about.
    """
    scores = episode_scores(probabilities, episodes, options.frames)
    rule = choose_rule(*scores, options.bound, options.frames)
    if proof(*scores, rule.threshold).misses:
        scores = episode_scores(where_allowed(probabilities, episodes), episodes, options.frames)
        rule = choose_rule(*scores, options.bound, options.frames)
    return rule


def test(
    classifier: Classifier, sources: Sequence[Path], predicates: Predicates = NO_PREDICATES
) -> dict[str, Any]:
    """What a classifier is worth on all episodes of these sources that somebody vouches for, which
    it should not have learnt from; also with the `predicates` of a task. Raises ConfigError or
    DataError as `train`.
    """
    read = read_frames(sources, classifier.inputs, predicates=predicates)
    episodes = [each.proven() for each in read if not each.unspoken]
    if not episodes:
        raise DataError(
            f"nobody has said of an episode in {', '.join(map(str, sources))} whether it succeeded:"
            " test on outcomes (robot-rl outcomes TASK), or on a run with words of the operator"
        )
    probabilities = [classifier.of_frames(each.images, each.numbers) for each in episodes]
    return figures(probabilities, episodes, classifier.rule, predicates.bounds)


def _logits(network: Network, episode: Frames) -> Array:
    return logits_of(network, episode.images, episode.numbers)


class Fitter:
    """Fits a network to the frames of some episodes, and keeps the one that says most of others.

    `left_out (N,)` are the frames that may show success, though nobody has said so.
    """

    def __init__(
        self,
        fit: Sequence[Frames],
        others: Sequence[Frames],
        inputs: Inputs,
        options: ClassifierConfig,
        seed: int,
        encoder: Encoder | None = None,
    ):
        self._episodes, self._options = fit, options
        self._fit, self._others = Table.of(fit), Table.of(others)
        self._generator = np.random.default_rng(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            trunk = options.trunk if encoder is None else encoder.trunk
            self.network = Network(inputs.cameras, inputs.size, len(inputs.numbers), trunk)
        self.network.fit_numbers(
            torch.from_numpy(self._fit.numbers), torch.from_numpy(self._fit.label)
        )
        if encoder is not None:
            encoder.fill(self.network)
        elif trunk == "resnet10":
            load_weights(self.network.trunk_of(inputs.cameras[0]), Path(options.resnet10_weights))
        self._hard = self._fit.hard.copy()
        # until the network knows better, all that may show it
        self._doubtful = np.concatenate([each.doubtful & ~each.label for each in fit])
        self.left_out = self._doubtful.copy()
        self._kept = self._keep() if self.network.frozen else None
        trained = [each for each in self.network.parameters() if each.requires_grad]
        self._optimiser = torch.optim.Adam(
            trained, options.learning_rate, weight_decay=WEIGHT_DECAY
        )

    def fit(self, progress: Progress) -> tuple[Network, int]:
        """The network, and after how many batches it was best."""
        best, best_at, state = np.inf, 0, deepcopy(self.network.state_dict())
        self.network.vision.set_dtype(convolution_dtype(torch.device("cpu")))
        for done in range(1, self._options.steps + 1):
            self._step()
            if done in MINE_AT:
                self._mine()
            if done % LOOK_EVERY and done != self._options.steps:
                continue
            progress(done, self._options.steps)
            loss = self._loss_on_others()
            if loss < best:
                best, best_at, state = loss, done, deepcopy(self.network.state_dict())
            elif done - best_at >= PATIENCE * LOOK_EVERY:
                break
        self.network.load_state_dict(state)
        self.network.vision.set_dtype(torch.float32)
        return self.network, best_at

    def _step(self) -> None:
        """One batch: as many that show success as not, of these at most half hard ones."""
        negative = ~self._fit.label & ~self.left_out
        hard = np.flatnonzero(negative & self._hard)
        rest = np.flatnonzero(negative & ~self._hard)
        many = min(HALF // 2, len(hard)) if len(rest) else HALF
        rows = np.concatenate([
            self._generator.choice(frames, count)
            for frames, count in (
                (np.flatnonzero(self._fit.label), HALF), (hard, many), (rest, HALF - many)
            ) if count
        ])  # fmt: skip
        smoothing = self._options.smoothing
        target = torch.from_numpy(np.where(self._fit.label[rows], 1.0 - smoothing, smoothing))
        numbers = torch.from_numpy(self._fit.numbers[rows])
        logits = self.network.judge(self._look(rows), numbers)
        loss = F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype))
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()

    def _look(self, rows: Array) -> Tensor:
        """What the trunk makes of these frames, each changed in its own way."""
        if self._kept is not None:
            variant = self._generator.integers(0, VARIANTS, len(rows))
            return self._kept[torch.from_numpy(variant), torch.from_numpy(rows)].float()
        return self.network.look(self._augmented(rows))

    def _augmented(self, rows: Array) -> dict[str, Tensor]:
        """Pictures shifted, and in another light."""
        changed = {}
        for camera, images in self._fit.images.items():
            shifted = images[rows]
            if self._options.shift_pixels:
                shifted = random_shift(shifted, self._generator, self._options.shift_pixels)
            changed[camera] = photometric(
                torch.from_numpy(shifted), self._generator, self._options.light, torch.float32
            )
        return changed

    def _keep(self) -> Tensor:
        """What a frozen trunk makes of every frame, `(variants, N, F)`: it looks at each once."""
        variants = []
        with torch.no_grad():
            for _ in range(VARIANTS):
                parts = np.array_split(np.arange(len(self._hard)), len(self._hard) // HALF + 1)
                seen = [self.network.look(self._augmented(part)) for part in parts]
                variants.append(torch.cat(seen).half())
        return torch.stack(variants)

    def _mine(self) -> None:
        """The frames of a timed-out episode that look most like success are hard; those that may show
        it are left out if they look like it.
        """
        logits = logits_of(self.network, self._fit.images, self._fit.numbers)
        self.left_out = self._doubtful & (logits > 0.0)
        for number, episode in enumerate(self._episodes):
            rows = np.flatnonzero(self._fit.episode == number)
            if episode.timed_out:
                self._hard[rows[np.argsort(logits[rows])[-MINED:]]] = True

    def _loss_on_others(self) -> float:
        """Of the calibration episodes, as often as successes occur in them."""
        logits = logits_of(self.network, self._others.images, self._others.numbers)
        label = self._others.label
        return negative_log_likelihood(platt(logits, label)(logits), label)
