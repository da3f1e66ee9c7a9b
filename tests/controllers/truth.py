"""What the simulated arm really does, tick by tick, whatever the loop, its recorder or its checks
say of it.

`TrueArm` is the simulated Panda with a witness: each `write` leaves a row of MuJoCo's own numbers
in `Rows`: state, torque, tool, links, contact forces. What the loop *sees* may be spoilt on the way
(NaN states, a blow that is felt), the arm may be pushed from outside, stop by itself or be guided
by hand; the rows stay true.

`excesses` says per row by how much a limit of the hardware file was exceeded. Nothing here calls
the package's `safety`, and the links come from MuJoCo's body frames, not from the driver's
kinematics.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from robot_rl.controllers.arms.mujoco import Arm, Options
from robot_rl.interfaces import ArmReading, Given
from robot_rl.types import ArmDriverError, ArmLimits, Array, Capsule, DeviceError, Fault

TICK_S = 0.001
JOINTS = 7
FIRST_LINK, LINKS = "link1", 8
"""Links 1 to 7 and the flange: consecutive bodies of the model, in the frames that a `Capsule`
counts from 1.
"""

ARM, TOOL = 1, 2
"""What a geom of the model belongs to: the arm up to its wrist, or what is behind the flange."""

AT_REST = (0.01, 0.03)
"""[m/s] of the tool and [rad/s] of the fastest joint: slower is at rest."""

FILTER_S = 0.01
"""The time constant with which the arm filters the force that it measures."""

WIDTHS = {
    "t": 1, "tick": 1, "q": 7, "dq": 7, "tau": 7, "position": 3, "axes": 9, "jacobian": 42,
    "links": 3 * LINKS, "turns": 9 * LINKS, "tool_force": 3, "arm_force": 3, "forced": 1, "own": 1,
}  # fmt: skip
"""Numbers per tick. `t` is the caller's clock, `tick` counts; `forced` is 1 while somebody pushes
or guides the arm from outside, `own` while it has stopped by itself and its torques are its own."""


class Rows:
    """Room for so many ticks; `memory` may be shared with another process, and `count[0]` is
    written last.
    """

    def __init__(self, ticks: int, memory: Array | None = None):
        width = sum(WIDTHS.values())
        block = np.zeros(1 + ticks * width) if memory is None else memory
        self.count, self.table = block[:1], block[1:].reshape(ticks, width)
        ends = np.cumsum(list(WIDTHS.values()))
        self._at = {
            name: slice(end - WIDTHS[name], end) for name, end in zip(WIDTHS, ends, strict=True)
        }
        self.columns = {name: self.table[:, at] for name, at in self._at.items()}

    @staticmethod
    def numbers(ticks: int) -> int:
        """How many float64 the memory must hold."""
        return 1 + ticks * sum(WIDTHS.values())

    def __len__(self) -> int:
        return int(self.count[0])

    def copy(self) -> "Rows":
        """The rows so far, while somebody else goes on writing."""
        count = len(self)
        return Rows(count, np.concatenate(([count], self.table[:count].reshape(-1))))

    def get(self, name: str) -> Array:
        """The rows so far of one quantity, `(n,)` or `(n, w)`."""
        column: Array = self.columns[name][: len(self)]
        return column[:, 0] if WIDTHS[name] == 1 else column


class TrueArm(Arm):
    """The simulated arm with a witness, an opponent, and a robot's own stops.

    `spoilt` names fields of the reading and what they are overwritten with; `felt (6,)` is added to
    the measured wrench; `push_hand (6,)` and `guide (7,)` act on the body itself [N, Nm] and [Nm].
    `stop_by_itself` makes the driver raise as a robot in a reflex does, which brakes by itself
    meanwhile, until `recover`.
    """

    def __init__(self, options: Options, given: Given, rows: Rows | None = None):
        self.shown = ArmReading(JOINTS)
        self.spoilt: Mapping[str, float | tuple[int, float]] = {}
        self.felt = np.zeros(6)
        self.stopped: DeviceError | None = None
        self.recoverable = True
        self.rows_begin_at_reset = False
        self.clock: Any = lambda: self._data.time
        self.rows = Rows(20_000) if rows is None else rows
        super().__init__(options, given)
        model, data = self._model, self._data
        self._hand = model.body("hand").id
        first = model.body(FIRST_LINK).id
        if [model.body(first + i).name for i in range(LINKS)] != [
            f"link{i}" for i in range(1, 8)
        ] + ["flange"]:
            raise DeviceError(
                "the links of the model are not consecutive bodies: the witness would look at"
                " others"
            )
        links = (
            data.xpos[first : first + LINKS].reshape(-1),
            data.xmat[first : first + LINKS].reshape(-1),
        )
        flange = model.body("flange").id
        of = [int(body) for body in model.geom_bodyid]
        self._kind = [
            TOOL if flange <= b <= self._hand else ARM if first - 1 <= b < flange else 0 for b in of
        ]
        self._elsewhere = mujoco.MjData(model)
        self._true_jacobian = np.zeros((6, model.nv))
        self._head, self._forces = np.zeros(2), np.zeros(8)
        self._state = data.qpos[:JOINTS], data.qvel[:JOINTS]
        self._views = (self._xpos, self._xmat, self._true_jacobian.reshape(-1), *links)
        self._one_contact = np.zeros(6)
        self.push_hand = data.xfrc_applied[self._hand]
        self.guide = data.qfrc_applied[:JOINTS]

    def place(self, q: Array) -> None:
        """Put the arm at rest at `q (7,)`, before a loop is built on it."""
        self._data.qpos[:JOINTS] = q
        self._data.qvel[:] = 0.0
        mujoco.mj_forward(self._model, self._data)
        self.read()

    def tool_at(self, q: Array) -> tuple[Array, Array, Array]:
        """Where tool `(3,)` and links `(8, 3)`, `(8, 9)` would be at `q (7,)`."""
        data = self._elsewhere
        data.qpos[:JOINTS] = q
        mujoco.mj_kinematics(self._model, data)
        first = self._model.body(FIRST_LINK).id
        return (
            data.site_xpos[self._tool],
            data.xpos[first : first + LINKS],
            data.xmat[first : first + LINKS],
        )

    def reset(self, seed: int) -> None:
        self.spoilt, self.stopped, self.recoverable = {}, None, True
        self.felt[:] = 0.0
        if self.rows_begin_at_reset:
            self.rows.count[0] = 0
        super().reset(seed)

    # --------------------------------------------------------------------------- what the loop sees

    def read(self) -> ArmReading:
        """The measured state in the same buffers each time, spoilt where it is to be."""
        reading, shown = super().read(), self.shown
        if self.stopped is not None:
            self._brake_by_itself()
            raise self.stopped
        shown.q[:], shown.dq[:], shown.coriolis[:] = reading.q, reading.dq, reading.coriolis
        shown.pose[:], shown.jacobian[:], shown.tau[:] = reading.pose, reading.jacobian, reading.tau
        shown.mass = reading.mass
        shown.wrench[:] = reading.wrench + self.felt
        for name, value in self.spoilt.items():
            entries = getattr(shown, name).reshape(-1)
            if isinstance(value, tuple):
                entries[value[0] % len(entries)] = value[1]
            else:
                entries[:] = value
        return shown

    def stop_by_itself(self, fault: Fault, recoverable: bool = True) -> None:
        """From now on the robot brakes and holds by itself, and its driver raises."""
        self.stopped, self.recoverable = (
            ArmDriverError(fault, f"stopped by itself: {fault.name}"),
            recoverable,
        )

    def recover(self) -> None:
        """What the loop asks for when somebody has acknowledged."""
        if self.stopped is not None and not self.recoverable:
            raise self.stopped
        self.stopped = None
        self._reading.tau[:] = self._data.ctrl
        self.shown.tau[:] = self._data.ctrl

    def _brake_by_itself(self) -> None:
        """A tick under the robot's own control: joints damped, gravity and Coriolis compensated."""
        wanted = (
            self._bias
            - self._gravcomp
            - 40.0 * self._data.qvel[:JOINTS] * np.array([1, 1, 1, 1, 0.2, 0.2, 0.2])
        )
        step = np.clip(wanted - self._data.ctrl, -1.0, 1.0)
        self._advance(self._data.ctrl + step, own=True)

    # ---------------------------------------------------------------------------------- the witness

    def write(self, tau: Array) -> None:
        self._advance(np.array(tau), own=False)

    def _advance(self, tau: Array, own: bool) -> None:
        rows, data, k = self.rows, self._data, len(self.rows)
        if k == len(rows.table):
            super().write(tau)
            return
        # of the site itself, not of what the driver shows
        mujoco.mj_jacSite(
            self._model, data, self._true_jacobian[:3], self._true_jacobian[3:], self._tool
        )
        row, head, forces = rows.table[k], self._head, self._forces
        head[:] = self.clock(), k
        np.concatenate(
            (head, self._state[0], self._state[1], tau, *self._views), out=row[: -len(forces)]
        )
        super().write(tau)
        forces[:6], forces[6], forces[7] = 0.0, self.push_hand.any() or self.guide.any(), own
        if data.ncon:
            self._add_contact_forces(forces[:3], forces[3:6])
        row[-len(forces) :] = forces
        rows.count[0] = k + 1

    def _add_contact_forces(self, tool: Array, arm: Array) -> None:
        """Add what the world exerts on the tool and on the rest of the arm [N], base axes, in the
        step just made.
        """
        data, one_contact = self._data, self._one_contact
        pairs, frames = data.contact.geom, data.contact.frame
        for i in range(data.ncon):
            first, second = int(pairs[i, 0]), int(pairs[i, 1])
            kind, sign = self._kind[second], 1.0
            if not kind:
                kind, sign = self._kind[first], -1.0
            if kind:
                mujoco.mj_contactForce(self._model, data, i, one_contact)
                # the normal points from the first geom to the second, and so does the force on the
                # second
                into = tool if kind == TOOL else arm
                into += sign * (one_contact[:3] @ frames[i].reshape(3, 3))


# -------------------------------------------------------------------------------- what the rows say


def twists(rows: Rows) -> Array:
    """Twist `(n, 6)` of the tool."""
    result: Array = np.einsum(
        "nij,nj->ni", rows.get("jacobian").reshape(-1, 6, JOINTS), rows.get("dq")
    )
    return result


def filtered(force: Array) -> Array:
    """Length of a force `(n, 3)` after the filter with which the arm measures it `(n,)`."""
    gain, now = 1.0 - math.exp(-TICK_S / FILTER_S), np.zeros(3)
    out = np.zeros(len(force))
    for k in np.flatnonzero(np.convolve(force.any(axis=1), np.ones(100))[: len(force)]):
        now = now + gain * (force[k] - now)
        out[k] = math.sqrt(now @ now)
    return out


def tilt(rows: Rows, middle_quat: Sequence[float]) -> Array:
    """Angle `(n,)` [rad] between the tool's axes and the orientation in the middle of the cone."""
    x, y, z, w = middle_quat
    middle = np.zeros(9)
    mujoco.mju_quat2Mat(middle, np.array([w, x, y, z]))
    trace = rows.get("axes") @ middle
    result: Array = np.arccos(np.clip(0.5 * (trace - 1.0), -1.0, 1.0))
    return result


def box_distance(points: Array, low: Array, high: Array) -> Array:
    """Signed distance `(...)` [m] of points `(..., 3)` to a box: negative inside, to the nearest
    face.
    """
    beyond = np.maximum(low - points, points - high)
    result: Array = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1) + np.minimum(
        beyond.max(-1), 0.0
    )
    return result


def rods(links: Array, turns: Array, bodies: Sequence[Capsule]) -> Array:
    """Ends `(n, k, 2, 3)` [m] of guarded bodies in the base frame, from the links' frames `(n, 24)`
    and `(n, 72)`.
    """
    places: Array = links.reshape(-1, LINKS, 3)
    frames: Array = turns.reshape(-1, LINKS, 3, 3)
    ends = np.array([(body.start, body.end) for body in bodies])
    link = [body.link - 1 for body in bodies]
    result: Array = places[:, link, None, :] + np.einsum("nkij,kej->nkei", frames[:, link], ends)
    return result


def depth_in_box(ends: Array, radius: Array, low: Array, high: Array) -> Array:
    """How deep [m] rods `(n, k, 2, 3)` reach into a box: `(n,)`, of the worst one; negative
    outside.

    The signed distance to a box is convex, so that a search by thirds along each rod finds its
    least value.
    """
    a, b = np.zeros(ends.shape[:2]), np.ones(ends.shape[:2])

    def at(share: Array) -> Array:
        return box_distance(
            ends[:, :, 0] + share[..., None] * (ends[:, :, 1] - ends[:, :, 0]), low, high
        )

    for _ in range(14):
        one, two = a + (b - a) / 3.0, b - (b - a) / 3.0
        less = at(one) < at(two)
        a, b = np.where(less, a, one), np.where(less, two, b)
    result: Array = (radius - at(0.5 * (a + b))).max(axis=1)
    return result


def progress_through(positions: Array, low: Array, high: Array) -> Array:
    """How far [m] a point `(n, 3)` got into a box `(n,)`: from any face but the one opposite to
    where it came in.

    The depth to the nearest face would shrink again behind the middle of a thin box, as if crossing
    it were leaving it. Negative where it is outside.
    """
    out = box_distance(positions, low, high)
    np.minimum(-out, 0.0, out=out)
    inside = np.asarray(((positions > low) & (positions < high)).all(1))
    opposite = 0
    for k in np.flatnonzero(inside):
        if k == 0 or not inside[k - 1]:
            entered = positions[k - 1 if k else 0]
            beyond = np.concatenate((low - entered, entered - high))
            face = int(beyond.argmax())
            opposite = (face + 3) % 6
        faces = np.concatenate((positions[k] - low, high - positions[k]))
        faces[opposite] = np.inf
        out[k] = faces.min()
    return out


def excesses(rows: Rows, limits: ArmLimits, bodies: Sequence[Capsule] = ()) -> dict[str, Array]:
    """By how much each row exceeds each limit `(n,)`, negative where it does not; per limit in its
    own unit.

    Workspace and bodies without their margin, the force unfiltered and filtered, the cone as
    measured.
    """
    q, dq, tau, position, twist = (
        rows.get("q"),
        rows.get("dq"),
        rows.get("tau"),
        rows.get("position"),
        twists(rows),
    )
    before = np.vstack((tau[:1], tau[:-1]))
    force = rows.get("tool_force")
    out = {
        "torque": (np.abs(tau) - np.array(limits.max_torque)).max(1),
        "torque rate": np.abs(tau - before).max(1) - limits.max_torque_rate * TICK_S,
        "joint speed": (np.abs(dq) - np.array(limits.max_joint_speed)).max(1),
        "joint range": (
            np.maximum(np.array(limits.joint_low) - q, q - np.array(limits.joint_high)).max(1)
        ),
        "tool speed": np.linalg.norm(twist[:, :3], axis=1) - limits.max_tcp_speed,
        "tool turn": np.linalg.norm(twist[:, 3:], axis=1) - limits.max_tcp_rotation_speed,
        "workspace": (
            np.maximum(
                np.array(limits.workspace_low) - position,
                position - np.array(limits.workspace_high),
            ).max(1)
        ),
        "cone": tilt(rows, limits.workspace_quat) - limits.workspace_angle,
        "force": np.linalg.norm(force, axis=1) - limits.max_force,
        "filtered force": filtered(force) - limits.max_force,
    }
    boxes = [(np.array(box.low), np.array(box.high)) for box in limits.keep_out]
    if boxes:
        out["keep out"] = np.max([progress_through(position, *box) for box in boxes], axis=0)
    if bodies:
        ends, radius = (
            rods(rows.get("links"), rows.get("turns"), bodies),
            np.array([body.radius_m for body in bodies]),
        )
        if boxes:
            out["body keep out"] = np.max(
                [depth_in_box(ends, radius, *box) for box in boxes], axis=0
            )
        if limits.body_low:
            low, high = np.array(limits.body_low), np.array(limits.body_high)
            beyond = np.maximum(low - ends, ends - high) + radius[:, None, None]
            out["body room"] = beyond.reshape(len(ends), -1).max(1)
    return out


def is_at_rest(rows: Rows) -> Array:
    """Whether tool and joints are at rest `(n,)`."""
    speed, joints = np.linalg.norm(twists(rows)[:, :3], axis=1), np.abs(rows.get("dq")).max(1)
    result: Array = (speed < AT_REST[0]) & (joints < AT_REST[1])
    return result


def time_to_rest(at_rest: Array) -> int:
    """After how many rows the arm is at rest for good; the number of rows if it never is."""
    moving = np.flatnonzero(~at_rest)
    return int(moving[-1]) + 1 if len(moving) else 0


def further_motion(rows: Rows, first: int, last: int) -> tuple[float, float]:
    """(tool [m], fastest joint [rad]): how far the arm strays between two rows from where it was at
    the first.
    """
    position, q = rows.get("position")[first:last], rows.get("q")[first:last]
    if not len(q):
        return 0.0, 0.0
    return float(np.linalg.norm(position - position[0], axis=1).max()), float(
        np.abs(q - q[0]).max()
    )
