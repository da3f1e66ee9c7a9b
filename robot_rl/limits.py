"""What an arm may do, as a hardware file states it and a task may narrow it down; whether a range of poses is inside.

No numba here: this runs once, when the files are read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from robot_rl.types import ArmLimits, ConfigError
from robot_rl.validation import Problem, from_json, to_json

_LOWEST = ("workspace_low",)  # grows when it tightens; every other limit shrinks


def tighten(limits: ArmLimits, changes: Mapping[str, Any]) -> ArmLimits:
    """`limits` with the task's `changes`, which may tighten and never widen. Raises ConfigError that names the field.

    `workspace_quat` may turn as long as the new cone of orientations lies inside the old one.
    """
    if not changes:
        return limits
    tight = from_json(ArmLimits, to_json(limits) | dict(changes), source="the task's limits")
    for name in changes:
        before, after = _numbers(getattr(limits, name)), _numbers(getattr(tight, name))
        sign = -1.0 if name in _LOWEST else 1.0
        wider = name != "workspace_quat" and any(sign * b > sign * a for a, b in zip(before, after, strict=False))
        if wider or len(before) != len(after):
            raise ConfigError(
                f"a task may tighten a limit of the hardware, never widen it: {name} is {_text(before)} in the "
                f"hardware file, {_text(after)} in the task"
            )
    turn = quat_angle(limits.workspace_quat, tight.workspace_quat)
    if turn + tight.workspace_angle > limits.workspace_angle + 1e-9:
        raise ConfigError(
            f"a task may tighten a limit of the hardware, never widen it: workspace_quat is turned by {turn:.4g} rad, "
            f"so that workspace_angle may be {limits.workspace_angle - turn:.4g} rad at most; "
            f"it is {tight.workspace_angle:.4g}"
        )
    for place, message in limit_problems(tight, len(limits.max_torque)):
        raise ConfigError(f"the task's limits: {place[0]} {message}")
    return tight


def limit_problems(limits: ArmLimits, joints: int) -> Iterator[Problem]:
    """What is wrong with the values of the limits of an arm with so many joints."""
    box = zip("xyz", limits.workspace_low, limits.workspace_high, strict=True)
    if empty := [axis for axis, low, high in box if low >= high]:
        yield ("workspace_low",), f"must be below workspace_high; it is not on {', '.join(empty)}"
    if not is_unit(limits.workspace_quat):
        yield ("workspace_quat",), f"= {list(limits.workspace_quat)}: wanted a unit quaternion xyzw"
    for name in ("max_joint_speed", "max_torque"):
        if len(getattr(limits, name)) != joints:
            yield (name,), f"has {len(getattr(limits, name))} numbers; this arm has {joints} joints"
    for name in to_json(limits).keys() - {"workspace_low", "workspace_high", "workspace_quat", "workspace_margin_m"}:
        if min(numbers := _numbers(getattr(limits, name)), default=1.0) <= 0.0:
            yield (name,), f"= {_text(numbers)}: wanted more than 0"
    if limits.workspace_margin_m < 0.0:
        yield ("workspace_margin_m",), f"= {limits.workspace_margin_m:g}: wanted 0 or more"


def outside(limits: ArmLimits, pose: Sequence[float], translation: Sequence[float], rotation: Sequence[float]) -> str:
    """How a pose with half-widths `translation` [m] and `rotation` [rad] leaves the workspace; "" if it does not."""
    for axis, at, half, low, high in zip(
        "xyz", pose, translation, limits.workspace_low, limits.workspace_high, strict=False
    ):
        if at - half < low or at + half > high:
            return f"on {axis}: it is {at - half:.4g} to {at + half:.4g} m, the workspace {low:.4g} to {high:.4g} m"
    angle = quat_angle(limits.workspace_quat, pose[3:]) + math.hypot(*rotation)
    if angle > limits.workspace_angle:
        return f"in orientation: it turns up to {angle:.4g} rad away, the workspace allows {limits.workspace_angle:.4g}"
    return ""


def quat_angle(a: Sequence[float], b: Sequence[float]) -> float:
    """Angle [rad] between two orientations, unit quaternions."""
    dot = abs(sum(x * y for x, y in zip(a, b, strict=True)))
    # by the chord, which keeps its digits for small angles where acos loses them
    return 4.0 * math.asin(min(1.0, math.sqrt(max(0.0, 2.0 - 2.0 * dot)) / 2.0))


def is_unit(quat: Sequence[float]) -> bool:
    """Whether a quaternion is unit, to the digits that one writes into a file."""
    return abs(math.hypot(*quat) - 1.0) < 1e-4


def _numbers(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _text(numbers: tuple[float, ...]) -> str:
    return f"{numbers[0]:g}" if len(numbers) == 1 else f"[{', '.join(f'{number:g}' for number in numbers)}]"
