"""`robot-rl compare`: the policies of two runs in the same episodes, until it is known which is
better.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robot_rl.actor.compare import Comparison, Policy, compare
from robot_rl.actor.evaluate import add_to_table
from robot_rl.config.evaluation_files import KINDS, EvaluationFiles
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.rates import DECIDED
from robot_rl.dataset.statistics import percent
from robot_rl.learner.checkpoint import load_policy
from robot_rl.links.console_link import ConsoleLink
from robot_rl.machine.small_files import write_json
from robot_rl.networks.policy import LivePolicy
from robot_rl.operator.intervention import require_judge
from robot_rl.runs.arms import at_bench
from robot_rl.runs.evaluate import open_bench, player_of, require_played, where_to_start
from robot_rl.runs.progress import Display
from robot_rl.stream.codec import space_hash
from robot_rl.types import ConfigError

OWN = ("name", "description", "defaults", "wander", "look_around", "reward", "grippers")
"""Of a task: what may differ between two runs that are compared (which grippers move is looked at
with the spaces).
"""
SOURCE = "betting martingale on pairs: Ville 1939, Robbins 1970, Waudby-Smith and Ramdas 2024"


def compare_runs(
    one: RunFolder,
    other: RunFolder,
    episodes: int | None = None,
    *,
    seed: int | None = None,
    starts: str = "",
    greedy: bool = False,
    hardware: str = "",
    display: Display,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Play up to so many pairs of episodes with the newest policies of two runs, at the bench of
    the first or at another, `hardware`; pairs and summary go into a folder of the first.

    Starts are as in `evaluate_run`. Raises ConfigError for runs whose tasks or spaces differ,
    StoppedError if no pair was played.
    """
    require_comparable(one, other)
    policies = load_policy(one.checkpoints), load_policy(other.checkpoints)
    bench_of = at_bench(one, hardware)
    seed, begins = where_to_start(bench_of, episodes, seed, starts)
    require_judge(bench_of.load_task(), bench_of.load_hardware())
    with open_bench(bench_of, "eval", display, stop) as bench:
        files = EvaluationFiles.begin(one.path, "comparisons")
        bench.desk.tell(evaluated=0, succeeded=0, wanted=2 * len(begins), sampled=not greedy)
        progress = _progress(bench.desk, display, files.folder / "pairs.csv")
        acting = _acting(one, policies[0], greedy), _acting(other, policies[1], greedy)
        comparison = compare(
            bench.env, acting, begins,
            seed=seed, progress=progress, desk=bench.desk, gate=bench.gate,
        )  # fmt: skip
    require_played(files, len(begins), len(comparison.pairs))
    summary = {
        "runs": [str(one.path), str(other.path)],
        "checkpoint_steps": [each.step for each in policies],
        "checkpoint_sha256": [each.digest for each in policies],
        "task": one.settings.task,
        "hardware": bench_of.settings.hardware,
        "policy": KINDS[not greedy],
        "eval_seed": seed,
        **comparison.figures(),
        "source": SOURCE,
    }
    write_json(files.folder / "comparison.json", summary, indent=2)
    display.say(f"{verdict(summary)}; {files.folder / 'comparison.json'}")
    return summary


def _progress(desk: ConsoleLink, display: Display, table: Path) -> Callable[[Comparison], None]:
    """What takes down each pair, and shows how far it is."""

    def progress(so_far: Comparison) -> None:
        add_to_table(so_far.pairs[-1], table)
        n, good = len(so_far.pairs), so_far.figures()["successes"]
        desk.tell(evaluated=2 * n, succeeded=sum(good))
        said = f"{good[0]} and {good[1]} succeeded, evidence {so_far.evidence:.1f} of {DECIDED:.0f}"
        display.show("comparison", n, so_far.asked, said)

    return progress


def require_comparable(one: RunFolder, other: RunFolder) -> None:
    """Raise ConfigError unless both policies can play the first run's task."""
    tasks = asdict(one.load_task()), asdict(other.load_task())
    differ = [key for key in tasks[0] if key not in OWN and tasks[0][key] != tasks[1][key]]
    if space_hash(one.spaces()) != space_hash(other.spaces()):
        differ.append(f"what is observed or moved ({one.settings.obs}, {other.settings.obs})")
    if differ:
        raise ConfigError(
            f"{one.path} and {other.path} cannot be compared: they differ in {', '.join(differ)}."
            " Train both on one task, with the same --obs"
        )


def _acting(folder: RunFolder, policy: LivePolicy, greedy: bool) -> Policy:
    player = player_of(folder, policy, greedy=greedy)
    return player.act, player.begin_episode


def verdict(summary: dict[str, Any]) -> str:
    """Who is better, by how much, and how sure that is, in words."""
    n, names = summary["pairs"], summary["runs"]
    (low, high), difference = summary["difference_interval_95"], summary["difference"]
    said = (
        f"{names[0]} {summary['successes'][0]} and {names[1]} {summary['successes'][1]} of {n};"
        f" alone {summary['only_first']} and {summary['only_second']}"
    )
    by = f"{100 * difference:+.1f} points (95 % interval {100 * low:+.1f} to {100 * high:+.1f})"
    if summary["better"] is None:
        return f"not decided: {said}; {by}, evidence {summary['evidence']:.1f} of {DECIDED:.0f}"
    better = names[summary["better"]]
    return f"{better} is better: {said}; {by}, with confidence {percent(summary['confidence'])}"
