"""How far off a run's encoder sees the goal where it counts: in its demonstrations, in its newest
own successes, and in the demonstrations of other runs (another light, a camera put back askew).
What it tells: docs/sight.md; of turns: docs/long_tasks.md.

.venv/bin/python benchmarks/goal_error.py RUN [OTHER_RUN ...]
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.checkpoint import load_policy
from robot_rl.learner.goal_frames import GoalFrames, goal_frames
from robot_rl.learner.intake import counted_of
from robot_rl.learner.options import LearnerConfig
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.vision import encode
from robot_rl.stream.episodes import newest_episodes
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, ConfigError, DataError, Provenance

Pair = tuple[float, float]
SMALL_M = 0.0015
"""[m]: three times the clearance of `peg_insert`."""


@dataclass(frozen=True)
class Options:
    """runs: the first one's encoder, and its data; of further ones the demonstrations. near: the
    frames that count, by the distance of the goal [m]; as it is, the peg's tip at the rim of a
    socket that is 25 mm deep. aside: and no further from the tool's axis [m]. arm: whose
    goal, by its number. newest: own successes. turns: of the tool about its axis, by how much it is
    out of line, from each of these to the next [degrees], in place of places."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    near: Pair = (0.0242, 0.032)
    aside: float = 0.006
    arm: int = 0
    newest: int = 100
    turns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Row:
    """Errors aside of the tool's axis [mm]. `error`: the median of the frames, `along`: that of the
    errors along the axis. `bias`: what all frames of a scene have in common, median and 90 % of the
    scenes; no mean over frames takes that away. `scatter`: what is left of a frame's error, median.

    Where most frames are aligned, all of these are small for an encoder that takes each tool for
    aligned. `seen` is how much of an offset of less than `SMALL_M` it sees: 1 is all, 0 nothing. In
    frames of a policy it means nothing: that goes to where the encoder says 0.
    """

    name: str
    scenes: int
    frames: int
    error: float
    along: float
    bias: float
    bias_90: float
    scatter: float
    seen: float


@dataclass(frozen=True)
class TurnRow:
    """Errors about the tool's axis [degrees], by how much the tool is out of line. Of each stretch
    of the turns: how many of all frames are `shown` there [share], and the `error`, the median of
    these frames, nan without any.
    """

    name: str
    frames: int
    shown: tuple[float, ...]
    error: tuple[float, ...]


@dataclass(frozen=True)
class Group:
    """Frames of one kind: which of them are `chosen (N,)`, and of which arm the goal is looked at."""

    name: str
    frames: GoalFrames
    chosen: Array
    arm: int = 0

    def look(self, vision: GoalVision) -> tuple[Array, Array]:
        """The goals `(M, 6)` of those chosen, as `vision` sees them and as they are. Raises
        DataError without any.
        """
        if not self.chosen.any():
            raise DataError(f"{self.name}: no frame has the goal where --near and --aside want it")
        frames = self.frames.rows(np.flatnonzero(self.chosen))
        goals = encode(vision, frames.images, frames.told)[:, -len(vision.goal_mean) :]
        return of_arm(goals.astype(np.float32), self.arm), of_arm(frames.goals, self.arm)


def of_arm(goals: Array, arm: int) -> Array:
    """One arm's `(N, 6)` of the goals `(N, 6 per arm)`."""
    return goals[:, 6 * arm : 6 * arm + 6]


def row(vision: GoalVision, group: Group) -> Row:
    """The errors of place in some frames. Raises DataError without any."""
    seen, true = group.look(vision)
    scenes = group.frames.scenes[group.chosen]
    errors = 1e3 * (seen - true)[:, :2]
    along = 1e3 * float(np.median(np.abs(seen - true)[:, 2]))
    biases = {scene: np.median(errors[scenes == scene], axis=0) for scene in np.unique(scenes)}
    each = np.linalg.norm(list(biases.values()), axis=1)
    left = errors - np.array([biases[scene] for scene in scenes])
    error, scatter = (float(np.median(np.linalg.norm(part, axis=1))) for part in (errors, left))
    bias, bias_90 = float(np.median(each)), float(np.quantile(each, 0.9))
    return Row(
        group.name,
        len(biases),
        len(errors),
        error,
        along,
        bias,
        bias_90,
        scatter,
        share_seen(true[:, :2], seen[:, :2]),
    )


def turn_row(vision: GoalVision, group: Group, turns: Sequence[float]) -> TurnRow:
    """The errors of the turn in some frames, from each of `turns` to the next [degrees]. Raises
    DataError without any.
    """
    seen, true = (np.degrees(goals[:, 5]) for goals in group.look(vision))
    errors = np.abs((seen - true + 180.0) % 360.0 - 180.0)
    parts = [(low <= abs(true)) & (abs(true) < high) for low, high in pairwise(turns)]
    shown = tuple(float(part.mean()) for part in parts)
    error = tuple(float(np.median(errors[part])) if part.any() else float("nan") for part in parts)
    return TurnRow(group.name, len(true), shown, error)


def share_seen(true: Array, seen: Array) -> float:
    """The slope of the small offsets `(N, 2)` that are seen over the true ones; nan if none is
    small.
    """
    small = np.linalg.norm(true, axis=1) < SMALL_M
    return (
        float((true[small] * seen[small]).sum() / np.square(true[small]).sum())
        if small.any()
        else float("nan")
    )


def entrance(goals: Array, options: Options) -> Array:
    """Which of the goals `(N, 6)` from the tool count `(N,)`."""
    away, aside = np.linalg.norm(goals[:, :3], axis=1), np.linalg.norm(goals[:, :2], axis=1)
    return (away > options.near[0]) & (away < options.near[1]) & (aside < options.aside)


def at_entrance(frames: GoalFrames, options: Options) -> Array:
    """Which of the frames count `(N,)`, by the goal of the arm that is asked for."""
    return entrance(of_arm(frames.goals, options.arm), options)


def encoder_of(folder: RunFolder, arm: int) -> tuple[PolicySpec, GoalVision]:
    """The newest encoder of a run. Raises ConfigError if it does not predict the goal of this arm,
    DataError without a checkpoint."""
    policy = load_policy(folder.checkpoints)
    if not isinstance(policy.vision, GoalVision) or arm not in range(policy.spec.goal_size // 6):
        raise ConfigError(f"the encoder of {folder.path} does not predict the goal of an arm {arm}")
    return policy.spec, policy.vision


def demonstrations(folder: RunFolder, spec: PolicySpec) -> GoalFrames:
    return goal_frames(counted_of(folder.demos_log, folder.spaces()), spec)


def groups(options: Options, folder: RunFolder, spec: PolicySpec) -> Iterator[Group]:
    """All that is looked at, one kind after the other."""
    held_out = config.from_json(LearnerConfig, folder.section("learner")).pretrain.held_out
    arm, frames = options.arm, demonstrations(folder, spec)
    counts, held = at_entrance(frames, options), frames.scenes > frames.scenes.max() - held_out
    yield Group("demonstrations", frames, counts & ~held, arm)
    if (counts & held).any():
        yield Group("demonstrations held out", frames, counts & held, arm)
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        own = newest_episodes(log.entries, options.newest)
    if own:
        frames = goal_frames([], spec, own)
        counts, human = at_entrance(frames, options), frames.authors == Provenance.HUMAN
        yield Group("own successes", frames, counts, arm)
        for name, part in (("the policy", counts & ~human), ("the operator", counts & human)):
            if part.any():
                yield Group(f"- of them with {name} acting", frames, part, arm)
    for other in map(RunFolder, options.runs[1:]):
        frames = demonstrations(other, spec)
        name = f"demonstrations of {other.path.name}"
        yield Group(name, frames, at_entrance(frames, options), arm)


def table(found: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        (
            "| frames at the entrance | scenes | frames | error aside | along the axis |"
            " bias of a scene | 90 % of them | scatter in a scene | of an offset seen |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | {r.scenes} | {r.frames:,} | {r.error:.2f} mm | {r.along:.2f} mm |"
        f" {r.bias:.2f} mm | {r.bias_90:.2f} mm | {r.scatter:.2f} mm | {r.seen:.0%} |"
        for r in found
    ]
    return "\n".join(lines)


def turn_table(found: Sequence[TurnRow], turns: Sequence[float]) -> str:
    """Markdown: the error in each stretch of turns, and how many of the frames show it."""
    stretches = [f"{low:g} to {high:g}" for low, high in pairwise(turns)]
    lines = [
        "| out of line by [degrees] | frames | " + " | ".join(stretches) + " |",
        "|---" * (2 + len(stretches)) + "|",
    ]
    for r in found:
        cells = " | ".join(
            f"{error:.1f} ({shown:.0%})" for error, shown in zip(r.error, r.shown, strict=True)
        )
        lines.append(f"| {r.name} | {r.frames:,} | {cells} |")
    return "\n".join(lines)


def report(options: Options) -> str:
    """The table that is asked for. Raises ConfigError, DataError."""
    turns = options.turns
    if turns and (len(turns) < 2 or list(turns) != sorted(set(turns))):
        raise ConfigError(f"--turns {' '.join(f'{t:g}' for t in turns)}: two or more, rising")
    folder = RunFolder(options.runs[0])
    spec, vision = encoder_of(folder, options.arm)
    found = groups(options, folder, spec)
    if turns:
        return turn_table([turn_row(vision, group, turns) for group in found], turns)
    return table([row(vision, group) for group in found])


def main() -> int:
    try:
        print(report(tyro.cli(Options, description=__doc__)))
    except (ConfigError, DataError) as error:
        print(f"goal_error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
