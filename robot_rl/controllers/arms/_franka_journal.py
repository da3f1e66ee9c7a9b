"""A Franka's states as plain data, for a black box. No client library is needed here."""

import math
from collections.abc import Mapping
from typing import Any

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
"""What is kept of a state, and libfranka's name of it: [rad], [rad/s], [Nm], [N, Nm]; what is external has the robot's
sign, that of what the arm does to its surroundings."""


def entry(state: Any) -> dict[str, Any]:
    """A state of libfranka's; a number that is none is None, which JSON has a word for."""
    values: dict[str, Any] = {name: [_number(x) for x in getattr(state, field)] for name, field in FIELDS.items()}
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
