"""Between two episodes: whether the next may begin. Not after the operator's stop or pause, nor while an arm faults."""

import logging
import time
from collections.abc import Callable

from robot_rl.actor.env import RobotEnv
from robot_rl.transport.desk import Desk, Order
from robot_rl.types import Fault

log = logging.getLogger(__name__)
LOOK_AGAIN_S = 0.05
STOPPED = "stopped by the operator: say stop once more at the device, or start in the console, to go on"


class Gate:
    """What every episode passes first: `if gate.wait(): play()`. While it is shut the arms hold, and say why.

    A latched fault waits for somebody who looks at the arm and acknowledges it: in the console (`robot-rl console`),
    or a program. In simulation the scripted operator does (`acknowledges`).
    """

    def __init__(
        self,
        env: RobotEnv,
        desk: Desk,
        *,
        acknowledges: bool,
        stop: Callable[[], bool],
        say: Callable[[str], None] = lambda reason: None,
    ):
        """`stop` ends a wait; `say` is told why there is one, and "" when it is over."""
        self._env, self._desk = env, desk
        self._acknowledges = acknowledges
        self._stop, self._say = stop, say
        self._paused = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop()

    def shut(self, reason: str) -> None:
        """No next episode, for this reason, until START is said at the desk or the operator takes their stop back."""
        self._paused = reason

    def wait(self, taken_back: Callable[[], bool] = lambda: False) -> bool:
        """Return True as soon as the next episode may begin, False if a stop was asked for before.

        `taken_back`, asked while the gate is shut: whether the operator at the device wants to go on.
        """
        waiting = ""
        while not self.stopped:
            for order in self._desk.take_orders():
                self._paused = "paused by the operator" if order == Order.PAUSE else ""
            if self._paused and taken_back():
                self._paused = ""
            reason = self._fault() or self._paused
            if reason != waiting:
                log.warning("waiting: %s", reason or "over; going on")
                self._desk.tell(phase="waiting" if reason else "acting", reason=reason)
                self._say(reason)
                waiting = reason
            if not reason:
                return True
            time.sleep(LOOK_AGAIN_S)
        return False

    def _fault(self) -> str:
        """Why an arm holds, "" if none does."""
        self._env.arm_states = [arm.refresh() for arm in self._env.arms]
        for arm, state in zip(self._env.hardware.arms, self._env.arm_states, strict=True):
            if state.fault and self._acknowledges:
                log.warning("arm '%s': %s; the scripted operator acknowledges it", arm.name, Fault(state.fault).name)
                self._env.acknowledge_faults()
            elif state.fault:
                return (
                    f"arm '{arm.name}' holds because of fault {Fault(state.fault).name}: {state.reason}; look at it, "
                    "then acknowledge it in the console"
                )
        return ""
