"""The arms' processes of a run: started beside it, and waited for before anything is asked of them."""

import time
from collections.abc import Callable

from robot_rl import config
from robot_rl.controllers.client import ArmClient
from robot_rl.progress import Display
from robot_rl.run_folder import RunFolder
from robot_rl.supervise import Supervisor

STARTS_S = 15.0  # longer is worth a word: the first start on a machine compiles


def start_arms(folder: RunFolder, processes: Supervisor) -> None:
    """Start the process of each arm of the run's bench. Raises ConfigError, before that, if its files do not fit."""
    settings = folder.settings
    config.check_fit(folder.load_task(), folder.load_hardware())
    config.require_machine(folder.load_hardware())
    for arm in folder.load_hardware().arms:
        processes.start(
            f"arm-{arm.name}",
            ["arm", settings.hardware, "--arm", arm.name, "--run", str(folder.path), "--clock", settings.clock]
            + ["--address", arm.address, "--blackbox", str(folder.blackbox)],
        )


def await_arms(folder: RunFolder, processes: Supervisor, display: Display, stop: Callable[[], bool]) -> None:
    """Wait until each arm answers. ProcessFailed as soon as a process has failed instead, KeyboardInterrupt on a stop.

    LinkError if an arm lives and says nothing for as long as an `ArmClient` waits.
    """
    begun, arms = time.monotonic(), folder.load_hardware().arms
    for number, arm in enumerate(arms):

        def look(number: int = number, name: str = arm.name) -> None:
            processes.check()
            if stop():
                raise KeyboardInterrupt
            if time.monotonic() - begun > STARTS_S:
                display.show("arms", number, len(arms), f"arm '{name}' does not answer yet; its log: {folder.logs}")

        ArmClient(arm.address, each=look).close()
