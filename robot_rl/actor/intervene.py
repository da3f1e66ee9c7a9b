"""Who acts: the policy or the operator. Decided before the step, so that a step has one author."""

from collections.abc import Sequence

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.handover import Operator, open_operator
from robot_rl.config import Hardware, Task
from robot_rl.data.motion import moves
from robot_rl.interfaces import Given
from robot_rl.kinds import driver
from robot_rl.transport.desk import Desk
from robot_rl.types import ArmState, Array, ConfigError, Outcome, Provenance, TeleopReading


class Intervention:
    """The operator acts while their clutch is closed, else the policy does. One stretch of it is one segment.

    The clutch (`handover.Clutch`) alone decides when they have let go; until then the arm holds, and these steps belong
    to the operator too. Called by the actor loop only:

    ```
    commanded, author = intervention.decide(proposed, arms)
    ```
    `outcome` is the operator's word on the episode, for the reward to judge by, if it came with the last reading.
    `ends` says why the operator ends the episode, "" if they do not; `discarded`, that it is not to count; `on_last`
    are their words on the episode before. An operator who is `locked_out` (evaluation) has these words alone; if the
    arm `yields` to them, taking hold ends the episode, too, and the arm holds (`taken`). `held`: the clutch was closed
    at the last look.

    Words come from the operator's device and from the console's `desk`, if there is one.

    If the device is lost in the middle of a correction the arm holds and the episode ends: the policy is not to go on
    with what the operator kept it from.
    """

    def __init__(
        self,
        operator: Operator | None,
        *,
        locked_out: bool = False,
        yields: bool = False,
        desk: Desk | None = None,
    ):
        self._operator = operator
        self._desk = desk
        self._locked_out, self._yields = locked_out, yields
        self._between: list[Outcome] = []
        self._forget()

    def _forget(self) -> None:
        self._acts = False
        self._begins_with: TeleopReading | None = None
        self.problem = ""
        self.segments = 0
        self.held = False
        self.outcome = Outcome.NONE
        self.ends, self.discarded = "", False
        self.on_last: list[Outcome] = []

    def begin_episode(self) -> None:
        """Forget the last episode: the policy acts first, unless the clutch is closed."""
        self._forget()
        before = self._operator.begin_episode() if self._operator is not None else ()
        if Outcome.STOP in self._between_episodes(at_device=before, stop_at_desk=True):
            self._hear(Outcome.STOP)
        self.on_last, self._between = self._between, []

    def begins(self, arms: Sequence[ArmState]) -> bool:
        """Before the first step of an episode that is the operator's: whether they move the arm now. Then `decide` goes
        by the same reading.

        Until then words are about the episode before, but for STOP, which says `stopped`; `problem` is the device's.
        """
        if self._operator is None:
            return True
        reading = self._operator.read(arms)
        self.problem = reading.problem
        if reading.engaged and moves(reading.action):
            self._begins_with = reading
            self.on_last = self.take_unsaid()
            return True
        if Outcome.STOP in self._between_episodes(at_device=[reading.outcome], stop_at_desk=True):
            self._between = self.take_unsaid()
            self._hear(Outcome.STOP)
        return False

    def take_unsaid(self) -> list[Outcome]:
        """The words on the episode before that no summary has told yet; none will tell them then."""
        unsaid, self.on_last, self._between = self.on_last + self._between, [], []
        return unsaid

    def hears(self) -> set[Outcome]:
        """While the gate is shut: what the operator has said since the last look.

        Not STOP at the desk: whoever says it there pauses the run as well, and it takes no stop back.
        """
        return self._between_episodes()

    def hears_stop(self) -> bool:
        """On the way to a start pose: whether the operator has said STOP, at the device or the desk."""
        if Outcome.STOP not in self._between_episodes(stop_at_desk=True):
            return False
        self._forget()
        self._hear(Outcome.STOP)
        return True

    @property
    def stopped(self) -> bool:
        """Whether the operator has ended the episode with STOP."""
        return self.ends == ENDS[Outcome.STOP]

    @property
    def taken(self) -> bool:
        """Whether the operator has ended the episode by taking hold of an arm that `yields`."""
        return self.ends == TAKEN

    def decide(self, proposed: Array, arms: Sequence[ArmState]) -> tuple[Array, Provenance]:
        """The action `(A,)` to command, and its author."""
        self.outcome = Outcome.NONE
        for word in self._desk.take_words() if self._desk is not None else ():
            self._hear(word)
        if self._operator is None:
            return proposed, Provenance.POLICY
        reading, self._begins_with = self._begins_with or self._operator.read(arms), None
        self._hear(reading.outcome)
        self.held = reading.engaged and not self._locked_out
        if self._yields and reading.engaged:
            self.ends = self.ends or TAKEN
            return np.zeros_like(proposed), Provenance.POLICY
        if self._locked_out:
            return proposed, Provenance.POLICY
        acted, self._acts = self._acts, reading.engaged
        if acted and reading.problem:
            self.ends = reading.problem
            return np.zeros_like(proposed), Provenance.HUMAN
        if not self._acts:
            return proposed, Provenance.POLICY
        self.segments += not acted
        return np.clip(reading.action, -1.0, 1.0).astype(np.float32), Provenance.HUMAN

    def close(self) -> None:
        """Let go of the operator's device."""
        if self._operator is not None:
            self._operator.close()

    def _between_episodes(self, *, at_device: Sequence[Outcome] = (), stop_at_desk: bool = False) -> set[Outcome]:
        """What was said; UNDO and DISCARD, which are about the episode before, are kept for the next one to tell."""
        said = self._desk.take_words() if self._desk is not None else []
        said = [word for word in said if stop_at_desk or word != Outcome.STOP]
        said += at_device
        said += self._operator.take_words() if self._operator is not None else ()
        self._between += [word for word in said if word in (Outcome.UNDO, Outcome.DISCARD)]
        return set(said)

    def _hear(self, word: Outcome) -> None:
        if word in (Outcome.SUCCESS, Outcome.FAILURE):
            self.outcome = word
        elif word == Outcome.UNDO:
            self.on_last.append(word)
        elif word in ENDS:
            self.ends, self.discarded = ENDS[word], self.discarded or word == Outcome.DISCARD


TAKEN = "the operator took hold of the device"
ENDS = {Outcome.STOP: "stopped by the operator", Outcome.DISCARD: "discarded by the operator"}


def open_intervention(env: RobotEnv, *, corrects: bool, seed: int, desk: Desk | None = None) -> Intervention:
    """The operator at the device that the hardware file names: one who `corrects`, or one who is locked out.

    Without corrections the device is opened only if the task's reward needs the operator's word. Raises ConfigError if
    it does and there is no device. Words that are said at the `desk` count as the device's.
    """
    require_judge(env.task, env.hardware)
    if env.hardware.teleop is None or not (corrects or env.reward.needs_operator):
        return Intervention(None, desk=desk)
    operator = open_operator(env.hardware, Given(task=env.task, world=env.world, mode="correct", seed=seed, desk=desk))
    return Intervention(operator, locked_out=not corrects, desk=desk)


def require_judge(task: Task, hardware: Hardware) -> None:
    """Raise ConfigError if the task's reward needs the operator's word and the bench has no device for it."""
    if hardware.teleop is None and driver("rewards", task.reward.name).needs_operator:
        raise ConfigError(
            f"reward '{task.reward.name}' of task '{task.name}' needs the operator's word, but hardware "
            f"'{hardware.name}' names no teleop device: add `teleop: {{name: NAME}}`"
        )
