"""What a run's encoder is worth as the trunk of a classifier, beside a small network of its own.

    python -m benchmarks.trunks runs/s0 runs/s1 runs/s2

The first run's encoder ("goal" or "end_to_end") and its labelled frames (`outcomes.log`); what they
are worth is counted on those of the other runs, which were trained with other seeds. "projected" is
the same encoder with its last layer, from which a policy goes on. Once the labels are as recorded;
and once success is a mark in the last camera's picture, 10 x 10 of 128 pixels 40 brighter, drawn into the
second half of every other episode: nothing that an encoder of poses looks for. Times are of the
processor, for machines that do other things meanwhile.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from robot_rl.classifier import network, training
from robot_rl.classifier.encoder import Encoder
from robot_rl.classifier.frames import Frames, inputs_for, read_frames
from robot_rl.classifier.options import SIZE, ClassifierConfig, Inputs
from robot_rl.classifier.worth import figures
from robot_rl.learner.checkpoint import load_policy
from robot_rl.networks.encoders import SmallCNN, SmallMaps, Vision
from robot_rl.networks.policy import LivePolicy

MARK, BRIGHTER = (20, 30, 100, 110), 40
"""Rows and columns in a picture of 128 pixels, and how much brighter [of 255]."""


def marked(episodes: Sequence[Frames], camera: str) -> list[Frames]:
    """The same pictures with another success: the mark."""
    return [_marked(each, camera, bool(number % 2)) for number, each in enumerate(episodes)]


def _marked(episode: Frames, camera: str, success: bool) -> Frames:
    label = success & (np.arange(len(episode.label)) >= len(episode.label) // 2)
    images = {**episode.images, camera: episode.images[camera].copy()}
    top, bottom, left, right = (each * images[camera].shape[1] // 128 for each in MARK)
    part = images[camera][:, top:bottom, left:right]
    part[label] = np.minimum(part[label], 255 - BRIGHTER) + BRIGHTER
    hard = np.zeros_like(label)
    return replace(episode, images=images, label=label, hard=hard, timed_out=False)


def projected(policy: LivePolicy) -> Encoder:
    """The encoder with its last layer."""
    assert isinstance(policy.vision, Vision)
    weights = {name: cnn.state_dict() for name, cnn in policy.vision.cameras.items()}
    return replace(Encoder.of_policy(policy), weights=weights)


def row(
    fit: Sequence[Frames],
    held: Sequence[Frames],
    inputs: Inputs,
    encoder: Encoder | None,
    seed: int,
) -> str:
    """Train on some episodes, count on others."""
    options = ClassifierConfig()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = training.train_on(Path(folder), fit, inputs, options, seed=seed, encoder=encoder)
    took = time.process_time() - begun
    found = figures([made.of_frames(e.images, e.numbers) for e in held], held, made.rule)
    return (
        f"{took:5.1f} s, fires {found['fires']} of {found['failures']}, misses {found['misses']} of"
        f" {found['successes']}, frames right {found['accuracy']:.1%}, NLL {found['nll']:.4f}"
    )


def main() -> None:
    """Print a line for each trunk, kind of success, and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=["small", "encoder", "projected"])
    said = parser.parse_args()
    first, others = [said.runs[0] / "outcomes.log"], [run / "outcomes.log" for run in said.runs[1:]]
    policy = load_policy(said.runs[0])
    seen = inputs_for(first, ClassifierConfig(size=policy.spec.image_size[0]))

    class Projected(SmallCNN):
        def __init__(self) -> None:
            super().__init__(policy.spec.image_size, policy.spec.camera_features)

    for name, inputs, encoder, maps in (
        ("small", replace(seen, size=SIZE), None, SmallMaps),
        ("encoder", seen, Encoder.of_policy(policy), SmallMaps),
        ("projected", seen, projected(policy), Projected),
    ):
        if name not in said.only:
            continue
        fit, held = read_frames(first, inputs), read_frames(others, inputs)
        for what in ("recorded", "mark"):
            if what == "mark":
                fit, held = (marked(each, inputs.cameras[-1]) for each in (fit, held))
            for seed in said.seeds:
                with patch.object(network, "SmallMaps", maps):
                    found = row(fit, held, inputs, encoder, seed)
                print(f"{name:<9} {what:<8} seed {seed}: {found}", flush=True)


if __name__ == "__main__":
    main()
