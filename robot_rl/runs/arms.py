"""The arms' processes of a run: at which bench, started beside it, and waited for before anything
is asked of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from robot_rl import config
from robot_rl.config.run_folder import RunFolder
from robot_rl.controllers.client import first_answer, last_words
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.processes import Supervisor
from robot_rl.runs.progress import Display
from robot_rl.types import ConfigError, StoppedError

STARTS_S = 5.0  # longer is worth a word: the first start on a machine compiles


def at_bench(folder: RunFolder, hardware: str = "") -> RunFolder:
    """The run at another bench than it was trained at, or at its own; its arms get addresses that
    nobody has.

    Arms that are not simulated have the real clock, whatever the training's was. Raises ConfigError
    if the task does not fit that bench, or if what is observed there is not what the policy was
    trained with.
    """
    moved = RunFolder(folder.path)
    if hardware and hardware != folder.settings.hardware:
        bench = config.load_hardware(hardware)
        there = config.spaces(folder.load_task(), bench, folder.settings.obs).observations
        trained = folder.spaces().observations
        if there != trained:
            raise ConfigError(
                f"the policy of {folder.path} was trained at '{folder.settings.hardware}' and"
                f" cannot work at '{hardware}': it observes"
                f" {', '.join(sorted(trained.keys() - there.keys()))}, and there is"
                f" {', '.join(sorted(there.keys() - trained.keys()))} instead. Name the arms there"
                " as they were, or train it there"
            )
        drivers = [config.driver("controllers/arms", arm.driver) for arm in bench.arms]
        moved = folder.at_bench(
            bench, folder.settings.clock if all(d.simulated for d in drivers) else "real"
        )
    addresses = tuple(free_addresses(len(moved.load_hardware().arms)))
    moved.settings = replace(moved.settings, arm_addresses=addresses)
    return moved


def start_arms(folder: RunFolder, processes: Supervisor) -> None:
    """Start the processes of the arms of the run's bench. Raises ConfigError, before that, if its
    files do not fit.
    """
    settings = folder.settings
    config.check_fit(folder.load_task(), folder.load_hardware())
    config.require_machine(folder.load_hardware())
    for arms in config.arms_by_process(folder.load_hardware()):
        arguments = ["arm", settings.hardware, "--arm", arms[0].name, "--run", str(folder.path)]
        arguments += ["--clock", settings.clock, "--address", *(arm.address for arm in arms)]
        processes.start(_process_name(arms), [*arguments, "--blackbox", str(folder.blackbox)])


def _process_name(arms: Sequence[config.ArmConfig]) -> str:
    """Of the process of these arms, and of its log."""
    return "-".join(["arm", *(arm.name for arm in arms)])


def await_arms(
    folder: RunFolder, processes: Supervisor, display: Display, stop: Callable[[], bool]
) -> None:
    """Wait until each arm answers. ProcessFailed as soon as a process has failed instead,
    StoppedError on a stop.

    LinkError if an arm lives and says nothing for `controllers.client.STARTS_WITHIN_S`. What it is at meanwhile, the
    last line of its log, is shown.
    """
    begun, hardware = time.monotonic(), folder.load_hardware()
    logs = {
        arm.name: folder.logs / f"{_process_name(arms)}.log"
        for arms in config.arms_by_process(hardware)
        for arm in arms
    }
    for number, arm in enumerate(hardware.arms):

        def look(number: int = number, name: str = arm.name) -> None:
            processes.check()
            if stop():
                raise StoppedError("stopped")
            if time.monotonic() - begun > STARTS_S:
                doing = last_words(logs[name])
                display.show(
                    "arms", number, len(logs), f"arm '{name}' does not answer yet: {doing}"
                )

        first_answer(arm.name, arm.address, logs[arm.name], look).close()
