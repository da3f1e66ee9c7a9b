"""What is wrong with a hardware file beyond keys and types: told when it is read, before anything
is opened.

Values are compared with what can be meant on any arm (`limits.RANGES`), with what the driver's
maker says of this one (`types.ArmFacts`), and options with what the driver takes. A driver whose
packages this machine lacks is left out: the arm's own process reads the same file, and has them.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from robot_rl.config.compliance import compliance_problems, posture_problems
from robot_rl.config.kinds import driver_here, name_problems, option_problems
from robot_rl.config.limits import fact_problems, is_unit, limit_problems
from robot_rl.config.ranges import Range, beyond
from robot_rl.config.worlds import loop_problems
from robot_rl.machine.validation import Place, Problem, from_json, nearest
from robot_rl.types import AXES, ArmFacts, Load, TeleopMapping, Use

if TYPE_CHECKING:
    from robot_rl.types.files import ArmConfig, Guard, Hardware

_KINDS = {"arms": "controllers/arms", "cameras": "cameras", "grippers": "controllers/grippers"}
_NEAR = Range(-1.0, 1.0, "m")
_BENCH = Range(-10.0, 10.0, "m")
_ON_FLANGE = Range(-0.5, 0.5, "m")
_RADIUS = Range(0.0, 0.3, "m", above=True)
_GRIPPER = {
    "open_m": Range(0.0, 0.3, "m", above=True),
    "closed_m": Range(0.0, 0.3, "m"),
    "speed": Range(0.0, 0.5, "m/s", above=True),
    "force_n": Range(0.0, 200.0, "N", above=True),
    "toggle_s": Range(0.0, 10.0, "s"),
}
LEAST_TRAVEL_M = 0.01
"""Between a gripper's open and closed width."""
_MASS = Range(0.0, 20.0, "kg")
_ADDRESS = re.compile(
    r"tcp://([\w.-]+@)?[^\s:@/]+:(\*|\d{1,5})|local://[A-Za-z0-9][A-Za-z0-9_-]{0,39}"
)
_NO_TORQUES = {
    "max_torque": 1.0,
    "max_torque_rate": 1.0,
    "joint_margin": 0.0,
    "joint_speed_margin": 0.0,
}
"""Limits that an arm that follows poses has no use for, and numbers that do no harm in their place."""


def complete_limits(data: dict[str, Any]) -> None:
    """Add to the plain data of a file what an arm that follows poses may leave out: the limits of
    joint torques.

    Where the driver cannot be asked (its package is not here) they may be missing as well.
    """
    arms = data.get("arms")
    for arm in arms if isinstance(arms, list) else ():
        if not isinstance(arm, dict) or not isinstance(arm.get("limits"), dict):
            continue
        driver = driver_here("controllers/arms", str(arm.get("driver")))
        if driver is None or driver.mode == "pose":
            joints = len(home) if isinstance(home := arm.get("home"), list) else 0
            for name, value in _NO_TORQUES.items():
                arm["limits"].setdefault(name, [value] * joints if name == "max_torque" else value)


def hardware_problems(hardware: "Hardware") -> Iterator[Problem]:
    """What the types of a hardware file cannot say, with where in the file it stands."""
    if not hardware.arms:
        yield ("arms",), "is empty; at least one arm is wanted"
    for section, kind in _KINDS.items():
        devices: Sequence[Any] = getattr(hardware, section)
        for i, device in enumerate(devices):
            for problem in name_problems(kind, device.driver):
                yield (section, i, "driver"), problem
            if device.name in [other.name for other in devices[:i]]:
                yield (
                    (section, i, "name"),
                    f"= {device.name!r} is taken by another of the {section}",
                )
            for place, message in option_problems(kind, Use(device.driver, device.options)):
                yield (section, i, "options", *place), message
    for i, arm in enumerate(hardware.arms):
        for place, message in _arm_problems(arm):
            yield ("arms", i, *place), message
        if arm.address in [other.address for other in hardware.arms[:i]]:
            yield (
                ("arms", i, "address"),
                f"= {arm.address!r} is taken by another arm: each listens at an address of its own",
            )
    yield from loop_problems(hardware)
    if hardware.arms:
        yield from _gripper_problems(hardware)
    yield from _devices_problems(hardware)


def _gripper_problems(hardware: "Hardware") -> Iterator[Problem]:
    """On which arm each gripper sits: one on each at most."""
    arms = [arm.name for arm in hardware.arms]
    held: dict[str, str] = {}
    for i, gripper in enumerate(hardware.grippers):
        place: Place = ("grippers", i)
        for name, allowed in _GRIPPER.items():
            yield from beyond((*place, name), getattr(gripper, name), allowed)
        if not gripper.open_m - gripper.closed_m >= LEAST_TRAVEL_M:
            least = f"at least {LEAST_TRAVEL_M:g} m less than open_m, {gripper.open_m:g}"
            yield (*place, "closed_m"), f"= {gripper.closed_m:g}: wanted {least}"
        if "." in gripper.name:
            yield (*place, "name"), f"= {gripper.name!r}: wanted a name without a dot"
        if not gripper.arm and len(arms) > 1:
            yield place, f"does not say on which arm it sits; add `arm:`, one of {', '.join(arms)}"
        elif gripper.arm and gripper.arm not in arms:
            hint = nearest(gripper.arm, arms)
            yield (*place, "arm"), f"= {gripper.arm!r} is not in the file; it has: {hint}"
        elif (arm := gripper.arm or arms[0]) in held:
            yield place, f"sits on arm {arm!r}, as {held[arm]!r} does: wanted one for each at most"
        else:
            held[arm] = gripper.name


def machine_problems(hardware: "Hardware") -> Iterator[Problem]:
    """What this machine cannot give the arms' loops; for the machine on which these run."""
    cores = os.cpu_count() or 1
    for i, arm in enumerate(hardware.arms):
        if arm.loop_cpu is not None and arm.loop_cpu >= cores:
            yield (
                ("arms", i, "loop_cpu"),
                f"= {arm.loop_cpu}: this machine has the cores 0 to {cores - 1}",
            )


# --------------------------------------------------------------------------------------------- arms


def _arm_problems(arm: "ArmConfig") -> Iterator[Problem]:
    port = re.search(r":(\d+)$", arm.address)
    if not _ADDRESS.fullmatch(arm.address) or (port and int(port[1]) > 65535):
        yield (
            ("address",),
            f"= {arm.address!r}: wanted local://NAME, as local://arm, or tcp://HOST:PORT",
        )
    if arm.loop_cpu is not None:
        yield from beyond(("loop_cpu",), arm.loop_cpu, Range(0, 1023))
    for name, room in (("pose_flange_tcp", _NEAR), ("pose_bench_base", _BENCH)):
        pose = getattr(arm, name)
        yield from beyond((name,), pose[:3], room)
        if not is_unit(pose[3:]):
            yield (name,), f"= {list(pose)} does not end in a unit quaternion xyzw"
    yield from _load_problems(arm.load)
    yield from _guard_problems(arm.guards)
    driver = driver_here("controllers/arms", arm.driver)
    facts: ArmFacts | None = driver.facts if driver else None
    if driver and arm.guards and not (facts and facts.dh):
        yield (
            ("guards",),
            (
                f"cannot be watched: the driver {arm.driver!r} does not say how its arm is built"
                " (`facts.dh`)"
            ),
        )
    joints = len(facts.joint_low) if facts else _usual_number(arm)
    if len(arm.home) != joints:
        yield ("home",), f"has {len(arm.home)} numbers; this arm has {joints} joints"
    problems = list(limit_problems(arm.limits, joints))
    if not problems:
        problems = list(_speed_problems(arm))
        if facts:
            problems += fact_problems(arm.limits, facts, arm.driver)
    for place, message in problems:
        yield ("limits", *place), message
    if facts and arm.load and arm.load.mass_kg > facts.max_load_kg:
        most = f"the arm of driver {arm.driver!r} can carry {facts.max_load_kg:g} kg"
        yield ("load", "mass_kg"), f"= {arm.load.mass_kg:g}: {most}, wanted at most that"
    if len(arm.home) == joints and not problems:
        yield from posture_problems(("home",), arm.home, arm.limits)
    if arm.reset_compliance is not None and not problems:
        for place, message in compliance_problems(arm.reset_compliance, arm.limits):
            yield ("reset_compliance", *place), message


def _usual_number(arm: "ArmConfig") -> int:
    """How many joints an arm has of which nobody says: as many as most of its lists have numbers."""
    limits = arm.limits
    lists = (
        limits.joint_low,
        limits.joint_high,
        limits.max_joint_speed,
        arm.home,
        limits.max_torque,
    )
    return Counter(len(numbers) for numbers in lists).most_common(1)[0][0]


def _speed_problems(arm: "ArmConfig") -> Iterator[Problem]:
    """A reference that goes faster than what stops the arm."""
    for name, stop in (
        ("max_reference_speed", "max_tcp_speed"),
        ("max_reference_rotation_speed", "max_tcp_rotation_speed"),
    ):
        asked, most = getattr(arm.limits, name), getattr(arm.limits, stop)
        if asked >= most:
            yield (name,), f"= {asked:g}: wanted less than {stop}, {most:g}, which is a fault"


def _load_problems(load: Load | None) -> Iterator[Problem]:
    """A load that no body can have, whose weight and inertia an arm would compensate all the same."""
    if load is None:
        return
    yield from beyond(("load", "mass_kg"), load.mass_kg, _MASS)
    yield from beyond(("load", "centre_m"), load.centre_m, _ON_FLANGE)
    xx, yy, zz, *products = load.inertia
    largest = max(xx, yy, zz)
    if (
        min(xx, yy, zz) < 0.0
        or 2.0 * largest > xx + yy + zz + 1e-12
        or max(map(abs, products)) > largest
    ):
        wrong = (
            f"= {list(load.inertia)}: no body has these moments; xx, yy, zz, xy, xz, yz [kg m^2]"
        )
        yield ("load", "inertia"), wrong


def _guard_problems(guards: "Sequence[Guard]") -> Iterator[Problem]:
    for i, guard in enumerate(guards):
        place: Place = ("guards", i)
        if guard.name in [other.name for other in guards[:i]]:
            yield (*place, "name"), f"= {guard.name!r} is taken by another of the guards"
        yield from beyond((*place, "start"), guard.start, _ON_FLANGE)
        yield from beyond((*place, "end"), guard.end, _ON_FLANGE)
        yield from beyond((*place, "radius_m"), guard.radius_m, _RADIUS)


# ------------------------------------------------------------------------------------------- teleop


def _devices_problems(hardware: "Hardware") -> Iterator[Problem]:
    """What is wrong with the operator's devices: each has an arm of its own."""
    arms, taken = [arm.name for arm in hardware.arms], list[str]()
    devices: list[tuple[Place, Use]] = [
        (("more_teleop", i), use) for i, use in enumerate(hardware.more_teleop)
    ]
    if hardware.teleop is not None:
        devices.insert(0, (("teleop",), hardware.teleop))
    elif devices:
        yield ("more_teleop",), "stands beside `teleop`, and there is none"
    for place, use in devices:
        for where, message in _teleop_problems(use, arms):
            yield (*place, *where), message
        arm = use.options.get("arm") or "".join(arms[:1])
        if arm in taken:
            yield (*place, "options", "arm"), f"= {arm!r} has a device already: name another arm"
        taken.append(arm)
    if [use.name for _, use in devices].count("browser") > 1:
        why = "names the browser twice, and the page has one gizmo: wanted another device for one"
        yield ("more_teleop",), why


def _teleop_problems(use: Use, arms: Sequence[str]) -> Iterator[Problem]:
    for problem in name_problems("teleop", use.name):
        yield ("name",), problem
    problems = list(option_problems("teleop", use))
    if not problems and (driver := driver_here("teleop", use.name)) is not None:
        felt = {
            field.name: use.options[field.name]
            for field in fields(TeleopMapping)
            if field.name in use.options
        }
        problems += feel_problems(from_json(TeleopMapping, asdict(driver.feel) | felt), arms)
    for place, message in problems:
        yield ("options", *place), message


def feel_problems(feel: TeleopMapping, arms: Sequence[str] = ()) -> Iterator[Problem]:
    """A feel that makes no sense, by option; `arms` are the names of the bench's, if known."""
    if not 0.0 <= feel.deadband < 1.0:
        yield ("deadband",), f"= {feel.deadband}: wanted 0 to less than 1"
    if not 0.0 <= feel.release <= feel.engage <= 1.0:
        yield (
            ("engage",),
            f"is {feel.engage} and release {feel.release}; wanted 0 <= release <= engage <= 1",
        )
    yield from beyond(("release_s",), feel.release_s, Range(0.0, 10.0, "s"))
    yield from beyond(("speed",), feel.speed, Range(0.0, 1.0, above=True))
    if len(feel.axes) != 6 or any(axis.lstrip("+-") not in AXES for axis in feel.axes):
        axes = ", ".join(AXES)
        yield (
            ("axes",),
            f"= {list(feel.axes)}: wanted six of {axes}, each with a minus sign or without",
        )
    if len(feel.scale) != 6 or min(feel.scale) < 0.0:
        yield (
            ("scale",),
            f"= {list(feel.scale)}: wanted six factors, none below 0: the signs stand in axes",
        )
    if feel.arm and arms and feel.arm not in arms:
        yield ("arm",), f"= {feel.arm!r} is not in the file; it has: {nearest(feel.arm, arms)}"
