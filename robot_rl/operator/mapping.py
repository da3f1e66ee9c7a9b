"""From what an operator's device says to what the operator does: clutch, feel, frames. The same for
every device.
"""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Hardware
from robot_rl.config.hardware_problems import feel_problems
from robot_rl.config.kinds import NOTHING_GIVEN, options_class
from robot_rl.interfaces import Given, Teleop
from robot_rl.machine.validation import dotted, from_json
from robot_rl.types import (
    AXES,
    STAY,
    ActionSpec,
    ArmState,
    Array,
    ConfigError,
    OperatorCommand,
    TeleopAction,
    TeleopEvent,
    TeleopMapping,
)


class Clutch:
    """Whether the operator has hold of the arm: hysteresis in deflection and in time.

    It closes at `engage`, stays closed down to `release`, and for `release_s` seconds below that,
    so that a hand that trembles or crosses the middle makes one correction.
    """

    def __init__(self, engage: float, release: float, release_s: float):
        self._engage, self.release, self._release_s = engage, release, release_s
        self._held_t = -math.inf
        self.closed = False

    def open(self) -> None:
        """Nobody has hold any more."""
        self.closed = False

    def hold(self, active: bool, deflection: float, t: float) -> bool:
        """Take in what the device says at `t` [s]; whether the operator moves the arm now: `closed`
        outlasts that.
        """
        held = active and deflection >= (self.release if self.closed else self._engage)
        if held:
            self.closed, self._held_t = True, t
        elif not 0.0 <= t - self._held_t < self._release_s:
            # (an arm that was started anew has a new clock)
            self.closed = False
        return held


class Steering:
    """From a device's twist to the action of one arm: dead-band, axes, scale, frame, speed."""

    def __init__(self, feel: TeleopMapping):
        """Raises ConfigError for a feel that makes no sense."""
        if problems := [f"{dotted(place)}{text}" for place, text in feel_problems(feel)]:
            raise ConfigError("\n".join(problems))
        self._feel = feel
        self._sources = [AXES.index(axis.lstrip("+-")) for axis in feel.axes]
        self._factors = (
            np.array([-1.0 if axis.startswith("-") else 1.0 for axis in feel.axes]) * feel.scale
        )

    def action(self, said: TeleopEvent, target_base_tcp: Array) -> Array:
        """The action `(6,)` in [-1, 1], in the frame of the target `(7,)` that is in force."""
        beyond = np.maximum(np.abs(said.twist) - self._feel.deadband, 0.0) / (
            1.0 - self._feel.deadband
        )
        action = self._factors * (np.sign(said.twist) * beyond)[self._sources]
        if (self._feel.frame or said.frame) == "base":
            action = geometry.rotate_spatial(geometry.quat_conjugate(target_base_tcp[3:]), action)
        for part in (action[:3], action[3:]):
            part /= max(1.0, np.abs(part).max())  # shorter, in the same direction
        return self._feel.speed * said.pace * action


class Operator:
    """Somebody at a device, with the clutch and the feel that make a `TeleopAction` of each
    `TeleopEvent`.

    Time is the arm's, so that a run in lockstep repeats. Called by `Intervention` once per step,
    before the step.
    """

    def __init__(
        self,
        device: Teleop,
        feel: TeleopMapping | None = None,
        *,
        arm: int = 0,
        actions: ActionSpec | None = None,
    ):
        """`arm` is the number of the one that the device drives. `actions` is what the task frees
        of the arms; None: six axes of each.
        """
        feel = feel or device.feel
        self.device = device
        self._steering = Steering(feel)
        self._by_deflection = "deadman" not in device.controls.values()
        share = 1.0 if self._by_deflection else 0.0
        self._clutch = Clutch(feel.engage * share, feel.release * share, feel.release_s)
        self._arm, self._actions = arm, actions
        self._grips = actions is not None and arm in actions.holders
        self.is_person = device.is_person

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """A new episode starts; nobody has hold of the arm. Returns what was said since the episode
        before.
        """
        self._clutch.open()
        return self.device.begin_episode()

    def end_episode(self, success: bool) -> None:
        """The episode is over, and this is what the judge has said of it."""
        self.device.end_episode(success)

    def take_words(self) -> Sequence[OperatorCommand]:
        """Between two episodes: what was said since the last look."""
        return self.device.take_words()

    def read(self, arms: Sequence[ArmState]) -> TeleopAction:
        """What the operator does now. Never blocks."""
        arm = arms[self._arm]
        reading = self.interpret(self.device.read([arm]), arm.target_base_tcp, arm.t)
        moves = np.zeros((len(arms), 6))
        moves[self._arm] = reading.action
        actions = self._actions or ActionSpec.unnamed(moves.size)
        choices = [reading.gripper if arm == self._arm else STAY for arm in actions.holders]
        return replace(reading, action=actions.pick(moves, choices))

    def look(self, arms: Sequence[ArmState]) -> tuple[bool, OperatorCommand]:
        """Between two episodes: whether the device is held right now, and what is said there."""
        said = self.device.read([arms[self._arm]])
        active, deflection = self._pull(said)
        return active and deflection >= self._clutch.release, said.outcome

    def interpret(self, said: TeleopEvent, target_base_tcp: Array, t: float) -> TeleopAction:
        """The same for one arm, from its target in force and its time [s]."""
        held = self._clutch.hold(*self._pull(said), t)
        action = self._steering.action(said, target_base_tcp) if held else np.zeros(6)
        gripper = float(np.sign(said.gripper)) if held else STAY
        return TeleopAction(self._clutch.closed, action, said.outcome, said.problem, gripper)

    def _pull(self, said: TeleopEvent) -> tuple[bool, float]:
        """Whether the device is active, and its deflection, in shares: full while a button for a
        gripper that is moved is held.
        """
        if self._grips and said.gripper:
            return said.active or self._by_deflection, 1.0
        return said.active, float(np.abs(said.twist).max())

    def close(self) -> None:
        """Let go of the device."""
        self.device.close()


def open_operator(
    hardware: Hardware, given: Given = NOTHING_GIVEN, actions: ActionSpec | None = None
) -> Operator:
    """Open the device that the hardware file names; `given` is handed to its driver, `actions` are
    the task's.

    Raises ConfigError if an option is wrong or there is no device in the file, DeviceError if it is
    not there.
    """
    use, source = hardware.teleop, f"hardware '{hardware.name}': teleop.options"
    if use is None:
        raise ConfigError(
            f"hardware '{hardware.name}' names no teleop device; add `teleop: {{name: NAME}}`,"
            f" where NAME is one of {', '.join(config.names_of('teleop'))}"
        )
    driver = config.driver("teleop", use.name)
    options: Any = from_json(options_class("teleop", driver), use.options, source)
    felt = {
        field.name: getattr(options, field.name)
        for field in fields(TeleopMapping)
        if field.name in use.options
    }
    feel = replace(driver.feel, **felt)
    names = [arm.name for arm in hardware.arms]
    if problems := [
        f"{source}: {dotted(place)}{text}" for place, text in feel_problems(feel, names)
    ]:
        raise ConfigError("\n".join(problems))
    arm = names.index(feel.arm) if feel.arm else 0
    return Operator(driver(options, given), feel, arm=arm, actions=actions)
