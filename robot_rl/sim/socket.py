"""The socket of an insertion as a task file states it: what scene, operator and wandering all have to know.

No mujoco here: wandering asks on a real robot's computer too, about the socket that stands in its task file.
"""

import math
from dataclasses import dataclass, fields

from robot_rl.types import ConfigError, Use
from robot_rl.validation import from_json


@dataclass(frozen=True)
class Socket:
    """A square hole somewhere on the table. Lengths [m] and angles [rad]; the base frame is the arm's.

    `clearance_m` is the gap on each side of the peg; a tip `success_depth_m` below the rim of the `depth_m` is in.
    `socket_range_m` and `socket_range_rad` are half-widths of the uniform ranges of position and yaw about
    `socket_nominal`. `friction` is Coulomb's coefficient between peg and socket: 1, MuJoCo's default, is sticky as
    rubber; two printed parts of PLA have 0.12 to 0.38 (Santana et al. 2020, doi 10.1177/1464420720978997). Raises
    ConfigError for a socket that cannot be.
    """

    clearance_m: float = 0.0005
    depth_m: float = 0.025
    success_depth_m: float = 0.024
    socket_nominal: tuple[float, float] = (0.5, 0.0)
    socket_range_m: float = 0.02
    socket_range_rad: float = math.radians(10.0)
    friction: float = 1.0

    def __post_init__(self) -> None:
        if self.clearance_m <= 0.0:
            raise ConfigError(f"clearance_m is {self.clearance_m}; it must be more than 0, or the peg does not fit")
        if not 0.0 < self.success_depth_m <= self.depth_m:
            raise ConfigError(
                f"success_depth_m is {self.success_depth_m}; it must be more than 0 and at most depth_m, {self.depth_m}"
            )
        for name in ("socket_range_m", "socket_range_rad", "friction"):
            if getattr(self, name) < 0.0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")

    @staticmethod
    def of(scene: Use | None) -> "Socket":
        """The socket of a task's scene, without building the scene; the defaults for what the task does not say."""
        known = {field.name for field in fields(Socket)}
        options = scene.options if scene else {}
        said = {name: value for name, value in options.items() if name in known}
        return from_json(Socket, said, source=f"scene {scene.name!r}" if scene else "scene")
