"""Two simulated arms side by side or face to face, each in a world of its own, and what MuJoCo says
of the distance between them.

`TwoArms` ticks two loops in lockstep: before each tick an arm is told where the other was last
measured. `least_distance` puts both arms' shapes into one model and asks its collision detection:
nothing of the package's own geometry is in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import mujoco
import numpy as np

from robot_rl.controllers.arm_loops import ArmLoops, Stand
from robot_rl.controllers.arms.mujoco import Arm, Options
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.outline import separation
from robot_rl.geometry import (
    IDENTITY,
    pose_inverse,
    quat_from_rotvec,
    quat_multiply,
    solve_damped,
    twist_of,
)
from robot_rl.interfaces import Given
from robot_rl.sim.panda import add_panda, wxyz
from robot_rl.types import ArmLimits, Array, Compliance, Use
from tests.controllers.bench import HARDWARE, LIMITS, SETUP, TASK

BESIDE = np.array([0.0, 0.7, 0.0, 0.0, 0.0, 0.0, 1.0])
FACING = np.array([1.2, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0])
"""Pose `(7,)` of the second arm's base in that of the first."""

SEEN_M = 0.05
"""Nearer than this the witness measures; beyond it says `inf`."""

GIVEN = Given(name=HARDWARE.name, arm=HARDWARE, scene=Use("empty"))
WIDE = replace(
    LIMITS,
    workspace_low=(-1.0, -1.0, 0.05),
    workspace_high=(1.0, 1.0, 1.2),
    workspace_angle=3.0,
    max_reference_speed=0.25,
    max_force=1e3,
    max_moment=1e3,
    retreat_force=1e4,
    retreat_moment=1e4,
)
"""Limits that let the arms at each other; 0.25 m/s and 1 rad/s of the reference."""


class Witness:
    """Both arms in one model, from which nothing but distances is asked."""

    def __init__(self, pose_first_second: Array):
        spec = mujoco.MjSpec()
        for name, pose in (("a", np.eye(7)[6]), ("b", pose_first_second)):
            one = mujoco.MjSpec()
            one.compiler.degree = False
            add_panda(one, fingers=True)
            frame = spec.worldbody.add_frame(pos=pose[:3], quat=wxyz(pose[3:]))
            spec.attach(one, prefix=f"{name}/", frame=frame)
        spec.compiler.degree, spec.compiler.autolimits = False, False
        for geom in spec.geoms:
            bits = (1, 2) if geom.parent.name.startswith("a/") else (2, 1)
            geom.contype, geom.conaffinity = bits
            geom.margin = SEEN_M
        self._model = model = spec.compile()
        self._data = mujoco.MjData(model)
        self._angles = [
            [model.joint(f"{arm}/joint{i}").qposadr[0] for i in range(1, 8)] for arm in "ab"
        ]

    def least_distance(self, q_first: Array, q_second: Array) -> float:
        """Between the shapes of the two arms [m]: negative if they overlap, `inf` beyond `SEEN_M`.
        The fingers are as wide open as they can be.
        """
        for angles, q in zip(self._angles, (q_first, q_second), strict=True):
            self._data.qpos[angles] = q
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        return float(self._data.contact.dist.min()) if self._data.ncon else np.inf


class TwoArms:
    """Two loops whose arms are told of each other."""

    def __init__(
        self,
        pose_first_second: Array,
        compliance: Compliance = TASK.compliance,
        limits: ArmLimits = WIDE,
        homes: Sequence[Array] = (),
    ):
        setup = replace(SETUP, limits=limits, compliance=compliance, leash_translation=0.05)
        self.arms = [Arm(Options(), GIVEN) for _ in range(2)]
        for arm, home in zip(self.arms, homes, strict=False):
            arm._home = np.array(home)
            arm.reset(0)
        self.loops = [ArmLoop(arm, setup) for arm in self.arms]
        self.poses = [pose_first_second, pose_inverse(pose_first_second)]
        self.told = True
        stands = [Stand("the other", pose) for pose in (IDENTITY, pose_first_second)]
        self._together = ArmLoops(self.loops, stands)

    def tell(self) -> None:
        """Each arm is told where the other was last measured."""
        self._together.tell()
        if not self.told:
            for loop in self.loops:
                loop.neighbours[:] = np.nan

    def run(self, ticks: int, each: Callable[[], None] | None = None) -> None:
        for _ in range(ticks):
            self.tell()
            for loop in self.loops:
                loop.tick(loop.t + 0.001)
            if each:
                each()

    @property
    def q(self) -> tuple[Array, Array]:
        first, second = (arm.world().q for arm in self.arms)
        return first, second

    @property
    def apart(self) -> float:
        """The least distance [m] that the loops themselves see."""
        return min(self.nearest(loop)[0] for loop in self.loops)

    def nearest(self, loop: ArmLoop) -> tuple[float, Array]:
        """How far a loop's arm is from the other [m], and how that grows with its joints `(7,)`."""
        bounds, q = loop._bounds, loop.state().q
        distances, slopes, _ = separation(q, bounds.chain, bounds.outline, loop.neighbours)
        nearest = int(np.argmin(distances))
        return float(distances[nearest]), slopes[nearest]


KINDS = ("reach", "greedy", "random", "joints")
"""Attacks: at a part of the other arm; down the slope of the distance, by the tool or by the
joints; anywhere."""


class Attack:
    """What drives two arms at each other: a new target for each every 50 ms, as far ahead as it may
    be, and another kind of attack every half second. Same seed, same attack.
    """

    def __init__(self, pair: TwoArms, seed: int, kinds: Sequence[str] = KINDS):
        self.pair, self.kinds, self.rng = pair, kinds, np.random.default_rng(seed)
        self.now = [("", 0, np.zeros(3))] * 2
        self.witness = Witness(pair.poses[0])
        self.least = self.least_seen = np.inf
        self.faults: set[str] = set()

    def play(self, ticks: int) -> None:
        for step in range(ticks // 50):
            for n, loop in enumerate(self.pair.loops):
                if step % 10 == 0:
                    kind, part = str(self.rng.choice(self.kinds)), int(self.rng.integers(17))
                    self.now[n] = (kind, part, 0.3 * self.rng.standard_normal(3))
                if loop.fault:
                    self.faults.add(f"{loop.fault.name}: {loop.reason}")
                    loop.acknowledge()
                self._drive(loop, *self.now[n])
            for _ in range(5):
                self.pair.run(10)
                self.least = min(self.least, self.witness.least_distance(*self.pair.q))
                self.least_seen = min(self.least_seen, self.pair.apart)

    def _drive(self, loop: ArmLoop, kind: str, part: int, turn: Array) -> None:
        reading = loop._reading
        _, slope = self.pair.nearest(loop)
        if not slope.any():
            slope = self.rng.standard_normal(7)
        if kind == "joints":
            goal = reading.q - 0.6 * slope / np.linalg.norm(slope)
            margin = 1.5 * WIDE.joint_margin
            low, high = np.array(WIDE.joint_low) + margin, np.array(WIDE.joint_high) - margin
            loop.move_joints(np.clip(goal, low, high), 2.0, loop.t + 0.3)
            return
        target = loop.control.reference.copy()
        if kind == "reach":
            way = loop.neighbours[part, :3] - target[:3]
            change = np.concatenate((0.2 * way / np.linalg.norm(way), turn))
        elif kind == "greedy":
            change = -solve_damped(reading.jacobian, twist_of(reading.jacobian, slope), 1e-3)
            change *= 0.3 / np.linalg.norm(change)
        else:
            change = self.rng.standard_normal(6) * 0.3
        target[:3] += change[:3]
        target[3:] = quat_multiply(quat_from_rotvec(change[3:]), target[3:])
        loop.command(target, loop.t + 0.3, None, 0.05)
