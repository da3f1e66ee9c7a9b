"""Between two episodes: whether the next may begin.

Not after the operator's stop or pause, not while an arm faults, nor before a person has put back what no arm can.
"""

import logging
import math
import time
from collections.abc import Callable, Set

from robot_rl.actor.env import RobotEnv
from robot_rl.transport.desk import NEEDS_HUMAN, Desk, Order
from robot_rl.types import DeviceError, Fault, Outcome, ResetMissedError

log = logging.getLogger(__name__)
LOOK_AGAIN_S = 0.05
SETTLED_S = 1.0  # a word at the device so soon after somebody was asked for may still be about the episode
PAUSED = "paused by the operator"
DONE = "when it is done, press start in the console or say success at the device"
GO = "press start in the console or say success at the device; failure says not this time"
REFUSALS = {Outcome.FAILURE, Outcome.DISCARD, Outcome.UNDO}
STOPPED = "stopped by the operator: say stop once more at the device, or start in the console, to go on"


class Gate:
    """What every episode passes first: `if gate.wait(): play()`. While it is shut the arms hold, and say why.

    A latched fault waits for somebody who looks at the arm and acknowledges it: in the console (`robot-rl console`),
    or a program. A task with a `manual_reset` waits before each episode until START is said at the desk, or success at
    the device: it is done; so does a reset that has missed, of which `missed_resets` is the number so far. In
    simulation none of these needs a person (`acknowledges`).
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
        self.acknowledges = acknowledges
        self.missed_resets = 0
        self._stop, self._say = stop, say
        self._paused = ""
        self._answer, self._refused = DONE, False
        self.end_episode()  # of the process before this one: nobody knows how the bench was left

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop()

    def end_episode(self, *, stopped: bool = False) -> None:
        """An episode is over, perhaps `stopped` by the operator. That, and a manual reset, shut the gate."""
        self._by_hand = "" if self.acknowledges else self._env.task.manual_reset
        if stopped:
            self._shut()

    def permits(self, motion: str, hears: Callable[[], Set[Outcome]]) -> bool:
        """Ask a person whether the arms may make a motion that nobody steers, and `wait` for the answer.

        True after START at the desk or success at the device; False if they refuse it, or a stop was asked for.
        """
        by_hand, self._by_hand = self._by_hand, motion  # a manual reset comes after it
        self._answer, self._refused = GO, False
        begun = self.wait(hears)
        self._by_hand, self._answer = by_hand, DONE
        return begun and not self._refused

    def reopens(self, hears: Callable[[], Set[Outcome]] = frozenset) -> bool:
        """The operator has stopped the arm on the way to its start: `wait` until they want to go on."""
        self._shut()
        return self.wait(hears)

    def tries_again(self, error: DeviceError, hears: Callable[[], Set[Outcome]] = frozenset) -> bool:
        """A reset has missed, or met a fault: `wait` until a person has seen to it. False if a stop was asked for."""
        self.missed_resets += 1
        self._desk.tell(missed_resets=self.missed_resets)
        log.warning("reset %d that did not begin an episode: %s", self.missed_resets, error)
        if isinstance(error, ResetMissedError) and not self.acknowledges:
            self._by_hand = str(error)
        return self.wait(hears)

    def wait(self, hears: Callable[[], Set[Outcome]] = frozenset) -> bool:
        """Return True as soon as the next episode may begin, False if a stop was asked for before.

        `hears`, asked while the gate is shut: what the operator has said at the device since the last look.
        """
        waiting, asked_t = "", math.inf
        while not self.stopped:
            self._obey(asked=asked_t < math.inf)
            if self._paused or self._by_hand:
                self._hear(hears(), settled=time.monotonic() - asked_t > SETTLED_S)
            fault = self._fault()
            reason = fault or (self._by_hand and f"{self._by_hand}; {self._answer}") or self._paused
            if reason != waiting:
                asks = bool(self._by_hand) and not fault
                asked_t = time.monotonic() if asks else math.inf
                self.tell(reason, asks=asks)
                waiting = reason
            if not reason:
                return True
            time.sleep(LOOK_AGAIN_S)
        return False

    def tell(self, reason: str, *, asks: bool = False) -> None:
        """Tell everybody why the arms hold, or with "" that they no longer do; `asks` if a person is to do it."""
        log.warning("waiting: %s", reason or "over; going on")
        self._desk.tell(phase=NEEDS_HUMAN if asks else "waiting" if reason else "acting", reason=reason)
        self._say(reason)

    def _shut(self) -> None:
        self._paused = STOPPED
        self._desk.take_orders()  # a START from before the stop does not take it back

    def _obey(self, *, asked: bool) -> None:
        """What was said at the desk. START says that it is done only if somebody was `asked` to do it."""
        for order in self._desk.take_orders():
            self._paused = PAUSED if order == Order.PAUSE else ""
            if order == Order.START and asked:
                self._by_hand = ""

    def _hear(self, words: Set[Outcome], *, settled: bool) -> None:
        """What was said at the device: stop stops, or takes a stop back; success says yes, it is done."""
        if Outcome.STOP in words:
            self._paused = "" if self._paused else STOPPED
        if self._answer == GO and words & REFUSALS:
            self._by_hand, self._refused = "", True
        elif Outcome.SUCCESS in words and settled:
            self._by_hand = ""

    def _fault(self) -> str:
        """Why an arm holds, "" if none does."""
        self._env.arm_states = [arm.refresh() for arm in self._env.arms]
        for arm, state in zip(self._env.hardware.arms, self._env.arm_states, strict=True):
            if state.fault and self.acknowledges:
                log.warning("arm '%s': %s; the scripted operator acknowledges it", arm.name, Fault(state.fault).name)
                self._env.acknowledge_faults()
            elif state.fault:
                return (
                    f"arm '{arm.name}' holds because of fault {Fault(state.fault).name}: {state.reason}; look at it, "
                    "then acknowledge it in the console"
                )
        return ""
