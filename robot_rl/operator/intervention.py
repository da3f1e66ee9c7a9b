"""Who acts: the policy or the operator. Decided before the step, so that a step has one author."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from robot_rl.config import Hardware, Task
from robot_rl.config.kinds import driver
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.links.console_link import ConsoleLink
from robot_rl.links.events import EventQueue, OperatorEvent
from robot_rl.links.hand_buttons import HandButtons
from robot_rl.operator.annotations import OperatorMarks
from robot_rl.operator.guide import GuideOperator
from robot_rl.operator.mapping import Operator, open_operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.motion import moves
from robot_rl.types import ArmState, Array, ConfigError, OperatorCommand, Provenance, TeleopAction


class Intervention:
    """The operator acts while their clutch is closed, else the policy does. One stretch of it is
    one segment.

    Of several arms they act with those whose clutch is closed, and of the grippers with those they
    tell to open or close, at a device or on the console's page; the policy goes on with the others:
    `corrected` says which numbers of the last action are the operator's, None: all, or none. The
    clutch (`mapping.Clutch`) alone decides when they have let go; until then the arm holds, and
    these steps belong to the operator too.
    Called by the actor loop only:

    ```
    commanded, author = intervention.decide(proposed, arms)    # once a step
    # between two episodes, as often as one likes
    intervention.listen()
    ```
    These two take what the operator says, at their device and at the console's `desk`. What is said
    of an episode that is over becomes its mark at once (`marks`); START, PAUSE and STOP go to the
    `gate`; the rest is about this episode: `outcome` is the operator's word on it, for the reward
    to judge by, if it came in this step; `ends` says why they end it, "" if they do not;
    `discarded`, that it is not to count. `on_last` are their words on the episode before.

    Where nobody does, the `guide` may lead the arm (`operator/guide.py`): a correction as well, by
    another author.

    An operator who is `locked_out` (evaluation) has these words alone; if the arm `yields` to them,
    taking hold ends the episode, too, and the arm holds (`taken`). `held`: the clutch was closed at
    the last look.

    If the device is lost in the middle of a correction the arm holds and the episode ends: the
    policy is not to go on with what the operator kept it from.
    """

    def __init__(
        self,
        operator: Operator | None,
        *,
        locked_out: bool = False,
        yields: bool = False,
        desk: ConsoleLink | None = None,
        gate: PauseGate | None = None,
        marks: OperatorMarks | None = None,
        guide: GuideOperator | None = None,
    ):
        self._operator, self._guide = operator, guide
        self._gate, self._marks = gate, marks
        self.events = desk.events if desk is not None else EventQueue()
        self._buttons = desk.hand_buttons if desk is not None else HandButtons()
        self._locked_out, self._yields = locked_out, yields
        self.on_last: list[OperatorCommand] = []
        self._forget()

    def _forget(self) -> None:
        self._acts = self._drives = False  # anything at all; at the device
        self._begins_with: TeleopAction | None = None
        self.problem = ""
        self.segments = 0
        self.held = False
        self.outcome = OperatorCommand.NONE
        self.corrected: Array | None = None
        self.ends, self.discarded = "", False

    def begin_episode(self) -> None:
        """Forget the last episode: the policy acts first, unless the clutch is closed."""
        self._forget()
        self._buttons.begin_episode()
        if self._operator is not None:
            self._put(self._operator.begin_episode())
        if self._guide is not None:
            self._guide.begin_episode()
        self.hears_stop()

    def end_episode(self, success: bool) -> None:
        """The episode is over: the operator hears what the judge has said of it, and the guide
        whether it has come to that without the operator.
        """
        if self._operator is not None:
            self._operator.end_episode(success)
        if self._guide is not None:
            self._guide.end_episode(success and not self.segments)

    def begins(self, arms: Sequence[ArmState]) -> bool:
        """Before the first step of an episode that is the operator's: whether they move the arm
        now. Then `decide` goes by the same reading.

        Until then words are about the episode before, but for STOP, which says `stopped`; `problem`
        is the device's.
        """
        if self._operator is None:
            return True
        reading = self._operator.read(arms)
        self.problem, acts = reading.problem, self._with_page(reading)
        if acts.engaged and moves(acts.action):
            self._begins_with = reading
            return True
        self._put([reading.outcome])
        self.hears_stop()
        return False

    def holds(self, arms: Sequence[ArmState]) -> bool:
        """Between two episodes: whether the operator has hold of the device right now."""
        if self._operator is None:
            return False
        held, word = self._operator.look(arms)
        self._put([word])
        return held

    def listen(self) -> list[OperatorEvent]:
        """Between two episodes: what the operator has said since the last look. Marks and gate have
        it already.
        """
        return self._take(acting=False)

    def hears_stop(self) -> bool:
        """On the way to a start pose: whether the operator has said STOP."""
        if all(event.command != OperatorCommand.STOP for event in self.listen()):
            return False
        self.ends = ENDS[OperatorCommand.STOP]
        return True

    def take_on_last(self) -> tuple[OperatorCommand, ...]:
        """The words on the episode before that were not told yet: the episode that they came in is
        over.
        """
        told, self.on_last = tuple(self.on_last), []
        return told

    @property
    def stopped(self) -> bool:
        """Whether the operator has ended the episode with STOP."""
        return self.ends == ENDS[OperatorCommand.STOP]

    @property
    def taken(self) -> bool:
        """Whether the operator has ended the episode by taking hold of an arm that `yields`."""
        return self.ends == TAKEN

    def decide(self, proposed: Array, arms: Sequence[ArmState]) -> tuple[Array, Provenance]:
        """The action `(A,)` to command, and its author: the operator, where any number is theirs."""
        self.outcome, self.corrected = OperatorCommand.NONE, None
        reading, self._begins_with = self._begins_with or self._read(proposed, arms), None
        self._put([reading.outcome])
        self._take(acting=True)
        drove, self._drives = self._drives, reading.engaged
        problem, reading = reading.problem, self._with_page(reading)
        self.held = reading.engaged and not self._locked_out
        if self._yields and reading.engaged:
            self.ends = self.ends or TAKEN
            return np.zeros_like(proposed), Provenance.POLICY
        if self._locked_out:
            return self._led(proposed, arms)
        if drove and problem:
            self.ends = problem
            return np.zeros_like(proposed), Provenance.HUMAN
        acted, self._acts = self._acts, reading.engaged
        if not self._acts:
            return self._led(proposed, arms)
        self.segments += not acted
        action = np.clip(reading.action, -1.0, 1.0).astype(np.float32)
        if reading.given is None or reading.given.all():
            return action, Provenance.HUMAN
        self.corrected = reading.given
        return np.where(reading.given, action, proposed), Provenance.HUMAN

    def _led(self, proposed: Array, arms: Sequence[ArmState]) -> tuple[Array, Provenance]:
        """Nobody acts: the guide may, else the policy does."""
        if self._guide is None or not (led := self._guide.read(arms)).engaged:
            return proposed, Provenance.POLICY
        author = Provenance.GUIDE if self._guide.device.shows else Provenance.SEARCH
        return led.action.astype(np.float32), author

    def _read(self, proposed: Array, arms: Sequence[ArmState]) -> TeleopAction:
        """What the operator does at the device; nothing, if there is none."""
        if self._operator is None:
            return TeleopAction(False, np.zeros_like(proposed))
        return self._operator.read(arms)

    def _with_page(self, reading: TeleopAction) -> TeleopAction:
        """The same with the buttons of the page: a hand that one is pressed for is the operator's,
        whatever their device drives.
        """
        if not (orders := self._buttons.orders()):
            return reading
        theirs = True if reading.given is None else reading.given
        given = np.full(len(reading.action), reading.engaged) & theirs
        action = np.where(given, reading.action, 0.0)
        for number, choice in orders.items():
            action[number], given[number] = choice, True
        return replace(reading, engaged=True, action=action, given=given)

    def close(self) -> None:
        """Let go of the operator's device."""
        if self._operator is not None:
            self._operator.close()

    def _put(self, words: Iterable[OperatorCommand]) -> None:
        for word in words:
            if word != OperatorCommand.NONE:
                self.events.put(word, "device")

    def _take(self, *, acting: bool) -> list[OperatorEvent]:
        """Take every event, and do what it asks for."""
        if self._operator is not None:
            self._put(self._operator.take_words())
        events = self.events.take()
        for event in events:
            if event.moment is not None:
                self._note(event)
                if acting and event.moment.episode == self.events.episode:
                    self._answer(event.command)
                continue
            answers = self._gate is not None and self._gate.hear(event)
            if acting and (
                event.episode == self.events.episode or event.command == OperatorCommand.STOP
            ):
                self._hear(event)
            elif not answers:
                self._annotate(event)
        return events

    def _hear(self, event: OperatorEvent) -> None:
        """It is about the episode that is going on, but for UNDO; DENY is no more than a note."""
        word = event.command
        if word in (OperatorCommand.SUCCESS, OperatorCommand.FAILURE):
            self.outcome = word
        elif word == OperatorCommand.UNDO:
            self._annotate(event)
        elif word == OperatorCommand.DENY:
            self._note(event)
        elif word in ENDS:
            self.ends = ENDS[word]
            self.discarded = self.discarded or word == OperatorCommand.DISCARD

    def _answer(self, word: OperatorCommand) -> None:
        """A yes about a moment of this episode ends it; after a no it goes on."""
        if word == OperatorCommand.SUCCESS:
            self.outcome = word

    def _annotate(self, event: OperatorEvent) -> None:
        """It is about an episode that is over."""
        about_last = self._marks is None or self._marks.hear(event)
        if about_last and event.command in ON_LAST:
            self.on_last.append(event.command)

    def _note(self, event: OperatorEvent) -> None:
        """It says what was seen."""
        if self._marks is not None:
            self._marks.note(event)


ON_LAST = (OperatorCommand.UNDO, OperatorCommand.DISCARD, OperatorCommand.DENY)
TAKEN = "the operator took hold of the device"
ENDS = {
    OperatorCommand.STOP: "stopped by the operator",
    OperatorCommand.DISCARD: "discarded by the operator",
}


def open_intervention(
    env: RobotEnv,
    *,
    corrects: bool,
    seed: int,
    desk: ConsoleLink | None = None,
    gate: PauseGate | None = None,
    marks: OperatorMarks | None = None,
    guide: GuideOperator | None = None,
) -> Intervention:
    """The operator at the device that the hardware file names: one who `corrects`, or one who is
    locked out.

    Without corrections the device is opened only if the task's reward needs the operator's word.
    Raises ConfigError if it does and there is no device. Words that are said at the `desk` count as
    the device's. The `guide` corrects where nobody does.
    """
    require_judge(env.task, env.hardware)
    operator = None
    if env.hardware.teleop is not None and (corrects or env.reward.needs_operator):
        given = Given(task=env.task, world=env.world, mode="correct", seed=seed, desk=desk)
        operator = open_operator(env.hardware, given, env.space_spec.actions)
    return Intervention(
        operator, locked_out=not corrects, desk=desk, gate=gate, marks=marks, guide=guide
    )


def require_judge(task: Task, hardware: Hardware) -> None:
    """Raise ConfigError if the task's reward needs the operator's word and the bench has no device
    for it.
    """
    if hardware.teleop is None and driver("rewards", task.reward.name).needs_operator:
        raise ConfigError(
            f"reward '{task.reward.name}' of task '{task.name}' needs the operator's word, but"
            f" hardware '{hardware.name}' names no teleop device: add `teleop: {{name: NAME}}`"
        )
