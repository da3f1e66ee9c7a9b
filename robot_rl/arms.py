"""The arms' processes of a run: started beside it, and waited for before anything is asked of them."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from robot_rl import config
from robot_rl.controllers.client import ArmClient
from robot_rl.progress import Display
from robot_rl.run_folder import RunFolder
from robot_rl.supervise import Supervisor
from robot_rl.types import LinkError

STARTS_S = 5.0  # longer is worth a word: the first start on a machine compiles
STARTS_WITHIN_S = 900.0  # a machine that is busy with other things compiles for minutes


def start_arms(folder: RunFolder, processes: Supervisor) -> None:
    """Start the process of each arm of the run's bench. Raises ConfigError, before that, if its files do not fit."""
    settings = folder.settings
    config.check_fit(folder.load_task(), folder.load_hardware())
    config.require_machine(config.load_hardware(settings.hardware))
    for arm in folder.load_hardware().arms:
        processes.start(
            f"arm-{arm.name}",
            ["arm", settings.hardware, "--arm", arm.name, "--task", settings.task, "--clock", settings.clock]
            + ["--address", arm.address, "--blackbox", str(folder.blackbox)],
        )


def await_arms(folder: RunFolder, processes: Supervisor, display: Display, stop: Callable[[], bool]) -> None:
    """Wait until each arm answers. ProcessFailed as soon as a process has failed instead, KeyboardInterrupt on a stop.

    LinkError if an arm lives and says nothing for `STARTS_WITHIN_S`. What it is at meanwhile, the last line of its log,
    is shown.
    """
    begun, arms = time.monotonic(), folder.load_hardware().arms
    for number, arm in enumerate(arms):

        def look(number: int = number, name: str = arm.name) -> None:
            processes.check()
            if stop():
                raise KeyboardInterrupt
            if time.monotonic() - begun > STARTS_S:
                doing = last_words(folder.logs / f"arm-{name}.log")
                display.show("arms", number, len(arms), f"arm '{name}' does not answer yet: {doing}")

        first_answer(arm.name, arm.address, folder.logs / f"arm-{arm.name}.log", look).close()


def first_answer(name: str, address: str, log: Path, each: Callable[[], None]) -> ArmClient:
    """The client of an arm whose process was just started, as soon as it answers; `each` is called meanwhile.

    Raises LinkError if it lives and says nothing for `STARTS_WITHIN_S`.
    """
    try:
        return ArmClient(address, timeout_s=STARTS_WITHIN_S, each=each)
    except LinkError as error:
        raise LinkError(
            f"the process of arm '{name}' lives, and has not answered at {address} within {STARTS_WITHIN_S:g} s: "
            f"{last_words(log)}; its log: {log}"
        ) from error


def last_words(log: Path) -> str:
    """What a process has said last, without when and who; that it only starts, if it has said nothing."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    said = next((line for line in reversed(lines) if line.strip()), "it is starting")
    return re.sub(r"^[\d-]+ [\d:,]+ [A-Z]+ [\w.]+: ", "", said)
