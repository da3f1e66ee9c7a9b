"""Through which cameras the goal is seen best: an encoder for each choice of them, trained on four
of five scenes of a run's demonstrations, and its errors in the others. What it tells: docs/sight.md.

.venv/bin/python -m benchmarks.which_cameras RUN
.venv/bin/python -m benchmarks.which_cameras RUN --choices wrist wrist,front --encoders goal_points
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

from benchmarks.goal_error import demonstrations
from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.goal_frames import GoalFrames
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import EACH, pretrain
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.vision import encode, encoder_info
from robot_rl.types import Array, ConfigError, DataError


@dataclass(frozen=True)
class Options:
    """run: whose demonstrations. choices: of cameras, with commas between; each alone and all
    together, if none is named. encoders: that predict the goal. distances: of the goal from the
    tool, between which errors are told apart [mm]. epochs: 0 as many as the run has. device: cpu or
    cuda."""

    run: Annotated[Path, tyro.conf.Positional]
    choices: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ("goal",)
    distances: tuple[float, ...] = (0.0, 12.0, 25.0, 50.0, 100.0, 300.0)
    epochs: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class Row:
    """What one encoder has seen through some cameras in scenes that it did not learn from: medians
    of the place [mm] and of the turn [degrees], by distance; nan where no frame has the goal."""

    cameras: tuple[str, ...]
    encoder: str
    frames: int
    seconds: float
    errors: list[tuple[float, float]]


def choices(options: Options, cameras: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The cameras to see through, each choice once. Raises ConfigError for one that is none."""
    named = [tuple(choice.split(",")) for choice in options.choices]
    if unknown := {name for choice in named for name in choice} - {*cameras}:
        raise ConfigError(f"{', '.join(sorted(unknown))}? The cameras are {', '.join(cameras)}")
    return named or list(dict.fromkeys([*((name,) for name in cameras), cameras]))


def by_distance(
    seen: Array, true: Array, distances: tuple[float, ...]
) -> list[tuple[float, float]]:
    """Median errors [mm, degrees] of goals `(N, 6)` [m, rad] whose distance lies between each two."""
    away = 1e3 * np.linalg.norm(true[:, :3], axis=1)
    place = 1e3 * np.linalg.norm((seen - true)[:, :3], axis=1)
    turn = np.degrees(np.linalg.norm((seen - true)[:, 3:], axis=1))
    between = [(away >= a) & (away < b) for a, b in pairwise(distances)]
    return [
        (float(np.median(place[chosen])), float(np.median(turn[chosen])))
        if chosen.any()
        else (float("nan"), float("nan"))
        for chosen in between
    ]


def measured(
    frames: GoalFrames, spec: PolicySpec, learner: LearnerConfig, options: Options
) -> list[tuple[float, float]]:
    """The errors in each fifth scene of an encoder that has learnt from the others."""
    torch.manual_seed(0)
    vision = Policy(spec).to(options.device).vision
    assert isinstance(vision, GoalVision)
    held = frames.scenes % EACH == EACH - 1
    if not held.any():
        raise DataError(f"of {len(np.unique(frames.scenes))} scenes none is left to be tested on")
    settings = replace(learner.pretrain, held_out=0)
    if options.epochs:
        settings = replace(settings, epochs=options.epochs)
    pretrain(vision, frames.rows(np.flatnonzero(~held)), settings, seed=0)
    unseen = frames.rows(np.flatnonzero(held))
    size = frames.goals.shape[1]
    seen = encode(vision, unseen.images, unseen.told)[:, -size:].astype(np.float32)
    seen, true = seen.reshape(-1, 6), unseen.goals.reshape(-1, 6)
    known = ~np.isnan(true[:, 0])
    return by_distance(seen[known], true[known], options.distances)


def rows(options: Options) -> Iterator[Row]:
    """The table, one row after the other. Raises ConfigError for a camera or encoder that there is
    not, DataError for a log that is damaged or too short."""
    folder = RunFolder(options.run)
    learner = config.from_json(LearnerConfig, folder.section("learner"))
    space = folder.spaces()
    every = PolicySpec.from_space(space, "goal", camera_features=64)
    shown = demonstrations(folder, every)
    for chosen in choices(options, every.cameras):
        frames = replace(shown, images={name: shown.images[name] for name in chosen})
        for encoder in options.encoders:
            features = encoder_info(encoder).features
            spec = PolicySpec.from_space(space, encoder, chosen, camera_features=features)
            if not spec.goal_size:
                raise ConfigError(f"the encoder {encoder} predicts no goal")
            begun = time.monotonic()
            errors = measured(frames, spec, learner, options)
            yield Row(chosen, encoder, len(frames.goals), time.monotonic() - begun, errors)


def line(row: Row) -> str:
    """A row in Markdown."""
    errors = (f"{mm:.1f} mm, {deg:.1f} deg" if mm == mm else "-" for mm, deg in row.errors)
    told = [", ".join(row.cameras), row.encoder, f"{row.frames:,}", f"{row.seconds:.0f}", *errors]
    return f"| {' | '.join(told)} |"


def head(distances: tuple[float, ...]) -> str:
    """The head of the table in Markdown."""
    away = [f"{a:g} to {b:g} mm" for a, b in pairwise(distances)]
    names = ["cameras", "encoder", "frames", "s", *away]
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def main() -> int:
    options = tyro.cli(Options, description=__doc__)
    try:
        print(head(options.distances))
        for row in rows(options):
            print(line(row), flush=True)
    except (ConfigError, DataError) as error:
        print(f"which_cameras: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
