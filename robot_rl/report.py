"""What a run came to: evaluation.json and the learning-curve plots."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.actor.demonstrate import DemoTally
from robot_rl.actor.evaluate import Evaluation
from robot_rl.data.log import StepLog
from robot_rl.data.outcomes import labelled_episodes, labelled_frames
from robot_rl.data.pictures import evenly, in_rows, label_sheet, read_picture, write_picture
from robot_rl.run_folder import RunFolder

WINDOW = 20  # episodes that a success rate is averaged over


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line that is still being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def evaluation_summary(evaluation: Evaluation, folder: RunFolder, sampled: bool, step: int | None) -> dict[str, Any]:
    """One object: how well the policy does, acting greedily or `sampled`, and the training that led to it.

    `step`: of the checkpoint that it is of, if it is not the newest.
    """
    training = _training_so_far(folder)
    low, high = evaluation.interval_95
    return {
        "task": folder.settings.task,
        "hardware": folder.settings.hardware,
        "obs": folder.settings.obs,
        "sampled": sampled,
        "checkpoint_step": step,
        "asked": evaluation.asked,
        "episodes": len(evaluation.episodes),
        "successes": evaluation.successes,
        "success_rate": evaluation.success_rate,
        "interval_95": [low, high],
        "mean_cycle_s": evaluation.mean_cycle_s,
        "missed_resets": evaluation.missed_resets,
        "eval_seed": evaluation.eval_seed,
        **training,
    }


def _training_so_far(folder: RunFolder) -> dict[str, Any]:
    """The summary that a finished sitting left; for processes started by hand, from the learner's own clock."""
    if folder.training_file.exists():
        summary: dict[str, Any] = json.loads(folder.training_file.read_text())
        return summary
    metrics = read_lines(folder.metrics_file)
    return training_summary(folder, metrics[-1]["wall_s"] if metrics else 0.0, {})


def training_summary(folder: RunFolder, wall_s: float, phases: Mapping[str, float]) -> dict[str, Any]:
    """The training in numbers, from the run's own files; earlier sittings of a resumed run are added."""
    earlier = json.loads(folder.training_file.read_text()) if folder.training_file.exists() else {}
    episodes = read_lines(folder.episodes_file)
    demos = json.loads(folder.demos_file.read_text())
    # the learner's count as well: an episode that was cut off has no row; a robot without its learner has only episodes
    counted = [*read_lines(folder.metrics_file), *episodes]
    steps = demos["steps"] + max((row["env_steps"] for row in counted), default=0)
    rate_hz = folder.load_task().rate_hz
    return {
        "env_steps": steps,
        "robot_minutes": steps / rate_hz / 60.0,
        "wall_minutes": earlier.get("wall_minutes", 0.0) + wall_s / 60.0,
        "demonstrations": demos["successes"],
        "demonstration_steps": demos["steps"],
        "training_episodes": len(episodes),
        "missed_resets": sum(row.get("missed_resets", 0) for row in episodes),
        "interventions": sum(row["segments"] for row in episodes),
        "intervention_steps": sum(row["human_steps"] for row in episodes),
        "train_seed": folder.settings.seed,
        "phases_s": {name: round(seconds, 2) for name, seconds in phases.items()},
    }


def plot_learning(folder: RunFolder) -> list[Path]:
    """Learning curves as PNG: success and the operator's share over the steps, and the learner's own figures."""
    import matplotlib

    matplotlib.use("Agg")
    folder.plots.mkdir(exist_ok=True)
    written = []
    if episodes := read_lines(folder.episodes_file):
        written.append(_plot_success(episodes, folder))
    if metrics := read_lines(folder.metrics_file):
        written.append(_plot_learner(metrics, folder))
    return written


def plot_demos(folder: RunFolder) -> Path:
    """The demonstrations that count, as PNG: how long each took, the tool's paths, and what was seen at each end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    paths, ends, tally = _demos(folder)
    figure, (lengths, above, aside) = pyplot.subplots(1, 3, figsize=(12, 4), dpi=110)
    lengths.bar(range(1, len(paths) + 1), [len(path) - 1 for path in paths.values()], color="#2ca02c")
    lengths.set(title=f"{len(paths)} demonstrations, {tally.attempts} attempts", xlabel="demonstration", ylabel="steps")
    for axes, (i, j), names in ((above, (0, 1), "x y"), (aside, (0, 2), "x z")):
        for path in paths.values():
            line = 1e3 * np.array(path)[:, [i, j]]
            axes.plot(*line.T, lw=0.8, alpha=0.6)
            axes.plot(*line[-1], "o", color="#d62728", ms=3)
        axes.set(title=f"tool, from where the episode began: {names}", xlabel="mm", ylabel="mm", aspect="equal")
        axes.grid(alpha=0.3)
    folder.plots.mkdir(exist_ok=True)
    picture = _save(figure, folder.plots / "demonstrations.png")
    if ends:
        write_picture(picture, _with_strip(read_picture(picture), ends))
    return picture


def _demos(folder: RunFolder) -> tuple[dict[int, list[Any]], list[np.ndarray], DemoTally]:
    """The tool's path of each demonstration that counts, the last views of each, and the tally."""
    with StepLog(folder.demos_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        tally = DemoTally.of(log)
        paths: dict[int, list[Any]] = {episode: [] for episode, said in tally.succeeded.items() if said.counts}
        last: dict[int, np.ndarray] = {}
        for step in log.read():
            if step.episode in paths:
                pose = next(value for name, value in step.observation.items() if name.endswith("tcp_pose"))
                views = [value for name, value in step.observation.items() if name.startswith("image/")]
                paths[step.episode].append(pose[:3])
                if views:
                    last[step.episode] = np.concatenate(views)
    return paths, list(last.values()), tally


def summarise_outcomes(folder: RunFolder) -> tuple[dict[str, int], Path | None]:
    """What a run's log of outcomes holds, also as `outcomes.json`; and a picture of some frames, if there are cameras.

    Counted are frames, but for `episodes` and those of them `with_positives`; `neither` may not be learnt from.
    """
    with StepLog(folder.outcomes_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        episodes = labelled_episodes(log).values()
        positives, negatives = (sum(several) for several in zip(*(episode.counts for episode in episodes), strict=True))
        summary = {
            "positives": positives,
            "negatives": negatives,
            "neither": sum(len(episode.labels) for episode in episodes) - positives - negatives,
            "episodes": len(episodes),
            "with_positives": sum(episode.counts[0] > 0 for episode in episodes),
        }
        folder.outcomes_file.write_text(json.dumps(summary) + "\n")
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


def _plot_success(episodes: list[dict[str, Any]], folder: RunFolder) -> Path:
    from matplotlib import pyplot

    steps = np.array([row["env_steps"] for row in episodes])
    success = np.array([row["success"] for row in episodes], float)
    alone = np.array([row["human_steps"] == 0 for row in episodes])
    share = np.array([row["human_steps"] / max(row["steps"], 1) for row in episodes])
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=120)
    axes.plot(steps, moving_average(success), color="#1f77b4", label="success, all episodes")
    axes.plot(steps, moving_average(success * alone), color="#2ca02c", label="success without a correction")
    axes.fill_between(steps, moving_average(share), color="#ff7f0e", alpha=0.35, label="operator's share of the steps")
    axes.set(
        xlabel="control steps (10 per second of robot time)" if folder.load_task().rate_hz == 10 else "control steps",
        ylabel=f"share, mean of {WINDOW} episodes",
        ylim=(0, 1.02),
        xlim=(0, None),
        title=f"{folder.settings.task}, {folder.settings.obs}, seed {folder.settings.seed}",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="center right")
    return _save(figure, folder.plots / "success.png")


def _plot_learner(metrics: list[dict[str, Any]], folder: RunFolder) -> Path:
    from matplotlib import pyplot

    names = ["critic_loss", "q", "entropy", "temperature", "bc_weight", "updates_per_s"]
    if not any("critic_loss" in row for row in metrics):  # imitation
        names = ["bc_loss", "updates_per_s"]
        metrics = [row for row in metrics if "bc_loss" in row]
    offline = any(row.get("offline_updates") for row in metrics)
    lines = -(-len(names) // 3)
    figure, grid = pyplot.subplots(lines, 3, figsize=(11, 2.75 * lines), dpi=120, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(grid.flat, names, strict=False):
        rows = [row for row in metrics if name in row]
        x = [row["offline_updates"] + row["updates"] if offline else row["env_steps"] for row in rows]
        axes.plot(x, [row[name] for row in rows], color="#1f77b4")
        axes.set(title=name.replace("_", " "), xlabel="updates" if offline else "control steps")
        axes.set_yscale("log" if name == "bc_loss" else "linear")
        axes.grid(alpha=0.3)
    return _save(figure, folder.plots / "learner.png")


def moving_average(values: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Mean over the last `window` values, over what there is at the start."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path
