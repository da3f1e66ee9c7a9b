"""A run's work: demonstrations, training with corrections, and an evaluation at the end; or
recording alone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from robot_rl.actor.loop import ActorConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.counts import EPISODES, Progress
from robot_rl.links.address import reachable_here
from robot_rl.links.status import StatusReader
from robot_rl.machine.processes import ProcessFailed, Supervisor, Watchdog
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import Tail
from robot_rl.runs.arms import start_arms
from robot_rl.runs.create import require_training
from robot_rl.runs.doctor import advised
from robot_rl.runs.evaluate import evaluate_trained
from robot_rl.runs.judge import prepare_judge
from robot_rl.runs.progress import Display, Newest, training_note
from robot_rl.runs.record import mend_demos, record_demos, record_outcomes
from robot_rl.runs.report import (
    METRICS,
    plot_learning,
    save_summary,
    summarise_outcomes,
    training_summary,
)
from robot_rl.runs.resources import check_resources
from robot_rl.types import ConfigError, DivergedError, StoppedError

AT_ONCE = 1 << 17  # bytes of a table that one look reads at most, twice a second: some 200 lines
LEARNER_STOPS_WITHIN_S = (
    180.0  # an encoder that is renewed sees all demonstrations anew before it hears of a stop
)
STANDSTILL_S = 600.0  # once a lockstep run makes steps, nobody is waited for: a block takes seconds
PHASES = {
    "pretraining": "the encoder",
    "cloning": "the demonstrations",
    "refitting": "the judge, with what the operator has said",
}
"""What the learner does while there are no updates, as it calls it, and with what."""


def demo(folder: RunFolder, episodes: int = 0, *, review: bool = False) -> None:
    """Record a run's demonstrations alone, from where an earlier sitting stopped; `train --resume`
    carries it on.

    `episodes` is how many there shall be in all, if not as many as the run was made with.
    """
    if folder.steps_log.exists():
        raise ConfigError(
            f"{folder.path} is being trained already: record more demonstrations in a new run"
        )
    with recording(folder, f"robot-rl demo --resume {folder.path}") as (display, stop, processes):
        prepare_judge(folder, display, stop, processes)
        record_demos(folder, display, stop, processes, wanted=episodes, review=review)
        display.say(f"{folder.demos_log}; train on it with: robot-rl train --resume {folder.path}")


def outcomes(folder: RunFolder, positives: int, negatives: int, per_episode: int) -> None:
    """Collect labelled frames for a classifier into a run, until there are so many in all."""
    counts = {"positives": positives, "negatives": negatives, "per_episode": per_episode}
    wanted = " ".join(f"--{name.replace('_', '-')} {count}" for name, count in counts.items())
    again = f"robot-rl outcomes --resume {folder.path} {wanted}"
    with recording(folder, again) as (display, stop, processes):
        record_outcomes(folder, display, stop, processes, **counts)
        summary, picture = summarise_outcomes(folder)
        display.say(
            f"{folder.outcomes_log}: {summary['positives']} positives in "
            f"{summary['with_positives']} of {summary['episodes']} episodes, "
            f"{summary['negatives']} negatives; {summary['neither']} frames are neither"
        )
        if picture is not None:
            display.say(f"{picture}: some of each")


@contextmanager
def recording(folder: RunFolder, again: str) -> Iterator[tuple[Display, StopRequest, Supervisor]]:
    """The arms' processes of a run for a recording, which the command `again` goes on with."""
    with Display() as display, StopRequest() as stop:
        display.say(f"run {folder.path}; the operator's page: robot-rl console {folder.path}")
        with Supervisor(folder.logs) as processes, hint_at(again):
            start_arms(folder, processes)
            try:
                yield display, stop, processes
            except StoppedError:
                display.say(f"stopped and saved; continue with: {again}")
                raise


def carry_on(folder: RunFolder) -> RunFolder:
    """Carry a run, new or stopped, through whatever it still lacks: demonstrations, training,
    evaluation.
    """
    begun = time.monotonic()
    phases: dict[str, float] = {}
    with Display() as display, StopRequest() as stop:
        display.say(
            f"run {folder.path}: {folder.settings.task} on {folder.settings.hardware},"
            f" {folder.settings.obs}"
        )
        display.say(check_resources(folder))
        folder.read("actor", ActorConfig)  # what is wrong with it is said before anything starts
        mend_demos(folder)
        require_training(folder)
        with (
            Supervisor(folder.logs) as processes,
            hint_at(f"robot-rl train --resume {folder.path}"),
        ):
            start_arms(folder, processes)
            processes.start("learner", ["learner", str(folder.path)])
            with timed(phases, "outcomes"):
                prepare_judge(folder, display, stop, processes)
            with timed(phases, "demonstrations"):
                record_demos(folder, display, stop, processes)
            require_training(folder)
            with timed(phases, "training"):
                run_training(folder, processes, display, stop)
        summary = training_summary(folder, time.monotonic() - begun, phases)
        save_summary(folder.training_file, summary)
        plot_learning(folder)
        if advice := advised(folder):
            display.say(advice)
        if stop.is_set():
            display.say(f"stopped and saved; continue with: robot-rl train --resume {folder.path}")
            return folder
        evaluate_trained(folder, folder.settings.eval_episodes, display, stop.is_set)
    return folder


def run_training(
    folder: RunFolder, processes: Supervisor, display: Display, stop: StopRequest
) -> None:
    """Let actor and learner work until the learner has everything; a stop ends the actor first,
    then the learner.
    """
    start_judge(folder, processes)
    if folder.settings.steps:
        processes.start("actor", ["actor", str(folder.path)])
    watch_training(folder, processes, display, stop, until="learner")


def start_judge(folder: RunFolder, processes: Supervisor) -> None:
    """The process that fits the run's judge again, if it learns."""
    if folder.settings.steps and folder.judge is not None:
        processes.start("judge", ["reward", "follow", str(folder.path)])


def watch_training(
    folder: RunFolder, processes: Supervisor, display: Display, stop: StopRequest, *, until: str
) -> None:
    """Show how the training goes until the process `until` is through; start again whoever dies on
    the way.
    """
    stopping = waiting = drifts = False
    most_owed = 0
    settings = folder.settings
    addresses = {"learner": settings.learner_status_address, "actor": settings.actor_status_address}
    status = StatusReader({name: reachable_here(address) for name, address in addresses.items()})
    standstill = Watchdog(
        folder.logs, STANDSTILL_S if folder.settings.clock == "lockstep" else None
    )
    read_metrics = Tail(folder.metrics_file, Newest, METRICS, at_most=AT_ONCE, newest=AT_ONCE).read
    read_episodes = Tail(
        folder.episodes_file, Progress, EPISODES, at_most=AT_ONCE, newest=AT_ONCE
    ).read
    own_steps: int | None = None

    def each() -> None:
        nonlocal stopping, waiting, drifts, most_owed, own_steps
        metrics, episodes = read_metrics(), read_episodes()
        done = max(metrics.env_steps, episodes.env_steps)
        learner = status.latest().get("learner")
        if learner is not None and learner.phase in PHASES:
            display.show(learner.phase, learner.done, learner.total, PHASES[learner.phase])
        elif folder.demos_file.exists() and folder.settings.steps:
            if own_steps is None:
                own_steps = folder.settings.own_steps(folder.demos()["steps"])
            display.show("training", done, own_steps, training_note(episodes, metrics))
            owed = learner.owed_updates if learner is not None else 0
            if done >= own_steps and owed:
                most_owed = max(most_owed, owed)
                display.show("finishing", most_owed - owed, most_owed, f"{owed} updates are owed")
        actor = status.latest().get("actor")
        waits = actor is not None and actor.phase == "waiting"
        if actor is not None and waits and not waiting:
            display.say(f"the arm holds, and training waits: {actor.reason}")
        waiting = waits
        drift = actor.drift if actor is not None else ""
        if drift and not drifts:
            display.say(drift)
        drifts = bool(drift)
        if done:  # before that the learner pretrains and compiles
            renewed = learner.done if learner is not None else 0  # the encoder, once more
            standstill.look((metrics.count, episodes.episodes, renewed), time.monotonic())
        if stop.is_set() and not stopping:
            stopping = True
            display.say("stopping: the episode is ended, the arm holds, everything is saved")
            processes.stop("actor")
            processes.stop("learner", timeout_s=LEARNER_STOPS_WITHIN_S)

    def mend() -> None:
        if stop.is_set():
            processes.check()
        else:
            processes.restart_failed(display.say)

    try:
        processes.watch(until=until, each=each, period_s=0.5, mend=mend)
    finally:
        status.close()


@contextmanager
def timed(phases: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds that the block takes to `phases[name]`."""
    begun = time.monotonic()
    try:
        yield
    finally:
        phases[name] = phases.get(name, 0.0) + time.monotonic() - begun


@contextmanager
def hint_at(command: str) -> Iterator[None]:
    """A run whose process has failed keeps what it has: say which command goes on with it, if going
    on helps.
    """
    try:
        yield
    except ProcessFailed as error:
        if DivergedError.FINAL in str(error):
            raise
        raise ProcessFailed(f"{error}\ncontinue with: {command}") from error
