"""Who acts: the policy or the operator. Decided before the step, so that a step has one author."""

from collections.abc import Sequence

import numpy as np

from robot_rl import config
from robot_rl.actor.env import RobotEnv
from robot_rl.interfaces import Teleop
from robot_rl.types import ArmState, Array, ConfigError, Outcome, Provenance


class Intervention:
    """A clutch with hysteresis, so that one correction is one segment.

    The operator acts from the step at which the clutch closes. When it opens, the arm holds its target for
    `release_steps` steps in which the operator may take hold again; then the policy acts. The held steps belong to
    the operator. Called by the actor loop only:

    ```
    commanded, author = intervention.decide(proposed, arms)
    ```
    `outcome` is the operator's word on the episode, if it came with the last reading. An operator who is `locked_out`
    (evaluation) has that word alone.
    """

    def __init__(self, teleop: Teleop | None, release_steps: int = 1, *, locked_out: bool = False):
        self._teleop = teleop
        self._release_steps = release_steps
        self._open_steps = 0
        self._acts = False
        self._locked_out = locked_out
        self.segments = 0
        self.outcome = Outcome.NONE

    def begin_episode(self) -> None:
        """Forget the last episode: the policy acts first, unless the clutch is closed."""
        self._acts = False
        self.segments = 0
        self.outcome = Outcome.NONE
        if self._teleop is not None:
            self._teleop.begin_episode()

    def decide(self, proposed: Array, arms: Sequence[ArmState]) -> tuple[Array, Provenance]:
        """The action `(A,)` to command, and its author."""
        if self._teleop is None:
            return proposed, Provenance.POLICY
        reading = self._teleop.read(arms)
        self.outcome = reading.outcome
        if self._locked_out:
            return proposed, Provenance.POLICY
        if reading.engaged:
            self.segments += not self._acts
            self._acts, self._open_steps = True, 0
            return np.clip(reading.action, -1.0, 1.0).astype(np.float32), Provenance.HUMAN
        if self._acts and self._open_steps < self._release_steps:
            self._open_steps += 1
            return np.zeros_like(proposed), Provenance.HUMAN
        self._acts = False
        return proposed, Provenance.POLICY

    def close(self) -> None:
        """Let go of the operator's device."""
        if self._teleop is not None:
            self._teleop.close()


def open_intervention(env: RobotEnv, *, corrects: bool, seed: int, release_steps: int = 1) -> Intervention:
    """The operator at the device that the hardware file names: one who `corrects`, or one who is locked out.

    Without corrections the device is opened only if the task's reward needs the operator's word. Raises ConfigError if
    it does and there is no device.
    """
    judges = env.reward.needs_operator
    if judges and env.hardware.teleop is None:
        raise ConfigError(
            f"reward '{env.task.reward.name}' of task '{env.task.name}' needs the operator's word, but hardware "
            f"'{env.hardware.name}' names no teleop device"
        )
    if env.hardware.teleop is None or not (corrects or judges):
        return Intervention(None)
    teleop = config.make("teleop", env.hardware.teleop, env.task, env.world, mode="correct", seed=seed)
    return Intervention(teleop, release_steps, locked_out=not corrects)
