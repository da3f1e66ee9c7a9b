"""What an evaluation came to, as evaluation.json and in lines for a terminal."""

from collections.abc import Mapping
from typing import Any

from robot_rl.actor.evaluate import Evaluation
from robot_rl.actor.loop import actor_config
from robot_rl.actor.truth import accuracy
from robot_rl.config.evaluation_files import KINDS, parts_of
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.statistics import count, percent
from robot_rl.networks.policy import LivePolicy
from robot_rl.runs.report import training_so_far


def evaluation_summary(
    evaluations: Mapping[bool, Evaluation], folder: RunFolder, policy: LivePolicy
) -> dict[str, Any]:
    """One object: how well the policy does, sampled (True) or greedy (False), the training that led
    to it, and how often the task's judge was wrong where the truth judged.

    The figures of each kind stand under its name, those of the first at the top as well.
    """
    training = training_so_far(folder)
    parts = {
        sampled: {
            "task": folder.settings.task,
            "hardware": folder.settings.hardware,
            "obs": folder.settings.obs,
            "delay": folder.settings.delay,
            "search": actor_config(folder).search,
            "sampled": sampled,
            "checkpoint_step": policy.step,
            "checkpoint_sha256": policy.digest,
            **evaluation.figures(),
            **training,
        }
        for sampled, evaluation in evaluations.items()
    }
    first = next(iter(parts.values()))
    summary: dict[str, Any] = first | {KINDS[sampled]: part for sampled, part in parts.items()}
    if judged := [each for evaluation in evaluations.values() for each in evaluation.judged]:
        summary["classifier"] = {
            "name": folder.load_task().reward.name,
            **accuracy(judged).to_json(),
        }
    return summary


def told(summary: Mapping[str, Any]) -> list[str]:
    """A summary in lines: one for each kind, and one for the judge."""
    lines = []
    for sampled, part in parts_of(summary):
        lines.append(_kind(KINDS[sampled], part))
        if "backward" in part:
            lines.append(_kind(f"{KINDS[sampled]}, the way back", part["backward"]))
    if judge := summary.get("classifier"):
        j = "" if judge["J"] is None else f"; J {judge['J']:.3f}"
        lines.append(
            f"reward '{judge['name']}' beside the truth: {judge['fires']} false successes in"
            f" {count(judge['failures'], 'failure')} (95 %: at most"
            f" {percent(judge['bound_95'])}), {judge['misses']} of"
            f" {judge['successes']} successes missed{j}"
        )
    return lines


def _kind(name: str, part: Mapping[str, Any]) -> str:
    low, high = part["interval_95"]
    line = (
        f"evaluation, {name}: {part['successes']} of {part['episodes']} (95 % interval {low:.1%} to"
        f" {high:.1%}; proves {percent(part['proves_95'])}), {part['longest_streak']} in a row"
    )
    if part["mean_cycle_s"] is not None:
        line += (
            f", cycle {part['mean_cycle_s']:.1f} s (median {part['median_cycle_s']:.1f}, 90 %"
            f" {part['p90_cycle_s']:.1f}{_shown(part.get('demonstration_cycle_s'))})"
        )
    if part["peak_force_n"] is not None:
        line += f", {count(part['faults'], 'fault')}, force up to {part['peak_force_n']:.0f} N"
    return line + _corrected(part.get("corrected"))


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"; {seconds:.1f} when it was shown"


def _corrected(corrected: Mapping[str, Any] | None) -> str:
    """What is behind the word of a judge that errs."""
    if corrected is None:
        return ""
    if "refused" in corrected:
        return f"; not corrected for its judge: {corrected['refused']}"
    low, high = corrected["interval_95"]
    return f"; corrected for its judge {percent(corrected['rate'])} ({low:.1%} to {high:.1%})"
