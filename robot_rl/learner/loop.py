"""The learner process: steps come in, go to the log, are learnt from; weights go out.

In lockstep the run is cut into blocks of steps. Weights version b is published when all steps of
the blocks before b are here and the updates for the blocks before b-1 are made; the updates for
block b-1 then run while the actor acts in block b. Both sides work all the time, and which steps an
update can have seen does not depend on timing: a run repeats exactly for a seed. On a real clock
nobody waits: updates follow the steps as they come.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from robot_rl.config import Task, driver
from robot_rl.config.run_folder import DEMO_COUNTS, RunFolder
from robot_rl.dataset.outcomes import REACTION_S
from robot_rl.learner import checkpoint
from robot_rl.learner.health import WeightsAge
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.tally import Tally, tail_start
from robot_rl.learner.training import Training
from robot_rl.learner.viewers import viewers
from robot_rl.links.calls import CallServer, packed
from robot_rl.links.status import StatusPublisher
from robot_rl.links.upload import REQUEST_BYTES, Inbox
from robot_rl.links.weights import WeightsPublisher
from robot_rl.machine.memory import settle_memory
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import JsonLines, is_number
from robot_rl.stream import StepReceiver
from robot_rl.stream.compatibility import Hello, check
from robot_rl.stream.log import StepLog
from robot_rl.stream.verdicts import counted_steps, newest_successes
from robot_rl.types import (
    Array,
    DataError,
    DivergedError,
    Mark,
    RecordId,
    SpaceSpec,
    Step,
    StoppedError,
)

log = logging.getLogger(__name__)

OFFLINE_AT_ONCE = 500  # updates on the demonstrations between two lines of metrics
UPDATES_AT_ONCE = 10  # real clock: updates between two looks at what has arrived
SYNC_EVERY_S = 0.5  # what a power cut can cost, unless the actor's spool still has it
FAREWELL_S = 600.0  # at the end: an actor on another machine fetches its policy within this time
VALUE_EVERY_S = 0.25  # real clock: how often whoever looks is told what the critic expects
REPORT_EVERY_S = 10.0  # a line of metrics at least so often while updates are made
CALLS_SHARE = 0.05  # of the time, while there is something to learn, goes into answering calls
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
                f"{error}. {learner.what_is_left()}; {DivergedError.FINAL}"
            ) from error
        finally:
            learner.close()


def said_late_s(task: Task) -> float:
    """How much later [s] a task's judge says success than it is meant: a person needs a moment, a
    program none.
    """
    return REACTION_S if driver("rewards", task.reward.name).needs_operator else 0.0


class Learner:
    """Links, log and metrics around a `Training`."""

    def __init__(self, folder: RunFolder, stop: StopRequest):
        self._folder, self._settings, self._stop = folder, folder.settings, stop
        self._config: LearnerConfig = folder.read("learner", LearnerConfig)
        self._space = folder.spaces()
        self._begun = time.monotonic()
        task, hardware = folder.load_task(), folder.load_hardware()
        settings = self._settings
        self.training = Training(
            self._space, self._config, settings.seed, settings.steps, said_late_s=said_late_s(task)
        )
        self._metrics = JsonLines(folder.metrics_file)
        self._viewers = viewers(folder, self._config.wandb)
        self._restored = checkpoint.load_newest(folder.checkpoints)
        self._log = open_log(folder, self._space, self._restored.counters if self._restored else {})
        self._receiver = StepReceiver(
            self._settings.steps_address, self._space, self._log.positions, run=self._settings.id
        )
        self._weights = WeightsPublisher(self._settings.weights_address)
        self._status = StatusPublisher(self._settings.learner_status_address, "learner")
        self._calls = CallServer(self._settings.calls_address, REQUEST_BYTES)
        self._calls.register("hello", self._answer_hello)
        self._calls.register("policy", self._answer_policy)
        self._calls.register(
            "run", lambda *_: {"name": folder.path.name, "sections": folder.sections}
        )
        self._calls.register("upload", Inbox(folder.demos_log, self._take_demos).answer)
        self._ours = Hello.of("learner", task, hardware, self._space, self._settings.id)
        self._arrived: deque[tuple[RecordId, Step | Mark]] = deque()
        self._tally = Tally()
        self._version = 0
        self._published_updates = 0
        self._weights_age = WeightsAge()
        self._checkpointed = 0
        self._reported = self._valued = self._begun
        self._line: dict[str, Any] = {}
        self._policy_taken = False
        self._packed: dict[
            bool, tuple[tuple[int, ...], bytes]
        ] = {}  # the newest policies that were asked for

    def prepare(self) -> bool:
        """Compile, wait for the demonstrations, begin with them or where the run was left. False:
        stopped before.
        """
        try:
            with self._stop.at_once():  # nothing is made here that a restart would not make again
                if self._config.compile:
                    self.training.warm_up()
            while (
                not self._folder.demos_file.exists()
            ):  # the last thing that is written when they are complete
                if self._stop.is_set():
                    return False
                self._calls.poll(0.1)  # an actor on another machine hands them over
            with self._stop.at_once():
                demos, features = self._demonstrations(), self._folder.features_file
                self.training.load_demonstrations(
                    demos, self._restored, self._tell_pretraining, features
                )
            self._write_goal_error()
            self._clone_behaviour()
            counters = self._restored.counters if self._restored else {}
            self._restored = None
            if "tally" in counters:
                self._refill(counters["log_records"], Tally(**counters["tally"]))
            else:
                self._refill(0, Tally())
        except StoppedError:
            return False
        return True

    def _demonstrations(self) -> list[Step]:
        with StepLog(
            self._folder.demos_log, self._space, read_only=True, run=self._settings.id
        ) as log:
            return counted_steps(log.entries())

    def _write_goal_error(self) -> None:
        if (error := self.training.pretraining.error) is not None:
            self._write_line({"env_steps": self.training.env_steps, "pretraining": asdict(error)})

    def _tell_pretraining(self, done: int, total: int) -> None:
        self._status.publish({"phase": "pretraining", "done": done + 1, "total": total})
        if self._stop.is_set():
            raise StoppedError("stopped")

    def _tell_renewal(self, done: int, total: int) -> None:
        self._tell_pretraining(done, total)
        self._receive(0.0)

    def _renew_encoder_if_due(self) -> None:
        """Pretrain the encoder on the run's own successes too, see all frames anew with it, and
        make what is due.

        Whoever acts goes on with the policy that it has, as far as the clock lets it. A stop leaves
        all as it was, or raises StoppedError.
        """
        if not self.training.renewal_due:
            return
        successes = newest_successes(self._log.entries, self._config.pretrain.renew_episodes)
        try:
            self.training.renew_encoder(
                self._demonstrations(), successes, self._tell_renewal, self._folder.features_file
            )
        except StoppedError:
            return
        self._refill(self._log.count, self._tally)
        self._write_goal_error()
        self._update(self.training.due())
        self._save()

    def _clone_behaviour(self) -> None:
        """The updates before the first own step, if the agent makes any; the actor waits for an
        answer meanwhile.
        """
        while (due := self.training.offline_due) > 0 and not self._stop.is_set():
            self.training.clone_behaviour(min(due, OFFLINE_AT_ONCE), self._stop.is_set)
            done = self.training.offline_updates
            self._status.publish({
                "phase": "cloning",
                "done": done,
                "total": done + self.training.offline_due,
            })
            line = self.training.metrics()
            self._write_line(line | self.training.health())
            self.training.require_sound(line)

    def _refill(self, known: int, tally: Tally) -> None:
        """A resumed run, or a renewed encoder: own steps and marks so far come back from the log.
        Or StoppedError.

        In lockstep by whole blocks, as they were learnt from; what there is of the next one waits
        with what will come. So the next update sees what it would have seen if the run had not been
        stopped. On the real clock only what the replay has room for is read: the records before
        number `known` add up to `tally`.
        """
        self._arrived.clear()  # that is in the log, too
        start, self._tally = 0, Tally()
        if self._settings.clock != "lockstep":
            start = min(known, tail_start(self._log, self.training.capacity))
        if start:
            self._tally = tally.without(self._log.entries(start, known))
        self.training.skip(self._tally)
        for entry in self._log.entries(start):
            if self._stop.is_set():
                raise StoppedError("stopped")
            self._arrived.append(entry)
            self._tally.count(entry[1])
            steps = self._tally.steps
            if steps % self._settings.block_steps == 0 or steps == self._total_steps:
                self._take(steps)
        if self._settings.clock != "lockstep":
            self._take(self._tally.steps)
        self._checkpointed = self.training.env_steps

    def run(self) -> None:
        """Learn to the end of the run or to a stop, then save."""
        try:
            if self._settings.clock == "lockstep":
                self._run_lockstep()
            else:
                self._run_real()
        except (
            StoppedError
        ):  # while a renewed encoder saw the run anew: the newest checkpoint is what there is
            return
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
        while not (self._policy_taken or self._stop.is_set() or time.monotonic() > deadline):
            self._receive(0.0)
            self._calls.poll(0.2)

    def _run_lockstep(self) -> None:
        block = self._settings.block_steps
        while not self._is_over():
            self._renew_encoder_if_due()
            self._version = self.training.env_steps // block
            self._publish()
            self._update(self.training.due())
            self._report()
            goal = min((self._version + 1) * block, self._total_steps)
            while self._steps_here() < goal and not self._stop.is_set():
                self._receive(0.2)
            self._take(goal)
            self._save_if_due()

    def _run_real(self) -> None:
        # goes on after a restart
        self._version = self.training.governor.updates // max(1, self._config.publish_updates)
        self._publish()
        reported = self.training.env_steps
        while not self._is_over():
            self._receive(0.0 if self.training.due() else 0.05)
            self._take(self._total_steps)
            self._tell_value()
            self._renew_encoder_if_due()
            self._update(min(self.training.due(), UPDATES_AT_ONCE))
            if (
                self.training.governor.updates - self._published_updates
                >= self._config.publish_updates
            ):
                self._version += 1
                self._publish()
            if self.training.env_steps - reported >= self._settings.block_steps:
                reported = self.training.env_steps
                self._report()
                self._save_if_due()

    def _publish(self) -> None:
        self._weights.publish(self._version, self.training.publishable())
        self._published_updates = self.training.governor.updates
        self._weights_age.published(self._version, self._published_updates)

    def _update(self, count: int) -> None:
        self.training.update(count, between=self._between_updates, until=self._stop.is_set)

    def _between_updates(self) -> None:
        """Take in what has arrived; and many updates in a row, owed or slow, are spoken of while
        they are made.
        """
        self._receive(0.0)
        if time.monotonic() - self._reported > REPORT_EVERY_S:
            self._report()

    def _receive(self, timeout_s: float) -> int:
        """Log and acknowledge what has arrived, and answer calls. What is logged waits in
        `_arrived` to be learnt.
        """
        batch = self._receiver.receive(timeout_s)
        self._log.append_records([received.record for received in batch])
        self._receiver.ack(batch)
        for received in batch:
            self._arrived.append((received.identity, received.said))
            self._tally.count(received.said)
            if isinstance(received.said, Step):
                self._weights_age.used(received.said.weights_version)
        self._calls.poll(share=CALLS_SHARE)
        return len(batch)

    def _steps_here(self) -> int:
        """Own steps received, learnt from or not."""
        return self.training.env_steps + sum(is_own_step(said) for _, said in self._arrived)

    def _take(self, goal: int, *, marks_behind: bool = False) -> None:
        """Hand over to the training what has arrived, up to step number `goal` of the run, and the
        `marks_behind` it.

        Those count at the end of a run. In the middle of one they wait for the next block, as they
        do when it is resumed.
        """
        taken: list[tuple[RecordId, Step | Mark]] = []
        count = self.training.env_steps
        while self._arrived and (
            count < goal or (marks_behind and isinstance(self._arrived[0][1], Mark))
        ):
            taken.append(self._arrived.popleft())
            count += is_own_step(taken[-1][1])
        self._learn_from(taken)

    def _learn_from(self, entries: Iterable[tuple[RecordId, Step | Mark]]) -> None:
        """Hand steps and marks to the training in their order, steps that follow each other
        together.
        """
        steps: list[Step] = []
        streams: list[tuple[str, int]] = []
        for identity, said in entries:
            if isinstance(said, Step):
                steps.append(said)
                streams.append((identity.actor, identity.epoch))
                continue
            self.training.add(steps, streams)
            steps, streams = [], []
            self.training.apply(said, identity.actor, identity.epoch)
        self.training.add(steps, streams)

    @cached_property
    def _total_steps(self) -> int:
        """Own steps of the whole run: what its demonstrations leave, if it has any."""
        return max(0, self._settings.steps - self._folder.demos()["steps"])

    def _is_over(self) -> bool:
        return self._stop.is_set() or self.training.env_steps >= self._total_steps

    def _report(self) -> None:
        """One line on disk and one status message. Raises DivergedError, behind them, for what can
        be no loss.
        """
        self._reported = time.monotonic()
        line = self.training.metrics() | {
            "weights_version": self._version,
            "owed_updates": self.training.due(),
        }
        self._line = (
            line
            | self.training.health()
            | self._weights_age.figures(self.training.governor.updates)
        )
        self._write_line(self._line)
        self._status.publish(self._line)
        self.training.require_sound(line)

    def _tell_value(self) -> None:
        """Whoever looks is told, beside the newest line of metrics, what the critic expects of the
        episode now.
        """
        if time.monotonic() - self._valued < VALUE_EVERY_S:
            return
        self._valued = time.monotonic()
        if value := self.training.newest_value():
            self._status.publish(self._line | value)

    def _write_line(self, line: dict[str, Any]) -> None:
        line = line | {"wall_s": round(time.monotonic() - self._begun, 3), "t_wall": time.time()}
        self._metrics.append(line)
        figures = {name: value for name, value in line.items() if is_number(value)}
        done = figures.get("offline_updates" if self._config.offline else "env_steps", 0)
        for viewer in self._viewers:
            viewer.write(figures, int(done))

    def _save_if_due(self) -> None:
        if self.training.env_steps - self._checkpointed >= self._config.checkpoint_steps:
            self._save()

    def _save(self) -> None:
        """The log first: a checkpoint must not know steps that a power cut could take from the log."""
        self._log.sync()
        done = self.training.checkpoint(log_records=self._log.count, tally=asdict(self._tally))
        checkpoint.save(
            self._folder.checkpoints, self.training.env_steps, done, self._config.keep_checkpoints
        )
        self._checkpointed = self.training.env_steps

    def what_is_left(self) -> str:
        """Of a run whose learning has diverged: what there is, and what to do about it."""
        path = self._folder.path
        steps = checkpoint.kept_steps(self._folder.checkpoints)
        kept = f"The checkpoint of step {steps[-1]} was made before (robot-rl eval {path})" if steps else (
            "There was no checkpoint before"
        )  # fmt: skip
        return (
            "Nothing of this was published or saved, and the steps are in"
            f" {self._folder.steps_log}. {kept}. Train a new run with a lower"
            " --learner.agent.learning-rate, or with smaller rewards in the task"
        )

    def _answer_hello(self, body: dict[str, Any], _: dict[str, Array]) -> dict[str, Any]:
        """A peer that does not fit is refused; an actor learns where the run stands."""
        check(self._ours, body)
        has_demos = self._folder.demos_file.exists()
        run = {
            "has_demos": has_demos,
            "online_steps": self._total_steps if has_demos else None,
            "steps_done": self._steps_here(),
            "episodes_done": self._tally.next_episode,
            "log_ends": [[*stream, seq] for stream, seq in self._receiver.persisted.items()],
        }
        return asdict(self._ours) | run

    def _answer_policy(
        self, body: dict[str, Any], _: dict[str, Array]
    ) -> tuple[dict[str, Any], bytes]:
        """Architecture and all weights: the newest for an actor that begins, the averaged ones for
        use afterwards.

        The newest are those of the version that is published, and made ready once for all who ask.
        """
        self._policy_taken = averaged = bool(body.get("averaged"))
        training = self.training
        updates = training.governor.updates if averaged else 0
        state = self._version, updates, training.offline_updates, training.pretraining.renewals
        made_of, weights = self._packed.get(averaged, ((), b""))
        if made_of != state:
            weights = packed(training.averaged_policy() if averaged else training.policy())
            self._packed[averaged] = state, weights
        return {"spec": training.spec.to_json(), "version": self._version}, weights

    def _take_demos(self, facts: dict[str, Any]) -> None:
        """The demonstrations of an actor on another machine are here, `facts` counts them as
        `demos.json` does.
        """
        counts = {name: int(facts[name]) for name in DEMO_COUNTS}
        self._folder.write_demos(counts)

    def close(self) -> None:
        """Let go of log and links."""
        for part in (
            self._calls,
            self._receiver,
            self._weights,
            self._status,
            self._log,
            self._metrics,
        ):
            part.close()
        for viewer in self._viewers:
            viewer.close()


def open_log(folder: RunFolder, space: SpaceSpec, counters: Mapping[str, Any]) -> StepLog:
    """The log of a run, whose newest checkpoint has these counters.

    DataError, with nothing written, if there are fewer records in it than were learnt from.
    """
    known, path = counters.get("log_records", 0), folder.steps_log
    advice = (
        f"its newest checkpoint was learnt from {known}. Restore it from a copy (a repair leaves"
        " the damaged one beside it), then resume; without it this run cannot go on, and a new one"
        " begins anew"
    )
    if known and not path.exists():
        raise DataError(f"log {path} is not there; {advice}")
    log = StepLog(path, space, sync_every_s=SYNC_EVERY_S, run=folder.settings.id)
    if log.count + log.lost < known:
        log.close()
        raise DataError(f"log {path} has {log.count} records; {advice}")
    return log


def is_own_step(said: Step | Mark) -> bool:
    """Whether this is a control step of the arm; the observation after a reset is none."""
    return isinstance(said, Step) and said.index > 0
