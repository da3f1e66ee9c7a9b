"""The learner process: steps come in, go to the log, are learnt from; weights go out.

In lockstep the run is cut into blocks of steps. Weights version b is published when all steps of
the blocks before b are here and the updates for the blocks before b-1 are made; the updates for
block b-1 then run while the actor acts in block b. Both sides work all the time, and which steps an
update can have seen does not depend on timing: a run repeats exactly for a seed. On a real clock
nobody waits: updates follow the steps as they come.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from robot_rl.config.run_folder import RunFolder
from robot_rl.learner import checkpoint
from robot_rl.learner.answers import answering
from robot_rl.learner.checkpoint import what_is_left
from robot_rl.learner.intake import Entry, Intake, counted_of
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import GoalError, Sight
from robot_rl.learner.publishing import Publishing
from robot_rl.learner.relabelling import Lines, Relabelling
from robot_rl.learner.reports import Reports
from robot_rl.learner.shown import Shown
from robot_rl.learner.tally import Tally, tail_start
from robot_rl.learner.training import Training
from robot_rl.machine.memory import settle_memory
from robot_rl.machine.signals import StopRequest
from robot_rl.stream.episodes import newest_episodes, said_late_s
from robot_rl.types import DivergedError, Step, StoppedError

log = logging.getLogger(__name__)

OFFLINE_AT_ONCE = 500  # updates on the demonstrations between two lines of metrics
UPDATES_AT_ONCE = 10  # real clock: updates between two looks at what has arrived
FAREWELL_S = 600.0  # at the end: an actor on another machine fetches its policy within this time
CALLS_SHARE = 0.05  # of the time, while there is something to learn, goes into answering calls
LOOK_AGAIN_S = 0.1  # for what the judge makes of the log
QUIET_S = 1.0  # at the end: the actor's last steps and marks are awaited for so long


def run_learner(run: str | Path) -> None:
    """Learn until the run has its steps, or until a stop is asked for; then save."""
    settle_memory()
    folder = RunFolder(run)
    with StopRequest() as stop:
        try:
            with stop.at_once():  # a long log is opened for seconds
                learner = Learner(folder, stop)
        except StoppedError:
            log.warning("stopped before the first update")
            return
        try:
            if learner.prepare():
                learner.run()
        except DivergedError as error:
            raise DivergedError(
                f"{error}. {what_is_left(folder)}; {DivergedError.FINAL}"
            ) from error
        finally:
            learner.close()


class Learner:
    """What comes in, what goes out and what is reported around a `Training`."""

    def __init__(self, folder: RunFolder, stop: StopRequest):
        self._folder, self._settings, self._stop = folder, folder.settings, stop
        self._config: LearnerConfig = folder.read("learner", LearnerConfig)
        self._space = folder.spaces()
        begun = time.monotonic()
        settings, late_s = self._settings, said_late_s(folder.load_task())
        self.training = Training(
            self._space, self._config, settings.seed, settings.steps, said_late_s=late_s
        )
        self._restored = checkpoint.load_newest(folder.checkpoints)
        self._learnt = None if self._restored else checkpoint.load_learnt(folder)
        counters = self._restored.counters if self._restored else {}
        self._intake = Intake(folder, self._space, counters)
        self._relabelling = Relabelling(folder)
        self._publishing = Publishing(settings.weights_address, self.training)
        self._reports = Reports(folder, self._config, begun)
        self._calls = answering(folder, self._space, self._publishing, self._stands)
        self._checkpointed = 0

    def prepare(self) -> bool:
        """Compile, wait for the demonstrations, begin with them or where the run was left. False:
        stopped before.
        """
        try:
            with self._stop.at_once():  # nothing is made here that a restart would not make again
                if self._config.compile:
                    self.training.warm_up()
            # the last thing that is written when they are complete
            while not self._folder.demos_file.exists():
                if self._stop.is_set():
                    return False
                self._calls.poll(0.1)  # an actor on another machine hands them over
            with self._stop.at_once():
                self.training.load_demonstrations(
                    self._shown(), self._restored, self._tell_pretraining,
                    self._folder.features_file, self._learnt,
                )  # fmt: skip
            self._write_error("sight", self.training.sight)
            self._write_error("pretraining", self.training.pretraining.error)
            self._clone_behaviour()
            counters = self._restored.counters if self._restored else {}
            self._restored = self._learnt = None
            if "tally" in counters:
                self._refill(counters["log_records"], Tally(**counters["tally"]))
            else:
                self._refill(0, Tally())
        except StoppedError:
            return False
        return True

    def _shown(self) -> Shown:
        """The demonstrations, and what was collected for the run's classifier, if it was, and if
        anything is learnt from it.
        """
        demos = counted_of(self._folder.demos_log, self._space, self._settings.id)
        path, config = self._folder.outcomes_log, self._config
        wanted = (config.pretrains or config.learn_outcomes) and path.exists()
        return Shown.of(demos, counted_of(path, self._space) if wanted else ())

    def _write_error(self, name: str, error: Sight | GoalError | None) -> None:
        if error is not None:
            self._reports.write({"env_steps": self.training.env_steps, name: asdict(error)})

    def _tell_pretraining(self, done: int, total: int) -> None:
        self._reports.tell_phase("pretraining", done + 1, total)
        if self._stop.is_set():
            raise StoppedError("stopped")

    def _tell_renewal(self, done: int, total: int) -> None:
        self._tell_pretraining(done, total)
        self._receive(0.0)

    def _renew_encoder_if_due(self) -> None:
        """Pretrain the encoder on the run's own episodes too, see all frames anew with it, and
        make what is due.

        The actor goes on with the policy that it has, as far as the clock lets it. A stop leaves
        all as it was, or raises StoppedError.
        """
        if not self.training.renewal_due:
            return
        read, most = self._intake.log.entries, self._config.pretrain.renew_episodes
        own = newest_episodes(read, most, self._relabelling.newest, failures=True)
        try:
            shown, file = self._shown(), self._folder.features_file
            self.training.renew_encoder(shown, own, self._tell_renewal, file)
        except StoppedError:
            return
        self._refill(self._intake.log.count, self._intake.tally)
        self._write_error("pretraining", self.training.pretraining.error)
        self._update(self.training.due())
        self.training.agent.begin_average()  # of policies of before, which saw otherwise, nothing
        self._save()

    def _clone_behaviour(self) -> None:
        """The updates before the first own step, if the agent makes any; the actor waits for an
        answer meanwhile.
        """
        while (due := self.training.offline_due) > 0 and not self._stop.is_set():
            self.training.clone_behaviour(min(due, OFFLINE_AT_ONCE), self._stop.is_set)
            done = self.training.offline_updates
            self._reports.tell_phase("cloning", done, done + self.training.offline_due)
            line = self.training.metrics()
            self._reports.write(line | self.training.health())
            self.training.require_sound(line)

    def _refill(self, known: int, tally: Tally) -> None:
        """A resumed run, or a renewed encoder: own steps and marks so far come back from the log.
        Or StoppedError.

        In lockstep by whole blocks, as they were learnt from; what there is of the next one waits
        with what will come. So the next update sees what it would have seen if the run had not been
        stopped. On the real clock only what the replay has room for is read: the records before
        number `known` add up to `tally`.
        """
        lockstep, log = self._settings.clock == "lockstep", self._intake.log
        start = 0 if lockstep else min(known, tail_start(log, self.training.capacity))
        self._intake.begin_anew(tally.without(log.entries(start, known)) if start else Tally())
        self._relabelling.begin_anew()
        self.training.skip(self._intake.tally)
        for entry in log.entries(start):
            if self._stop.is_set():
                raise StoppedError("stopped")
            self._intake.wait(entry)
            steps = self._intake.tally.steps
            if steps % self._settings.block_steps == 0 or steps == self._total_steps:
                self._take(steps)
                self._relabel_due(lambda: time.sleep(LOOK_AGAIN_S))  # nothing arrives meanwhile
        if not lockstep:
            self._take(self._intake.tally.steps)
            self._relabel(self._relabelling.take())
        self._checkpointed = self.training.env_steps

    def run(self) -> None:
        """Learn to the end of the run or to a stop, then save."""
        try:
            if self._settings.clock == "lockstep":
                self._run_lockstep()
            else:
                self._run_real()
        except StoppedError:
            return  # at a renewed encoder, or waiting for a judge: there is the newest checkpoint
        while self._receive(QUIET_S):
            pass
        if not self._stop.is_set():
            self._make_last_updates()
        self._report()
        self._save()
        self._calls.poll()  # the actor asks whether this is the end
        if self._settings.remote_actor:
            self._wait_for_farewell()

    def _make_last_updates(self) -> None:
        """Make what is due when all steps are here. A mark on the last episode counts from the next
        updates on.
        """
        while not self._stop.is_set():
            self._receive(0.0)
            self._take(self._total_steps, marks_behind=True)
            if not (due := self.training.due()):
                return
            self._update(min(due, UPDATES_AT_ONCE))

    def _wait_for_farewell(self) -> None:
        """An actor on another machine fetches the policy that it will use, and then nothing is
        wanted any more.
        """
        deadline = time.monotonic() + FAREWELL_S
        while not (
            self._publishing.averaged_taken or self._stop.is_set() or time.monotonic() > deadline
        ):
            self._receive(0.0)
            self._calls.poll(0.2)

    def _run_lockstep(self) -> None:
        block = self._settings.block_steps
        while not self._is_over():
            self._renew_encoder_if_due()
            version = self.training.env_steps // block
            self._publishing.publish(version)
            self._update(self.training.due())
            self._report()
            goal = min((version + 1) * block, self._total_steps)
            while self._steps_here() < goal and not self._stop.is_set():
                self._receive(0.2)
            self._take(goal)
            self._relabel_due(self._await_judge)
            self._save_if_due()

    def _run_real(self) -> None:
        every = self._config.publish_updates
        # goes on after a restart
        self._publishing.publish(self.training.governor.updates // max(1, every))
        reported = self.training.env_steps
        while not self._is_over():
            self._receive(0.0 if self.training.due() else 0.05)
            self._take(self._total_steps)
            self._relabel(self._relabelling.take())
            self._reports.tell_value(self.training.newest_value)
            self._renew_encoder_if_due()
            self._update(min(self.training.due(), UPDATES_AT_ONCE))
            if self._publishing.updates_since >= every:
                self._publishing.publish(self._publishing.version + 1)
            if self.training.env_steps - reported >= self._settings.block_steps:
                reported = self.training.env_steps
                self._report()
                self._save_if_due()

    def _update(self, count: int) -> None:
        self.training.update(count, between=self._between_updates, until=self._stop.is_set)

    def _between_updates(self) -> None:
        """Take in what has arrived; and many updates in a row, owed or slow, are spoken of while
        they are made.
        """
        self._receive(0.0)
        if self._reports.due:
            self._report()

    def _receive(self, timeout_s: float) -> int:
        """Log and acknowledge what has arrived, to be learnt from, and answer calls."""
        arrived = self._intake.receive(timeout_s)
        for said in arrived:
            if isinstance(said, Step):
                self._publishing.age.used(said.weights_version)
        self._calls.poll(share=CALLS_SHARE)
        return len(arrived)

    def _steps_here(self) -> int:
        """Own steps received, learnt from or not."""
        return self.training.env_steps + self._intake.steps_waiting

    def _take(self, goal: int, *, marks_behind: bool = False) -> None:
        """Hand over to the training what has arrived, up to step number `goal` of the run, and the
        `marks_behind` it.

        Those count at the end of a run. In the middle of one they wait for the next block, as they
        do when it is resumed.
        """
        steps = goal - self.training.env_steps
        self._learn_from(self._intake.take(steps, marks_behind=marks_behind))

    def _learn_from(self, entries: Iterable[Entry]) -> None:
        """Hand steps and marks to the training in their order, steps that follow each other
        together.
        """
        steps: list[Step] = []
        streams: list[tuple[str, int]] = []
        for identity, said in entries:
            self._relabelling.hear(identity, said)
            if isinstance(said, Step):
                steps.append(said)
                streams.append((identity.actor, identity.epoch))
                continue
            self.training.add(steps, streams)
            steps, streams = [], []
            self.training.apply(said, identity.actor, identity.epoch)
        self.training.add(steps, streams)

    def _relabel_due(self, wait: Callable[[], None]) -> None:
        """At the border of a block: what newer versions of the judge make of the episodes so far."""
        self._relabel(self._relabelling.take_due(wait, self._stop.is_set))

    def _relabel(self, lines: Lines) -> None:
        for about, said in lines:
            self.training.relabel(about, said)
        self._publishing.judge = self._relabelling.version

    def _await_judge(self) -> None:
        """The refit that is due takes its time: whoever looks is told."""
        self._reports.tell_phase("refitting", *self._relabelling.progress)
        self._receive(LOOK_AGAIN_S)

    def _stands(self) -> dict[str, Any]:
        """Where the run stands, which an actor goes on from."""
        has_demos = self._folder.demos_file.exists()
        return {
            "has_demos": has_demos,
            "online_steps": self._total_steps if has_demos else None,
            "steps_done": self._steps_here(),
            "episodes_done": self._intake.tally.next_episode,
            "log_ends": self._intake.log_ends,
        }

    @cached_property
    def _total_steps(self) -> int:
        """Own steps of the whole run."""
        return self._settings.own_steps(self._folder.demos()["steps"])

    def _is_over(self) -> bool:
        return self._stop.is_set() or self.training.env_steps >= self._total_steps

    def _report(self) -> None:
        """One line on disk and one status message. Raises DivergedError, behind them, for what can
        be no loss.
        """
        line = self.training.metrics() | {
            "weights_version": self._publishing.version,
            "owed_updates": self.training.due(),
            **self._relabelling.status,
        }
        age = self._publishing.age.figures(self.training.governor.updates)
        self._reports.report(line | self.training.health() | age)
        self.training.require_sound(line)

    def _save_if_due(self) -> None:
        if self.training.env_steps - self._checkpointed >= self._config.checkpoint_steps:
            self._save()

    def _save(self) -> None:
        """The log first: a checkpoint must not know steps that a power cut could take from the log."""
        log, tally = self._intake.log, asdict(self._intake.tally)
        log.sync()
        done = self.training.checkpoint(log_records=log.count, tally=tally)
        checkpoint.save(
            self._folder.checkpoints, self.training.env_steps, done, self._config.keep_checkpoints
        )
        self._checkpointed = self.training.env_steps

    def close(self) -> None:
        """Let go of log and links."""
        for part in (self._calls, self._intake, self._publishing, self._reports):
            part.close()
