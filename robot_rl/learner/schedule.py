"""How much to learn, and when: gradient updates follow environment steps, so that a coffee break is
not overfitting.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from robot_rl.types import ConfigError


@dataclass(frozen=True)
class ScheduleConfig:
    """The target ratio and its bounds.

    Attributes:
        utd: gradient updates per environment step (RLPD has up to 20, HIL-SERL does not control
            it). 4 is what five critics afford on two cores in the time that the main job may take;
            an encoder trained end to end affords 1.
        start_steps: own steps to wait for before the first update (HIL-SERL's training_starts).
        max_behind: debt of updates above which a learner on a real clock, too slow for its ratio,
            forgives the rest instead of training for minutes on what it has when the operator
            pauses.
    """

    utd: float = 4.0
    start_steps: int = 100
    max_behind: int = 2_000

    def __post_init__(self) -> None:
        if self.utd < 0 or self.start_steps < 0 or self.max_behind < 1:
            raise ConfigError(
                f"utd and start_steps must not be negative, max_behind at least 1; got {self}"
            )


class UtdSchedule:
    """Counts what is due: never more than `utd` updates for each step, and never a debt of more
    than `max_behind`.

    ```
    for _ in range(governor.due(env_steps)):
        agent.update(...); governor.count()
    ```
    """

    def __init__(self, config: ScheduleConfig):
        self.config = config
        self.updates = 0
        self.forgiven = 0
        self.granted = 0

    def due(self, env_steps: int) -> int:
        """Updates to make now, with `env_steps` own steps received in all."""
        debt = self.allowed(env_steps) + self.granted - self.updates - self.forgiven
        if debt > self.config.max_behind:
            self.forgiven += debt - self.config.max_behind
            debt = self.config.max_behind
        return max(0, debt)

    def allowed(self, env_steps: int) -> int:
        """Updates that the ratio allows for so many own steps."""
        return int(self.config.utd * max(0, env_steps - self.config.start_steps))

    def keep(self, allowed: int, env_steps: int) -> None:
        """Another ratio was in force for `env_steps` steps, and allowed so many updates: what
        follows counts anew.
        """
        difference = allowed - self.allowed(env_steps)
        self.granted += max(0, difference)
        self.forgiven += max(0, -difference)

    def grant(self, updates: int) -> None:
        """So many are due besides."""
        self.granted += updates

    def counters(self, env_steps: int) -> dict[str, int]:
        """All that `restore` needs, `env_steps` own steps into the run."""
        allowed = self.allowed(env_steps)
        return {
            "env_steps": env_steps,
            "updates": self.updates,
            "forgiven": self.forgiven,
            "granted": self.granted,
            "allowed": allowed,
        }

    def restore(self, counters: Mapping[str, int]) -> None:
        """Go on from a checkpoint's `counters`; older ones lack the last two."""
        self.updates, self.forgiven = counters["updates"], counters["forgiven"]
        self.granted = counters.get("granted", 0)
        if "allowed" in counters:
            self.keep(counters["allowed"], counters["env_steps"])

    def count(self, updates: int = 1) -> None:
        """Updates were made."""
        self.updates += updates


def linear_decay(start: float, steps: int, step: int) -> float:
    """From `start` at step 0 to zero at `steps`, and zero from then on."""
    return start * max(0.0, 1.0 - step / steps) if steps > 0 else 0.0
