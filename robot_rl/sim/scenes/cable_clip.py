"""A flexible cable from a post to the hand, and two clips with elastic jaws between them: pull it
taut over both, and down until it snaps in.

The fixture is the block with the clips, its frame on the table below the middle between them; the
cable runs along x, from the post at its near end to the hand. It is a chain of capsules; two
hinges between them bend as its jacket does, and nothing twists.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.fixture import BOX, CAPSULE, FIXTURE, FixtureOptions, FixtureScene, upright
from robot_rl.sim.panda import GREY, TOOL_CONTACT, WORLD_CONTACT
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.sim.stage import add_camera
from robot_rl.types import Array, ConfigError

SEGMENTS, SEGMENT_M, RADIUS = 16, 0.0125, 0.002
"""20 cm of a cable 4 mm thick: USB 2.0, section 6.6.2, allows 3.4 to 5.3 mm."""
METRE_KG = 0.025
ARMATURE, DAMPING = 1e-6, 2e-4
"""Of each joint [kg m^2, Nms/rad]: with its own inertia of 1e-8 a segment swings faster than a tick
can follow."""
CLIPS = (-0.03, 0.03)
"""Where the clips are along the block [m]."""
BLOCK_Z = 0.020
SEAT_Z = BLOCK_Z + 0.002 + RADIUS
"""The middle of a cable that lies in a clip, above the table [m]."""
LIP_Z, LIP_RADIUS, JAW_Y = 0.0045, 0.001, 0.0034
"""Of a jaw, from its hinge on the block: how high its lip is, how thick, and how far aside the hinge
is."""
MOUTH = 0.0028
"""The gap between two lips [m]: 1.2 mm less than the cable."""
POST_X, POST_Z = -0.09, 0.008
TAUT_X, LOW_Z = 0.106, 0.008
"""Where the hand is when the cable lies taut in both clips: as low as the post."""
BLOCK_RGB, ORANGE, WHITE = (0.30, 0.34, 0.40, 1.0), (0.90, 0.45, 0.10, 1.0), (0.9, 0.9, 0.88, 1.0)


@dataclass(frozen=True)
class Options(FixtureOptions):
    """The options of a task."""

    nominal: tuple[float, float] = (0.46, 0.0)
    bending_nm2: float = 3e-4
    """Bending stiffness E I of the cable [N m^2]. Of a jacket of plasticised PVC (30 MPa) 4 mm
    thick outside and 3 mm inside: 2.6e-4; 28 loose strands of copper (117 GPa) of 0.127 mm, as in
    four wires AWG 28, add 0.4e-4."""
    jaw_n: float = 2.0
    """What opens a jaw by as much as the cable needs, at its lip [N]: our choice."""
    friction: float = 0.3
    """Coulomb's coefficient between cable and clips: our choice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most, unit in (("bending_nm2", 0.01, "N m^2"), ("jaw_n", 20.0, "N")):
            allowed = Range(0.0, most, unit, above=True)
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} {allowed.complaint(getattr(self, name))}")


class Scene(FixtureScene):
    """The block with its clips, the post, and the cable, whose end the hand holds."""

    tool_m = 0.030
    front = ((0.02, 0.36, 0.22), (0.02, 0.0, 0.02), 42.0)
    options: Options

    def add_tool(self, hand: mujoco.MjsBody) -> None:
        """The rod that the cable's end is fixed to."""
        rod = {"type": CAPSULE, "rgba": GREY, "group": 1, **TOOL_CONTACT}
        ends = [0.0, 0.0, 0.095, 0.0, 0.0, self.hand_to_tip - 0.003]
        hand.add_geom(name="tool", fromto=ends, size=[0.003, 0.0, 0.0], **rod)

    def add_wrist_camera(self, hand: mujoco.MjsBody) -> None:
        """Before the hand, looking down as the tool does: cable and clips from above."""
        add_camera(
            hand,
            "wrist",
            at=(-0.07, 0.0, 0.03),
            look_at=(-0.09, 0.0, 0.12),
            up=(1.0, 0.0, 0.0),
            fovy=75.0,
        )

    def add_fixture(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody) -> None:
        """The block, the clips on it, the post and the cable."""
        look = {"type": BOX, "rgba": BLOCK_RGB, "group": 0, **self._contact(WORLD_CONTACT)}
        block, z = [0.045, 0.03, BLOCK_Z / 2], BLOCK_Z / 2
        fixture.add_geom(name="object-block", size=block, pos=[0.0, 0.0, z], **look)
        post = [POST_X - 0.008, 0.0, POST_Z]
        fixture.add_geom(name="object-post", size=[0.008, 0.012, POST_Z], pos=post, **look)
        for number, x in enumerate(CLIPS):
            seat = [x, 0.0, (BLOCK_Z + SEAT_Z - RADIUS) / 2]
            half = [0.004, 0.003, (SEAT_Z - RADIUS - BLOCK_Z) / 2]
            fixture.add_geom(name=f"object-seat{number}", size=half, pos=seat, **look)
            for side in (-1.0, 1.0):
                self._add_jaw(fixture, f"jaw{number}{side:+.0f}", x, side)
        self._add_cable(spec, fixture)

    def _add_jaw(self, fixture: mujoco.MjsBody, name: str, x: float, side: float) -> None:
        """A wall on a sprung hinge, a round lip that narrows the mouth, and a flare that leads in."""
        jaw = fixture.add_body(name=name, pos=[x, side * JAW_Y, SEAT_Z - RADIUS])
        hinge = jaw.add_joint(name=name, axis=[-side, 0.0, 0.0], range=[0.0, 0.6])
        hinge.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        gives = (2.0 * RADIUS - MOUTH) / 2  # at the lip, for the cable to pass
        hinge.stiffness = [self.options.jaw_n * LIP_Z**2 / gives, 0.0, 0.0]
        hinge.armature, hinge.damping = 2e-6, [2e-4, 0.0, 0.0]
        look = {"rgba": WHITE, "mass": 3e-4, "group": 0, **self._contact(WORLD_CONTACT)}
        wall = {"size": [0.004, 0.0005, LIP_Z / 2], "pos": [0.0, 0.0, LIP_Z / 2]}
        jaw.add_geom(type=BOX, **wall, **look)
        lip = side * (MOUTH / 2 + LIP_RADIUS - JAW_Y)
        ends = [-0.004, lip, LIP_Z, 0.004, lip, LIP_Z]
        jaw.add_geom(type=CAPSULE, fromto=ends, size=[LIP_RADIUS, 0.0, 0.0], **look)
        tilt = -side * math.pi / 8
        flare = {"size": [0.004, 0.0005, 0.0035], "quat": [math.cos(tilt), math.sin(tilt), 0, 0]}
        jaw.add_geom(type=BOX, pos=[0.0, lip + side * 0.0025, LIP_Z + 0.0025], **flare, **look)

    def _add_cable(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody) -> None:
        """The chain, and what holds its end to the hand."""
        look = {"type": CAPSULE, "rgba": ORANGE, "group": 0, **self._contact(TOOL_CONTACT)}
        parent, place = fixture, [POST_X, 0.0, POST_Z]
        for number in range(SEGMENTS):
            parent = parent.add_body(name=f"cable{number}", pos=place)
            for name, axis in (("aside", [0, 0, 1]), ("down", [0, 1, 0])):
                joint = parent.add_joint(name=f"cable{number}-{name}", axis=axis)
                joint.stiffness = [self.options.bending_nm2 / SEGMENT_M, 0.0, 0.0]
                joint.armature, joint.damping = ARMATURE, [DAMPING, 0.0, 0.0]
            ends, mass = [0.0, 0.0, 0.0, SEGMENT_M, 0.0, 0.0], METRE_KG * SEGMENT_M
            parent.add_geom(fromto=ends, size=[RADIUS, 0.0, 0.0], mass=mass, **look)
            place = [SEGMENT_M, 0.0, 0.0]
        parent.add_site(name="cable-end", pos=place, group=4)
        held = spec.add_equality(name="held", type=mujoco.mjtEq.mjEQ_CONNECT, name1="cable-end")
        held.objtype, held.name2 = mujoco.mjtObj.mjOBJ_SITE, "tip"
        held.solref, held.solimp = [0.005, 1.0], [0.999, 0.9999, 0.001, 0.5, 2.0]

    def _contact(self, kind: dict[str, int]) -> dict[str, object]:
        return {**kind, "friction": [self.options.friction, 0.005, 0.0001]}

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """The block where the seed says, and the cable in an arc from the post to the hand."""
        super().place(model, data, seed)
        mujoco.mj_kinematics(model, data)
        tip = pose_multiply(pose_inverse(pose_of(data.body(FIXTURE))), pose_of(data.site("tip")))
        away = tip[:3] - [POST_X, 0.0, POST_Z]
        turn = arc(float(np.linalg.norm(away)))
        yaw = math.atan2(away[1], away[0])
        up = math.atan2(away[2], math.hypot(away[0], away[1])) + turn * (SEGMENTS - 1) / 2
        data.joint("cable0-aside").qpos[0], data.joint("cable0-down").qpos[0] = yaw, -up
        for number in range(1, SEGMENTS):
            data.joint(f"cable{number}-down").qpos[0] = turn

    def goal_fixture_tip(self) -> Array:
        """The hand beyond the clips, as low as the post, the cable taut between them."""
        return upright(TAUT_X, 0.0, LOW_Z)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the cable's middle line lies on the seat of each clip, below its lips."""
        w, x, y, z = data.mocap_quat[0]
        fixture = pose_inverse(np.array([*data.mocap_pos[0], x, y, z, w]))
        line = [data.body(f"cable{number}").xpos for number in range(SEGMENTS)]
        line.append(data.site("cable-end").xpos)
        points = np.array([pose_multiply(fixture, np.array([*p, 0, 0, 0, 1.0]))[:3] for p in line])
        return all(lies_in(points, clip) for clip in CLIPS)

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Up, so that the cable hangs over the block and not beside it; out, until it is taut; down."""
        high, taut = upright(0.010, 0.0, 0.165), upright(0.103, 0.0, 0.105)
        half, down = (
            upright(TAUT_X + 0.004, 0.0, 0.055),
            upright(TAUT_X + 0.008, 0.0, LOW_Z - 0.004),
        )
        return (
            Phase("lifted off", high, FIXTURE, near_m=0.006, near_rad=0.1),
            Phase("taut", taut, FIXTURE, near_m=0.004, near_rad=0.1, force_n=6.0, unsteady=0.3),
            Phase("half down", half, FIXTURE, near_m=0.008, near_rad=0.1, unsteady=0.3),
            Phase("down", down, FIXTURE, near_rad=0.1, unsteady=0.3, beside_m=0.008),
        )


def lies_in(line: Array, clip: float) -> bool:
    """Whether a line of points `(n, 3)`, seen from the fixture, crosses the clip's middle on its
    seat.
    """
    x = line[:, 0]
    for i in np.flatnonzero((x[:-1] <= clip) & (x[1:] > clip)):
        share = (clip - x[i]) / (x[i + 1] - x[i])
        _, y, z = line[i] + share * (line[i + 1] - line[i])
        if abs(y) < 0.001 and abs(z - SEAT_Z) < 0.001:
            return True
    return False


def arc(chord: float) -> float:
    """By how much each segment of the cable is turned against the last one [rad] when it spans a
    chord [m] in an arc of a circle.
    """
    low, high = 0.0, 2.0 * math.pi / SEGMENTS
    for _ in range(40):
        turn = (low + high) / 2
        spans = SEGMENT_M * math.sin(SEGMENTS * turn / 2) / math.sin(turn / 2)
        low, high = (turn, high) if spans > chord else (low, turn)
    return low
