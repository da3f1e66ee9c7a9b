"""Who acts: the policy or the operator. Decided before the step, so that a step has one author."""

from collections.abc import Sequence

import numpy as np

from robot_rl.interfaces import Teleop
from robot_rl.types import ArmState, Array, Outcome, Provenance


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
