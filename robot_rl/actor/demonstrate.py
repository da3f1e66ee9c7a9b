"""Recording demonstrations: the operator drives, and every step is on disk when it is made.

An attempt that fails is recorded too, with a mark that it does not count; nothing is deleted. What
a recording has come to is read from its log, so one that was broken off (a crash, an evening) goes
on where it was.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robot_rl.actor.exploration import CarryingExplorer, Explorer, GoalExplorer, SceneExplorer
from robot_rl.actor.session import STOPPED, RecordingSession
from robot_rl.actor.setbacks import Setbacks
from robot_rl.config import tighten
from robot_rl.operator.annotations import discard
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.pause import LOOK_AGAIN_S, REFUSALS
from robot_rl.stream.episodes import EpisodeLabel, EpisodeOf, episode_of
from robot_rl.stream.log import StepLog
from robot_rl.types import (
    STAY,
    ActorStream,
    Array,
    Mark,
    OperatorCommand,
    Provenance,
    Step,
    StoppedError,
)

Progress = Callable[[int, int], None]
"""Called after each attempt with (successes so far, attempts so far)."""


@dataclass
class DemoTally:
    """What a log of demonstrations holds. `steps` counts every control step that the arm made, good
    or not.

    `labels` are its episodes, by process and number (those of other runs have the same numbers),
    `lengths` their control steps; `episodes` is a number that none of them has yet.
    """

    labels: defaultdict[EpisodeOf, EpisodeLabel] = field(
        default_factory=lambda: defaultdict(EpisodeLabel)
    )
    lengths: Counter[EpisodeOf] = field(default_factory=Counter)
    attempts: int = 0
    steps: int = 0
    episodes: int = 0
    _newest: EpisodeOf | None = None

    @property
    def kept(self) -> list[EpisodeOf]:
        """The demonstrations to learn from: those that succeeded and count."""
        said = self.labels.items()
        return [
            key for key, each in said if each.is_demonstration and each.succeeded and each.counts
        ]

    @property
    def successes(self) -> int:
        """How many demonstrations there are to learn from."""
        return len(self.kept)

    @property
    def mean_length(self) -> float | None:
        """Control steps of a demonstration to learn from, on average; None, if there is none."""
        kept = self.kept
        return sum(self.lengths[episode] for episode in kept) / len(kept) if kept else None

    @property
    def counts(self) -> dict[str, int]:
        """As `demos.json` has them."""
        return {"successes": self.successes, "attempts": self.attempts, "steps": self.steps}

    @property
    def unfinished(self) -> Mark | None:
        """What takes the newest episode out if a crash broke it off."""
        if self._newest is None:
            return None
        actor, epoch, episode = self._newest
        newest = self.labels[self._newest]
        return discard(episode, actor, epoch) if newest.end == "open" and newest.counts else None

    def add(self, sender: ActorStream, said: Step | Mark) -> None:
        """One more record of a process."""
        episode = episode_of(sender, said)
        self.labels[episode].hear(said)
        if isinstance(said, Step):
            self._newest = episode
            self.episodes = max(self.episodes, said.episode + 1)
            self.lengths[episode] += said.index > 0
            self.steps += said.index > 0
            self.attempts += said.index == 0 and said.provenance == Provenance.DEMO

    @staticmethod
    def of(log: StepLog) -> "DemoTally":
        """Read it from the log."""
        tally = DemoTally()
        for identity, said in log.entries():
            tally.add(identity.stream, said)
        return tally


class DemoRecorder:
    """Records demonstrations in a sitting, each followed by a stretch of wandering about its goal
    if asked for.

    Episodes are numbered from 0 in their log; `tally` is what is in it, from this and earlier
    sittings. With `review` the arm holds after each demonstration until somebody has said whether
    to keep it (`success`) or not (`discard`).
    """

    def __init__(self, sitting: RecordingSession, *, review: bool = False):
        self._sitting, self._log, self._review = sitting, sitting.log, review
        self.tally = DemoTally.of(sitting.log)
        if self.tally.unfinished is not None:
            sitting.log.append_mark(self.tally.unfinished)
        sitting.begin(self.tally.episodes)
        sitting.heard = self._hear
        self._setbacks = Setbacks(sitting.env, sitting.operator)
        task, rng = sitting.env.task, sitting.rng
        limits = [tighten(arm.limits, task.limits) for arm in sitting.env.hardware.arms]
        self._wanderers: dict[int, Explorer] = {}
        if (wander := task.wander) is not None:
            wanderer = CarryingExplorer if wander.carries else GoalExplorer
            self._wanderers[wander.arm] = wanderer(task, wander, limits[wander.arm], rng)
        self._lookers: dict[int, Explorer] = {
            arm: SceneExplorer(task, around, limits[arm], rng)
            for arm, around in enumerate(task.look_around)
        }

    def record(
        self,
        successes: int,
        *,
        wander_steps: int = 0,
        progress: Progress = lambda done, tried: None,
    ) -> None:
        """Record until there are `successes` demonstrations. As far as the task allows it, the arm looks
        around for `wander_steps` before each of them, and wanders about the goal for as many behind
        it.

        Raises GivenUpError if it makes no sense to go on, StoppedError if a stop is asked for at
        the gate.
        """
        self._tell(successes)
        while self.tally.successes < successes:
            self._sitting.pass_gate()
            seed = self._sitting.new_seed()
            if self._lookers and wander_steps:
                self._look_around(wander_steps, seed)
            success = self._demonstrate(seed)
            self._tell(successes)
            if success and (not self._review or self._kept()) and self._wanderers and wander_steps:
                self._wander(wander_steps)
            self._sitting.listen()  # also after the last one
            self._tell(successes)
            progress(self.tally.successes, self.tally.attempts)

    def _demonstrate(self, seed: int) -> bool:
        """One attempt, in the scene of this seed. It counts if it succeeded."""

        def each(step: Step) -> None:
            self._setbacks.watch(step)
            self.tally.add(self._log.own, step)

        summary, marks = self._sitting.drive(
            self.tally.episodes,
            fails=lambda summary: not summary.success,
            each=each,
            idle=self._setbacks.wait,
            seed=seed,
        )
        for mark in marks:
            self._hear(mark)
        if not (summary.discarded or summary.reason):  # one that was broken off is nobody's failure
            self._setbacks.end_attempt(success=summary.success)
        return summary.success

    def _kept(self) -> bool:
        """Whether the last demonstration is to count: the arm holds until somebody has said so."""
        gate, tell = self._sitting.gate, self._sitting.tell
        tell(phase="review", reason="keep it (success) or discard it?")
        while gate is None or not gate.stopped:
            words = {event.command for event in self._sitting.listen()}
            if words & REFUSALS:
                self._sitting.marks.discard_last()
                tell(phase="discarded", reason="")
                return False
            if OperatorCommand.SUCCESS in words:
                tell(phase="kept", reason="")
                return True
            time.sleep(LOOK_AGAIN_S)
        raise StoppedError(STOPPED)

    def _hear(self, mark: Mark) -> None:
        """A mark of this sitting's counts, and the console shows it."""
        self.tally.add(self._log.own, mark)
        self._sitting.tell(demos=self.tally.successes)

    def _tell(self, wanted: int) -> None:
        self._sitting.tell(demos=self.tally.successes, attempts=self.tally.attempts, wanted=wanted)

    def _wander(self, count: int) -> None:
        """An episode that starts where the demonstration ended, at the goal."""
        motion = "the arm moves about the goal by itself"
        self._move_by_itself(self._wanderers, count, motion, Provenance.SCRIPT, keep_pose=True)

    def _look_around(self, count: int, seed: int) -> None:
        """An episode in the scene in which the demonstration will be, from the same start."""
        motion = "the arm looks around by itself"
        self._move_by_itself(self._lookers, count, motion, Provenance.LOOK, seed=seed)

    def _move_by_itself(
        self,
        explorers: Mapping[int, Explorer],
        count: int,
        motion: str,
        author: Provenance,
        **options: Any,
    ) -> None:
        """An episode of `count` steps at most in which the arms that have one of the `explorers` move
        by themselves, if a person lets them.

        What they say meanwhile counts: stop ends it. So does taking hold of the device; the arm
        then holds until they say that it may go to the next start.
        """
        sitting, env, episode = self._sitting, self._sitting.env, self.tally.episodes
        motion = f"{motion}, for {count * env.period_s:.0f} s"
        if not sitting.permits(motion):
            return
        actions = env.space_spec.actions
        person = sitting.operator if sitting.operator.is_person else None
        onlooker = Intervention(
            person,
            locked_out=True,
            yields=True,
            desk=sitting.desk,
            gate=sitting.gate,
            marks=sitting.marks,
        )

        def act(_: object) -> Array:
            holding = env.hands.holding()
            standing = env.hands.moving() if env.task.hold_while_gripping else []
            moves, orders = np.zeros((len(env.arm_states), 6)), np.full(len(env.arm_states), STAY)
            for arm, explorer in explorers.items():
                moves[arm], orders[arm] = explorer.act(
                    env.arm_states[arm], holds=arm in holding, stands=arm in standing
                )
            return actions.pick(moves, orders[list(actions.holders)])

        def each(step: Step) -> None:
            if step.index == 0:
                for arm, explorer in explorers.items():
                    explorer.begin_episode(env.arm_states[arm])
            sitting.tell(phase="wandering", reason=motion)
            self.tally.add(self._log.own, step)

        summary = sitting.play(
            episode,
            act,
            onlooker,
            each=each,
            over=lambda: any(explorer.over for explorer in explorers.values()),
            most=count,
            provenance=author,
            **options,
        )
        if summary.discarded:
            sitting.record_mark(discard(episode))
        self._log.sync()
        if sitting.gate is not None:
            sitting.gate.end_episode()
        if onlooker.taken:
            while not sitting.permits("the arm goes to the next start by itself"):
                pass
