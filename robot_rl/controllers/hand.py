"""A hand as the environment has it: choices of open and close, on the leash of time.

Below it is a gripper's process (`gripper.py`) or, where fingers move in a simulated arm's world,
that arm's (`fingers.py`). Nothing here opens a hand but a choice or an episode's beginning: whoever
dies, what is held stays held.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robot_rl.config import ArmConfig, GripperConfig, driver
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmLink
from robot_rl.controllers.gripper import LARGEST, GripperProcess, Order, Orders
from robot_rl.controllers.messages import Kind
from robot_rl.types import (
    ConfigError,
    DeviceError,
    GripperReading,
    GripperState,
    HandState,
    LinkError,
)

THIN_M = 0.001
"""What is thinner, or leaves less than this to the range's ends, counts as nothing held."""
PATIENCE = 60
"""Control periods for which the fingers are waited for at an episode's beginning."""
SLACK_S = 1e-6
"""Of the shortest time between toggles: the arm's time is a sum of ticks."""
RECOVERS_S = 5.0
"""For so long an acknowledged fault may take to go."""


class Hand:
    """One gripper that the task moves. Used by one thread; nothing but `begin_episode` waits for the
    fingers.

    ```
    executed = hand.choose(-1, t)      # close; t [s] is the arm's time
    seen = hand.state()
    ```
    A fault is latched: the hand stays as it is, and `choose` begins nothing until `acknowledge`.
    """

    def __init__(self, config: GripperConfig, arm: ArmConfig, blackbox: Path | None = None):
        """Raises DeviceError or LinkError if the gripper is not there."""
        self._config, self._arm, self._blackbox = config, arm, blackbox
        self._gripper = open_gripper(config, arm, blackbox)
        self._wanted, self._toggled = 0, -math.inf
        self._reason = ""
        self._last = HandState(math.nan, math.nan, False, False, "")

    def choose(self, choice: int, t: float) -> int:
        """Open (1), close (-1) or stay (0) at the time `t` [s]. Returns what was begun: 0 as well
        where the hand is there already or on its way, where it toggled less than `toggle_s` ago,
        where it has a fault.
        """
        if choice in (0, self._wanted) or t - self._toggled < self._config.toggle_s - SLACK_S:
            return 0
        state = self.state()
        if state.reason or state.moving:
            return 0
        if not (self._try(self._open) if choice > 0 else self._try(self._close)):
            return 0
        self._wanted, self._toggled = choice, t
        return choice

    @property
    def is_empty(self) -> bool:
        """Whether it was closed and held nothing, as it was asked last."""
        return self._wanted < 0 and not (self._last.moving or self._last.held)

    def state(self) -> HandState:
        """How the hand stands. One that cannot be asked any more has a fault, and stands as it was."""
        try:
            state = self._gripper.state()
        except (DeviceError, LinkError) as error:
            self._reason = self._reason or str(error)
        else:
            seen = state.reading
            self._last = HandState(
                seen.width_m, seen.max_width_m, state.busy, seen.grasped, state.reason
            )
        return self._last._replace(reason=self._reason or self._last.reason)

    def begin_episode(self, width: float | None, wait: Callable[[], None] = lambda: None) -> None:
        """Bring the fingers to where an episode is to start [m], letting time go by with `wait`;
        None leaves them as they are.

        What goes wrong is a fault (`state`).
        """
        self._toggled = -math.inf
        state = self.state()
        away = width is not None and (state.moving or abs(state.width - width) > THIN_M)
        if width is not None and away and not state.reason:
            self._try(lambda: self._gripper.move(width, self._config.speed))
            state = self._through(wait)
            if not state.reason and abs(state.width - width) > 5 * THIN_M:
                self._reason = (
                    f"gripper '{self._config.name}' stands at {1e3 * state.width:.1f} mm and was to"
                    f" start at {1e3 * width:.1f} mm: is something in its way, are open_m and"
                    " closed_m of the hardware file right?"
                )
        middle = (self._config.open_m + self._config.closed_m) / 2
        self._wanted = 1 if state.width > middle and not state.held else -1

    def _through(self, wait: Callable[[], None]) -> HandState:
        """Wait until the fingers are through."""
        for _ in range(PATIENCE):
            state = self.state()
            if state.reason or not state.moving:
                return state
            wait()
        self._reason = f"gripper '{self._config.name}' still moves after {PATIENCE} control periods"
        return self.state()

    def acknowledge(self) -> None:
        """Somebody has looked: clear the fault; a gripper whose process has died is opened anew."""
        self._reason, self._wanted = "", 0
        try:
            self._gripper.acknowledge()
            due = time.monotonic() + RECOVERS_S
            while self._gripper.state().reason and time.monotonic() < due:
                time.sleep(0.02)
        except (DeviceError, LinkError):
            self._gripper.close()
            self._try(self._reopen)

    def close(self) -> None:
        """Let go of the gripper, not of what it holds."""
        self._gripper.close()

    def _reopen(self) -> None:
        self._gripper = open_gripper(self._config, self._arm, self._blackbox)

    def _open(self) -> None:
        self._gripper.move(self._config.open_m, self._config.speed)

    def _close(self) -> None:
        """Upon anything: whatever is between the range's ends counts as held."""
        low, high = self._config.closed_m + THIN_M, self._config.open_m
        middle, tolerance = (low + high) / 2, (high - low) / 2
        self._gripper.grasp(middle, self._config.speed, self._config.force_n, tolerance)

    def _try(self, begin: Callable[[], None]) -> bool:
        """Whether an order went out; if it did not, that is a fault."""
        try:
            begin()
        except (DeviceError, LinkError, ConfigError) as error:
            self._reason = str(error)
        return not self._reason


class SimulatedGripper(Orders):
    """The fingers in the world of the arm at an address, with the calls of `GripperProcess`. Used by
    one thread.

    An order takes the place of the one that is under way. One that the hand could not carry out is
    a latched fault.
    """

    def __init__(self, name: str, address: str, *, timeout_s: float = 30.0):
        self._name, self._link = name, ArmLink(address, timeout_s)
        self._acknowledged = False
        self.there = messages.to_info(
            messages.body_as(messages.INFO, self._link.ask(Kind.INFO))
        ).fingers

    def acknowledge(self) -> None:
        """Somebody has looked: clear the fault."""
        self._acknowledged = True

    def state(self) -> GripperState:
        """How the hand stands, now."""
        r = messages.body_as(messages.FINGERS, self._link.ask(Kind.FINGERS))
        failed = bool(r["failed"]) and not self._acknowledged
        return GripperState(
            t=float(r["t"]),
            reading=GripperReading(
                float(r["width_m"]), float(r["max_width_m"]), bool(r["grasped"])
            ),
            busy=bool(r["busy"]),
            succeeded=bool(r["succeeded"]),
            reason=f"gripper '{self._name}': its last movement failed" if failed else "",
        )

    def _send(self, order: Order, **values: float) -> None:
        if reason := self.state().reason:
            raise DeviceError(f"{reason} (acknowledge this to go on)")
        body = np.zeros((), messages.FINGER_ORDER)
        body["order"] = order
        for name, value in values.items():
            if not 0.0 <= value <= LARGEST[name]:
                raise ConfigError(
                    f"gripper '{self._name}': {name} is {value}; allowed: 0 to {LARGEST[name]}"
                )
            body[name] = value
        self._link.ask(
            Kind.INFO
        )  # the number of the set-up in force: the arm's holder has set it up
        self._link.ask(Kind.MOVE_FINGERS, body)
        self._acknowledged = False

    def close(self) -> None:
        """Let go of the link: the fingers go on with what they do, and hold what they hold."""
        self._link.close()


def open_gripper(
    config: GripperConfig, arm: ArmConfig, blackbox: Path | None = None
) -> GripperProcess | SimulatedGripper:
    """The gripper of a hardware file: in a process of its own, unless it is simulated and the arm's
    world has fingers that move.
    """
    if driver("controllers/grippers", config.driver).simulated:
        fingers = SimulatedGripper(config.name, arm.address)
        if fingers.there:
            return fingers
        fingers.close()
    return GripperProcess(config, blackbox)
