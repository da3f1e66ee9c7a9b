"""Recording: what a person shows into the logs of a run, demonstrations or outcomes, with the page
beside it.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from robot_rl import config
from robot_rl.actor.demonstrate import DemoRecorder, DemoTally
from robot_rl.actor.loop import acknowledges
from robot_rl.actor.outcomes import OutcomeRecorder
from robot_rl.actor.session import RecordingSession
from robot_rl.config.judge import labels_by
from robot_rl.config.run_folder import RunFolder
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.learner.options import LearnerConfig
from robot_rl.links.console_link import ConsoleLink
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.signals import StopRequest
from robot_rl.operator.mapping import open_operator
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.arms import await_arms
from robot_rl.runs.progress import Display, say_waiting
from robot_rl.runs.report import outcome_steps, plot_demos
from robot_rl.stream.log import StepLog
from robot_rl.types import DataError, GivenUpError, StoppedError, Use

log = logging.getLogger(__name__)


def record_demos(
    folder: RunFolder,
    display: Display,
    stop: StopRequest,
    processes: Supervisor,
    *,
    wanted: int = 0,
    review: bool = False,
) -> None:
    """Record the demonstrations that the run still lacks; `demos.json` says that they are complete.

    `wanted` is how many there shall be, if not as many as the run was made with; with `review` each
    is asked about.
    """
    settings, task = folder.settings, folder.load_task()
    mend_demos(folder)
    if folder.demos_file.exists() and folder.demos()["successes"] >= wanted:
        return
    wanted = wanted or settings.demos
    folder.demos_file.unlink(missing_ok=True)
    if not wanted:  # nobody is needed for none
        with StepLog(folder.demos_log, folder.spaces(), run=settings.id) as recorded:
            folder.write_demos(counts_of(folder, DemoTally.of(recorded)))
        return

    def progress(done: int, attempts: int) -> None:
        display.show("demonstrations", done, wanted, f"{done} of {attempts} attempts")
        processes.check()
        if stop.is_set():
            raise StoppedError("stopped")

    await_arms(folder, processes, display, stop.is_set)
    try:
        with sitting_for(folder, task, folder.demos_log, display, stop, verb="demo") as sitting:
            recorder = DemoRecorder(sitting, review=review)
            seconds = settings.wander_steps / task.rate_hz
            if settings.wander_steps and task.look_around:
                display.say(
                    f"before each demonstration the arm looks around by itself, for {seconds:.0f} s"
                )
            if settings.wander_steps and task.wander is not None:
                display.say(f"after each demonstration the arm moves by itself about the goal, for {seconds:.0f} s, "
                            "where the task allows it; --wander-steps 0 switches that off")  # fmt: skip
            elif (
                task.wander is None
                and settings.obs == "pixels"
                and folder.read("learner", LearnerConfig).pretrains
            ):
                display.say(f"task '{task.name}' {config.NO_WANDER}")
            try:
                recorder.record(wanted, wander_steps=settings.wander_steps, progress=progress)
            except GivenUpError as error:
                kept = f"{recorder.tally.successes} of {wanted} demonstrations are kept"
                raise GivenUpError(
                    f"{error}\n{kept}; go on with: robot-rl demo --resume {folder.path}"
                ) from error
            missed = sitting.missed_resets
    finally:  # also of what there is when somebody stops
        if (picture := plot_demos(folder)) is not None:
            display.say(f"{picture}: what was recorded, at a glance")
    folder.write_demos(counts_of(folder, recorder.tally) | {"missed_resets": missed})


def counts_of(folder: RunFolder, tally: DemoTally) -> dict[str, int]:
    """As `demos.json` has them: `steps` are all of before the training, those of outcomes that the
    run has collected too.
    """
    return tally.counts | {"steps": tally.steps + outcome_steps(folder)}


def mend_demos(folder: RunFolder) -> None:
    """If the file that counts the demonstrations is damaged, count them anew in their log: it was
    written, so they are complete. Raises DataError if the log cannot be read."""
    if not os.path.lexists(folder.demos_file):  # a link that leads nowhere is a damaged file
        return
    try:
        folder.demos()
    except DataError:
        with StepLog(folder.demos_log, folder.spaces(), read_only=True) as recorded:
            tally = DemoTally.of(recorded)
        folder.write_demos(counts_of(folder, tally))
        log.warning("%s was damaged: it was counted anew from %s: %d demonstrations, %d attempts, %d steps",
                    folder.demos_file, folder.demos_log.name, tally.successes, tally.attempts, tally.steps)  # fmt: skip


def record_outcomes(
    folder: RunFolder,
    display: Display,
    stop: StopRequest,
    processes: Supervisor,
    *,
    positives: int,
    negatives: int,
    per_episode: int,
) -> None:
    """Record the labelled frames that a run still lacks; `outcomes.json` says what there is.

    Labels are the operator's (`labels_by`), whatever judge the task names: it may be the one that is
    to learn from them. The frames hold what the task's judge looks at.
    """
    judge = Use(labels_by(folder.load_hardware()))

    def progress(good: int, bad: int) -> None:
        display.show("positives", good, positives)
        display.show("negatives", bad, negatives)
        processes.check()
        if stop.is_set():
            raise StoppedError("stopped")

    await_arms(folder, processes, display, stop.is_set)
    with sitting_for(
        folder, folder.load_task(), folder.outcomes_log, display, stop, verb="outcomes", judge=judge
    ) as sitting:
        OutcomeRecorder(sitting, per_episode=per_episode, say=display.say).record(
            positives, negatives, progress=progress
        )


@contextmanager
def sitting_for(
    folder: RunFolder,
    task: config.Task,
    path: Path,
    display: Display,
    stop: StopRequest,
    *,
    verb: str,
    judge: Use | None = None,
) -> Iterator[RecordingSession]:
    """A sitting whose log is `path`, with the run's bench, its operator, a desk and a gate. `judge`
    is one of outcomes, in the place of the task's.
    """
    settings, hardware = folder.settings, folder.load_hardware()
    with ExitStack() as opened:
        desk = opened.enter_context(closing(ConsoleLink(settings.desk_address)))
        desk.tell(verb=verb, task=task.name)
        env = RobotEnv(task, hardware, obs=settings.obs, judge=judge, delay_s=settings.delay)
        opened.callback(env.close)
        mode: Literal["demonstrate", "collect"] = "collect" if judge else "demonstrate"
        operator = open_operator(
            hardware,
            Given(task=task, world=env.world, mode=mode, seed=settings.seed, desk=desk),
            env.space_spec.actions,
        )
        opened.callback(operator.close)
        recorded = opened.enter_context(StepLog(path, folder.spaces(), run=settings.id))
        gate = PauseGate(
            env,
            desk,
            acknowledges=acknowledges(env, folder),
            stop=stop.is_set,
            say=partial(say_waiting, display),
        )
        yield RecordingSession(env, operator, recorded, seed=settings.seed, desk=desk, gate=gate)
