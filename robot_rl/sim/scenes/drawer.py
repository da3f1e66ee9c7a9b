"""A drawer with a bar handle, and a hook welded to the hand: lower it behind the bar, pull.

The fixture is the cabinet, its frame on the table below the drawer's closed front; the drawer opens
along -x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mujoco

from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.fixture import BOX, CAPSULE, FIXTURE, FixtureOptions, FixtureScene, upright
from robot_rl.sim.panda import GREY, LOOSE_CONTACT, TOOL_CONTACT, WORLD_CONTACT
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.types import Array, ConfigError

WIDTH, HEIGHT, DEPTH = 0.24, 0.085, 0.20
BAR_Z, BAR_RADIUS, BAR_AWAY, BAR_HALF = 0.050, 0.006, 0.040, 0.055
"""A bar handle 12 mm thick, its middle 40 mm before the front: a hand's fingers go behind it."""
SHANK_RADIUS, TOE = 0.004, 0.010
"""The hook: a rod 8 mm thick, bent forward by 10 mm at its end."""
BEHIND = BAR_RADIUS + TOE + SHANK_RADIUS + 0.007
"""So far behind the bar's middle the hook goes down: room on both sides."""
TOUCHING = BAR_RADIUS + SHANK_RADIUS
HOOKED_Z, OVER_Z = BAR_Z - 0.013, HEIGHT + 0.020
NEAR_HOOKED_M = 0.006
TRAVEL, PULLED = 0.16, 0.15
GAP_M, PUSHED = 0.006, 0.005
"""Open by no more than this [m] is closed; so far beyond that the hook is pushed."""
BEECH, STEEL = (0.80, 0.63, 0.42, 1.0), (0.72, 0.73, 0.76, 1.0)


@dataclass(frozen=True)
class Options(FixtureOptions):
    """The options of a task."""

    nominal: tuple[float, float] = (0.60, 0.0)
    success_m: float = 0.14
    """Opened so far [m] is open."""
    mass_kg: float = 2.0
    """Of the drawer with what is in it."""
    friction_n: float = 6.0
    """Coulomb friction of the slides [N]: our choice. Nobody should need more than 22 N to open a
    drawer (ADA Standards 2010, section 309.4)."""
    damping_ns_m: float = 10.0
    """Viscous friction of the slides [Ns/m]: our choice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (
            ("success_m", TRAVEL - 0.005),
            ("mass_kg", 20.0),
            ("friction_n", 50.0),
            ("damping_ns_m", 500.0),
        ):
            allowed = Range(0.0, most)
            if not 0.0 < getattr(self, name) <= most:
                raise ConfigError(f"{name} {allowed.complaint(getattr(self, name))}, and not 0")


class Scene(FixtureScene):
    """The cabinet, its drawer on a slide, and the hook. The way back is to close it."""

    tool_m = 0.050
    last = "out"
    front = ((-0.12, 0.45, 0.26), (-0.10, 0.0, 0.04), 45.0)
    options: Options

    def add_tool(self, hand: mujoco.MjsBody) -> None:
        """The hook: a shank from the fingers down, and a toe towards the arm."""
        end = self.hand_to_tip - SHANK_RADIUS
        look = {"type": CAPSULE, "rgba": GREY, "density": 7800.0, "group": 1, **TOOL_CONTACT}
        size = [SHANK_RADIUS, 0.0, 0.0]
        shank, toe = [0.0, 0.0, 0.095, 0.0, 0.0, end], [0.0, 0.0, end, -TOE, 0.0, end]
        hand.add_geom(name="tool-shank", fromto=shank, size=size, **look)
        hand.add_geom(name="tool-toe", fromto=toe, size=size, **look)

    def add_fixture(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody) -> None:
        """Two sides and a top that stand still, and a front with a bar that slides."""
        case = {"type": BOX, "rgba": BEECH, "group": 0, **WORLD_CONTACT}
        for side in (-1.0, 1.0):
            half, middle = [DEPTH / 2, 0.005, HEIGHT / 2], side * (WIDTH / 2 - 0.005)
            fixture.add_geom(
                name=f"object-side{side:+.0f}",
                size=half,
                pos=[DEPTH / 2, middle, HEIGHT / 2],
                **case,
            )
        top = [DEPTH / 2, WIDTH / 2, 0.004]
        fixture.add_geom(name="object-top", size=top, pos=[DEPTH / 2, 0, HEIGHT - 0.004], **case)
        drawer = fixture.add_body(name="drawer")
        slide = drawer.add_joint(name="drawer", axis=[-1, 0, 0], range=[0.0, TRAVEL])
        slide.type = mujoco.mjtJoint.mjJNT_SLIDE
        slide.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        slide.frictionloss = self.options.friction_n
        slide.damping = [self.options.damping_ns_m, 0.0, 0.0]
        self._add_drawer(drawer)

    def _add_drawer(self, drawer: mujoco.MjsBody) -> None:
        """The front panel, which has the mass, the floor behind it, and the bar on its two posts."""
        panel = {"type": BOX, "rgba": BEECH, "group": 0, **LOOSE_CONTACT}
        half = [0.006, WIDTH / 2 - 0.012, (HEIGHT - 0.012) / 2]
        front = [0.006, 0.0, half[2] + 0.003]
        drawer.add_geom(
            name="object-front", size=half, pos=front, mass=self.options.mass_kg, **panel
        )
        floor = [DEPTH / 2 - 0.01, WIDTH / 2 - 0.014, 0.003]
        seen = {"contype": 0, "conaffinity": 0, "density": 0.0, "rgba": BEECH, "type": BOX}
        drawer.add_geom(name="object-floor", size=floor, pos=[DEPTH / 2, 0, 0.01], **seen)
        bar = {"type": CAPSULE, "rgba": STEEL, "density": 0.0, "group": 0, **LOOSE_CONTACT}
        y, size = BAR_HALF, [BAR_RADIUS, 0.0, 0.0]
        drawer.add_geom(
            name="bar", fromto=[-BAR_AWAY, -y, BAR_Z, -BAR_AWAY, y, BAR_Z], size=size, **bar
        )
        for side in (-y, y):
            drawer.add_geom(fromto=[-BAR_AWAY, side, BAR_Z, 0.0, side, BAR_Z], size=size, **bar)

    def goal_fixture_tip(self) -> Array:
        """The hook behind the bar of the drawer when it is pulled out."""
        return upright(TOUCHING - BAR_AWAY - PULLED, 0.0, HOOKED_Z)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the drawer is `success_m` open."""
        return bool(data.joint("drawer").qpos[0] >= self.options.success_m)

    @cached_property
    def way_back(self) -> "Closing":
        """To close it."""
        return Closing(self.options, Given())

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Over the gap behind the bar, down into it, and out."""
        behind, hooked = BEHIND - BAR_AWAY, is_hooked(data)
        return (
            Phase("over", upright(behind, 0.0, OVER_Z), "drawer", near_m=0.004, done=hooked),
            Phase(
                "behind the bar",
                upright(behind, 0.0, HOOKED_Z),
                "drawer",
                near_m=0.004,
                unsteady=0.5,
                done=hooked,
            ),
            Phase(self.last, self.goal_fixture_tip(), FIXTURE, near_rad=0.1, unsteady=0.5),
        )


def is_hooked(data: mujoco.MjData) -> bool:
    """Whether the hook is behind the bar, its toe below it: from there it cannot be lifted out."""
    x, y, z = pose_multiply(pose_inverse(pose_of(data.body("drawer"))), pose_of(data.site("tip")))[
        :3
    ]
    return bool(-BAR_AWAY < x < 0.0 and abs(y) < BAR_HALF and z < HOOKED_Z + NEAR_HOOKED_M)


class Closing(Scene):
    """The same drawer, to be closed: the hook goes down behind the bar and pushes the front."""

    last = "in"

    def goal_fixture_tip(self) -> Array:
        """The hook at the front of the drawer, and pushing it in."""
        return upright(PUSHED - SHANK_RADIUS, 0.0, HOOKED_Z)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the drawer is closed, but for a gap."""
        return bool(data.joint("drawer").qpos[0] <= GAP_M)
