"""Between two episodes: whether the next may begin.

Not after the operator's stop or pause, not while an arm faults, nor before a person has put back
what no arm can.
"""

import logging
import math
import time
from collections.abc import Callable

from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import NEEDS_HUMAN, ConsoleLink
from robot_rl.links.events import OperatorEvent
from robot_rl.types import DeviceError, Fault, OperatorCommand, ResetMissedError

log = logging.getLogger(__name__)
LOOK_AGAIN_S = 0.05
# a word at the device so soon after somebody was asked for may still be about the episode
SETTLED_S = 1.0
PAUSED = "paused by the operator"
DONE = "when it is done, press start in the console or say success at the device"
GO = "press start in the console or say success at the device; failure says not this time"
HAND_DONE = "then acknowledge it in the console, or say success at the device"
REFUSALS = {OperatorCommand.FAILURE, OperatorCommand.DISCARD, OperatorCommand.UNDO}
STOPPED = (
    "stopped by the operator: say stop once more at the device, or start in the console, to go on"
)


class PauseGate:
    """What every episode passes first: `if gate.wait(operator.listen): play()`. While it is shut
    the arms hold.

    It hears every event that the loop takes (`Intervention`). PAUSE and STOP shut it, START opens
    it. A STOP at the device takes back a STOP that is shown, and nothing else does but START: no
    other event opens what somebody shut.

    A latched fault waits for somebody who looks at the arm and acknowledges it: in the console
    (`robot-rl console`), or a program. A task with a `manual_reset` waits before each episode until
    START is said at the desk, or success at the device: it is done; so does a task with a way back
    that does not get on alone, and a reset that has missed, of which `missed_resets` is the number
    so far. In simulation none of these needs a
    person (`acknowledges`).
    """

    def __init__(
        self,
        env: RobotEnv,
        desk: ConsoleLink,
        *,
        acknowledges: bool,
        stop: Callable[[], bool],
        say: Callable[[str], None] = lambda reason: None,
    ):
        """`stop` ends a wait; `say` is told why there is one, and "" when it is over."""
        self._env, self._desk = env, desk
        self.acknowledges = acknowledges
        self.ends_at_stop = False
        """Whether the operator's STOP ends the work, as that of an evaluation, and START cannot
        take it back.
        """
        self.missed_resets = 0
        self._stop, self._say = stop, say
        self._paused = self._halted = self._refused = False
        # since when everybody sees what is asked, or that it is stopped
        self._asked_t = self._stopped_t = math.inf
        self._answer = DONE
        self.end_episode()  # of the process before this one: nobody knows how the bench was left

    @property
    def stopped(self) -> bool:
        """Whether the work is to end."""
        return self._stop() or (self.ends_at_stop and self._halted)

    @property
    def shut(self) -> str:
        """Why the operator wants no episode to begin, "" if one may."""
        if self._halted:
            return STOPPED
        return PAUSED if self._paused else ""

    def end_episode(self) -> None:
        """An episode is over: a manual reset shuts the gate."""
        asks = self._env.task.manual_reset or self._env.turns.asks
        self._by_hand = "" if self.acknowledges else asks
        self._hand_fault = ""

    def hear(self, event: OperatorEvent) -> bool:
        """Obey an event. Returns whether it was no more than the answer to what the gate has asked."""
        command, between = event.command, event.episode is None
        if command == OperatorCommand.PAUSE:
            self._paused = True
        elif command == OperatorCommand.START:
            self._paused, self._halted = False, self._halted and self.ends_at_stop
        elif command == OperatorCommand.STOP:
            self._halted = not (event.source == "device" and between and event.t > self._stopped_t)
        asked_for_s = event.t - self._asked_t
        if not between or asked_for_s <= 0.0:
            return False
        if self._answer == GO and command in REFUSALS:
            self._by_hand, self._refused = "", True
            return command == OperatorCommand.FAILURE
        if command == OperatorCommand.START or (
            command == OperatorCommand.SUCCESS and asked_for_s > SETTLED_S
        ):
            self._by_hand, self._desk.acknowledged = "", True
            return True
        return False

    def permits(
        self, motion: str, listen: Callable[[], object], is_held: Callable[[], bool]
    ) -> bool:
        """Ask a person whether the arms may make a motion that nobody steers, and `wait` for the
        answer.

        True after START or SUCCESS, which count once the device is no longer held (`is_held`);
        False if they refuse it, or a stop was asked for.
        """

        def listen_to_answer() -> None:
            listen()
            if not (self._by_hand or self._refused) and is_held():
                self._by_hand = motion

        by_hand, self._by_hand = self._by_hand, motion  # a manual reset comes after it
        self._answer, self._refused = GO, False
        begun = self.wait(listen_to_answer)
        self._by_hand, self._answer = by_hand, DONE
        return begun and not self._refused

    def tries_again(self, error: DeviceError, listen: Callable[[], object]) -> bool:
        """A reset has missed, or met a fault: `wait` until a person has seen to it. False if a stop
        was asked for.
        """
        self.missed_resets += 1
        self._desk.tell(missed_resets=self.missed_resets)
        log.warning("reset %d that did not begin an episode: %s", self.missed_resets, error)
        if isinstance(error, ResetMissedError) and not self.acknowledges:
            self._by_hand = str(error)
        return self.wait(listen)

    def wait(self, listen: Callable[[], object]) -> bool:
        """Return True as soon as the next episode may begin, False if a stop was asked for before.

        `listen` is called now and then: it takes what the operator has said, and lets the gate hear
        it.
        """
        shown = ""
        while True:
            listen()
            if self.stopped:
                return False
            fault = self._fault()
            by_hand = "; ".join(filter(None, [self._hand_fault, self._by_hand]))
            asks = bool(by_hand) and not fault
            answer = self._answer if self._by_hand else HAND_DONE
            reason = fault or (f"{by_hand}; {answer}" if asks else self.shut)
            if reason != shown:
                now, shown = time.monotonic(), reason
                self._asked_t = now if asks else math.inf
                self._stopped_t = now if reason == STOPPED else math.inf
                self.tell(reason, asks=asks)
            if not reason:
                return True
            time.sleep(LOOK_AGAIN_S)

    def tell(self, reason: str, *, asks: bool = False) -> None:
        """Tell everybody why the arms hold, or with "" that they no longer do; `asks` if a person
        is to do it.
        """
        log.warning("waiting: %s", reason or "over; going on")
        self._desk.tell(
            phase=NEEDS_HUMAN if asks else "waiting" if reason else "acting", reason=reason
        )
        self._say(reason)

    def _fault(self) -> str:
        """Why an arm holds, "" if none does."""
        self._env.arm_states = [arm.refresh() for arm in self._env.arms]
        for arm, state in zip(self._env.hardware.arms, self._env.arm_states, strict=True):
            if state.fault and self.acknowledges:
                log.warning(
                    "arm '%s': %s; the scripted operator acknowledges it",
                    arm.name,
                    Fault(state.fault).name,
                )
                self._env.acknowledge_faults()
            elif state.fault:
                return (
                    f"arm '{arm.name}' holds because of fault {Fault(state.fault).name}:"
                    f" {state.reason}; look at it, then acknowledge it in the console"
                )
        self._see_to_hands()
        return ""

    def _see_to_hands(self) -> None:
        """A hand's fault waits for a person as a manual reset does; their word acknowledges it, or
        they do so in the console.
        """
        hands = self._env.hands
        hands.read()
        looked_at, self._desk.acknowledged = self._desk.acknowledged, False
        if hands.faults and (self.acknowledges or looked_at):
            log.warning("%s; acknowledged", hands.faults[0])
            self._env.acknowledge_faults()
        asks = bool(hands.faults) and not self.acknowledges
        self._hand_fault = f"{hands.faults[0]}; look at it" if asks else ""
