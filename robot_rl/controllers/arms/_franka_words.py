"""What a Franka says when it stops or is not to be had, and what to do about it. No client library is needed here.

Sources: libfranka's messages; the FCI documentation, "Troubleshooting" and "Errors"; the robot's operating modes.
"""

from robot_rl.types import Fault

CABLE_ADVICE = "is the cable in (the control unit's LAN port, not the arm's), the robot on, and the PC's firewall open?"
CONNECTION_ADVICE = {
    "refused": "activate FCI in Desk (https://{ip}). If that is no robot, the address is wrong",
    "ncompatible": "it speaks another version: pylibfranka 0.21 wants an FR3 with system 5.9 or later",
    "interrupted": "does another program have it? It talks to one at a time. Else activate FCI in Desk (https://{ip})",
    "nobody answers": "options.ip of the hardware file wrong, cable out, robot off, or this PC not in its network?",
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
    "manual error recovery": "in Desk follow the error shown (joint beyond its limit: Recovery, guide it back), "
    "else lock and unlock; then acknowledge",
    "safety function": "a safety rule holds it: see in Desk's Watchman which; then acknowledge",
    "User Stop": "release the external stop, then acknowledge",
    "current mode": "in Desk: joints unlocked, FCI active, no other program; then acknowledge",
    "communication_constraints": "commands came late or got lost: a switch in the cable's way, this PC's load, its CPU "
    "governor? (docs/franka.md)",
    "controller_torque_discontinuity": "a torque jumped: packets lost, or a defect of this program",
    "tau_j_range": "a torque beyond what the joint has",
    "joint_velocity": "a joint was too fast for where it is: an FR3 allows less near the ends of a joint's range",
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
    """Our name for the end of a motion: from the robot's mode, and its own names of errors in libfranka's words."""
    if "communication_constraints_violation" in message:
        return Fault.COMMUNICATION
    return not_idle(mode)[0]


def plain(message: str) -> str:
    """libfranka's message on one line, without its name and the success rate that it appends."""
    return " ".join(message.removeprefix("libfranka: ").partition("\ncontrol_command_success_rate")[0].split())
