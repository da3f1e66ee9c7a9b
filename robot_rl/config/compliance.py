"""Which impedance an arm may be asked for: the same ranges when a file is read and at the arm's own
door.

No numba here: this runs once, when files are read and when an arm is set up or tuned.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from robot_rl.config.ranges import Range, beyond
from robot_rl.machine.validation import Place, Problem
from robot_rl.types import ArmLimits, Compliance

STIFFNESS = (Range(0.0, 6000.0, "N/m", above=True), Range(0.0, 300.0, "Nm/rad", above=True))
DAMPING = (Range(0.0, 400.0, "Ns/m", above=True), Range(0.0, 30.0, "Nms/rad", above=True))
"""Ranges of serl_franka_controllers' dynamic_reconfigure, translation and rotation: stable at 1 kHz
on a Panda.
"""

ERROR_CLIP = (Range(0.0, 0.1, "m", above=True), Range(0.0, 0.5, "rad", above=True))
"""The widest that HIL-SERL's examples ask for."""

INTEGRAL = (Range(0.0, 10_000.0, "N/(m s)"), Range(0.0, 500.0, "Nm/(rad s)"))
"""A few tenths of a second to the largest static force."""

FILTER_TIME_S = Range(0.0, 2.0, "s")
GAIN_TIME_S = Range(0.02, 2.0, "s")
"""At once is a jump of the force: 20 ms are 20 ticks."""
NULLSPACE_STIFFNESS = Range(0.0, 100.0, "Nm/rad")
LEASH = (Range(0.0, 0.5, "m", above=True), Range(0.0, math.pi / 2, "rad", above=True))

LEAST_DAMPING_RATIO = 0.5
"""Half of critical: with less an arm rings for seconds, and a fault's hold with it. SERL's 2000/89
and 150/7 have 0.995 and 0.90."""

REFERENCE_INERTIA = (1.0, 0.1)
"""[kg], [kg m^2]: what the ratio is reckoned with. A hand feels heavier than that, and is damped
less.
"""

AXES = ("along x", "along y", "along z", "about x", "about y", "about z")
_SIX = {
    "stiffness": STIFFNESS,
    "damping": DAMPING,
    "error_clip": ERROR_CLIP,
    "error_clip_minus": ERROR_CLIP,
    "integral": INTEGRAL,
}
_SINGLE = {
    "filter_time_s": FILTER_TIME_S,
    "gain_time_s": GAIN_TIME_S,
    "nullspace_stiffness": NULLSPACE_STIFFNESS,
}


def compliance_problems(
    compliance: Compliance, limits: ArmLimits | None = None
) -> Iterator[Problem]:
    """What is wrong with a compliance, by field: its ranges, its damping, and its force under the
    limits in force.
    """
    sound = True
    for place, message in _range_problems(compliance):
        sound = False
        yield place, message
    if not sound:
        return
    for axis, (stiffness, damping) in enumerate(
        zip(compliance.stiffness, compliance.damping, strict=True)
    ):
        least = 2.0 * LEAST_DAMPING_RATIO * math.sqrt(stiffness * REFERENCE_INERTIA[axis // 3])
        if damping < least:
            why = f"damping ratio {LEAST_DAMPING_RATIO:g} {AXES[axis]}: with less the arm rings"
            yield (
                ("damping", axis),
                f"= {damping:g}: wanted at least {least:.4g} with stiffness {stiffness:g}, {why}",
            )
    if limits is not None:
        yield from _force_problems(compliance, limits)
        yield from _posture_problems(compliance.posture, limits)


def _range_problems(compliance: Compliance) -> Iterator[Problem]:
    for name, (along, about) in _SIX.items():
        values = getattr(compliance, name)
        if name == "error_clip_minus" and not values:
            continue  # the same as error_clip
        if len(values) != 6:
            yield (name,), f"has {len(values)} numbers: wanted 6, for x, y, z and about x, y, z"
            continue
        yield from beyond((name,), values[:3], along)
        for place, message in beyond((name,), values[3:], about):
            yield (name, 3 + int(place[-1])), message
    for name, allowed in _SINGLE.items():
        yield from beyond((name,), getattr(compliance, name), allowed)


def _force_problems(compliance: Compliance, limits: ArmLimits) -> Iterator[Problem]:
    """Stiffness times clip is what the arm presses with: never more than what stops it."""
    for name in ("error_clip", "error_clip_minus"):
        for axis, (stiffness, clip) in enumerate(
            zip(compliance.stiffness, getattr(compliance, name), strict=False)
        ):
            limit, unit = ("max_force", "N") if axis < 3 else ("max_moment", "Nm")
            most = getattr(limits, limit)
            if stiffness * clip > most * (1.0 + 1e-9):
                force = f"{stiffness:g} x {clip:g} = {stiffness * clip:g} {unit} {AXES[axis]}"
                less = (
                    f"{limit} is {most:g} {unit}: wanted at most {most / stiffness:.4g} with that"
                    " stiffness"
                )
                yield (name, axis), f"= {clip:g}: stiffness x clip is {force}, and {less}"


def _posture_problems(posture: Sequence[float], limits: ArmLimits) -> Iterator[Problem]:
    """The nullspace pulls the elbow there for as long as the arm stands: it has to be a posture of
    this arm.
    """
    if not posture:
        return
    if len(posture) != len(limits.joint_low):
        joints = len(limits.joint_low)
        yield (
            ("posture",),
            f"has {len(posture)} numbers: wanted {joints} joint angles [rad], or none",
        )
        return
    yield from posture_problems(("posture",), posture, limits)


def posture_problems(
    place: Place, posture: Sequence[float], limits: ArmLimits
) -> Iterator[Problem]:
    """The joint angles [rad] that are not within their limits, `joint_margin` left free."""
    for j, (at, low, high) in enumerate(
        zip(posture, limits.joint_low, limits.joint_high, strict=False)
    ):
        allowed = Range(low + limits.joint_margin, high - limits.joint_margin, "rad")
        if at not in allowed:
            yield (*place, j), f"{allowed.complaint(at)} (the joint's limits, less joint_margin)"


def leash_problems(translation: float, rotation: float) -> Iterator[Problem]:
    """How far a target may run ahead of the measured pose [m], [rad]."""
    yield from beyond(("leash_translation",), translation, LEASH[0])
    yield from beyond(("leash_rotation",), rotation, LEASH[1])


def default_within(limits: ArmLimits) -> Compliance:
    """The default compliance, with its clips as small as the limits on force and moment want them.

    What an arm is held with before a task has said how stiff it is to be.
    """
    law = Compliance()
    most = (limits.max_force,) * 3 + (limits.max_moment,) * 3
    pairs = zip(law.error_clip, law.stiffness, most, strict=True)
    return replace(
        law, error_clip=tuple(min(clip, limit / stiffness) for clip, stiffness, limit in pairs)
    )
