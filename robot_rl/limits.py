"""What an arm may do, as a hardware file states it and a task may narrow it down; whether a range of poses is inside.

No numba here: this runs once, when the files are read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from robot_rl.types import ArmLimits, Box, ConfigError
from robot_rl.validation import Problem, from_json, to_json

_GROWS = ("workspace_low", "body_low", "joint_low", "joint_margin", "joint_speed_margin")
"""What grows when it tightens; every other limit shrinks."""

_FREE = ("workspace_quat", "keep_out", "retreat_m")
"""What has a rule of its own, or is not a limit by itself."""

_PER_JOINT = ("max_joint_speed", "max_torque", "joint_low", "joint_high")
_SIGNED = (
    "body_low",
    "body_high",
    "workspace_low",
    "workspace_high",
    "workspace_quat",
    "joint_low",
    "joint_high",
    "keep_out",
)
_ZERO = ("workspace_margin_m", "retreat_m", "joint_margin", "joint_speed_margin")
MOST_KEEP_OUT = 8


def tighten(limits: ArmLimits, changes: Mapping[str, Any]) -> ArmLimits:
    """`limits` with the task's `changes`, which may tighten and never widen. Raises ConfigError that names the field.

    `workspace_quat` may turn as long as the new cone of orientations lies inside the old one; `keep_out` boxes of a
    task stand beside the hardware's.
    """
    if not changes:
        return limits
    tight = from_json(ArmLimits, to_json(limits) | dict(changes), source="the task's limits")
    added = tuple(box for box in tight.keep_out if box not in limits.keep_out)
    tight = replace(tight, keep_out=limits.keep_out + added)
    require_tighter(limits, tight)
    return tight


def require_tighter(limits: ArmLimits, asked: ArmLimits) -> None:
    """Raise ConfigError that names the field if `asked` makes no sense, or allows anything that `limits` does not."""
    for field in fields(ArmLimits):
        if field.name in _FREE:
            continue
        before, after = _numbers(getattr(limits, field.name)), _numbers(getattr(asked, field.name))
        if not before:  # the hardware file says nothing of it
            continue
        sign = -1.0 if field.name in _GROWS else 1.0
        if len(before) != len(after) or any(sign * b > sign * a for a, b in zip(before, after, strict=True)):
            raise ConfigError(
                f"a task may tighten a limit of the hardware, never widen it: {field.name} is {_text(before)} in the "
                f"hardware file, {_text(after)} in the task"
            )
    if missing := [box for box in limits.keep_out if box not in asked.keep_out]:
        raise ConfigError(f"a task may tighten a limit of the hardware, never widen it: keep_out lacks {missing[0]}")
    turn = quat_angle(limits.workspace_quat, asked.workspace_quat)
    if turn + asked.workspace_angle > limits.workspace_angle + 1e-9:
        raise ConfigError(
            f"a task may tighten a limit of the hardware, never widen it: workspace_quat is turned by {turn:.4g} rad, "
            f"so that workspace_angle may be {limits.workspace_angle - turn:.4g} rad at most; "
            f"it is {asked.workspace_angle:.4g}"
        )
    for place, message in limit_problems(asked, len(limits.max_torque)):
        raise ConfigError(f"the task's limits: {'.'.join(map(str, place))} {message}")


def limit_problems(limits: ArmLimits, joints: int) -> Iterator[Problem]:
    """What is wrong with the values of the limits of an arm with so many joints."""
    for name in _PER_JOINT:
        if len(getattr(limits, name)) != joints:
            yield (name,), f"has {len(getattr(limits, name))} numbers; this arm has {joints} joints"
    for name in sorted({field.name for field in fields(limits)} - {"keep_out"}):
        numbers = _numbers(getattr(limits, name))
        if not all(map(math.isfinite, numbers)):
            yield (name,), f"= {_text(numbers)}: wanted finite numbers"
        elif name in _ZERO and numbers[0] < 0.0:
            yield (name,), f"= {_text(numbers)}: wanted 0 or more"
        elif name not in _SIGNED + _ZERO and min(numbers, default=1.0) <= 0.0:
            yield (name,), f"= {_text(numbers)}: wanted more than 0"
    if not is_unit(limits.workspace_quat):
        yield ("workspace_quat",), f"= {list(limits.workspace_quat)}: wanted a unit quaternion xyzw"
    yield from _order_problems(limits)


def _order_problems(limits: ArmLimits) -> Iterator[Problem]:
    """What has to be below or inside what."""
    workspace = Box(limits.workspace_low, limits.workspace_high)
    if empty := _empty_axes(workspace):
        yield ("workspace_low",), f"must be below workspace_high; it is not on {empty}"
    for i, (low, high) in enumerate(zip(limits.joint_low, limits.joint_high, strict=False)):
        if not high - low > 2.0 * limits.joint_margin:
            yield ("joint_low", i), f"= {low:g}: wanted more than two joint_margin below joint_high, {high:g}"
    if limits.joint_speed_margin >= min(limits.max_joint_speed, default=math.inf):
        yield ("joint_speed_margin",), f"= {limits.joint_speed_margin:g}: wanted less than every max_joint_speed"
    for retreat, stop in (("retreat_force", "max_force"), ("retreat_moment", "max_moment")):
        if getattr(limits, retreat) < getattr(limits, stop):
            yield (retreat,), f"= {getattr(limits, retreat):g}: wanted at least {stop}, {getattr(limits, stop):g}"
    if len(limits.keep_out) > MOST_KEEP_OUT:
        yield ("keep_out",), f"has {len(limits.keep_out)} boxes; there is room for {MOST_KEEP_OUT}"
    for i, box in enumerate(limits.keep_out):
        if not all(map(math.isfinite, box.low + box.high)):
            yield ("keep_out", i), "wanted finite numbers"
        elif empty := _empty_axes(box):
            yield ("keep_out", i, "low"), f"must be below high; it is not on {empty}"


def _empty_axes(box: Box) -> str:
    return ", ".join(axis for axis, low, high in zip("xyz", box.low, box.high, strict=True) if low >= high)


def outside(limits: ArmLimits, pose: Sequence[float], translation: Sequence[float], rotation: Sequence[float]) -> str:
    """How a pose with half-widths `translation` [m] and `rotation` [rad] leaves the workspace; "" if it does not."""
    for axis, at, half, low, high in zip(
        "xyz", pose, translation, limits.workspace_low, limits.workspace_high, strict=False
    ):
        if at - half < low or at + half > high:
            return f"on {axis}: it is {at - half:.4g} to {at + half:.4g} m, the workspace {low:.4g} to {high:.4g} m"
    for box in limits.keep_out:
        reach = zip(pose, translation, box.low, box.high, strict=False)
        if all(at + half > low and at - half < high for at, half, low, high in reach):
            return f"into the keep-out box {list(box.low)} to {list(box.high)}"
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
