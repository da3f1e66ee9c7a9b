"""How far a run's policy acts from whom it was shown by: in its demonstrations, and in those of other
runs of the task, whose scenes it has not learnt from.

A policy that acts as shown in the first and not in the others knows its scenes by heart
(docs/sight.md).

.venv/bin/python benchmarks/policy_error.py RUN [OTHER_RUN ...]
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.checkpoint import load_policy
from robot_rl.learner.intake import counted_of
from robot_rl.networks.policy import LivePolicy
from robot_rl.stream.episodes import by_episode
from robot_rl.types import Array, ConfigError, DataError, Provenance, Step


@dataclass(frozen=True)
class Options:
    """runs: the first one's policy, and its demonstrations; of further ones the demonstrations.
    step: of this checkpoint's policy, not of the newest."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    step: int | None = None


@dataclass(frozen=True)
class Row:
    """`error`: root mean square of the mode less what was done, over the numbers of an action, each in
    [-1, 1]. `orders`: the share of the steps in which a hand is told another thing than was done, of
    each hand.
    """

    name: str
    steps: int
    error: float
    orders: tuple[float, ...]


def row(name: str, policy: LivePolicy, shown: Sequence[Step]) -> Row:
    """The policy's modes beside what was done in demonstrations. Raises DataError without any."""
    modes: list[Array] = []
    done: list[Array] = []
    for episode in by_episode(shown):
        policy.begin_episode(0)
        for here, there in pairwise(episode):
            mode = policy.act(here.observation, greedy=True)  # of every frame: it sees them in turn
            if there.provenance == Provenance.DEMO:
                modes.append(mode)
                done.append(there.executed)
    if not modes:
        raise DataError(f"{name}: nothing was shown")
    actions, off = policy.spec.actions, np.clip(modes, -1, 1) - np.clip(done, -1, 1)
    wrong = np.round(off[:, list(actions.discrete)]) != 0.0
    error = float(np.sqrt(np.square(off[:, list(actions.continuous)]).mean()))
    return Row(name, len(modes), error, tuple(map(float, wrong.mean(0))))


def table(found: Sequence[Row]) -> str:
    """Markdown."""
    lines = [
        "| demonstrations of | steps | action off by | hands told otherwise |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {r.name} | {r.steps:,} | {r.error:.3f} | {', '.join(f'{x:.2%}' for x in r.orders)} |"
        for r in found
    ]
    return "\n".join(lines)


def report(options: Options) -> str:
    """The table that is asked for. Raises ConfigError, DataError."""
    folders = [RunFolder(run) for run in options.runs]
    learnt = folders[0].settings
    for folder in folders[1:]:
        shown = folder.settings
        if (shown.task, shown.obs) != (learnt.task, learnt.obs):
            raise ConfigError(
                f"{folder.path} shows {shown.task} (--obs {shown.obs}), and the policy of"
                f" {folders[0].path} knows {learnt.task} (--obs {learnt.obs}); name runs of that"
            )
    policy = load_policy(folders[0].checkpoints, options.step)
    return table([row(f.path.name, policy, counted_of(f.demos_log, f.spaces())) for f in folders])


def main() -> int:
    try:
        print(report(tyro.cli(Options, description=__doc__)))
    except (ConfigError, DataError) as error:
        print(f"policy_error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
