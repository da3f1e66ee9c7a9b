"""What an arm may do, as a hardware file states it and a task may narrow it down; whether a range
of poses is inside.

No numba here: this runs once, when the files are read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from robot_rl.config.ranges import Range, beyond
from robot_rl.machine.validation import (
    Place,
    Problem,
    dotted,
    from_json,
    plain_problems,
    problems_of,
    to_json,
)
from robot_rl.types import ArmFacts, ArmLimits, ConfigError

_GROWS = ("workspace_low", "body_low", "joint_low", "joint_margin", "joint_speed_margin")
"""What grows when it tightens; every other limit shrinks."""

_FREE = ("workspace_quat", "keep_out", "retreat_m")
"""What has a rule of its own, or is not a limit by itself."""

_PER_JOINT = ("max_joint_speed", "max_torque", "joint_low", "joint_high")
MOST_KEEP_OUT = 8

_ROOM = Range(-10.0, 10.0, "m")
_ANGLE = Range(-2.0 * math.pi, 2.0 * math.pi, "rad")
RANGES = {
    "workspace_low": Range(-3.0, 3.0, "m"),
    "workspace_high": Range(-3.0, 3.0, "m"),
    "workspace_angle": Range(0.0, math.pi, "rad", above=True),
    "workspace_turn": Range(0.0, math.pi, "rad"),
    "workspace_margin_m": Range(0.0, 0.2, "m"),
    "max_reference_speed": Range(0.0, 2.0, "m/s", above=True),
    "max_reference_rotation_speed": Range(0.0, 6.0, "rad/s", above=True),
    "max_tcp_speed": Range(0.0, 4.0, "m/s", above=True),
    "max_tcp_rotation_speed": Range(0.0, 10.0, "rad/s", above=True),
    "max_joint_speed": Range(0.0, 10.0, "rad/s", above=True),
    "max_torque": Range(0.0, 500.0, "Nm", above=True),
    "max_torque_rate": Range(0.0, 10_000.0, "Nm/s", above=True),
    "max_force": Range(0.0, 300.0, "N", above=True),
    "max_moment": Range(0.0, 100.0, "Nm", above=True),
    "retreat_force": Range(0.0, 1000.0, "N", above=True),
    "retreat_moment": Range(0.0, 300.0, "Nm", above=True),
    "retreat_m": Range(0.0, 0.1, "m"),
    "joint_low": _ANGLE,
    "joint_high": _ANGLE,
    "joint_margin": Range(0.0, 1.0, "rad"),
    "joint_speed_margin": Range(0.0, 3.0, "rad/s"),
    "max_lease_s": Range(0.0, 10.0, "s", above=True),
    "body_low": _ROOM,
    "body_high": _ROOM,
}
"""What can be meant on any arm that works beside people: far wider than a bench wants it, far
narrower than a slip of the unit. What an arm can really do its driver says (`types.ArmFacts`), and
`fact_problems` compares."""


def tighten(limits: ArmLimits, changes: Mapping[str, Any]) -> ArmLimits:
    """`limits` with the task's `changes`, which may tighten and never widen. Raises ConfigError
    that names the field.

    `workspace_quat` may turn as long as the new cone of orientations lies inside the old one;
    `keep_out` boxes of a task stand beside the hardware's.
    """
    tight, problems = tightened(limits, changes)
    if problems:
        raise ConfigError(
            "\n".join(f"the task's limits: {dotted(place)}{text}" for place, text in problems)
        )
    return tight


def tightened(limits: ArmLimits, changes: Mapping[str, Any]) -> tuple[ArmLimits, list[Problem]]:
    """The same, and what is wrong with it instead of an error: then the limits are as they were."""
    if not changes:
        return limits, []
    data = to_json(limits) | dict(changes)
    if problems := [*plain_problems(changes), *problems_of(ArmLimits, data)]:
        return limits, problems
    tight = from_json(ArmLimits, data)
    added = tuple(box for box in tight.keep_out if box not in limits.keep_out)
    tight = replace(tight, keep_out=limits.keep_out + added)
    problems = list(widening_problems(limits, tight))
    return (limits if problems else tight), problems


def require_tighter(limits: ArmLimits, asked: ArmLimits) -> None:
    """Raise ConfigError that names the fields if `asked` makes no sense, or allows anything that
    `limits` does not.
    """
    if problems := list(widening_problems(limits, asked)):
        raise ConfigError(
            "\n".join(f"the task's limits: {dotted(place)}{text}" for place, text in problems)
        )


def widening_problems(limits: ArmLimits, asked: ArmLimits) -> Iterator[Problem]:
    """What `asked` allows that `limits` does not; if there is nothing of that, what makes no sense
    in it.
    """
    wider = "a task may tighten a limit of the hardware, never widen it"
    some = False
    for field in fields(ArmLimits):
        before, after = _numbers(getattr(limits, field.name)), _numbers(getattr(asked, field.name))
        if field.name in _FREE or not before:  # the hardware file says nothing of it
            continue
        sign = -1.0 if field.name in _GROWS else 1.0
        # written so that a number that is none widens
        if len(before) != len(after) or not all(
            sign * b <= sign * a for a, b in zip(before, after, strict=True)
        ):
            some = True
            yield (
                (field.name,),
                f"= {_text(after)}: {wider}; it is {_text(before)} in the hardware file",
            )
    if missing := [box for box in limits.keep_out if box not in asked.keep_out]:
        some = True
        yield ("keep_out",), f"lacks {missing[0]}: {wider}"
    turn = quat_angle(limits.workspace_quat, asked.workspace_quat)
    if not some and not turn + asked.workspace_angle <= limits.workspace_angle + 1e-9:
        some = True
        room = (
            f"workspace_angle may be {limits.workspace_angle - turn:.4g} rad at most; it is"
            f" {asked.workspace_angle:.4g}"
        )
        yield ("workspace_quat",), f"is turned by {turn:.4g} rad, so that {room}: {wider}"
    if not some and turn > 1e-6 and asked.workspace_turn:
        some = True
        yield (
            ("workspace_quat",),
            "is turned: wanted workspace_turn = 0 beside it, so that workspace_angle bounds all",
        )
    if not some:
        yield from limit_problems(asked, len(limits.joint_low))


def limit_problems(limits: ArmLimits, joints: int) -> Iterator[Problem]:
    """What is wrong with the values of the limits of an arm with so many joints."""
    sound = True
    for name in _PER_JOINT:
        if len(getattr(limits, name)) != joints:
            sound = False
            yield (name,), f"has {len(getattr(limits, name))} numbers; this arm has {joints} joints"
    for name, allowed in RANGES.items():
        for place, message in beyond((name,), getattr(limits, name), allowed):
            sound = False
            yield place, message
    if not is_unit(limits.workspace_quat):
        yield ("workspace_quat",), f"= {list(limits.workspace_quat)}: wanted a unit quaternion xyzw"
    if sound:
        yield from _order_problems(limits)


def fact_problems(limits: ArmLimits, facts: ArmFacts, driver: str) -> Iterator[Problem]:
    """What a file asks of an arm that its maker says it cannot do; both are about as many joints."""
    for name in (
        "joint_low",
        "joint_high",
        "max_joint_speed",
        "max_torque",
        "max_torque_rate",
        "max_tcp_speed",
    ):
        sign, word = (-1.0, "least") if name in _GROWS else (1.0, "most")
        asked, most = _numbers(getattr(limits, name)), _numbers(getattr(facts, name))
        for i, (value, limit) in enumerate(zip(asked, most, strict=True)):
            if sign * value > sign * limit + 1e-9:
                place: Place = (name, i) if len(asked) > 1 else (name,)
                yield (
                    place,
                    (
                        f"= {value:g}: the arm of driver {driver!r} can do {limit:g}, wanted at"
                        f" {word} that"
                    ),
                )


def _order_problems(limits: ArmLimits) -> Iterator[Problem]:
    """What has to be below or inside what."""
    if empty := _empty_axes(limits.workspace_low, limits.workspace_high):
        yield ("workspace_low",), f"must be below workspace_high; it is not on {empty}"
    if 0.0 < limits.workspace_turn < limits.workspace_angle:
        yield (
            ("workspace_turn",),
            f"= {limits.workspace_turn:g}: wanted 0, or at least workspace_angle,"
            f" {limits.workspace_angle:g}",
        )
    for i, (low, high) in enumerate(zip(limits.joint_low, limits.joint_high, strict=False)):
        if not high - low > 2.0 * limits.joint_margin:
            yield (
                ("joint_low", i),
                f"= {low:g}: wanted more than two joint_margin below joint_high, {high:g}",
            )
    if limits.joint_speed_margin >= min(limits.max_joint_speed, default=math.inf):
        yield (
            ("joint_speed_margin",),
            f"= {limits.joint_speed_margin:g}: wanted less than every max_joint_speed",
        )
    for retreat, stop in (("retreat_force", "max_force"), ("retreat_moment", "max_moment")):
        if getattr(limits, retreat) < getattr(limits, stop):
            yield (
                (retreat,),
                (
                    f"= {getattr(limits, retreat):g}: wanted at least {stop},"
                    f" {getattr(limits, stop):g}"
                ),
            )
    yield from _body_problems(limits)
    if len(limits.keep_out) > MOST_KEEP_OUT:
        yield ("keep_out",), f"has {len(limits.keep_out)} boxes; there is room for {MOST_KEEP_OUT}"
    for i, box in enumerate(limits.keep_out):
        corners = (("low", box.low), ("high", box.high))
        far = [
            problem
            for name, corner in corners
            for problem in beyond(("keep_out", i, name), corner, _ROOM)
        ]
        if far:
            yield from far
        elif empty := _empty_axes(box.low, box.high):
            yield ("keep_out", i, "low"), f"must be below high; it is not on {empty}"


def _body_problems(limits: ArmLimits) -> Iterator[Problem]:
    """The room of the guarded bodies: both corners or none."""
    low, high = limits.body_low, limits.body_high
    for name, corner, other in (("body_low", low, "body_high"), ("body_high", high, "body_low")):
        if len(corner) not in (0, 3):
            yield (name,), f"has {len(corner)} numbers: wanted x, y and z, or none"
        elif corner and not getattr(limits, other):
            yield (name,), f"stands without {other}: wanted both or neither"
    if len(low) == len(high) == 3 and (empty := _empty_axes(low, high)):
        yield ("body_low",), f"must be below body_high; it is not on {empty}"


def _empty_axes(lows: Sequence[float], highs: Sequence[float]) -> str:
    return ", ".join(
        axis for axis, low, high in zip("xyz", lows, highs, strict=True) if low >= high
    )


def outside(
    limits: ArmLimits,
    pose: Sequence[float],
    translation: Sequence[float],
    rotation: Sequence[float],
) -> str:
    """How a pose with half-widths `translation` [m] and `rotation` [rad] leaves the workspace; ""
    if it does not.
    """
    for axis, at, half, low, high in zip(
        "xyz", pose, translation, limits.workspace_low, limits.workspace_high, strict=False
    ):
        if at - half < low or at + half > high:
            return (
                f"on {axis}: it is {at - half:.4g} to {at + half:.4g} m, the workspace {low:.4g} to"
                f" {high:.4g} m"
            )
    for box in limits.keep_out:
        reach = zip(pose, translation, box.low, box.high, strict=False)
        if all(at + half > low and at - half < high for at, half, low, high in reach):
            return f"into the keep-out box {list(box.low)} to {list(box.high)}"
    return _turned_out(limits, pose[3:], rotation)


def _turned_out(limits: ArmLimits, quat: Sequence[float], rotation: Sequence[float]) -> str:
    """How an orientation with half-widths `rotation` [rad] leaves the workspace; "" if not."""
    if not limits.workspace_turn:
        angle, most = quat_angle(limits.workspace_quat, quat) + math.hypot(*rotation), 0.0
        verb = "turns"
    else:
        tilt, turn = tilt_and_turn(limits.workspace_quat, quat)
        angle, most, verb = tilt + math.hypot(*rotation[:2]), abs(turn) + abs(rotation[2]), "tilts"
    if angle > limits.workspace_angle:
        return (
            f"in orientation: it {verb} up to {angle:.4g} rad away, the workspace allows"
            f" {limits.workspace_angle:.4g}"
        )
    if most > limits.workspace_turn:
        return (
            f"in orientation: it turns up to {most:.4g} rad about z, workspace_turn is"
            f" {limits.workspace_turn:.4g}"
        )
    return ""


def tilt_and_turn(middle: Sequence[float], quat: Sequence[float]) -> tuple[float, float]:
    """How far [rad] `quat` tilts the z axis of `middle`, and turns about it; unit quaternions."""
    (ax, ay, az, aw), (bx, by, bz, bw) = middle, quat
    z = aw * bz - az * bw - ax * by + ay * bx
    w = aw * bw + ax * bx + ay * by + az * bz
    tilt = 2.0 * math.acos(min(1.0, math.hypot(z, w)))
    return tilt, 2.0 * math.atan2(z, w) if w >= 0.0 else 2.0 * math.atan2(-z, -w)


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
    if len(numbers) == 1:
        return f"{numbers[0]:g}"
    return f"[{', '.join(f'{number:g}' for number in numbers)}]"
