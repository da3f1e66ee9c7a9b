"""Recording demonstrations: the operator drives, and every step is on disk when it is made.

An attempt that fails is recorded too, with a mark that it does not count; nothing is deleted. What a recording has
come to is read from its log, so one that was broken off (a crash, an evening) goes on where it was.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.actor.gate import LOOK_AGAIN_S, STOPPED, Gate
from robot_rl.actor.handover import Operator
from robot_rl.actor.intervene import Intervention
from robot_rl.actor.marks import OperatorMarks, discard, truncated
from robot_rl.actor.wander import Wanderer
from robot_rl.data.log import StepLog
from robot_rl.data.verdicts import Verdict
from robot_rl.transport.desk import Desk
from robot_rl.types import Array, Mark, Observation, Outcome, Provenance

Progress = Callable[[int, int], None]
"""Called after each attempt with (successes so far, attempts so far)."""


@dataclass
class DemoTally:
    """What a log of demonstrations holds. `steps` counts every control step that the arm made, good or not.

    `succeeded` are the demonstrations that reached the goal, by episode, with what the operator said of them since.

    If a crash broke off the newest episode, `unfinished` says so and the episode does not count.
    """

    succeeded: dict[int, Verdict] = field(default_factory=dict)
    attempts: int = 0
    steps: int = 0
    episodes: int = 0
    unfinished: Mark | None = None

    @property
    def successes(self) -> int:
        """How many demonstrations there are to learn from."""
        return sum(verdict.counts for verdict in self.succeeded.values())

    def hear(self, mark: Mark) -> None:
        """The operator said something of an episode."""
        if mark.episode in self.succeeded:
            self.succeeded[mark.episode].hear(mark)

    @staticmethod
    def of(log: StepLog) -> "DemoTally":
        """Read it from the log."""
        tally = DemoTally()
        for identity, said in log.entries():
            if isinstance(said, Mark):
                tally.hear(said)
                tally.unfinished = None
                continue
            tally.episodes = said.episode + 1
            tally.steps += said.index > 0
            tally.attempts += said.index == 0 and said.provenance == Provenance.DEMO
            if said.provenance == Provenance.DEMO and said.terminated and said.reward > 0.0:
                tally.succeeded[said.episode] = Verdict()
            broken_off = not (said.terminated or said.truncated)
            tally.unfinished = discard(said.episode, identity.actor, identity.epoch) if broken_off else None
        return tally


class DemoRecorder:
    """Records demonstrations into a log, each followed by a stretch of wandering about its goal if asked for.

    Episodes are numbered from 0 in their log; `tally` is what is in it, from this and earlier sittings. With a `desk` a
    console sees them and its words count, and each attempt passes the `gate`. With `review` the arm holds after each
    demonstration until somebody has said whether to keep it (`success`) or not (`discard`).
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
        review: bool = False,
    ):
        self._env = env
        self._log = log
        self._operator, self._desk, self._gate, self._review = operator, desk, gate, review
        self._intervention = Intervention(operator, desk=desk)
        self._marks = OperatorMarks()
        self._runner = EpisodeRunner(env, desk=desk)
        self.tally = DemoTally.of(log)
        if self.tally.unfinished is not None:
            log.append_mark(self.tally.unfinished)
        sitting = [seed, self.tally.episodes] if self.tally.episodes else seed  # other scenes than the sitting before
        self._rng = np.random.default_rng(sitting)
        self._wanderer = Wanderer(env.task, self._rng)

    def record(self, successes: int, *, wander_steps: int = 0, progress: Progress = lambda done, tried: None) -> None:
        """Record until there are `successes` demonstrations. KeyboardInterrupt if a stop is asked for at the gate."""
        self._tell(successes)
        while self.tally.successes < successes:
            self._pass_gate()
            self._demonstrate()
            self._log.sync()
            self._tell(successes)
            if self._runner.summary.success and (not self._review or self._kept()) and wander_steps:
                self._wander(wander_steps)
                self._log.sync()
            self._tell(successes)
            progress(self.tally.successes, self.tally.attempts)
            if self._gate is None:
                self._env.require_no_fault()

    def _demonstrate(self) -> None:
        """One attempt. It counts if it succeeded."""
        for step in self._runner.play(
            self.tally.episodes, self._nothing, self._intervention, seed=self._seed(), provenance=Provenance.DEMO
        ):
            self._log.append_step(step)
        summary, episode = self._runner.summary, self.tally.episodes
        self.tally.attempts += 1
        if summary.success:
            self.tally.succeeded[episode] = Verdict()
        for mark in self._marks.of(
            episode, on_last=summary.on_last, discarded=summary.discarded, failed=not summary.success
        ):
            self._log.append_mark(mark)
            self.tally.hear(mark)
        self._end_episode()
        if self._gate is not None and self._intervention.stopped:
            self._gate.shut(STOPPED)

    def _kept(self) -> bool:
        """Whether the last demonstration is to count: the arm holds until somebody has said so."""
        self._words()  # what was said before is about something else
        self._say(phase="review", reason="keep it (success) or discard it?")
        while True:
            words = self._words()
            if Outcome.SUCCESS in words:
                self._say(phase="kept", reason="")
                return True
            if words & {Outcome.DISCARD, Outcome.UNDO, Outcome.FAILURE}:
                for mark in self._marks.now([Outcome.DISCARD]):
                    self._log.append_mark(mark)
                    self.tally.hear(mark)
                self._say(phase="discarded", reason="")
                return False
            if self._gate is not None and self._gate.stopped:
                raise KeyboardInterrupt
            time.sleep(LOOK_AGAIN_S)

    def _words(self) -> set[Outcome]:
        """What was said since the last time, at the device and at the desk."""
        said = self._desk.take_words() if self._desk is not None else []
        return {*said, *self._operator.begin_episode()}

    def _pass_gate(self) -> None:
        if self._gate is not None and not self._gate.wait(self._intervention.hears_stop):
            raise KeyboardInterrupt

    def _tell(self, wanted: int) -> None:
        self._say(demos=self.tally.successes, attempts=self.tally.attempts, wanted=wanted)

    def _say(self, **facts: Any) -> None:
        if self._desk is not None:
            self._desk.tell(**facts)

    def _wander(self, count: int) -> None:
        """An episode that starts where the demonstration ended, at the goal."""
        self._wanderer.begin_episode(self._env.arm_states[0])
        for step in self._runner.play(
            self.tally.episodes,
            lambda observation: self._wanderer.act(self._env.arm_states[0]),
            Intervention(None),
            keep_pose=True,
            provenance=Provenance.SCRIPT,
            stop=lambda: self._runner.summary.steps + 1 >= count,
        ):
            self._log.append_step(step)
        self._end_episode()

    def _end_episode(self) -> None:
        if self._runner.summary.broken_off:
            self._log.append_mark(truncated(self.tally.episodes, self._runner.summary.reason))
        self.tally.steps += self._runner.summary.steps
        self.tally.episodes += 1

    def _nothing(self, observation: Observation) -> Array:
        return np.zeros(self._env.space_spec.action_size, np.float32)

    def _seed(self) -> int:
        return int(self._rng.integers(2**31))
