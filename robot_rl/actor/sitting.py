"""A sitting of recording: the operator drives, episode after episode, and every step is in the log when it is made."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.episodes import Act, EpisodeRunner, EpisodeSummary
from robot_rl.actor.gate import Gate
from robot_rl.actor.handover import Operator
from robot_rl.actor.intervene import Intervention
from robot_rl.actor.marks import OperatorMarks, truncated
from robot_rl.data.log import StepLog
from robot_rl.transport.desk import Desk
from robot_rl.types import Array, Mark, Observation, Outcome, Provenance, Step


class Sitting:
    """What those who record share: scenes, the gate before each episode, steps and marks in the log.

    With a `desk` a console sees it and its words count; with a `gate` each episode waits until it may begin.

    ```
    sitting = Sitting(env, operator, log, seed=0)
    sitting.begin(episodes)                     # of these there are as many in the log
    sitting.pass_gate()
    summary, marks = sitting.drive(episode)
    ```
    What is said of an episode between it and the next one is in the log at once; `heard` is told these marks.
    """

    def __init__(
        self,
        env: RobotEnv,
        operator: Operator,
        log: StepLog,
        *,
        seed: int,
        desk: Desk | None = None,
        gate: Gate | None = None,
    ):
        self.env, self.operator, self.log, self.desk, self.gate = env, operator, log, desk, gate
        self._origin = seed
        self.begin(0)
        self.marks = OperatorMarks()
        self.heard: Callable[[Mark], None] = lambda mark: None
        self._intervention = Intervention(operator, desk=desk)
        self._runner = EpisodeRunner(env, desk=desk, gate=gate)

    def begin(self, episodes: int) -> None:
        """So many are in the log already: this sitting has other scenes than those before."""
        self.rng = np.random.default_rng([self._origin, episodes] if episodes else self._origin)

    def pass_gate(self) -> None:
        """Wait until the next episode may begin. KeyboardInterrupt if a stop is asked for at the gate.

        Without a gate nobody would acknowledge a fault: then it is an ArmFaultError.
        """
        if self.gate is None:
            self.env.require_no_fault()
        elif not self.gate.wait(self._hears):
            raise KeyboardInterrupt

    def permits(self, motion: str) -> bool:
        """Whether the arm may make a motion that nobody steers: a person is asked, and has let go of the device.

        A program at the device always says yes. KeyboardInterrupt if a stop is asked for instead.
        """
        if self.gate is None or not self.operator.is_person:
            return True
        held = True

        def hears() -> set[Outcome]:
            nonlocal held
            held, word = self.operator.look(self.env.arm_states)
            words = self._intervention.hears() | {word}
            return words - {Outcome.SUCCESS} if held else words

        while self.gate.permits(f"let go of the device: {motion}", hears):
            if not held:
                return True
        if self.gate.stopped:
            raise KeyboardInterrupt
        return False

    @property
    def missed_resets(self) -> int:
        """How many resets of this sitting did not begin an episode, and needed somebody."""
        return self.gate.missed_resets if self.gate is not None else 0

    def drive(
        self,
        episode: int,
        *,
        fails: Callable[[EpisodeSummary], bool] = lambda summary: False,
        each: Callable[[Step], None] = lambda step: None,
        idle: Callable[[float], None] = lambda waited_s: None,
    ) -> tuple[EpisodeSummary, list[Mark]]:
        """One episode that the operator drives: what it came to, and what was said of it and of the one before.

        It begins when they first move the arm; until then `idle` is told, in every period, for how long [s] nobody has,
        and what it raises ends the wait. One that `fails` does not count, whatever is said. `each` is shown every step.
        """

        def waits(waited_s: float) -> None:
            self._mark_last()
            idle(waited_s)

        try:
            summary = self.play(
                episode,
                self._nothing,
                self._intervention,
                each=each,
                idle=waits,
                seed=self._seed(),
                provenance=Provenance.DEMO,
            )
        except BaseException:
            self._mark_last()  # there is no next episode to tell it
            raise
        marks = self.marks.of(episode, on_last=summary.on_last, discarded=summary.discarded, failed=fails(summary))
        self._append(marks)
        if self.gate is not None:
            self.gate.end_episode(stopped=self._intervention.stopped)
        return summary, marks

    def play(
        self,
        episode: int,
        act: Act,
        intervention: Intervention,
        *,
        each: Callable[[Step], None] = lambda step: None,
        **options: Any,
    ) -> EpisodeSummary:
        """One episode into the log, with `EpisodeRunner.play`'s options.

        A stop that is asked for at the gate cuts it short. KeyboardInterrupt if it was given up before it began.
        """
        runner, begun = self._runner, False

        def stopped() -> bool:
            return self.gate is not None and self.gate.stopped

        for step in runner.play(episode, act, intervention, stop=stopped, **options):
            begun = True
            self.log.append_step(step)
            each(step)
        if not begun:
            raise KeyboardInterrupt
        if runner.summary.broken_off:
            self.log.append_mark(truncated(episode, runner.summary.reason))
        return runner.summary

    def _hears(self) -> set[Outcome]:
        """While the gate is shut: what the operator has said since the last look."""
        words = self._intervention.hears()
        self._mark_last()
        return words

    def _mark_last(self) -> None:
        """What was said of the last episode counts from now on, whatever comes after it."""
        self.record_marks(self.marks.now(self._intervention.take_unsaid()))

    def record_marks(self, marks: Sequence[Mark]) -> None:
        """Marks on an episode that is in the log: they are there, and `heard`, at once."""
        if marks:
            self._append(marks)
        for mark in marks:
            self.heard(mark)

    def _append(self, marks: Sequence[Mark]) -> None:
        """Marks into the log, and the log onto the disk."""
        for mark in marks:
            self.log.append_mark(mark)
        self.log.sync()

    def tell(self, **facts: Any) -> None:
        """Facts for whoever looks."""
        if self.desk is not None:
            self.desk.tell(**facts)

    def _nothing(self, observation: Observation) -> Array:
        return np.zeros(self.env.space_spec.action_size, np.float32)

    def _seed(self) -> int:
        return int(self.rng.integers(2**31))
