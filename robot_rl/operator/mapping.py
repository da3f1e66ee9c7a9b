"""From what an operator's device says to what the operator does: clutch, feel, frames. The same for
every device.
"""

import math
from collections import defaultdict, deque
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
    Use,
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
    """Somebody at a device, with a clutch for each arm that it drives, and the feel, which make a
    `TeleopAction` of each `TeleopEvent`.

    Moving an arm says nothing of its gripper, nor does a gripper's button of the arm: with a
    dead-man's button alone both are held. Time is the arm's, so that a run in lockstep repeats.
    Called by `Intervention` once per step, before the step.
    """

    def __init__(
        self,
        device: Teleop,
        feel: TeleopMapping | None = None,
        *,
        arm: int = 0,
        actions: ActionSpec | None = None,
    ):
        """`arm` is the number of the one that the device drives, unless it drives `all_arms`.
        `actions` is what the task frees of the arms; None: six axes of each.
        """
        feel = feel or device.feel
        self.device = device
        self._steering = Steering(feel)
        self._by_deflection = "deadman" not in device.controls.values()
        share = 1.0 if self._by_deflection else 0.0
        self._release = feel.release * share
        self._clutches = defaultdict[int, Clutch](
            lambda: Clutch(feel.engage * share, self._release, feel.release_s)
        )
        self._arm, self._actions = arm, actions
        self.is_person = device.is_person

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """A new episode starts; nobody has hold of the arm. Returns what was said since the episode
        before.
        """
        for clutch in self._clutches.values():
            clutch.open()
        return self.device.begin_episode()

    def end_episode(self, success: bool) -> None:
        """The episode is over, and this is what the judge has said of it."""
        self.device.end_episode(success)

    def take_words(self) -> Sequence[OperatorCommand]:
        """Between two episodes: what was said since the last look."""
        return self.device.take_words()

    def read(self, arms: Sequence[ArmState]) -> TeleopAction:
        """What the operator does now. Never blocks."""
        actions = self._actions or ActionSpec.unnamed(6 * len(arms))
        said = self._ask(arms, actions.arms)
        moves, held = np.zeros((2, len(arms), 6))
        orders = [STAY] * len(arms)
        for i, event in said.items():
            reading = self.interpret(event, arms[i].target_base_tcp, arms[i].t, i)
            moves[i], held[i], orders[i] = reading.action, reading.engaged, reading.gripper
        choices = [orders[arm] for arm in actions.holders]
        given = actions.pick(held, np.abs(choices)) > 0.0
        return TeleopAction(
            bool(given.any()),
            actions.pick(moves, choices),
            next((event.outcome for event in said.values() if event.outcome), OperatorCommand.NONE),
            next((event.problem for event in said.values() if event.problem), ""),
            given=given,
        )

    def look(self, arms: Sequence[ArmState]) -> tuple[bool, OperatorCommand]:
        """Between two episodes: whether the device is held right now, and what is said there."""
        events = self._ask(arms, (self._actions or ActionSpec.unnamed(6 * len(arms))).arms).values()
        held = any(said.active and _deflection(said) >= self._release for said in events)
        return held, next((said.outcome for said in events if said.outcome), OperatorCommand.NONE)

    def interpret(
        self, said: TeleopEvent, target_base_tcp: Array, t: float, arm: int = 0
    ) -> TeleopAction:
        """The same for the arm of this number alone, from its target in force and its time [s]:
        `engaged` is its clutch.
        """
        clutch = self._clutches[arm]
        held = clutch.hold(said.active, _deflection(said), t)
        action = self._steering.action(said, target_base_tcp) if held else np.zeros(6)
        gripper = float(np.sign(said.gripper)) if said.active or self._by_deflection else STAY
        return TeleopAction(clutch.closed, action, said.outcome, said.problem, gripper)

    def _ask(self, arms: Sequence[ArmState], names: Sequence[str]) -> dict[int, TeleopEvent]:
        """What the device says to each arm that it drives, by the arm's number."""
        drives = range(len(arms)) if self.device.all_arms else (self._arm,)
        said = self.device.read([arms[i] for i in drives])
        if isinstance(said, TeleopEvent):
            return {drives[0]: said}
        if strange := said.keys() - set(names):
            raise ConfigError(
                f"{self.device.name} drives {', '.join(sorted(strange))}, and the arms are"
                f" {', '.join(names)}: `read` says an event for each, by the arm's name"
            )
        return {names.index(name): event for name, event in said.items()}

    def close(self) -> None:
        """Let go of the device."""
        self.device.close()


class Crew(Operator):
    """Several operators, each at a device and with an arm of their own, as if they were one.

    A device that is lost is told where its operator had hold, or nobody has.
    """

    def __init__(self, members: Sequence[Operator]):
        self._members = members
        self.device = members[0].device
        self.is_person = any(member.is_person for member in members)
        self._acted = [False] * len(members)
        self._words = deque[OperatorCommand]()

    def begin_episode(self) -> Sequence[OperatorCommand]:
        self._acted = [False] * len(self._members)
        return [*self._said(), *(w for each in self._members for w in each.begin_episode())]

    def end_episode(self, success: bool) -> None:
        for member in self._members:
            member.end_episode(success)

    def take_words(self) -> Sequence[OperatorCommand]:
        return [*self._said(), *(w for each in self._members for w in each.take_words())]

    def read(self, arms: Sequence[ArmState]) -> TeleopAction:
        """What they do now, all together; the oldest of their words."""
        readings = [member.read(arms) for member in self._members]
        acted, self._acted = self._acted, [reading.engaged for reading in readings]
        heard = [each for each, had in zip(readings, acted, strict=True) if had] or readings
        self._words += [reading.outcome for reading in readings if reading.outcome]
        return TeleopAction(
            any(self._acted),
            np.sum([reading.action for reading in readings], 0),
            self._words.popleft() if self._words else OperatorCommand.NONE,
            next((reading.problem for reading in heard if reading.problem), ""),
            given=np.array([reading.given for reading in readings]).max(0),
        )

    def look(self, arms: Sequence[ArmState]) -> tuple[bool, OperatorCommand]:
        looks = [member.look(arms) for member in self._members]
        self._words += [word for _, word in looks if word]
        word = self._words.popleft() if self._words else OperatorCommand.NONE
        return any(held for held, _ in looks), word

    def close(self) -> None:
        for member in self._members:
            member.close()

    def _said(self) -> list[OperatorCommand]:
        """The words that were read and not told yet."""
        words, self._words = [*self._words], deque()
        return words


def _deflection(said: TeleopEvent) -> float:
    """How far the device is deflected, in shares."""
    return float(np.abs(said.twist).max())


def open_operator(
    hardware: Hardware, given: Given = NOTHING_GIVEN, actions: ActionSpec | None = None
) -> Operator:
    """Open the devices that the hardware file names; `given` is handed to their drivers, `actions`
    are the task's.

    Raises ConfigError if an option is wrong or there is no device in the file, DeviceError if one
    is not there.
    """
    if hardware.teleop is None:
        raise ConfigError(
            f"hardware '{hardware.name}' names no teleop device; add `teleop: {{name: NAME}}`,"
            f" where NAME is one of {', '.join(config.names_of('teleop'))}"
        )
    members: list[Operator] = []
    try:
        members.append(_open(hardware, hardware.teleop, "teleop", given, actions))
        for i, use in enumerate(hardware.more_teleop):
            members.append(_open(hardware, use, f"more_teleop.{i}", given, actions))
    except BaseException:
        for member in members:
            member.close()
        raise
    return Crew(members) if len(members) > 1 else members[0]


def _open(
    hardware: Hardware, use: Use, place: str, given: Given, actions: ActionSpec | None
) -> Operator:
    """Open one device, which stands at this place of the hardware file."""
    source = f"hardware '{hardware.name}': {place}.options"
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
        f"{source}: {dotted(where)}{text}" for where, text in feel_problems(feel, names)
    ]:
        raise ConfigError("\n".join(problems))
    arm = names.index(feel.arm) if feel.arm else 0
    device = driver(options, replace(given, arms=tuple(names)))
    return Operator(device, feel, arm=arm, actions=actions)
