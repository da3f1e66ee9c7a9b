"""Two policies in the same episodes, one after the other, until it is known which is better."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.actor.episodes import Act
from robot_rl.actor.evaluate import EvaluationEpisode, Player
from robot_rl.actor.starts import Start
from robot_rl.dataset.rates import DECIDED, difference_interval, evidence
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.pause import PauseGate

logger = logging.getLogger(__name__)
Policy = tuple[Act, Callable[[int], None]]
"""How a policy acts, and what is told the seed of each episode before."""


@dataclass(frozen=True)
class Pair:
    """One start, played by both policies: `first` is the one (0 or 1) whose turn was first."""

    pair: int
    seed: int
    first: int
    success_0: bool
    success_1: bool
    cycle_s_0: float
    cycle_s_1: float


@dataclass(frozen=True)
class Comparison:
    """The pairs of a comparison, and what follows from them; `asked` is how many there were to be
    at most.
    """

    asked: int
    pairs: tuple[Pair, ...]

    @property
    def wins(self) -> int:
        """Pairs in which policy 0 alone succeeded."""
        return sum(pair.success_0 and not pair.success_1 for pair in self.pairs)

    @property
    def losses(self) -> int:
        """Pairs in which policy 1 alone succeeded."""
        return sum(pair.success_1 and not pair.success_0 for pair in self.pairs)

    @property
    def evidence(self) -> float:
        """Against "both are equally good" (`dataset/rates.py`)."""
        return evidence(self.wins, self.losses)

    @property
    def better(self) -> int | None:
        """Which policy, 0 or 1, is better; None: that is not decided."""
        if self.evidence < DECIDED:
            return None
        return 0 if self.wins > self.losses else 1

    def figures(self) -> dict[str, Any]:
        """As comparison.json holds them."""
        n, wins, losses = len(self.pairs), self.wins, self.losses
        both = sum(pair.success_0 and pair.success_1 for pair in self.pairs)
        successes = [both + wins, both + losses]
        return {
            "asked": self.asked,
            "pairs": n,
            "successes": successes,
            "interval_95": [list(wilson_interval(each, n)) for each in successes],
            "only_first": wins,
            "only_second": losses,
            "both": both,
            "neither": n - both - wins - losses,
            "difference": (wins - losses) / max(n, 1),
            "difference_interval_95": list(difference_interval(wins, losses, n - wins - losses)),
            "evidence": self.evidence,
            "confidence": max(0.0, 1.0 - 1.0 / self.evidence),
            "better": self.better,
        }


def compare(
    env: RobotEnv,
    policies: tuple[Policy, Policy],
    starts: Sequence[Start],
    *,
    seed: int,
    progress: Callable[[Comparison], None] = lambda so_far: None,
    desk: ConsoleLink | None = None,
    gate: PauseGate | None = None,
) -> Comparison:
    """Play each start with both policies, in an order that `seed` draws for each pair, until it is
    decided which is better, or the starts are at an end.

    Whatever drifts meanwhile (light, wear, a judge) meets both alike. The evidence may be looked at
    after each pair, since it holds at any time. The operator is locked out, and a stop ends it with
    the pairs before, as in `evaluate`.
    """
    orders = np.random.default_rng((seed, 1)).integers(2, size=len(starts))
    player = Player(env, seed=seed, desk=desk, gate=gate)
    so_far = Comparison(len(starts), ())
    for number, (start, first) in enumerate(zip(starts, orders.tolist(), strict=True)):
        rows: dict[int, EvaluationEpisode] = {}
        for which in (first, 1 - first):
            row = player.play(number, start, *policies[which])
            if row is None:
                break
            rows[which] = row
            # one whose reset missed began elsewhere: so does the other
            start = player.start
            player.go_back(number, start, *policies[which])
        if len(rows) < 2:
            logger.warning("the comparison is stopped, after %d of %d pairs", number, len(starts))
            break
        pair = Pair(
            number, start.seed, first, rows[0].success, rows[1].success,
            rows[0].cycle_s, rows[1].cycle_s,
        )  # fmt: skip
        so_far = Comparison(len(starts), (*so_far.pairs, pair))
        progress(so_far)
        if so_far.better is not None:
            break
    player.close()
    return so_far
