"""A sitting of recording: the operator drives, episode after episode, and every step is in the log
when it is made.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from robot_rl.actor.episodes import Act, EpisodeRunner, EpisodeSummary
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.links.events import OperatorEvent
from robot_rl.operator.annotations import OperatorMarks, truncated
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, Mark, Observation, Provenance, Step, StoppedError

STOPPED = "stopped, and what was recorded is saved"


class RecordingSession:
    """What those who record share: scenes, the gate before each episode, steps and marks in the
    log.

    With a `desk` a console sees it and its words count; with a `gate` each episode waits until it
    may begin.

    ```
    sitting = RecordingSession(env, operator, log, seed=0)
    sitting.begin(episodes)                     # of these there are as many in the log
    sitting.pass_gate()
    summary, marks = sitting.drive(episode)
    ```
    What is said of an episode between it and the next one is in the log at once; `heard` is told
    these marks.
    """

    def __init__(
        self,
        env: RobotEnv,
        operator: Operator,
        log: StepLog,
        *,
        seed: int,
        desk: ConsoleLink | None = None,
        gate: PauseGate | None = None,
    ):
        self.env, self.operator, self.log, self.desk, self.gate = env, operator, log, desk, gate
        self._origin = seed
        self.begin(0)
        self.marks = OperatorMarks(self.record_mark)
        self.heard: Callable[[Mark], None] = lambda mark: None
        self._intervention = Intervention(operator, desk=desk, gate=gate, marks=self.marks)
        self._runner = EpisodeRunner(env, desk=desk, gate=gate)

    def begin(self, episodes: int) -> None:
        """So many are in the log already: this sitting has other scenes than those before."""
        self.rng = np.random.default_rng([self._origin, episodes] if episodes else self._origin)

    def pass_gate(self) -> None:
        """Wait until the next episode may begin. StoppedError if a stop is asked for at the gate.

        Without a gate nobody would acknowledge a fault: then it is an ArmFaultError.
        """
        if self.gate is None:
            self.env.require_no_fault()
        elif not self.gate.wait(self.listen):
            raise StoppedError(STOPPED)

    def permits(self, motion: str) -> bool:
        """Whether the arm may make a motion that nobody steers: a person is asked, and has let go
        of the device.

        A program at the device always says yes. StoppedError if a stop is asked for instead.
        """
        if self.gate is None or not self.operator.is_person:
            return True
        intervention = self._intervention
        if self.gate.permits(
            f"let go of the device: {motion}",
            intervention.listen,
            lambda: intervention.holds(self.env.arm_states),
        ):
            return True
        if self.gate.stopped:
            raise StoppedError(STOPPED)
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
        seed: int | None = None,
    ) -> tuple[EpisodeSummary, list[Mark]]:
        """One episode that the operator drives: what it came to, and the marks on it.

        It begins when they first move the arm; until then `idle` is told, in every period, for how
        long [s] nobody has, and what it raises ends the wait. One that `fails` does not count,
        whatever is said. `each` is shown every step. `seed` is that of an episode in whose scene this
        one is; without it, it has a new one.
        """
        summary = self.play(
            episode,
            self._nothing,
            self._intervention,
            each=each,
            idle=idle,
            seed=self.new_seed() if seed is None else seed,
            provenance=Provenance.DEMO,
        )
        marks = self.marks.end(episode, discarded=summary.discarded, failed=fails(summary))
        for mark in marks:
            self.log.append_mark(mark)
        self.log.sync()
        if self.gate is not None:
            self.gate.end_episode()
        return summary, marks

    def play(
        self,
        episode: int,
        act: Act,
        intervention: Intervention,
        *,
        each: Callable[[Step], None] = lambda step: None,
        over: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> EpisodeSummary:
        """One episode into the log, with `EpisodeRunner.play`'s options.

        A stop that is asked for at the gate cuts it short, and so does `over`. StoppedError if it
        was given up before it began.
        """
        runner, begun = self._runner, False

        def stopped() -> bool:
            return over() or (self.gate is not None and self.gate.stopped)

        for step in runner.play(episode, act, intervention, stop=stopped, **options):
            begun = True
            self.log.append_step(step)
            each(step)
        if not begun:
            raise StoppedError(STOPPED)
        if runner.summary.broken_off:
            self.log.append_mark(truncated(episode, runner.summary.reason))
        return runner.summary

    def listen(self) -> list[OperatorEvent]:
        """Between two episodes: what the operator has said since the last look."""
        return self._intervention.listen()

    def record_mark(self, mark: Mark) -> None:
        """A mark on an episode that is in the log: it is there, and `heard`, at once."""
        self.log.append_mark(mark)
        self.log.sync()
        self.heard(mark)

    def tell(self, **facts: Any) -> None:
        """Facts for the console."""
        if self.desk is not None:
            self.desk.tell(**facts)

    def _nothing(self, observation: Observation) -> Array:
        return np.zeros(self.env.space_spec.action_size, np.float32)

    def new_seed(self) -> int:
        """Of the next scene and start pose."""
        return int(self.rng.integers(2**31))
