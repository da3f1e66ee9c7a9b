"""The gizmo of the console's page as an operator's device: a hand that drags it has hold of the arm,
which follows it.

The page belongs to another process. It says where the gizmo is held to the actor's desk
(`links/console_link.py`), twenty times a second; when it is silent, nobody holds anything.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import geometry, interfaces
from robot_rl.interfaces import Given
from robot_rl.links.console_link import TELEOP_ADDRESS, ConsoleLink
from robot_rl.types import WORDS, ArmState, ConfigError, OperatorCommand, TeleopEvent, TeleopMapping


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file."""

    address: str = TELEOP_ADDRESS
    """Where a device that is tried by itself listens; a run has an address of its own."""


class Teleop(interfaces.Teleop):
    """The page's gizmo.

    It says where the arm shall be, not how fast: the twist is what is left of the way, full
    deflection one step's largest move. So an operator who is lost (a closed tab, a network that is
    gone) leaves an arm that stands still. A hand on the gizmo from the episode before has hold
    of nothing until it lets go: the arm is elsewhere now.
    """

    feel = TeleopMapping(release_s=0.3)
    controls: Mapping[str, str] = {"gizmo": "deadman"} | {word: word for word in WORDS}

    def __init__(self, options: Options, given: Given):
        """Raises LinkError if nobody can listen at the address; with a desk nobody has to: words
        are said there.
        """
        desk, task = given.desk, given.task
        if desk is not None and options.address != TELEOP_ADDRESS:
            raise ConfigError(
                "teleop 'browser': a run has an address of its own for the console; remove"
                " `address`"
            )
        self.desk: ConsoleLink
        self.desk, self._own = desk or ConsoleLink(options.address), desk is None
        self._full = np.repeat(
            [task.action_translation, task.action_rotation] if task else [0.008, 0.05], 3
        )
        self.name = f"the page of robot-rl console, heard at {self.desk.address}"
        self.reports = 0
        self._waiting: list[OperatorCommand] = []
        self._held_over = False

    @property
    def held(self) -> Collection[str]:  # type: ignore[override]
        """The gizmo, or nothing."""
        return frozenset({"gizmo"} if self.desk.grip is not None else ())

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Words said since the episode before, if nobody else hears the desk."""
        self._held_over = self.desk.is_held
        return self.take_words()

    def take_words(self) -> Sequence[OperatorCommand]:
        """Words said and not read, if nobody else hears the desk."""
        self._hear()
        words, self._waiting = self._waiting, []
        return words

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """What is left of the way from the first arm's target to the gizmo."""
        self._hear()
        word = self._waiting.pop(0) if self._waiting else OperatorCommand.NONE
        grip = self.desk.grip
        self._held_over &= self.desk.is_held
        if grip is None or self._held_over:
            return TeleopEvent(False, np.zeros(6), outcome=word)
        self.reports += 1
        way = (
            geometry.pose_error(arms[0].target_base_tcp, grip) / self._full if arms else np.zeros(6)
        )
        return TeleopEvent(True, way / max(1.0, np.abs(way).max()), outcome=word)

    def close(self) -> None:
        """Listen no more."""
        if self._own:
            self.desk.close()

    def _hear(self) -> None:
        if self._own:
            self._waiting += [event.command for event in self.desk.events.take()]
