"""How far off a run's encoder sees the goal where it counts: in its demonstrations, in its newest
own successes, where its policy went in its newest evaluation (in simulation, which knows the goal
there, in failures too), and in the demonstrations of other runs (another light, a camera put back
askew).
What it tells: docs/sight.md; of turns: docs/long_tasks.md; where things lie on the bench: docs/tasks.md,
`handover`.

.venv/bin/python benchmarks/goal_error.py RUN [OTHER_RUN ...]
"""

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

from robot_rl import config
from robot_rl.actor.evaluation_record import goal_names
from robot_rl.config.evaluation_files import EvaluationFiles
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.checkpoint import load_policy
from robot_rl.learner.goal_frames import GoalFrames, goal_frames
from robot_rl.learner.intake import counted_of
from robot_rl.learner.options import LearnerConfig
from robot_rl.networks.goal import GoalVision, entries_of
from robot_rl.networks.goal_places import HAND
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.poses import moved
from robot_rl.networks.vision import encode
from robot_rl.stream.episodes import newest_episodes
from robot_rl.stream.log import StepLog
from robot_rl.types import PLACE, Array, ConfigError, DataError, Provenance, SpaceSpec, Step

Pair = tuple[float, float]
ONE_PLACE_M = 0.005
"""[m]: goals that spread by less on the bench lie at one place."""
SMALL_M = 0.0015
"""[m]: three times the clearance of `peg_insert`."""


@dataclass(frozen=True)
class Options:
    """runs: the first one's encoder, and its data; of further ones the demonstrations. near: the
    frames that count, by the distance of the goal [m]; as it is, the peg's tip at the rim of a
    socket that is 25 mm deep. aside: and no further from the tool's axis [m]. arm: whose
    goal, by its number. newest: own successes. turns: of the tool about its axis, by how much it is
    out of line, from each of these to the next [degrees], in place of places. on_bench: errors along x and
    y of the bench, by the distance of the goal, from each of these to the next [m], in place of all
    that."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    near: Pair = (0.0242, 0.032)
    aside: float = 0.006
    arm: int = 0
    newest: int = 100
    turns: tuple[float, ...] = ()
    on_bench: tuple[float, ...] = ()


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
class BenchRow:
    """Errors on the bench in one stretch of distances `(low, high)` [m]: their medians along x, y [mm]
    and of the yaw [degrees], and how much of where the goals lie along x and y is `missed`: 0 of
    who sees it, 1 of who says the same in every scene, nan where all lie at one place.
    """

    name: str
    stretch: Pair
    frames: int
    error: tuple[float, float, float]
    missed: Pair


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


def bench_rows(
    vision: GoalVision, group: Group, spec: PolicySpec, limits: Sequence[float]
) -> list[BenchRow]:
    """The errors on the bench in some frames, from each of the `limits` to the next, apart for a hand
    that is empty and one that holds something. Raises ConfigError without a place of the tools there.
    """
    entries = entries_of(spec.told_state, PLACE)[6 * group.arm : 6 * group.arm + 6]
    if not entries:
        raise ConfigError(
            "--on-bench: the task does not observe where its tools are (observe_place)"
        )
    hands = entries_of(spec.told_state, HAND)[3 * group.arm : 3 * group.arm + 3]
    told = group.frames.told[group.chosen]
    seen, true = group.look(vision)
    tools = torch.from_numpy(told[:, entries]).double()
    there, lies = (moved(tools, torch.from_numpy(g).double()).numpy() for g in (seen, true))
    off = np.abs(there - lies)[:, [0, 1, 5]] * [1e3, 1e3, math.degrees(1.0)]
    off[:, 2] = np.minimum(off[:, 2], 360.0 - off[:, 2])
    away = np.linalg.norm(true[:, :3], axis=1)
    holds = told[:, hands[2]] > 0.5 if hands else np.zeros(len(told), bool)
    rows = []
    for what, alike in (("empty", ~holds), ("holds", holds)):
        for low, high in pairwise(limits):
            part = alike & (low <= away) & (away < high)
            if not part.any():
                continue
            x, y, yaw = np.median(off[part], axis=0)
            missed = (
                _missed(lies[part, 0], there[part, 0]),
                _missed(lies[part, 1], there[part, 1]),
            )
            name = f"{group.name}, {what}" if hands else group.name
            rows.append(BenchRow(name, (low, high), int(part.sum()), (x, y, yaw), missed))
    return rows


def _missed(true: Array, seen: Array) -> float:
    """How much less than the truth goes what is seen of it; nan where that is one place."""
    if true.std() < ONE_PLACE_M:
        return float("nan")
    return 1.0 - float(np.polyfit(true, seen, 1)[0])


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


def counted(frames: GoalFrames, options: Options) -> Array:
    """Which of the frames count `(N,)`: on the bench all in which somebody knows the goal of the arm
    that is asked for, else those at the entrance.
    """
    goals = of_arm(frames.goals, options.arm)
    known: Array = ~np.isnan(goals[:, 0])
    return known if options.on_bench else entrance(goals, options)


def encoder_of(folder: RunFolder, arm: int) -> tuple[PolicySpec, GoalVision]:
    """The newest encoder of a run. Raises ConfigError if it does not predict the goal of this arm,
    DataError without a checkpoint."""
    policy = load_policy(folder.checkpoints)
    if not isinstance(policy.vision, GoalVision) or arm not in range(policy.spec.goal_size // 6):
        raise ConfigError(f"the encoder of {folder.path} does not predict the goal of an arm {arm}")
    return policy.spec, policy.vision


def demonstrations(folder: RunFolder, spec: PolicySpec) -> GoalFrames:
    return goal_frames(counted_of(folder.demos_log, folder.spaces()), spec)


def evaluated(files: EvaluationFiles, space: SpaceSpec, spec: PolicySpec) -> GoalFrames:
    """The frames of an evaluation, and where the simulator knew the goals to be: behind a step is
    what the next one saw. Raises DataError if none has both.
    """
    with files.truth.open(newline="") as file:
        known = {(int(row["episode"]), int(row["index"])): row for row in csv.DictReader(file)}
    columns = [name for arm in range(len(spec.pose_keys)) for name in goal_names(arm)]
    with StepLog(files.log, space, read_only=True) as log:
        behind = (
            (step, known.get((step.episode, step.index - 1)))
            for step in log.read()
            if isinstance(step, Step)
        )
        pairs = [(step, row) for step, row in behind if row and columns[-1] in row]
    if not pairs:
        raise DataError(f"{files.folder}: no goal stands beside its steps; evaluate the run anew")
    steps, rows = zip(*pairs, strict=True)
    goals = np.array([[float(row[name]) for name in columns] for row in rows], np.float32)
    return GoalFrames.of(steps, goals, np.array([step.episode for step in steps]), spec)


def says_goals(files: EvaluationFiles) -> bool:
    """Whether an evaluation says where the goals were: of a real arm, or an older one, does not."""
    if not files.truth.exists():
        return False
    with files.truth.open(newline="") as file:
        return goal_names(0)[0] in next(csv.reader(file), ())


def groups(options: Options, folder: RunFolder, spec: PolicySpec) -> Iterator[Group]:
    """All that is looked at, one kind after the other."""
    held_out = config.from_json(LearnerConfig, folder.section("learner")).pretrain.held_out
    arm, frames = options.arm, demonstrations(folder, spec)
    counts, held = counted(frames, options), frames.scenes > frames.scenes.max() - held_out
    yield Group("demonstrations", frames, counts & ~held, arm)
    if (counts & held).any():
        yield Group("demonstrations held out", frames, counts & held, arm)
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        own = newest_episodes(log.entries, options.newest)
    if own:
        frames = goal_frames([], spec, own)
        counts, human = counted(frames, options), frames.authors == Provenance.HUMAN
        yield Group("own successes", frames, counts, arm)
        for name, part in (("the policy", counts & ~human), ("the operator", counts & human)):
            if part.any():
                yield Group(f"- of them with {name} acting", frames, part, arm)
    for files in [each for each in EvaluationFiles.all_of(folder.path) if says_goals(each)][-1:]:
        frames = evaluated(files, folder.spaces(), spec)
        if (counts := counted(frames, options)).any():
            yield Group(f"evaluation {files.folder.name}", frames, counts, arm)
    for other in map(RunFolder, options.runs[1:]):
        frames = demonstrations(other, spec)
        name = f"demonstrations of {other.path.name}"
        yield Group(name, frames, counted(frames, options), arm)


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


def bench_table(found: Sequence[BenchRow]) -> str:
    """Markdown."""
    lines = [
        "| goals on the bench | mm away | frames | x | y | yaw | of x, y not seen |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in found:
        low, high = (1e3 * limit for limit in r.stretch)
        missed = ", ".join("-" if math.isnan(m) else f"{m:.0%}" for m in r.missed)
        lines.append(
            f"| {r.name} | {low:.0f} to {high:.0f} | {r.frames:,} | {r.error[0]:.1f} mm |"
            f" {r.error[1]:.1f} mm | {r.error[2]:.1f} degrees | {missed} |"
        )
    return "\n".join(lines)


def report(options: Options) -> str:
    """The table that is asked for. Raises ConfigError, DataError."""
    turns, limits = options.turns, options.on_bench
    for name, values in (("--turns", turns), ("--on-bench", limits)):
        if values and (len(values) < 2 or list(values) != sorted(set(values))):
            raise ConfigError(f"{name} {' '.join(f'{v:g}' for v in values)}: two or more, rising")
    folder = RunFolder(options.runs[0])
    spec, vision = encoder_of(folder, options.arm)
    found = groups(options, folder, spec)
    if turns:
        return turn_table([turn_row(vision, group, turns) for group in found], turns)
    if limits:
        return bench_table([r for group in found for r in bench_rows(vision, group, spec, limits)])
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
