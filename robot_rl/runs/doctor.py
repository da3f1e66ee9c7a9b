"""The body of `robot-rl doctor`: whether a run learns well, what keeps it from it, and what to do.

It goes by what the run has written about itself, while it trains or later, and changes nothing.
What is healthy, and by which figures: docs/learning.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.counts import (
    EPISODES,
    WINDOW,
    Progress,
    guided_steps,
    is_helped,
    is_judged,
)
from robot_rl.machine.small_files import is_number, read_lines
from robot_rl.tools.findings import Finding, fine, judged, wrong

Row = dict[str, Any]

LINES = 10
"""Of metrics: the newest so many are looked at, their medians."""
ENOUGH = 10
"""Episodes: fewer say nothing about a share of them."""
HALF_SHOWN = 0.5
"""Of the attempts to demonstrate: with fewer successes it is not the policy that fails."""
ASTRAY_MM = 30.0
"""Where the goal is within 15 mm, in one scene or a few. One that is to be renewed may say 15 and learn."""
TWICE, ASIDE = 2.0, 0.2
"""A promise is too large where it is more than this times what came, and so much more of a success."""
OVER = 0.1
"""Of the largest reward that an episode has made: what critics may be above it on average."""
AT_THE_BORDER = 0.6
"""Share of the policy's modes: 0.03 to 0.1 in runs over 25 cm, up to 0.66 in one that is sick."""
FORGIVEN = 0.1
"""Of the updates that were due."""
FAULTY, LATE, CUT_SHORT = 0.1, 0.05, 0.25
"""Of the newest episodes, of their steps, of the newest episodes."""
HELPED_IN_VAIN, HELP_TOO_LONG = 1 / 3, 0.5
"""Of the episodes with help, and the operator's steps in those of them that succeeded."""
COULD, CAN = 0.6, 0.5
"""It has forgotten: so many were done alone once, and now less than this share of that."""
DENIED = 2
"""Of the newest successes; one may be a slip."""
MADE_UP = (
    "the critics make values up: a lower --learner.agent.learning-rate or --learner.schedule.utd, more"
    " --learner.agent.critics"
)
RESCUED = (
    "who is always rescued finds it well to be stuck: correct shortly, and do not carry it home each"
    " time, docs/teaching.md; let it search (--actor.search); or as where episodes begin"
)


@dataclass(frozen=True)
class Run:
    """What a run has written: its `demos` as counted when all were shown, `lines` of metrics with
    their updates, the newest errors `seen` of its encoder by kind, its episodes, and how many of the
    newest were `denied`.
    """

    folder: RunFolder
    demos: Mapping[str, int] | None
    lines: Sequence[Row]
    seen: Mapping[str, Row]
    episodes: Sequence[Row]
    progress: Progress
    denied: int

    @classmethod
    def read(cls, folder: RunFolder) -> "Run":
        """Raises ConfigError, DataError for files that are damaged."""
        lines: list[Row] = []
        seen: dict[str, Row] = {"sight": {}, "pretraining": {}}
        for row in read_lines(folder.metrics_file):
            seen |= {name: row[name] for name in seen if isinstance(row.get(name), dict)}
            if is_number(row.get("updates")):
                lines.append(row)
        episodes, progress = [*read_lines(folder.episodes_file, EPISODES)], Progress()
        words = [progress.add(row) for row in episodes]
        demos = folder.demos() if folder.demos_file.exists() else None
        denied = words[-WINDOW:].count("denied")
        return cls(folder, demos, lines, seen, episodes, progress, denied)

    @property
    def own_steps(self) -> int | None:
        """Of the whole run; None while it is not known how many were shown."""
        return None if self.demos is None else self.folder.settings.own_steps(self.demos["steps"])

    def median(self, name: str) -> float | None:
        """Of a figure in the newest lines that have it; None without any."""
        found = [row[name] for row in self.lines[-LINES:] if is_number(row.get(name))]
        return float(np.median(found)) if found else None

    def newest(self, name: str) -> float:
        """A counter in the newest line, 0 if it has none."""
        return number(self.lines[-1], name) if self.lines else 0.0


def number(row: Mapping[str, Any], name: str) -> float:
    """What a row has there; 0 for what is no number."""
    value: Any = row.get(name)
    return float(value) if is_number(value) else 0.0


def examine(folder: RunFolder) -> list[Finding]:
    """All findings about a run, in the order in which one depends on the other. Raises ConfigError,
    DataError for files that are damaged.
    """
    run = Run.read(folder)
    looks = (_shown, _sight, _updates, _critics, _policy, _acting, _help, _alone, _judge)
    return [finding for look in looks for finding in look(run)]


def advised(folder: RunFolder) -> str:
    """At the end of a training, in a line: who says what is to be mended; "" if nothing is."""
    ill = [f"{finding.part}: {finding.what}" for finding in examine(folder) if not finding.right]
    return f"not well ({'; '.join(ill)}): robot-rl doctor {folder.path}" if ill else ""


def _shown(run: Run) -> Iterator[Finding]:
    """Without demonstrations that succeed there is nothing to begin with."""
    if run.demos is None:
        yield fine("shown", "demonstrations", "not all are recorded yet")
        return
    good, tried = run.demos["successes"], run.demos["attempts"]
    yield judged(
        "shown", "demonstrations", good >= HALF_SHOWN * tried, f"{good} of {tried} attempts",
        "task or controller are at fault, not the learner: robot-rl demo alone, robot-rl check",
    )  # fmt: skip
    if run.lines and good:
        kept = run.newest("demo_transitions")
        yield judged(
            "shown", "learnt from", kept > 0, f"{kept:.0f} transitions, corrections included",
            "none of the demonstrations was kept: logs/learner.log says why",
        )  # fmt: skip


def _sight(run: Run) -> Iterator[Finding]:
    """An encoder that is to say where the goal is."""
    if "guess_mm" in (tried := run.seen["sight"]):
        from robot_rl.learner.pretrain import Sight

        sight = Sight(number(tried, "error_mm"), number(tried, "guess_mm"))
        yield judged(
            "sight", "the goal", sight.seen, str(sight),
            "do the cameras see what decides, from the first frame to the last? docs/seeing.md",
        )  # fmt: skip
    if "near_position_mm" in (error := run.seen["pretraining"]):
        off = number(error, "near_position_mm")
        yield judged(
            "sight", "the goal, near it", off <= ASTRAY_MM,
            f"{off:.1f} mm off in scenes that it has not learnt from",
            "it takes near for far: more demonstrations, more wandering about the goal, docs/sight.md",
        )  # fmt: skip
    if "trained" in error:
        made = number(error, "trained")
        yield judged(
            "sight", "its training", made >= 1.0,
            f"{made:.0%} of its updates were made before the time was over",
            "a GPU (--learner.device cuda), nothing else on the cores, or more time:"
            " --learner.pretrain.max-seconds",
        )  # fmt: skip


def _updates(run: Run) -> Iterator[Finding]:
    """Whether the learner keeps up."""
    made, forgiven = run.newest("updates"), run.newest("forgiven_updates")
    if made + forgiven == 0:
        yield fine("updates", "made", "none yet")
        return
    yield judged(
        "updates", "made", forgiven <= FORGIVEN * (made + forgiven),
        f"{made:.0f}, and {forgiven:.0f} that were due never will be",
        "the learner is too slow: a GPU (--learner.device cuda), or a lower --learner.schedule.utd",
    )  # fmt: skip


def _critics(run: Run) -> Iterator[Finding]:
    """What they promise, beside what came."""
    if run.lines and any(
        name in run.lines[-1] and run.lines[-1][name] is None
        for name in ("critic_loss", "actor_loss", "q")
    ):
        yield wrong(
            "critics", "figures", "some are no numbers: learning has diverged",
            "a new run with a lower learning rate, or smaller rewards",
        )  # fmt: skip
    largest = max([1.0, *(number(row, "reward") for row in run.episodes)])
    if (q := run.median("q")) is not None:
        yield judged(
            "critics", "value", q <= (1.0 + OVER) * largest,
            f"{q:.2f}, where the best episode made {largest:.2f}", MADE_UP,
        )  # fmt: skip
    for name, where, advice in (
        ("start", "where episodes begin", MADE_UP),
        ("before_help", "before a correction", RESCUED),
        ("alone", "where nobody helps", MADE_UP),
    ):
        promised, came = run.median(f"q_{name}"), run.median(f"return_{name}")
        if promised is None or came is None:
            continue
        yield judged(
            "critics", where, promised <= TWICE * max(came, 0.0) + ASIDE * largest,
            f"{promised:.2f} promised, {came:.2f} came", advice,
        )  # fmt: skip


def _policy(run: Run) -> Iterator[Finding]:
    if (share := run.median("saturation")) is not None:
        yield judged(
            "policy", "actions", share < AT_THE_BORDER, f"{share:.0%} at the border of their range",
            "it pushes as hard as it may: a lower learning rate, smaller rewards",
        )  # fmt: skip


def _acting(run: Run) -> Iterator[Finding]:
    """How the newest own episodes went, whoever acted."""
    newest = run.episodes[-WINDOW:]
    if len(newest) < ENOUGH:
        yield fine("acting", "own episodes", f"{len(run.episodes)}: too few to say more")
        return
    faults = sum(bool(row.get("fault")) for row in newest)
    yield judged(
        "acting", "faults", faults <= FAULTY * len(newest), f"{faults} of the newest {len(newest)}",
        "a limit is too tight for what the policy may do: robot-rl blackbox, logs/arm-*.log",
    )  # fmt: skip
    steps, late = (sum(number(row, name) for row in newest) for name in ("steps", "late_steps"))
    yield judged(
        "acting", "in time", late <= LATE * max(1.0, steps),
        f"{late:.0f} of {steps:.0f} steps were late",
        "what else does this machine do? robot-rl check and robot-rl benchmark say what is slow",
    )  # fmt: skip
    cut = Counter(str(row.get("reason")) for row in newest if not is_judged(row))
    why = "; ".join(f"{count} times {reason}" for reason, count in cut.most_common(2))
    yield judged(
        "acting", "to their own end", cut.total() <= CUT_SHORT * len(newest),
        f"{len(newest) - cut.total()} of the newest {len(newest)}" + (f" ({why})" if why else ""),
        "episodes that are cut short teach little: mend what ends them",
    )  # fmt: skip
    old = len({row.get("weights_version") for row in newest}) == 1
    yield judged(
        "acting", "newer weights", not old or run.newest("updates") == 0,
        "the same in all of them" if old else f"version {newest[-1].get('weights_version')}",
        "the actor gets none: logs/learner.log",
    )  # fmt: skip


def _help(run: Run) -> Iterator[Finding]:
    """How somebody corrects."""
    helped = [row for row in run.progress.newest if is_helped(row)]
    if len(helped) < ENOUGH // 2:
        return
    good = [row for row in helped if row["success"]]
    yield judged(
        "help", "leads to success", len(helped) - len(good) <= HELPED_IN_VAIN * len(helped),
        f"in {len(good)} of the newest {len(helped)} episodes with help",
        "correct sooner, and see it through; or give the task more max_steps: docs/teaching.md",
    )  # fmt: skip
    if good:
        share = np.median([(r["human_steps"] + guided_steps(r)) / max(1, r["steps"]) for r in good])
        yield judged(
            "help", "is short", bool(share <= HELP_TOO_LONG),
            f"{share:.0%} of the steps of episodes that it brought to success",
            "give the arm back as soon as it is free: who does all of it teaches what is shown anyway",
        )  # fmt: skip


def _alone(run: Run) -> Iterator[Finding]:
    """Whether it comes to do without."""
    now, own = run.progress.recent, run.own_steps
    if now.episodes < ENOUGH:
        return
    best = max(
        (p.figures.without_help for p in run.progress.curve if p.figures.episodes == WINDOW),
        default=0.0,
    )
    over = own is not None and run.progress.env_steps > own / 2
    said = f"{now.without_help:.0%} of the newest {now.episodes}"
    if best >= COULD and now.without_help < CAN * best:
        yield wrong(
            "alone", "done without help", f"{said}, {best:.0%} before: it has forgotten",
            "imitation for longer (--learner.agent.bc-decay-steps), docs/long_tasks.md; has a camera"
            " been touched?",
        )  # fmt: skip
        return
    yield judged(
        "alone", "done without help", now.alone > 0 or not over,
        f"{said}, after {run.progress.env_steps} own steps" + (f" of {own}" if own else ""),
        "half of the run is over: is the goal seen (above)? What to set when: docs/learning.md; does"
        " it learn with --obs state?",
    )  # fmt: skip


def _judge(run: Run) -> Iterator[Finding]:
    """Whether what ends episodes is right."""
    if run.progress.recent.episodes >= ENOUGH:
        yield judged(
            "judge", "its successes", run.denied <= DENIED,
            f"{run.denied} of the newest {WINDOW} episodes were denied by the operator",
            "show it what it takes for a success: robot-rl reward review, docs/rewards.md",
        )  # fmt: skip
