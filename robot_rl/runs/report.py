"""What a run came to: evaluation.json and the learning-curve plots."""

import logging
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robot_rl.actor.demonstrate import DemoTally
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.counts import EPISODES, POINTS, WINDOW, Point, Progress
from robot_rl.dataset.outcomes import labelled_episodes, labelled_frames
from robot_rl.dataset.pictures import evenly, in_rows, label_sheet, read_picture, write_picture
from robot_rl.machine.small_files import is_number, read_json, read_lines, write_json
from robot_rl.stream.episodes import EpisodeOf, episode_of
from robot_rl.stream.log import StepLog
from robot_rl.types import DataError, Step

if TYPE_CHECKING:  # it is loaded where something is drawn
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
METRICS = ("env_steps",)
"""What is a number in each row of the metrics."""
Columns = dict[str, "array[float]"]


def training_so_far(folder: RunFolder) -> dict[str, Any]:
    """The summary that a finished sitting left; for processes started by hand, from the learner's
    own clock.
    """
    if summary := _earlier(folder):
        return summary
    metrics = _columns(folder.metrics_file, METRICS, "wall_s")["wall_s"]
    walls = [wall_s for wall_s in metrics if np.isfinite(wall_s)]
    return training_summary(folder, walls[-1] if walls else 0.0, {})


def _earlier(folder: RunFolder) -> dict[str, Any]:
    """The training in numbers as a sitting before left it; empty if there was none, or if it is
    damaged.
    """
    if not folder.training_file.exists():
        return {}
    try:
        return read_json(folder.training_file)
    except DataError as error:
        log.warning(
            "%s. What earlier sittings took on the clock is not counted; the rest is in the run's"
            " tables",
            error,
        )
        return {}


def save_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write a summary that a run can go on without: a disk that refuses is a warning."""
    try:
        write_json(path, summary, indent=2)
    except DataError as error:
        log.warning("%s", error)


def training_summary(
    folder: RunFolder, wall_s: float, phases: Mapping[str, float]
) -> dict[str, Any]:
    """The training in numbers, from the run's own files; earlier sittings of a resumed run are
    added.
    """
    before = _earlier(folder).get("wall_minutes", 0.0)
    episodes = _columns(folder.episodes_file, EPISODES, "missed_resets", "guided_steps")
    demos, outcomes = folder.demos(), outcome_steps(folder)
    # the learner's count as well: an episode that was cut off has no row; a robot without its
    # learner has only episodes
    counted = (*episodes["env_steps"], *_columns(folder.metrics_file, METRICS)["env_steps"])
    steps = demos["steps"] + int(max(counted, default=0))
    rate_hz = folder.load_task().rate_hz
    began, cycle_s = _shown(folder, rate_hz)
    return {
        "env_steps": steps,
        "robot_minutes": steps / rate_hz / 60.0,
        "online_minutes": (steps - demos["steps"]) / rate_hz / 60.0,
        "elapsed_minutes": _elapsed_minutes(folder, began),
        "wall_minutes": (before if is_number(before) else 0.0) + wall_s / 60.0,
        "demonstrations": demos["successes"],
        "demonstration_steps": demos["steps"] - outcomes,
        "demonstration_cycle_s": cycle_s,
        "outcome_steps": outcomes,
        "training_episodes": len(episodes["success"]),
        "missed_resets": int(np.nansum(episodes["missed_resets"])),
        "interventions": int(sum(episodes["segments"])),
        "intervention_steps": int(sum(episodes["human_steps"])),
        "guided_steps": int(np.nansum(episodes["guided_steps"])),
        "train_seed": folder.settings.seed,
        "phases_s": {name: round(seconds, 2) for name, seconds in phases.items()},
    }


def _shown(folder: RunFolder, rate_hz: float) -> tuple[float | None, float | None]:
    """When the first demonstration began, and how many seconds one took on average; None where that
    is not known.
    """
    began = steps = None
    if folder.demos_log.exists():
        try:
            with StepLog(folder.demos_log, folder.spaces(), read_only=True) as demos:
                began = next((step.t_wall for step in demos.read()), None)
                steps = DemoTally.of(demos).mean_length
        except DataError as error:
            log.warning("%s. It is not known when, or how long, it was demonstrated", error)
    return began, None if steps is None else steps / rate_hz


def _elapsed_minutes(folder: RunFolder, began: float | None) -> float | None:
    """From the first demonstration, which `began` then, to the newest line of the tables, resets
    and stops included.

    Of a run that began with the demonstrations of others, from the first line; None where there is
    nothing to go by.
    """
    tables = (folder.episodes_file, folder.metrics_file)
    walls = [each for path in tables for each in _columns(path, (), "t_wall")["t_wall"]]
    walls = [wall for wall in walls if not np.isnan(wall)]  # tables of old runs have none
    if began is not None and not folder.sections.get("demos_from"):
        walls.append(began)
    return (max(walls) - min(walls)) / 60.0 if walls else None


def _columns(path: Path, numbers: tuple[str, ...], *others: str) -> Columns:
    """Columns of a table, one value per row, nan where a row of it has none of the `others`."""
    columns: Columns = defaultdict(lambda: array("d"))
    for row in read_lines(path, numbers):
        for name in (*numbers, *others):
            columns[name].append(float(row[name]) if is_number(row.get(name)) else np.nan)
    return columns


def plot_learning(folder: RunFolder) -> list[Path]:
    """Learning curves as PNG: success and the operator's share over the steps, and the learner's
    own figures.

    A disk that refuses is a warning: no run ends for a picture.
    """
    try:
        return _plot_learning(folder)
    except OSError as error:
        log.warning("%s cannot be drawn: %s", folder.plots, error.strerror)
        return []


def _plot_learning(folder: RunFolder) -> list[Path]:
    folder.plots.mkdir(exist_ok=True)
    written = []
    training = Progress()
    for row in read_lines(folder.episodes_file, EPISODES):
        training.add(row)
    if training.curve:
        written.append(_plot_success(training.curve, folder))
    metrics = _columns(folder.metrics_file, METRICS, "updates", "offline_updates", *CURVES)
    # else there was no update
    if np.isfinite([*metrics["critic_loss"], *metrics["bc_loss"]]).any():
        written.append(_plot_learner(metrics, folder))
    return written


def plot_demos(folder: RunFolder) -> Path | None:
    """The demonstrations that count, as PNG: how long each took, the tool's paths, and what was
    seen at each end.

    None if there is none, or, with a warning, if it cannot be drawn: no recording ends for a
    picture.
    """
    try:
        return _plot_demos(folder) if folder.demos_log.exists() else None
    except (OSError, DataError) as error:
        log.warning("the demonstrations cannot be drawn: %s", error)
        return None


def _plot_demos(folder: RunFolder) -> Path | None:
    from matplotlib.figure import Figure

    paths, ends, tally = _demos(folder)
    if not paths:
        return None
    figure = Figure(figsize=(12, 4), dpi=110)
    lengths, above, aside = figure.subplots(1, 3)
    lengths.bar(
        range(1, len(paths) + 1), [len(path) - 1 for path in paths.values()], color="#2ca02c"
    )
    lengths.set(
        title=f"{len(paths)} demonstrations, {tally.attempts} attempts",
        xlabel="demonstration",
        ylabel="steps",
    )
    for axes, (i, j), names in ((above, (0, 1), "x y"), (aside, (0, 2), "x z, z along the tool")):
        for path in paths.values():
            line = 1e3 * np.array(path)[:, [i, j]]
            axes.plot(*line.T, lw=0.8, alpha=0.6)
            axes.plot(*line[-1], "o", color="#d62728", ms=3)
        axes.set(
            title=f"tool, from where the episode began: {names}",
            xlabel="mm",
            ylabel="mm",
            aspect="equal",
        )
        axes.grid(alpha=0.3)
    folder.plots.mkdir(exist_ok=True)
    picture = _save(figure, folder.plots / "demonstrations.png")
    if ends:
        write_picture(picture, _with_strip(read_picture(picture), ends))
    return picture


def _demos(folder: RunFolder) -> tuple[dict[EpisodeOf, list[Any]], list[np.ndarray], DemoTally]:
    """The tool's path of each demonstration that counts, the last views of each, and the tally."""
    with StepLog(folder.demos_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        tally = DemoTally.of(log)
        paths: dict[EpisodeOf, list[Any]] = {episode: [] for episode in tally.kept}
        last: dict[EpisodeOf, np.ndarray] = {}
        for identity, step in log.entries():
            if isinstance(step, Step) and (episode := episode_of(identity.stream, step)) in paths:
                pose = next(
                    value for name, value in step.observation.items() if name.endswith("tcp_pose")
                )
                views = [
                    value for name, value in step.observation.items() if name.startswith("image/")
                ]
                paths[episode].append(pose[:3])
                if views:
                    last[episode] = np.concatenate(views)
    return paths, list(last.values()), tally


def outcome_steps(folder: RunFolder) -> int:
    """Control steps that the run's collection of outcomes has taken."""
    if not folder.outcomes_log.exists():
        return 0
    with StepLog(folder.outcomes_log, folder.spaces(), read_only=True) as log:
        return sum(len(each.labels) - 1 for each in labelled_episodes(log).values())


def summarise_outcomes(folder: RunFolder) -> tuple[dict[str, int], Path | None]:
    """What a run's log of outcomes holds, also as `outcomes.json`; and a picture of some frames, if
    there are cameras.

    Counted are frames, but for `episodes` and those of them `with_positives`; `neither` may not be
    learnt from.
    """
    with StepLog(
        folder.outcomes_log, folder.spaces(), read_only=True, run=folder.settings.id
    ) as log:
        episodes = labelled_episodes(log).values()
        positives, negatives = (
            sum(several) for several in zip(*(episode.counts for episode in episodes), strict=True)
        )
        summary = {
            "positives": positives,
            "negatives": negatives,
            "neither": sum(len(episode.labels) for episode in episodes) - positives - negatives,
            "episodes": len(episodes),
            "with_positives": sum(episode.counts[0] > 0 for episode in episodes),
        }
        save_summary(folder.outcomes_file, summary)
        views = _some_views(log, {True: positives, False: negatives})
    if not any(views.values()):
        return summary, None
    titles = {
        label: f"{name}: {len(views[label])} of {summary[name]}"
        for label, name in ((True, "positives"), (False, "negatives"))
    }
    return summary, write_picture(folder.plots / "outcomes.png", label_sheet(views, titles))


def _some_views(log: StepLog, there: Mapping[bool, int]) -> dict[bool, list[np.ndarray]]:
    """At most 24 views of each label, evenly spread over as many as there are."""
    chosen = {label: set(evenly(count, 24)) for label, count in there.items()}
    views: dict[bool, list[np.ndarray]] = {True: [], False: []}
    number = {True: 0, False: 0}
    for step, success in labelled_frames(log):
        seen = [view for name, view in step.observation.items() if name.startswith("image/")]
        if seen and number[success] in chosen[success]:
            views[success].append(np.concatenate(seen, axis=1))
        number[success] += 1
    return views


def _with_strip(picture: np.ndarray, views: list[np.ndarray]) -> np.ndarray:
    """The picture, and below it the views side by side, as many in a row as there is room for."""
    rows = in_rows(views, max(1, picture.shape[1] // views[0].shape[1]), blank=255)
    strip = np.full((len(rows), picture.shape[1], 3), 255, np.uint8)
    strip[:, : rows.shape[1]] = rows
    return np.concatenate([picture, strip])


def _plot_success(curve: Sequence[Point], folder: RunFolder) -> Path:
    from matplotlib.figure import Figure

    steps, figures = [point.env_steps for point in curve], [point.figures for point in curve]
    figure = Figure(figsize=(8, 4.5), dpi=120)
    axes = figure.subplots()
    axes.plot(
        steps, [each.success for each in figures], color="#1f77b4", label="success, all episodes"
    )
    alone = [each.without_help for each in figures]
    axes.plot(steps, alone, color="#2ca02c", label="success without a correction")
    operator = [each.operator for each in figures]
    axes.fill_between(
        steps, operator, color="#ff7f0e", alpha=0.35, label="operator's share of the steps"
    )
    axes.set(
        xlabel=(
            "control steps (10 per second of robot time)"
            if folder.load_task().rate_hz == 10
            else "control steps"
        ),
        ylabel=f"share, mean of {WINDOW} episodes",
        ylim=(0, 1.02),
        xlim=(0, None),
        title=f"{folder.settings.task}, {folder.settings.obs}, seed {folder.settings.seed}",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="center right")
    return _save(figure, folder.plots / "success.png")


PANELS = (
    ("critic_loss",),
    ("q",),
    ("entropy",),
    ("temperature",),
    ("choice_entropy", "choice_temperature"),
    ("bc_weight",),
    ("bc_loss",),
    ("q_start", "return_start"),
    ("q_before_help", "return_before_help"),
    ("q_alone", "return_alone"),
    ("disagreement",),
    ("saturation",),
    ("critic_grad_norm", "actor_grad_norm"),
    ("weights_age_updates",),
    ("forgiven_updates", "granted_updates"),
    ("updates_per_s",),
)
"""Figures of the learner that are drawn together."""
CURVES = tuple(name for names in PANELS for name in names)


def _plot_learner(metrics: Columns, folder: RunFolder) -> Path:
    from matplotlib.figure import Figure

    table = {name: np.array(column) for name, column in metrics.items()}
    # else there was no update
    learnt = np.isfinite(table["critic_loss"]) | np.isfinite(table["bc_loss"])
    panels = [
        names for names in PANELS if any(np.isfinite(table[name][learnt]).any() for name in names)
    ]
    offline = bool(np.nansum(table["offline_updates"]))
    x = table["offline_updates"] + table["updates"] if offline else table["env_steps"]
    lines = -(-len(panels) // 3)
    figure = Figure(figsize=(11, 2.75 * lines), dpi=120)
    grid = figure.subplots(lines, 3, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, names in zip(grid.flat, panels, strict=False):
        for name, colour in zip(names, ("#1f77b4", "#2ca02c"), strict=False):
            there = np.flatnonzero(learnt & np.isfinite(x) & np.isfinite(table[name]))
            there = there[evenly(len(there), POINTS)]
            axes.plot(x[there], table[name][there], color=colour, label=name.replace("_", " "))
        axes.set(
            title=", ".join(names).replace("_", " "),
            xlabel="updates" if offline else "control steps",
        )
        axes.set_yscale(
            "log" if name in ("bc_loss", "critic_grad_norm", "actor_grad_norm") else "linear"
        )
        axes.grid(alpha=0.3)
        if len(names) > 1:
            axes.legend(fontsize="small")
    width, height = figure.get_size_inches()
    # by the inch: a layout that measures all words of all panels takes a second
    figure.subplots_adjust(
        left=0.75 / width, right=1.0 - 0.15 / width, wspace=0.25,
        bottom=0.55 / height, top=1.0 - 0.4 / height, hspace=0.49,
    )  # fmt: skip
    figure.savefig(folder.plots / "learner.png")
    return folder.plots / "learner.png"


def _save(figure: "Figure", path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path)
    return path
