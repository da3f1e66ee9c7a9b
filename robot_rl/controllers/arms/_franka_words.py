"""What a Franka says when it stops or is not to be had, what to do about it, and its states as
plain data.

No client library is needed here.

Sources: libfranka's messages; the FCI documentation, "Troubleshooting" and "Errors"; the robot's
operating modes.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_rl.controllers.arms._franka_frames import distance, pose_of
from robot_rl.types import Array, Fault

CABLE_ADVICE = (
    "is the cable in (the control unit's LAN port, not the arm's), the robot on, and the PC's"
    " firewall open?"
)
CONNECTION_ADVICE = {
    "refused": "activate FCI in Desk (https://{ip}). If that is no robot, the address is wrong",
    "ncompatible": (
        "it speaks another version: pylibfranka 0.21 wants an FR3 with system 5.9 or later"
    ),
    "interrupted": (
        "does another program have it? It talks to one at a time. Else activate FCI in Desk"
        " (https://{ip})"
    ),
    "nobody answers": (
        "options.ip of the hardware file wrong, cable out, robot off, or this PC not in its"
        " network?"
    ),
}
"""By what libfranka or the network says."""

NOT_IDLE = {
    "Other": (
        Fault.DRIVER,
        "in Desk unlock the joints and activate FCI; if it shows an error, clear that there first",
    ),
    "Move": (Fault.DRIVER, "another program moves it: end that one"),
    "Guiding": (Fault.USER_STOP, "somebody guides it by hand: let go, then acknowledge"),
    "Reflex": (Fault.REFLEX, "it stopped with a reflex; look at it, then acknowledge"),
    "UserStopped": (Fault.USER_STOP, "release its external stop, then acknowledge"),
    "AutomaticErrorRecovery": (Fault.REFLEX, "it is recovering; wait, then acknowledge again"),
}
"""By libfranka's name of its mode: what keeps a robot from being commanded, and what to do."""

ADVICE = {
    "manual error recovery": (
        "in Desk follow the error shown (joint beyond its limit: Recovery, guide it back), "
        "else lock and unlock; then acknowledge"
    ),
    "safety function": "a safety rule holds it: see in Desk's Watchman which; then acknowledge",
    "User Stop": "release the external stop, then acknowledge",
    "current mode": "in Desk: joints unlocked, FCI active, no other program; then acknowledge",
    "communication_constraints": (
        "commands came late or got lost: a switch in the cable's way, this PC's load, its CPU "
        "governor? (docs/franka.md)"
    ),
    "controller_torque_discontinuity": "a torque jumped: packets lost, or a defect of this program",
    "tau_j_range": "a torque beyond what the joint has",
    "joint_velocity": (
        "a joint was too fast for where it is: an FR3 allows less near the ends of a joint's range"
    ),
    "joint_position_limits": "a joint is at the end of its range: guide it back by hand",
    "self_collision": "it was about to touch itself: guide it apart by hand",
    "cartesian_reflex": "touched harder than collision_force: look what it met",
    "joint_reflex": "touched harder than collision_torque: look what it met",
    "power_limit": "too much power asked for: too fast under too much load",
    "aborted by reflex": "look at the robot, then acknowledge",
    "ecovery command aborted": "it could not; look into Desk, then acknowledge again",
}
"""By words of libfranka's: what to do. The first that fits counts."""


def not_idle(mode: str) -> tuple[Fault, str]:
    """What keeps a robot in a mode of this name from being commanded, and what to do."""
    return NOT_IDLE.get(mode, (Fault.DRIVER, f"its mode is {mode}; look into Desk"))


def explain(message: str) -> str:
    """libfranka's words, and what to do about them, if we know."""
    words = plain(message)
    advice = next((advice for part, advice in ADVICE.items() if part.lower() in words.lower()), "")
    return f"{words.rstrip('!. ')}; {advice}" if advice else words


def explain_connection(name: str, ip: str, message: str) -> str:
    """Why there is no connection, and what to look at: the robot and its address by name."""
    words = plain(message)
    advice = next((text for part, text in CONNECTION_ADVICE.items() if part in words), CABLE_ADVICE)
    return f"no connection to arm '{name}', a Franka at {ip}: {advice.format(ip=ip)} ({words})"


def fault_of(message: str, mode: str) -> Fault:
    """Our name for the end of a motion: from the robot's mode, and its own names of errors in
    libfranka's words.
    """
    if "communication_constraints_violation" in message:
        return Fault.COMMUNICATION
    return not_idle(mode)[0]


def plain(message: str) -> str:
    """libfranka's message on one line, without its name and the success rate that it appends."""
    return " ".join(
        message.removeprefix("libfranka: ").partition("\ncontrol_command_success_rate")[0].split()
    )


FIELDS: Mapping[str, str] = {
    "q": "q",
    "dq": "dq",
    "tau_J": "tau_J",
    "tau_J_d": "tau_J_d",
    "tau_ext": "tau_ext_hat_filtered",
    "wrench_base": "O_F_ext_hat_K",
    "joint_contact": "joint_contact",
    "cartesian_contact": "cartesian_contact",
}
"""What is kept of a state, and libfranka's name of it: [rad], [rad/s], [Nm], [N, Nm]; what is
external has the robot's sign, that of what the arm does to its surroundings."""


def entry(state: Any) -> dict[str, Any]:
    """A state of libfranka's; a number that is none is None, which JSON has a word for."""
    values: dict[str, Any] = {
        name: [_number(x) for x in getattr(state, field)] for name, field in FIELDS.items()
    }
    return values | {
        "t": _number(state.time.to_sec()),
        "mode": state.robot_mode.name,
        "success_rate": _number(state.control_command_success_rate),
        "current_errors": error_names(state.current_errors),
    }


def error_names(errors: Any) -> list[str]:
    """The names of the errors that are set in an `Errors` of libfranka's."""
    return [name for name in dir(errors) if not name.startswith("_") and getattr(errors, name)]


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


MASS_TOLERANCE_KG = 0.05
FRAME_TOLERANCE = (0.001, 0.01)
"""[m], [rad]: what Desk may say differently from the hardware file."""


def findings(
    state: Any, ip: str, wanted_kg: float, pose_flange_tcp: Array
) -> list[tuple[str, bool, str, str]]:
    """What the robot's own settings say in one of its states, against the hardware file, for
    `robot-rl check`.

    Each is (what, whether it is right, what was found, what to do).
    """
    known_kg, mode = float(state.m_ee), state.robot_mode.name
    weighs, idle = abs(known_kg - wanted_kg) <= MASS_TOLERANCE_KG, mode == "Idle"
    advice = (
        f"the file says {wanted_kg:g} kg (options.end_effector_kg; the Franka Hand has 0.73). In"
        f" Desk (https://{ip}), End Effector, name what is mounted: the robot holds up what it"
        " knows of"
    )
    turn, away = distance(pose_of(np.array(state.F_T_NE)), pose_flange_tcp)
    same = away <= FRAME_TOLERANCE[0] and turn <= FRAME_TOLERANCE[1]
    note = (
        "right only if the TCP is meant to be another point than Desk's: ours is pose_flange_tcp's"
    )
    return [
        ("mode of the robot", idle, mode, "" if idle else not_idle(mode)[1]),
        ("end effector in Desk", weighs, f"{known_kg:.2f} kg", "" if weighs else advice),
        (
            "its tip in Desk",
            True,
            f"{1e3 * away:.1f} mm, {turn:.3f} rad from pose_flange_tcp",
            "" if same else note,
        ),
    ]
