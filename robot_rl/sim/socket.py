"""The socket of an insertion as a task file states it: what the scene and the scripted operator
both have to know.

No mujoco here: the operator asks where none is installed.
"""

import math
from dataclasses import dataclass, fields

from robot_rl.config.ranges import Range
from robot_rl.machine.validation import from_json
from robot_rl.types import ConfigError, Use

MOST = {
    "clearance_m": Range(0.0, 0.02, "m"),
    "depth_m": Range(0.0, 0.1, "m"),
    "socket_range_m": Range(0.0, 0.5, "m"),
    "socket_range_rad": Range(0.0, math.pi, "rad"),
    "friction": Range(0.0, 5.0),
}
MOST_AWAY_M = 1.0
"""What a socket on a table can be at most: more is a slip of the unit."""


@dataclass(frozen=True)
class Socket:
    """A square hole somewhere on the table, in the arm's base frame. Raises ConfigError for one
    that cannot be.
    """

    clearance_m: float = 0.0005
    """The gap on each side of the peg [m]."""
    depth_m: float = 0.025
    """How deep the hole is [m]."""
    success_depth_m: float = 0.024
    """A tip so far below the rim is in [m]."""
    socket_nominal: tuple[float, float] = (0.5, 0.0)
    """The middle of the places where it may stand, x and y [m]."""
    socket_range_m: float = 0.02
    """Half-width of the uniform range of its place about that, along x and y [m]."""
    socket_range_rad: float = math.radians(10.0)
    """Half-width of the uniform range of its yaw [rad]."""
    friction: float = 1.0
    """Coulomb's coefficient between peg and socket: 1, MuJoCo's default, is sticky as rubber; two
    printed parts of PLA have 0.12 to 0.38 (Santana et al. 2020, doi 10.1177/1464420720978997)."""

    def __post_init__(self) -> None:
        if self.clearance_m <= 0.0:
            raise ConfigError(
                f"clearance_m is {self.clearance_m}; it must be more than 0, or the peg does"
                " not fit"
            )
        if not 0.0 < self.success_depth_m <= self.depth_m:
            raise ConfigError(
                f"success_depth_m is {self.success_depth_m}; it must be more than 0 and at most"
                f" depth_m, {self.depth_m}"
            )
        for name in ("socket_range_m", "socket_range_rad", "friction"):
            if getattr(self, name) < 0.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        for name, most in MOST.items():
            if getattr(self, name) > most.high:
                raise ConfigError(f"{name} {most.complaint(getattr(self, name))}")
        if max(map(abs, self.socket_nominal)) > MOST_AWAY_M:
            raise ConfigError(
                f"socket_nominal is {self.socket_nominal}; it must be within {MOST_AWAY_M:g} m of"
                " the arm"
            )

    @staticmethod
    def of(scene: Use | None) -> "Socket":
        """The socket of a task's scene, without building the scene; the defaults for what the task
        does not say.
        """
        known = {field.name for field in fields(Socket)}
        options = scene.options if scene else {}
        said = {name: value for name, value in options.items() if name in known}
        return from_json(Socket, said, source=f"scene {scene.name!r}" if scene else "scene")
