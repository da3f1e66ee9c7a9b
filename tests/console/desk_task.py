"""A task whose outcome the operator says, on the simulated arm in lockstep, at a pace that a person
could follow.
"""

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.episodes import UNMOVED
from robot_rl.actor.session import RecordingSession
from robot_rl.config import Hardware
from robot_rl.env.robot import RobotEnv
from robot_rl.interfaces import Given
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.mapping import open_operator
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.types import ArmTarget, Mark, Step, StoppedError, Use

TASK = replace(config.load_task("peg_insert"), reward=Use("operator"), max_steps=100_000)
STEP_S = 0.01


def hardware_at(address: str) -> Hardware:
    """The simulated bench with the page's gizmo as its device."""
    hardware = config.load_hardware("sim_panda")
    return replace(
        hardware, arms=(replace(hardware.arms[0], address=address),), teleop=Use("browser")
    )


@dataclass
class Recording:
    """Demonstrations that are being recorded, as `robot-rl demo` does it, in a thread of this
    process.

    `upset` makes the arm fault in the next step. While the operator is awaited, a nudge begins the
    episode for them.
    """

    hardware: Hardware
    path: Path
    wanted: int = 3
    review: bool = False

    def __post_init__(self) -> None:
        self.desk = ConsoleLink()
        self.stop, self.upset = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.recorder: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            env = RobotEnv(TASK, self.hardware, obs="state")
            operator = open_operator(
                self.hardware, Given(task=TASK, world=env.world, mode="demonstrate", desk=self.desk)
            )
            read = operator.read

            def paced(arms):
                time.sleep(STEP_S)
                if self.stop.is_set():
                    raise StoppedError("stopped")
                if self.upset.is_set():
                    self.upset.clear()
                    env.arms[0].command(ArmTarget(np.full(7, np.nan), 0.1))
                reading = read(arms)
                awaited = self.facts.get("reason") == UNMOVED
                return (
                    replace(reading, engaged=True, action=np.full(6, 0.02)) if awaited else reading
                )

            operator.read = paced  # type: ignore[method-assign]
            gate = PauseGate(env, self.desk, acknowledges=False, stop=self.stop.is_set)
            with StepLog(self.path, env.space_spec) as log:
                self.recorder = DemoRecorder(
                    RecordingSession(env, operator, log, seed=0, desk=self.desk, gate=gate),
                    review=self.review,
                )
                self.env = env
                self.recorder.record(self.wanted)
            env.close()
        except BaseException as error:  # noqa: BLE001
            self.error = error

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self.desk._facts)

    def acts_in(self, episode: int) -> bool:
        """Whether a step of this episode was made, or there will be none."""
        shown = self.desk._shown
        return not self.running or (
            shown is not None and shown.step.episode == episode and shown.step.index > 0
        )

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def finish(self, timeout_s: float = 60.0) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)
        assert not self.running, f"it still records: {self.facts}"

    def close(self) -> None:
        self.stop.set()
        self._thread.join(60.0)
        self.desk.close()

    def marks(self) -> list[Mark]:
        """The marks in the log, which nobody writes any more."""
        with StepLog(self.path, config.spaces(TASK, self.hardware, "state")) as log:
            return [said for _, said in log.entries() if isinstance(said, Mark)]

    def steps(self) -> list[Step]:
        """Its steps."""
        with StepLog(self.path, config.spaces(TASK, self.hardware, "state")) as log:
            return list(log.read())
