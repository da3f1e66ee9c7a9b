"""One run on two machines: the learner on one, with a GPU, and the robot on the other.

    learner's machine   robot-rl train TASK --listen tcp://0.0.0.0:5560
    robot's machine     robot-rl join tcp://NAME@HOST:5560

The learner's machine says what the run is; the robot's keeps a run folder of its own with the
demonstrations, the spool and the evaluation. Either may be stopped and started again, in any order:
nothing is lost and nothing is learnt twice.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from robot_rl import config
from robot_rl.actor.loop import ActorConfig
from robot_rl.config.kinds import is_name
from robot_rl.config.run_folder import RunFolder, is_run
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner.checkpoint import save_policy
from robot_rl.learner.options import LearnerConfig
from robot_rl.links.address import consecutive_addresses
from robot_rl.links.calls import CallClient
from robot_rl.links.judges import bring, fetch
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.signals import StopRequest
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.runs.arms import start_arms
from robot_rl.runs.create import PORTS, require_training
from robot_rl.runs.doctor import advised
from robot_rl.runs.evaluate import evaluate_trained
from robot_rl.runs.judge import copy_classifier, prepare_judge
from robot_rl.runs.progress import Display
from robot_rl.runs.record import mend_demos, record_demos
from robot_rl.runs.report import plot_learning, save_summary, training_summary
from robot_rl.runs.resources import check_resources
from robot_rl.runs.train import hint_at, start_judge, timed, watch_training
from robot_rl.types import ConfigError

PATIENCE_S = 1800.0  # the learner may pretrain and compile before it answers


def join(address: str, name: str = "", eval_episodes: int | None = None) -> RunFolder:
    """Bring this machine's robot to the run whose learner listens at `address`; carry it through
    and evaluate.
    """
    calls = CallClient(consecutive_addresses(address, PORTS)[2])
    begun, phases = time.monotonic(), dict[str, float]()
    with Display() as display, StopRequest() as stop:
        described = calls.call("run", timeout_s=PATIENCE_S).body
        folder = own_folder(described, address, name, partial(fetch, calls))
        display.say(
            f"run {folder.path}: {folder.settings.task} on {folder.settings.hardware}, learner at"
            f" {address}"
        )
        with Supervisor(folder.logs) as processes, hint_at(f"robot-rl join {address}"):
            start_arms(folder, processes)
            with timed(phases, "outcomes"):
                prepare_judge(folder, display, stop, processes)
            if folder.judge is not None:
                bring(calls, folder.judge, folder.outcomes_log)
            with timed(phases, "demonstrations"):
                record_demos(folder, display, stop, processes)
            require_training(folder)
            with timed(phases, "training"):
                processes.start("actor", ["actor", str(folder.path)])
                watch_training(folder, processes, display, stop, until="actor")
        summary = training_summary(folder, time.monotonic() - begun, phases)
        save_summary(folder.training_file, summary)
        if stop.is_set():
            display.say(f"stopped; continue with: robot-rl join {address}")
            return folder
        fetch_policy(folder, calls, summary["env_steps"])
        episodes = folder.settings.eval_episodes if eval_episodes is None else eval_episodes
        evaluate_trained(folder, episodes, display, stop.is_set)
    calls.close()
    return folder


def own_folder(
    described: dict[str, Any],
    address: str,
    name: str,
    fetch_judge: Callable[[Path], object] = lambda judge: None,
) -> RunFolder:
    """This machine's folder of the run that the learner described: new, or the one of an earlier
    sitting. The learner's judge goes before one of the same name that lies here.
    """
    sections = described["sections"]
    settings = config.from_json(RunSettings, sections["run"], "the learner's run")
    settings = with_addresses(settings, address)
    if not name and not is_name(str(described["name"]).replace(".", "")):
        raise ConfigError(
            f"the learner calls its run {described['name']!r:.100}: choose this machine's with"
            " --name"
        )
    path = Path("runs") / (name or f"{described['name']}-robot")
    if is_run(path):
        earlier = RunFolder(path).settings
        same = earlier.id == settings.id
        if not (earlier.id and settings.id):  # an older run has none
            settings = replace(settings, id=settings.id or earlier.id)
            same = with_addresses(earlier, address, like=settings) == settings
        if not same:
            raise ConfigError(f"'{path}' belongs to another run ({earlier.task}, seed {earlier.seed}) than the "
                              f"learner's ({settings.task}, seed {settings.seed}): choose another --name")  # fmt: skip
    parts: dict[str, Any] = {
        "run": settings,
        "actor": config.from_json(ActorConfig, sections["actor"], "the learner's run"),
        "learner": config.from_json(LearnerConfig, sections["learner"], "the learner's run"),
        "task": config.load_task(settings.task),
        "hardware": config.load_hardware(settings.hardware),
    }
    judged = config.with_judge(parts["task"], settings.judge)

    def fill(path: Path, settings: RunSettings) -> None:
        own = config.with_classifiers(judged, str(path / config.CLASSIFIERS))
        if (judge := config.classifier_of(own)) is not None:
            fetch_judge(judge)
        copy_classifier(judged)(path, settings)

    # the addresses may be others today
    return RunFolder.create(path, parts, again=True, fill=fill)


def with_addresses(
    settings: RunSettings, learner: str, like: RunSettings | None = None
) -> RunSettings:
    """The same run, as the robot's machine reaches it; its own status, desk and arms listen on this
    machine alone.

    There they have free addresses, or those that they have in `like`.
    """
    steps, weights, calls, status, _ = consecutive_addresses(learner, PORTS)
    if like is not None:
        actor_status = like.actor_status_address
        desk = like.desk_address
        arms = list(like.arm_addresses)
    else:
        actor_status, desk, *arms = free_addresses(
            2 + len(config.load_hardware(settings.hardware).arms)
        )
    return replace(
        settings,
        steps_address=steps,
        weights_address=weights,
        calls_address=calls,
        learner_status_address=status,
        actor_status_address=actor_status,
        desk_address=desk,
        arm_addresses=tuple(arms),
    )


def fetch_policy(folder: RunFolder, calls: CallClient, step: int) -> None:
    """The averaged policy, as a checkpoint of this machine's folder: for this evaluation and all
    later ones.
    """
    reply = calls.call("policy", {"averaged": True}, timeout_s=PATIENCE_S)
    save_policy(folder.checkpoints, step, PolicySpec.from_json(reply.body["spec"]), reply.arrays)


def serve_learner(folder: RunFolder) -> None:
    """The learner's machine: learn from the robot that joins, until the run has its steps."""
    settings = folder.settings
    with Display() as display, StopRequest() as stop:
        display.say(f"run {folder.path}: {settings.task} on {settings.hardware}, {settings.obs}")
        display.say(check_resources(folder))
        mend_demos(folder)
        require_training(folder)
        display.say(f"the robot's machine comes with: robot-rl join {settings.steps_address} (this machine's name and "
                    "address in place of 0.0.0.0)")  # fmt: skip
        with (
            Supervisor(folder.logs) as processes,
            hint_at(f"robot-rl train --resume {folder.path}"),
        ):
            processes.start("learner", ["learner", str(folder.path)])
            start_judge(folder, processes)
            watch_training(folder, processes, display, stop, until="learner")
        plot_learning(folder)
        if advice := advised(folder):
            display.say(advice)
        done = f"{folder.checkpoints}; the robot's machine evaluates"
        display.say(
            f"stopped and saved; continue with: robot-rl train --resume {folder.path}"
            if stop.is_set()
            else done
        )
