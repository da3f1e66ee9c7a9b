"""What the devices in this folder share: what is held on them, and the thread that keeps reading
them.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from robot_rl import interfaces
from robot_rl.machine.validation import nearest
from robot_rl.types import (
    AXES,
    WORDS,
    ArmState,
    Array,
    ConfigError,
    DeviceError,
    OperatorCommand,
    TeleopEvent,
    TeleopMapping,
)

log = logging.getLogger(__name__)

MOTIONS = {sign + axis: (i, float(sign + "1")) for i, axis in enumerate(AXES) for sign in "+-"}
GRIPPER = {"open": 1.0, "close": -1.0}
ROLES = (*WORDS, *MOTIONS, *GRIPPER, "deadman", "slow")
"""What a button or key may be for."""

SLOW = 0.1
"""Share of the speed while a control for that is held: 0.8 mm in a step of at most 8 mm."""

RETRY_S = (0.25, 2.0)
"""How long [s] a lost device's thread waits before it looks for it again: at first, and at most."""

CLOSING_S = 2.0  # no library that hangs keeps a program from ending

RULES = Path(__file__).with_name("70-robot_rl.rules")
"""Rules for udev: who sits at the machine, and the group `plugdev`, may open these devices and no
others.
"""

RULES_HELP = (
    f"Allow it: `sudo cp {RULES} /etc/udev/rules.d/ && sudo udevadm control --reload-rules && sudo"
    " udevadm trigger`, then plug the device in again. The rules let in whoever sits at this"
    " machine, and the group plugdev, which somebody over ssh has to join: `sudo usermod -aG"
    " plugdev $USER`, then log in anew"
)


class Controls:
    """What the operator holds and turns, said by the device's thread and read by the actor's.

    `roles` says what each control (a button, a key) is for: see `ROLES`; "" is for nothing. With a
    dead-man's control the device is active while that is held, else while anything is deflected.
    """

    def __init__(self, roles: Mapping[str, str], source: str):
        """Raises ConfigError for a role that there is not; `source` says where it was asked for."""
        # YAML: 1 may be a key
        self.roles = {str(control): str(role) for control, role in roles.items() if role}
        for control, role in self.roles.items():
            if role not in ROLES:
                raise ConfigError(
                    f"{source}: {control} = {role!r} is not known; allowed: {nearest(role, ROLES)}"
                )
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._turned = np.zeros(6)
        self._words: deque[OperatorCommand] = deque()

    def turn(self, turned: Array) -> None:
        """The deflection of sticks and caps is `turned (6,)` now."""
        with self._lock:
            self._turned = np.clip(turned, -1.0, 1.0)

    def press(self, control: str) -> None:
        """A control went down. One that is down already (a repeated report) says nothing new."""
        with self._lock:
            if control not in self._held:
                self._held.add(control)
                if word := WORDS.get(self.roles.get(control, "")):
                    self._words.append(word)

    def release(self, control: str) -> None:
        """A control came up."""
        with self._lock:
            self._held.discard(control)

    @property
    def held(self) -> frozenset[str]:
        """What is down."""
        with self._lock:
            return frozenset(self._held)

    def let_go(self) -> None:
        """The device is gone: nobody holds anything, until it is pressed anew. What was said stays
        said.
        """
        with self._lock:
            self._held.clear()
            self._turned = np.zeros(6)

    def take_words(self) -> Sequence[OperatorCommand]:
        """Everything that was said and not read."""
        with self._lock:
            words = tuple(self._words)
            self._words.clear()
            return words

    def handover(self, problem: str) -> TeleopEvent:
        """What the device says now, along the operator's own axes."""
        with self._lock:
            roles = [self.roles[control] for control in self._held if control in self.roles]
            word = self._words.popleft() if self._words else OperatorCommand.NONE
            twist = self._turned.copy()
        for axis, sign in (MOTIONS[role] for role in roles if role in MOTIONS):
            twist[axis] += sign
        # of a device that is gone nothing is held down any more
        twist = np.zeros(6) if problem else np.clip(twist, -1.0, 1.0)
        active = "deadman" in roles if "deadman" in self.roles.values() else bool(twist.any())
        gripper = float(np.sign(sum(GRIPPER.get(role, 0.0) for role in roles)))
        pace = SLOW if "slow" in roles else 1.0
        return TeleopEvent(active and not problem, twist, "base", gripper, pace, word, problem)


class Source(Protocol):
    """A device that is open, as its reading thread sees it."""

    name: str

    def read(self) -> int:
        """Wait for 0.1 s at most, tell the controls what came, return how much. Raises OSError if
        it is gone.
        """
        ...

    def close(self) -> None: ...


class Device(interfaces.Teleop):
    """A device with a thread of its own, which reads it and opens it again after it was unplugged.

    A driver's `Teleop` adds how the device is opened.
    """

    feel = TeleopMapping(engage=0.15, release=0.08, release_s=0.3)

    def __init__(self, open_source: Callable[[], Source], controls: Controls):
        """Raises DeviceError if the device is not to be had now."""
        self._open, self._controls = open_source, controls
        self._source: Source | None = open_source()
        self.name, self.controls = self._source.name, controls.roles
        self._problem = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"teleop {self.name}", daemon=True)
        self._thread.start()

    @property
    def held(self) -> frozenset[str]:  # type: ignore[override]
        """Which controls are down now."""
        return self._controls.held

    def take_words(self) -> Sequence[OperatorCommand]:
        """The words that were said and not read."""
        return self._controls.take_words()

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """What the device says now, in the operator's axes."""
        return self._controls.handover(self._problem)

    def close(self) -> None:
        """Stop reading and let go of the device."""
        self._closing.set()
        self._thread.join(CLOSING_S)

    def _run(self) -> None:
        try:
            self._keep_reading()
        finally:  # whatever ended it, nobody holds anything any more
            self._controls.let_go()
            self._problem = f"{self.name} is not read any more"

    def _keep_reading(self) -> None:
        wait_s = RETRY_S[0]
        while not self._closing.is_set():
            try:
                if self._source is None:
                    self._source = self._open()
                    self.name, self._problem = self._source.name, ""
                    log.warning("teleop: %s is back", self.name)
                self.reports += self._source.read()
                wait_s = RETRY_S[0]
            except (OSError, DeviceError) as error:
                self._lose(error)
                self._closing.wait(wait_s)
                wait_s = min(2.0 * wait_s, RETRY_S[1])
        if self._source is not None:
            self._source.close()

    def _lose(self, error: Exception) -> None:
        """The device is gone, or still not back."""
        if self._source is None:
            self._problem = str(error)
            return
        self._controls.let_go()
        problem = f"{self.name} is gone ({error}); it is looked for until it is back"
        log.warning("teleop: %s", problem)
        self._problem = problem
        source, self._source = self._source, None
        source.close()
