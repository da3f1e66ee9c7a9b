"""What an operator's device says, live in the terminal: `robot-rl teleop HARDWARE`. No arm is
connected, none moves.
"""

import time
from collections import deque
from dataclasses import replace

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from robot_rl import config
from robot_rl.config import Hardware
from robot_rl.interfaces import Teleop
from robot_rl.links.hand_buttons import HandButtons
from robot_rl.operator.mapping import Operator, open_operator
from robot_rl.teleop._plugged import line
from robot_rl.types import AXES, Array, OperatorCommand, RobotRLError, TeleopAction, TeleopEvent

RATE_HZ = 30.0
HALF = 20  # characters of a bar, either side of its middle
LEVEL = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])  # a tool whose axes are the base's
PLUGGED_IN = ("spacemouse", "gamepad")  # the drivers whose devices there may be several of
SHOWN_S = 2.0  # for how long a word stays


def listing() -> tuple[str, list[str]]:
    """What is plugged in, a line each as a hardware file names it; and of each driver that cannot
    say, why.
    """
    lines: list[str] = []
    problems: list[str] = []
    for driver in PLUGGED_IN:
        try:
            there = config.find("teleop", driver).found()
        except RobotRLError as error:
            problems.append(str(error))
            continue
        lines += [line(driver, device, there) for device in there]
    return "\n".join(lines) or f"nothing of {', '.join(PLUGGED_IN)} is plugged in", problems


class DryRun:
    """An operator with no arm: what they would command, and the figures around it."""

    def __init__(self, hardware: Hardware):
        """Raises DeviceError if the device is not there."""
        self.operator: Operator = open_operator(hardware)
        # the page's, where the device is one
        desk = getattr(self.device, "desk", None)
        self._buttons = desk.hand_buttons if desk is not None else HandButtons()
        self._buttons.listen({gripper.name: i for i, gripper in enumerate(hardware.grippers)})
        self.said = TeleopEvent(False, np.zeros(6))
        self.reading = TeleopAction(False, np.zeros(6))
        self.takeovers = 0
        self._word, self._word_t = OperatorCommand.NONE, 0.0
        self._history: deque[tuple[float, int]] = deque(maxlen=int(RATE_HZ))

    @property
    def device(self) -> Teleop:
        return self.operator.device

    def look(self) -> None:
        """Ask the device once more."""
        now, before = time.monotonic(), self.reading.engaged
        said = self.device.read(())
        self.said = said if isinstance(said, TeleopEvent) else next(iter(said.values()))
        for choice in self._buttons.orders().values():
            self.said = replace(self.said, gripper=choice)
        self.reading = self.operator.interpret(self.said, LEVEL, now)
        self.takeovers += self.reading.engaged and not before
        self._history.append((now, self.device.reports))
        if self.said.outcome:
            self._word, self._word_t = self.said.outcome, time.monotonic()

    @property
    def word(self) -> OperatorCommand:
        """The last one, for as long as it is shown."""
        return self._word if time.monotonic() - self._word_t < SHOWN_S else OperatorCommand.NONE

    @property
    def rate_hz(self) -> float:
        """Reports per second, over the last one."""
        (first_t, first), (last_t, last) = self._history[0], self._history[-1]
        return (last - first) / (last_t - first_t) if last_t > first_t else 0.0


def watch(hardware: Hardware, seconds: float, console: Console) -> None:
    """Show the device until Ctrl-C, or for so long; without a terminal a line whenever something
    changes.
    """
    dry = DryRun(hardware)
    until = time.monotonic() + seconds
    try:
        console.print(f"{dry.device.name}\n{legend(dry.device)}", highlight=False)
        if console.is_terminal:
            with Live(console=console, refresh_per_second=RATE_HZ, transient=True) as live:
                while time.monotonic() < until:
                    dry.look()
                    live.update(picture(dry))
                    time.sleep(1.0 / RATE_HZ)
        else:
            _print_changes(dry, until, console)
    except KeyboardInterrupt:
        pass
    finally:
        dry.operator.close()
    console.print(f"{dry.takeovers} takeovers, {dry.device.reports} reports", highlight=False)


def legend(device: Teleop) -> str:
    """What each control is for, on a line."""
    return (
        ", ".join(f"{control}: {role}" for control, role in device.controls.items()) or "no buttons"
    )


def picture(dry: DryRun) -> Group:
    """Device and action of each axis as bars, and below them clutch, gripper, buttons, last word
    and rate.
    """
    bars = Table(box=None, padding=(0, 1))
    for title in ("", "device", "", "action", ""):
        bars.add_column(title, justify="right" if not title else "left")
    for axis, deflected, commanded in zip(AXES, dry.said.twist, dry.reading.action, strict=True):
        bars.add_row(axis, bar(deflected), f"{deflected:+.2f}", bar(commanded), f"{commanded:+.2f}")
    if dry.said.problem:
        return Group(bars, Text(dry.said.problem, style="bold red"))
    clutch = (
        Text("operator acts", style="bold green")
        if dry.reading.engaged
        else Text("policy acts", style="dim")
    )
    rest = (
        f"  takeovers {dry.takeovers}  gripper {dry.said.gripper:+.0f}  {dry.rate_hz:.0f} reports/s"
    )
    held = f"held: {', '.join(sorted(dry.device.held)) or 'nothing'}"
    word = f"said: {dry.word.name.lower()}" if dry.word else ""
    return Group(bars, clutch.append(rest, style="default"), held, Text(word, style="bold yellow"))


def bar(share: float) -> Text:
    """A share in [-1, 1] as a bar from the middle."""
    length = round(abs(share) * HALF)
    left, right = (length, 0) if share < 0.0 else (0, length)
    return Text(" " * (HALF - left) + "━" * left + "│" + "━" * right + " " * (HALF - right))


def _print_changes(dry: DryRun, until: float, console: Console) -> None:
    shown = ""
    while time.monotonic() < until:
        dry.look()
        if (line := as_line(dry.said, dry.reading.action, dry.reading.engaged)) != shown:
            console.print(line, highlight=False, soft_wrap=True)
            shown = line
        time.sleep(1.0 / RATE_HZ)


def as_line(said: TeleopEvent, action: Array, engaged: bool) -> str:
    """The same in words."""
    axes = "  ".join(f"{axis} {share:+.2f}" for axis, share in zip(AXES, action, strict=True))
    who = "operator" if engaged else "policy"
    word = f"  said {said.outcome.name.lower()}" if said.outcome else ""
    return said.problem or f"{who:<8}  {axes}  gripper {said.gripper:+.0f}{word}"
