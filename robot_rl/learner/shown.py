"""What operators have shown before the first own step, as far as anything is learnt from it."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robot_rl.stream.codec import too_large
from robot_rl.stream.episodes import shown_successes
from robot_rl.types import Provenance, Step

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shown:
    """Demonstrations, with the wandering and the looking around beside them, and the outcomes that
    were collected for a classifier.

    ```
    shown = Shown.of(demo_log.read(), outcomes_log.read())
    ```
    """

    steps: Sequence[Step] = ()
    outcomes: Sequence[Step] = ()

    @staticmethod
    def of(steps: Iterable[Step], outcomes: Iterable[Step] = ()) -> "Shown":
        """What may be learnt from of two recordings."""
        both = [list(steps), list(outcomes)]
        return Shown(*([recorded[i] for i in learnable(recorded)] for recorded in both))

    def demonstrations(self, *, of_outcomes: bool) -> list[Step]:
        """What is to be imitated: the demonstrations, and the successes `of_outcomes`. Wandering
        (provenance SCRIPT) pursues nothing.
        """
        demos = [step for step in self.steps if step.provenance == Provenance.DEMO]
        if not of_outcomes:
            return demos
        return demos + shown_successes(
            self.outcomes, 1 + max((s.episode for s in demos), default=-1)
        )


def learnable(steps: Sequence[Step]) -> list[int]:
    """Which of these may be learnt from: not those that were recorded with numbers too large for
    it.
    """
    reasons = [too_large(step) for step in steps]
    if any(reasons):
        why = next(reason for reason in reasons if reason)
        count = sum(bool(reason) for reason in reasons)
        log.warning("%d recorded steps are passed over: %s", count, why)
    return [i for i, reason in enumerate(reasons) if not reason]
