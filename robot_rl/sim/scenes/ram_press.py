"""A memory module welded to the hand, and its socket: line up, press, and both latches snap in.

The fixture is the socket, its frame on the table below the middle of the slot, which runs along x.
The contacts' friction is a plate at the bottom of the slot that slides down with Coulomb friction.
Each latch is a hinge whose spring passes its dead centre: the module presses on its foot until the
spring throws it over, and its head goes into the notch at the module's end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco

from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.fixture import BOX, CAPSULE, FIXTURE, FixtureOptions, FixtureScene, upright
from robot_rl.sim.panda import GREY, TOOL_CONTACT, WORLD_CONTACT
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.types import Array, ConfigError

LENGTH, HEIGHT, THICK = 0.13335, 0.03125, 0.0014
"""A DDR4 module: 133.35 x 31.25 mm, 1.40 mm thick at its contacts (JEDEC MO-309)."""
NOTCH_LOW, NOTCH_HIGH, NOTCH_DEEP = 0.008, 0.014, 0.0025
"""The notch in each end, from the lower edge up [m]: where the latch goes in."""
GRIPPED = 0.010
BASE = 0.015
"""The mainboard lies so high above the table [m]: the arm's target may go that far below the slot,
which a press of more than the weight of a hand needs."""
FLOOR, RIM, CHAMFER = BASE + 0.003, BASE + 0.009, 0.0015
"""The lower edge of a seated module, and the upper edge of the slot, above the table [m]."""
WIPED = 0.004
"""So far the contacts wipe over the module before it is seated [m]."""
END_ROOM = 0.0005
HINGE_OUT, HINGE_Z, FOOT = 0.006, BASE + 0.006, 0.0075
"""Of a latch: its hinge beyond the module's end and above the table, and its foot's length [m]."""
OPEN_RAD, SHUT_RAD, IS_SHUT_RAD = 0.35, -0.15, -0.10
SPRING_M, SLACK_M = 0.012, 0.010
"""Of a latch's spring: how far from the hinge each end is, on either side, and its free length."""
STIFF, HOLDS = [0.004, 1.0], [0.9999, 0.9999, 0.001, 0.5, 2.0]
"""Softer, friction lets what it holds creep: at a third of it by 4 mm/s."""
SEATED_M, ASIDE_M = 0.0005, 0.001
PRESS_M = 0.016
"""The scripted operator's target goes so far below the floor: all that the arm's clip lets through."""
BOARD, GREEN = (0.10, 0.16, 0.30, 1.0), (0.08, 0.36, 0.20, 1.0)
BLACK, WHITE = (0.12, 0.12, 0.13, 1.0), (0.88, 0.86, 0.80, 1.0)


@dataclass(frozen=True)
class Options(FixtureOptions):
    """The options of a task. The press that seats a module is about the sum of both forces."""

    clearance_m: float = 0.0002
    """The gap on each side of the module in the slot [m]."""
    contacts_n: float = 20.0
    """The friction of the contacts [N]: our choice, 0.07 N for each of the 288."""
    latches_n: float = 20.0
    """What the feet of both latches take before their springs throw them over [N]: our choice."""
    friction: float = 0.3
    """Coulomb's coefficient between module and socket: our choice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most, unit in (
            ("clearance_m", CHAMFER, "m"),
            ("contacts_n", 100.0, "N"),
            ("latches_n", 100.0, "N"),
        ):
            allowed = Range(0.0, most, unit, above=True)
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} {allowed.complaint(getattr(self, name))}")


class Scene(FixtureScene):
    """The socket with its latches, and the module in a carrier between the fingers."""

    tool_m = HEIGHT - GRIPPED
    front = ((0.02, 0.32, 0.18), (0.0, 0.0, 0.03), 40.0)
    options: Options

    def add_tool(self, hand: mujoco.MjsBody) -> None:
        """The module, with a notch in each end, and the carrier that the fingers hold it by."""
        edge = self.hand_to_tip
        look = {"type": BOX, "rgba": GREEN, "group": 1, **self._contact(TOOL_CONTACT)}
        for i, (low, high, shorter) in enumerate((
            (0.0, NOTCH_LOW, 0.0),
            (NOTCH_LOW, NOTCH_HIGH, NOTCH_DEEP),
            (NOTCH_HIGH, HEIGHT, 0.0),
        )):
            half = [LENGTH / 2 - shorter, THICK / 2, (high - low) / 2]
            hand.add_geom(
                name=f"tool-{i}", size=half, pos=[0.0, 0.0, edge - (low + high) / 2], **look
            )
        carrier = {"contype": 0, "conaffinity": 0, "group": 1, "rgba": GREY, "type": BOX}
        hand.add_geom(size=[0.012, 0.010, 0.004], pos=[0.0, 0.0, 0.098], **carrier)

    def add_fixture(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody) -> None:
        """The slot with its chamfers, the plate that is its contacts, and a latch at each end."""
        along = LENGTH / 2 + END_ROOM
        board = {"type": BOX, "rgba": BOARD, "group": 0, **self._contact(WORLD_CONTACT)}
        half = [0.095, 0.05, BASE / 2]
        fixture.add_geom(name="object-board", size=half, pos=[0, 0, BASE / 2], **board)
        self._add_walls(fixture, 1, THICK / 2 + self.options.clearance_m, along)
        self._add_walls(fixture, 0, along, 0.004)
        floor = {"size": [LENGTH / 2, THICK / 2, 0.001], "pos": [0.0, 0.0, FLOOR - 0.001]}
        fixture.add_geom(name="object-floor", **floor, **board)
        self._add_plate(fixture)
        for side in (-1.0, 1.0):
            self._add_latch(spec, fixture, side)

    def _add_walls(
        self, fixture: mujoco.MjsBody, axis: int, inner: float, half_length: float
    ) -> None:
        """Two walls across an axis (0: x, 1: y), `inner` [m] from the middle, chamfered inwards."""
        look = {"type": BOX, "rgba": BLACK, "group": 0, **self._contact(WORLD_CONTACT)}
        low, thick, slope = RIM - CHAMFER, 0.003, CHAMFER / math.sqrt(2.0)
        high, middle = (low - BASE) / 2, (low + BASE) / 2
        for side in (-1.0, 1.0):
            for name, half_thick, half_high, out, up, tilt in (
                ("wall", thick / 2, high, inner + thick / 2, middle, 0.0),
                (
                    "slope",
                    0.001,
                    slope,
                    inner + CHAMFER / 2 + 0.00071,
                    low + CHAMFER / 2 - 0.00071,
                    1.0,
                ),
            ):
                half, place = [half_thick] * 2, [0.0, 0.0, up]
                half[1 - axis], place[axis] = half_length, side * out
                turn = tilt * side * math.pi / 8
                quat = [math.cos(turn), 0.0, 0.0, 0.0]
                quat[2 - axis] = math.sin(turn) * (1.0 if axis == 0 else -1.0)
                fixture.add_geom(
                    name=f"object-{name}{axis}{side:+.0f}",
                    size=[*half, half_high], pos=place, quat=quat, **look,
                )  # fmt: skip

    def _add_plate(self, fixture: mujoco.MjsBody) -> None:
        """What the module's edge pushes down: it stays where it was pushed to."""
        plate = fixture.add_body(name="contacts", pos=[0.0, 0.0, FLOOR + WIPED])
        slide = plate.add_joint(name="contacts", axis=[0, 0, -1], range=[0.0, WIPED])
        slide.solref_limit = STIFF
        slide.type = mujoco.mjtJoint.mjJNT_SLIDE
        slide.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        slide.frictionloss, slide.armature = self.options.contacts_n, 0.2
        slide.solref_friction, slide.solimp_friction = STIFF, HOLDS
        look = {"type": BOX, "rgba": GREY, "mass": 0.005, "group": 0, **WORLD_CONTACT}
        plate.add_geom(size=[LENGTH / 2 - 0.003, THICK / 2, 0.0005], pos=[0, 0, -0.0005], **look)

    def _add_latch(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody, side: float) -> None:
        """Foot below the module's end, head beside the notch, and the spring between two sites."""
        name, x = f"latch{side:+.0f}", side * (LENGTH / 2 + HINGE_OUT)
        latch = fixture.add_body(name=name, pos=[x, 0.0, HINGE_Z])
        hinge = latch.add_joint(name=name, axis=[0.0, side, 0.0], range=[SHUT_RAD, OPEN_RAD])
        hinge.solref_limit = STIFF
        hinge.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        hinge.armature, hinge.damping = 5e-5, [0.002, 0.0, 0.0]
        look = {"rgba": WHITE, "mass": 0.001, "group": 0, **self._contact(WORLD_CONTACT)}
        foot = {"size": [FOOT / 2, 0.002, 0.0008], "pos": [-side * FOOT / 2, 0.0, -0.0034]}
        latch.add_geom(name=f"object-foot{side:+.0f}", type=BOX, **foot, **look)
        head, top = [-side * 0.0054, 0.0, 0.0079], [side * 0.002, 0.0, 0.022]
        for start, end in (([0.0, 0.0, 0.0], top), ([0.0, 0.0, 0.0079], head)):
            latch.add_geom(type=CAPSULE, fromto=[*start, *end], size=[0.0015, 0, 0], **look)
        latch.add_site(name=f"{name}-spring", pos=[0.0, 0.0, SPRING_M], group=4)
        fixture.add_site(name=f"{name}-anchor", pos=[x, 0.0, HINGE_Z - SPRING_M], group=4)
        spring = spec.add_tendon(name=name, group=4, springlength=[SLACK_M] * 2)
        spring.wrap_site(f"{name}-spring")
        spring.wrap_site(f"{name}-anchor")
        spring.stiffness = [self._spring_stiffness(), 0.0, 0.0]

    def _spring_stiffness(self) -> float:
        """What holds a foot with half of `latches_n` when the latch is open [N/m]."""
        length = 2.0 * SPRING_M * math.cos(OPEN_RAD / 2)
        arm = SPRING_M * math.sin(OPEN_RAD / 2)  # from the hinge to the spring's line
        return self.options.latches_n / 2 * FOOT / (arm * (length - SLACK_M))

    def _contact(self, kind: dict[str, int]) -> dict[str, object]:
        return {**kind, "friction": [self.options.friction, 0.005, 0.0001]}

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """The socket where the seed says, with both latches open."""
        super().place(model, data, seed)
        for side in ("-1", "+1"):
            data.joint(f"latch{side}").qpos[0] = OPEN_RAD

    def goal_fixture_tip(self) -> Array:
        """The middle of the module's lower edge at the bottom of the slot."""
        return upright(0.0, 0.0, FLOOR)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the module is seated in the slot and both latches are shut."""
        x, y, z = pose_multiply(
            pose_inverse(pose_of(data.body(FIXTURE))), pose_of(data.site("tip"))
        )[:3]
        seated = z - FLOOR < SEATED_M and abs(x) < ASIDE_M and abs(y) < ASIDE_M
        shut = all(data.joint(f"latch{side}").qpos[0] < IS_SHUT_RAD for side in ("-1", "+1"))
        return bool(seated and shut)

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Over the slot, down to its rim, into the chamfer, and a press that ends beyond the floor."""
        at, rim, inside = FIXTURE, upright(0.0, 0.0, RIM + 0.001), FLOOR + WIPED
        over, press = upright(0.0, 0.0, RIM + 0.012), upright(0.0, 0.0, FLOOR - PRESS_M)
        return (
            Phase("over", over, at, near_m=0.002, near_rad=0.02, unsteady=0.1),
            Phase("at the rim", rim, at, near_m=0.001, near_rad=0.012, pace=0.6, unsteady=0.1),
            Phase("in", upright(0.0, 0.0, inside), at, near_m=0.0015, pace=0.4, unsteady=0.1),
            Phase("press", press, at, pace=0.4, unsteady=0.1),
        )
