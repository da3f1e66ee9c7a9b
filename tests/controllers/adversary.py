"""What a broken, hostile or late program may do to an arm with a body; judged by the simulation's
own truth.

Each bout is a fresh loop on the simulated arm of peg_insert and some seconds of one kind of attack
(`SCENARIOS`): targets and joint moves, sound and not, alternating every 2 to 200 ms; any compliance
that the arm's door lets in, tuned in motion; laws that it does not let in; keep-out boxes and a
room for the links; spoilt states, blows, an arm that stops by itself or is guided by hand,
excursions; acknowledgements at random moments; silence at the end. `truth.py` writes down what the
arm does, and `judge` compares that with the hardware file. `make soak-targets` is the long version.

What is held against the loop:

- torque and torque rate never exceed their limits;
- whatever has a fault for it (speeds, joint range, workspace and keep-out with their margin, links,
  filtered force) exceeds its limit for `LATCH_TICKS` at most before a fault is latched. Afterwards
  it may exceed it by `EXCURSION` more, and a speed for `BRAKING_TICKS`: what torques that turn
  round at their rate explain;
- once the lease has run out or a fault is latched the arm is at rest within `REST_TICKS` and stays
  where it is; an acknowledgement of an arm at rest moves nothing;
- acknowledged outside, the arm goes no further out;
- the force of a contact, filtered as the arm filters it, stays below that of an impact at the
  reference's speed;
- targets in force lie in the workspace, the cone and outside the boxes; the lease ends.

While somebody outside pushes the arm, its motion is not held against the loop. Same seed, same
bout.
"""

import argparse
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.setup import ArmSetup, check_joint_target, check_setup
from robot_rl.geometry import pose_multiply, quat_from_rotvec, quat_multiply
from robot_rl.types import (
    ArmLimits,
    Array,
    Box,
    Compliance,
    ConfigError,
    Fault,
    JointTarget,
    LimitFlags,
)
from tests.controllers import truth
from tests.controllers.bench import GIVEN, HARDWARE, LIMITS, SETUP, TASK
from tests.controllers.truth import Rows, TrueArm

LATCH_TICKS = 2
BRAKING_TICKS = 100
REST_TICKS, FAULT_REST_TICKS = 100, 400
"""After the lease has run out (with one of 0.3 s that is 0.4 s after the command), and after a
fault.
"""

RETREAT_TICKS = 1000
"""An arm that backs away from a hard blow is at rest later."""

FURTHER = (0.002, 0.01)
"""[m] of the tool, [rad] of a joint: motion after it has come to rest."""

EXCURSION = {
    "joint speed": LIMITS.joint_speed_margin, "tool speed": 0.25, "tool turn": 0.6, "joint range": LIMITS.joint_margin,
    "workspace": 0.03, "keep out": 0.03, "body keep out": 0.03, "body room": 0.03,
}  # fmt: skip
"""[rad/s], [m/s], [rad/s], [rad], [m]: by how much more a limit is exceeded after its fault has
been latched.
"""

SPEEDS = ("joint speed", "tool speed", "tool turn")
MARGINS = dict.fromkeys(
    ("workspace", "keep out", "body keep out", "body room"), LIMITS.workspace_margin_m
)
FORCE_SLACK_N, FORCE_LATCH_TICKS = 8.0, 10
"""The arm estimates the force from its joints, one part in ten off, and feels a rise a little
later.
"""

THROWN_TICKS = 300
"""For so long an arm that was thrown or torn from outside is not blamed for its speed."""

GUIDED_TICKS = 1000
QUIET_TICKS = 1400
"""Nobody speaks at the end of a bout: 0.3 s of lease, 0.1 s to come to rest, a second to stay
there.
"""

TEAR = 1.3
"""A joint is torn at until it is so much faster than it may be."""

IMPACT_N, IMPACT_NS_PER_M = 50.0, 1000.0
"""[N] + [N/(m/s)] x the largest reference speed: above the worst filtered peaks of
benchmarks/impact.py.
"""

PARDON_M, PARDON_RAD = 0.005, 0.01
"""An arm that was acknowledged outside goes no further out than this."""

CONE_SLACK = 0.1
"""[rad] beyond the cone that the task's own compliance lets contact and lag turn the tool. It is no
fault.
"""

BODIES = TrueArm.facts.bodies
ROOM = Box((-0.6, -0.9, 0.0), (0.9, 0.9, 1.3))
"""Table and walls for the links [m]."""

ELBOW = np.array([-1.0, 0.0, 0.97, 0.0, -0.33, 0.0, 0.24])
"""At home the tool hardly moves when the joints do so: the elbow swings aside."""

FIELDS = ("q", "dq", "pose", "wrench", "coriolis", "jacobian")
BAD_NUMBERS = (math.nan, math.inf, -math.inf)
MODES = ("pose", "joint")


@dataclass(frozen=True)
class Scenario:
    """A kind of attack: with which commands, which compliance, in front of what, and what happens
    meanwhile.

    `gap_ms` bounds the time from one command to the next. `event` is what else happens, at a random
    moment.
    """

    name: str
    modes: tuple[str, ...] = MODES
    compliance: str = "task"
    tunes: bool = False
    boxes_m: float = 0.0
    room: bool = False
    event: str = ""
    gap_ms: tuple[int, int] = (2, 200)


SCENARIOS = (
    Scenario("targets", ("pose",)),
    Scenario("sprints", ("pose",), gap_ms=(20, 100), event="sprint"),
    Scenario("joint moves", ("joint",), gap_ms=(50, 200)),
    Scenario("everything at once"),
    Scenario("tuned targets", ("pose",), tunes=True),
    Scenario("tuned joint moves", ("joint",), tunes=True),
    Scenario("any compliance, targets", ("pose",), "any"),
    Scenario("any compliance, joint moves", ("joint",), "any"),
    Scenario("any compliance, tuned", MODES, "any", tunes=True),
    Scenario("posture far away", MODES, "posture"),
    Scenario("box of 200 mm", boxes_m=0.2),
    Scenario("box of 40 mm", boxes_m=0.04),
    Scenario("box of 10 mm", boxes_m=0.01),
    Scenario("joint moves at a box of 40 mm", ("joint",), boxes_m=0.04, gap_ms=(50, 200)),
    Scenario("joint moves in a room", ("joint",), room=True, gap_ms=(50, 200)),
    Scenario("a room and a box", boxes_m=0.1, room=True),
    *(Scenario(f"spoilt {name} in a {mode}", (mode,), event=f"spoilt {name}", gap_ms=(20, 90))
      for name in FIELDS for mode in MODES),
    *(Scenario(f"silence in a {mode}", (mode,), event="silence", gap_ms=(20, 90)) for mode in MODES),
    *(Scenario(f"bad command in a {mode}", (mode,), event="bad command", gap_ms=(20, 90)) for mode in MODES),
    *(Scenario(f"{event} in a {mode}", (mode,), event=event, gap_ms=(20, 90))
      for event in ("blow", "reflex", "overspeed") for mode in MODES),
    Scenario("guided by hand", event="guided"),
    Scenario("outside", event="outside"),
    Scenario("outside, joint moves", ("joint",), event="outside", gap_ms=(50, 200)),
    Scenario("set up anew", event="configure"),
    Scenario("world reset", event="reset"),
    Scenario("hostile set-ups", event="hostile set-up"),
)  # fmt: skip


@dataclass(frozen=True)
class Violation:
    """What the truth showed that may not be, with what it takes to see it again."""

    what: str
    amount: float
    ticks: int
    tick: int
    bout: int
    scenario: str

    def __str__(self) -> str:
        return (f"{self.what}: {self.amount:.4g}, {self.ticks} ticks, first at tick {self.tick} of "
                f"--bout {self.bout} ({self.scenario})")  # fmt: skip


@dataclass
class Log:
    """What the attacker knows per tick, beside the rows of truth, and what was done."""

    limits: ArmLimits
    scenario: Scenario
    bout: int
    faults: list[int] = field(default_factory=list)
    moving: list[bool] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    retreats: list[int] = field(default_factory=list)
    found: list[Violation] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, amount: float, ticks: int, tick: int) -> None:
        self.found.append(
            Violation(what, float(amount), int(ticks), int(tick), self.bout, self.scenario.name)
        )


# ------------------------------------------------------------------------------------- what is sent


def random_compliance(rng: np.random.Generator, posture_only: bool = False) -> Compliance:
    """A compliance that the arm's door lets in, the nastier the better: stiff or limp, hardly
    damped, far posture.
    """
    mass, hardest = (
        np.array([1.0] * 3 + [0.1] * 3),
        np.array([LIMITS.max_force] * 3 + [LIMITS.max_moment] * 3),
    )
    for _ in range(500):
        margin = LIMITS.joint_margin
        posture = rng.uniform(
            np.array(LIMITS.joint_low) + margin, np.array(LIMITS.joint_high) - margin
        )
        pulls = {
            "posture": tuple(posture) if rng.random() < 0.7 else (),
            "nullspace_stiffness": _log(rng, 1.0, 100.0),
        }
        if posture_only:
            wanted = replace(TASK.compliance, **pulls)
        else:
            stiffness = np.concatenate((_log(rng, 50.0, 6000.0, 3), _log(rng, 2.0, 300.0, 3)))
            damping = 2.0 * _log(rng, 0.5, 4.0, 6) * np.sqrt(stiffness * mass)
            damping = np.minimum(damping, (400.0,) * 3 + (30.0,) * 3)
            clip = np.concatenate((_log(rng, 0.001, 0.1, 3), _log(rng, 0.01, 0.5, 3)))
            clip = np.minimum(clip, hardest / stiffness)
            minus = clip * rng.uniform(0.1, 1.0, 6) if rng.random() < 0.3 else ()
            integral = np.concatenate((rng.uniform(0.0, 1e4, 3), rng.uniform(0.0, 500.0, 3)))
            wanted = Compliance(
                tuple(stiffness), tuple(damping), tuple(clip), float(rng.choice([0.0, 0.005, 0.05])),
                error_clip_minus=tuple(minus), integral=tuple(integral * (rng.random() < 0.3)),
                gain_time_s=float(rng.choice([0.02, 0.05, 0.1])), **pulls,
            )  # fmt: skip
        try:
            check_setup(replace(SETUP, compliance=wanted), LIMITS, 7)
        except ConfigError:
            continue
        return wanted
    return TASK.compliance


def hostile_setup(rng: np.random.Generator, setup: ArmSetup) -> ArmSetup:
    """A law with numbers whose squares and sums are none, as the arm's door never lets it in.

    The tool is the task's: where that is, the witness asks the arm.
    """
    number = float(rng.choice([1e30, 1e100, 1.7e308]) * rng.choice([-1.0, 1.0]))
    change = str(rng.choice(["posture", "stiffness", "damping", "error_clip", "integral"]))
    changes: dict[str, Any] = {
        change: (number,) * (7 if change == "posture" else 6),
        "nullspace_stiffness": 100.0,
    }
    out = replace(setup, compliance=replace(setup.compliance, **changes))
    try:
        check_setup(out, LIMITS, 7)
    except ConfigError:
        return out
    raise AssertionError(f"the arm's door lets this in: {out}")


def _log(rng: np.random.Generator, low: float, high: float, size: int | None = None):
    return np.exp(rng.uniform(math.log(low), math.log(high), size))


def random_boxes(rng: np.random.Generator, arm: TrueArm, thickness: float) -> tuple[Box, ...]:
    """Two keep-out boxes of that thickness on a random axis, near tool or links, which do not touch
    the arm at home.
    """
    tip, links, turns = arm.tool_at(np.array(HARDWARE.home))
    ends = truth.rods(links.reshape(1, -1), turns.reshape(1, -1), BODIES)
    radius = np.array([body.radius_m for body in BODIES])
    out: list[Box] = []
    while len(out) < 2:
        near = tip if len(out) == 0 else ends[0, rng.integers(len(BODIES)), 0]
        half = rng.uniform(0.05, 0.2, 3)
        axis = rng.integers(3)
        half[axis] = 0.5 * thickness
        middle = near + rng.uniform(-0.25, 0.25, 3)
        low, high = middle - half, middle + half
        if (
            truth.box_distance(tip, low, high) > 0.02
            and truth.depth_in_box(ends, radius, low, high)[0] < -0.02
        ):
            out.append(Box(tuple(low), tuple(high)))
    return tuple(out)


class Attacker:
    """One bout: a fresh loop on the arm, its commands and events, all from one seed."""

    def __init__(self, arm: TrueArm, ring: Ring, bout: int, ticks: int = 3000):
        self.scenario = SCENARIOS[bout % len(SCENARIOS)]
        self.rng = rng = np.random.default_rng([20, bout])
        self.arm, self.ticks = arm, int(ticks * rng.uniform(0.6, 1.0))
        arm.reset(bout)
        arm.rows.count[0] = 0
        limits = LIMITS
        if self.scenario.boxes_m:
            limits = replace(limits, keep_out=random_boxes(rng, arm, self.scenario.boxes_m))
        if self.scenario.room:
            limits = replace(limits, body_low=ROOM.low, body_high=ROOM.high)
        self.setup = replace(SETUP, limits=limits)
        if self.scenario.compliance != "task":
            self.setup = replace(
                self.setup, compliance=random_compliance(rng, self.scenario.compliance == "posture")
            )
        if rng.random() < 0.5:
            self.setup = replace(self.setup, leash_translation=0.5, leash_rotation=1.5)
        check_setup(self.setup, LIMITS, 7)
        self.loop = ArmLoop(arm, self.setup, ring)
        self.log = Log(limits, self.scenario, bout)
        self.goal_refused = False
        self.mode, self.until = "pose", -math.inf
        self.goal, self.corner, self.sign = np.array(HARDWARE.home), self._corner(), 1.0
        self.clean = self.scenario.event not in (
            "",
            "configure",
            "guided",
            "outside",
            "sprint",
            "reset",
        )
        self.event_at = int(self.ticks * rng.uniform(0.2, 0.6)) if self.scenario.event else -1
        if self.scenario.event in ("guided", "outside"):
            self.ticks += 2 * GUIDED_TICKS  # somebody guides the arm, then looks at it for as long
        self.quiet_from, self.ended = self.ticks, -1
        self.acknowledge_at = self.torn = -1

    def play(self) -> Log:
        """The attack, then silence; the log is to be judged together with the arm's rows."""
        rng, loop, log, next_at = self.rng, self.loop, self.log, 0
        arm = self.arm
        low_ms, high_ms = self.scenario.gap_ms
        for i in range(self.ticks + QUIET_TICKS):
            if i == self.event_at:
                self._begin_event(i)
            if (
                self.torn >= 0
                and arm.rows.get("dq")[-1, self.torn] ** 2
                > (TEAR * LIMITS.max_joint_speed[self.torn]) ** 2
            ):
                self.ended = i
            if i == self.ended:
                self._end_event()
            if loop.fault and self.acknowledge_at < i:
                self.acknowledge_at = i + int(
                    (rng.integers(1, 50), rng.integers(100, 500), 900)[rng.integers(3)]
                )
            if i == self.acknowledge_at and i < self.ticks:
                self._acknowledge(i)
            if i >= next_at and i < self.quiet_from:
                self._send()
                next_at = i + int(rng.integers(low_ms, high_ms))
            loop.tick(loop.t + 0.001)
            fault, holding = int(loop.fault), loop.holding
            log.faults.append(fault)
            log.moving.append(not holding and not fault)
            log.modes.append(self.mode)
            if log.moving[-1] and loop.t > self.until + 0.002:
                log.add("the lease does not end", loop.t - self.until, 1, i)
                self.until = math.inf
        log.done["ticks"] += len(log.faults)
        log.done["ticks in motion"] += sum(log.moving)
        for mode, moving in zip(log.modes, log.moving, strict=True):
            log.done[f"ticks in a {mode}"] += moving
        return log

    # ------------------------------------------------------------------------------------- commands

    def _send(self) -> None:
        rng, loop = self.rng, self.loop
        mode = str(rng.choice(self.scenario.modes))
        if self.scenario.tunes and rng.random() < 0.3:
            loop.tune(random_compliance(rng))
            self.log.done["tunings"] += 1
        expires, seen_t = loop.t + rng.uniform(0.05, 0.3), loop.t
        if not self.clean and rng.random() < 0.1:
            seen_t += rng.uniform(-3.0, 1.0)
        free = not loop.fault
        if mode == "pose":
            pose = self._pose()
            loop.command(pose, expires, seen_t)
            if free and not loop.fault and not loop.holding:
                self._look_at_target()
        else:
            loop.move_joints(self._goal(), self._joint_speed, expires, seen_t)
            self.goal_refused = loop.state().verdict == LimitFlags.REFUSED_PATH
        self.log.done[f"{mode} commands"] += 1
        if free and not loop.fault:
            self.mode = mode
            self.until = max(self.until, expires) if self.until > loop.t else expires

    def _pose(self) -> Array:
        """A target: far away, in a corner, jumping, turned over, and now and then no pose at all."""
        rng, kind = self.rng, self.rng.integers(12)
        pose = np.empty(7)
        pose[:3] = rng.uniform(
            np.array(LIMITS.workspace_low) - 0.1, np.array(LIMITS.workspace_high) + 0.1
        )
        turn = rng.normal(size=3) * (0.8 if kind < 8 else 3.0)
        pose[3:] = quat_multiply(np.array(LIMITS.workspace_quat), quat_from_rotvec(turn))
        if self.scenario.event == "sprint" or self.clean:
            if rng.random() < 0.1:
                self.corner = self._corner()
            pose[:] = self.corner
        elif kind == 8:
            pose[3:] = quat_multiply(
                np.array(LIMITS.workspace_quat), quat_from_rotvec(np.array([3.12, 0.0, 0.0]))
            )
        elif kind == 9:  # to and fro
            self.sign = -self.sign
            pose[:3] = self.loop.state().pose_base_tcp[:3] + self.sign * np.array([0.2, 0.1, 0.1])
        elif kind == 10 and rng.random() < 0.2:
            pose[rng.integers(7)] = rng.choice([math.nan, math.inf, -math.inf, 1e308])
        elif kind == 11 and rng.random() < 0.3:
            pose[3:] *= rng.choice([-1.0, 0.0, 1e-30, 1.08, 1e150])
            pose[:3] *= 10.0 ** rng.choice([0.0, 3.0, 300.0])
        return pose

    def _corner(self) -> Array:
        """A corner of the workspace, tilted to the edge of the cone or beyond."""
        corner = np.where(self.rng.random(3) < 0.5, LIMITS.workspace_low, LIMITS.workspace_high)
        turn = self.rng.normal(size=3)
        turn *= self.rng.uniform(0.0, 1.0) / np.linalg.norm(turn)
        return np.concatenate((
            corner,
            quat_multiply(np.array(LIMITS.workspace_quat), quat_from_rotvec(turn)),
        ))

    def _goal(self) -> Array:
        """A posture anywhere in the range, or near; kept for a while, since a move wants repeating."""
        rng = self.rng
        low = np.array(LIMITS.joint_low) + LIMITS.joint_margin
        high = np.array(LIMITS.joint_high) - LIMITS.joint_margin
        if rng.random() < 0.15 or not self.log.done["joint commands"] or self.goal_refused:
            home, kind = np.array(HARDWARE.home), rng.random()
            if kind < 0.5:
                goal = home + rng.uniform(-1.0, 1.0) * ELBOW + rng.uniform(-0.1, 0.1, 7)
            elif kind < 0.75:
                # it may be spoilt
                goal = np.nan_to_num(self.loop.state().q) + rng.uniform(-0.3, 0.3, 7)
            else:
                goal = rng.uniform(low, high)
            self.goal = np.clip(goal, low, high)
            self._joint_speed = float(
                rng.uniform(0.3, 1.0) * (min(LIMITS.max_joint_speed) - LIMITS.joint_speed_margin)
            )
            check_joint_target(JointTarget(self.goal, 0.1, self._joint_speed), LIMITS)
        return self.goal

    def _look_at_target(self) -> None:
        state, limits = self.loop.state(), self.log.limits
        if state.verdict.refused:
            return
        target = state.target_base_tcp
        beyond = np.maximum(
            np.array(limits.workspace_low) - target[:3],
            target[:3] - np.array(limits.workspace_high),
        )
        angle = 2.0 * math.acos(min(1.0, abs(float(target[3:] @ limits.workspace_quat))))
        tick = len(self.log.faults)
        if beyond.max() > 1e-9:
            self.log.add("target outside the workspace", beyond.max(), 1, tick)
        if angle > limits.workspace_angle + 1e-6:
            self.log.add("target outside the cone", angle - limits.workspace_angle, 1, tick)
        for box in limits.keep_out:
            low, high = np.array(box.low), np.array(box.high)
            depth = -truth.box_distance(target[:3], low, high)
            if (
                depth > 1e-9
                and depth > -truth.box_distance(state.pose_base_tcp[:3], low, high) + 1e-9
            ):
                self.log.add("target in a keep-out box", float(depth), 1, tick)

    def _acknowledge(self, tick: int) -> None:
        self.loop.acknowledge()
        self.log.done["acknowledgements"] += 1
        if not self.loop.fault:
            self.log.acknowledged.append(tick)

    # --------------------------------------------------------------------------------------- events

    def _begin_event(self, i: int) -> None:
        rng, arm, loop = self.rng, self.arm, self.loop
        kind, *rest = self.scenario.event.split()
        lasts = 0
        self.log.done[self.scenario.event] += 1
        if kind == "spoilt":
            number = float(rng.choice(BAD_NUMBERS))
            arm.spoilt = {
                rest[0]: number if rng.random() < 0.5 else (int(rng.integers(42)), number)
            }
            lasts = int(rng.integers(1, 51))
        elif kind == "silence":
            self.quiet_from = i
        elif kind == "bad":
            if self.mode == "joint":
                loop.move_joints(np.full(7, math.nan), 0.5, loop.t + 0.3, loop.t)
            else:
                loop.command(np.full(7, math.nan), loop.t + 0.3, loop.t)
            if loop.fault != Fault.TARGET_NOT_FINITE:
                self.log.add("a command that is none latches nothing", 1.0, 1, i)
        elif kind == "blow":
            force = rng.normal(size=3)
            force *= rng.uniform(90.0, 250.0) / np.linalg.norm(force)
            arm.push_hand[:3] = arm.felt[:3] = force
            if np.linalg.norm(force) > LIMITS.retreat_force:
                self.log.retreats.append(i)
            lasts = int(rng.integers(5, 15))
        elif kind == "overspeed":  # somebody tears at a joint
            joint = int(rng.integers(7))
            arm.guide[joint] = float(rng.choice([-1.0, 1.0])) * (250.0 if joint < 4 else 40.0)
            self.torn, lasts = joint, 100
        elif kind == "reflex":
            arm.stop_by_itself(
                Fault(int(rng.choice([Fault.REFLEX, Fault.USER_STOP, Fault.COMMUNICATION])))
            )
        elif kind in ("guided", "outside"):
            arm.stop_by_itself(Fault.USER_STOP)
            torque = rng.uniform(-1.0, 1.0, 7) * np.array([15.0, 15.0, 15.0, 15.0, 3.0, 3.0, 3.0])
            if kind == "outside":
                torque[0] = float(rng.choice([-1.0, 1.0])) * 30.0
            arm.guide[:] = torque
            self.acknowledge_at = i + 2 * GUIDED_TICKS
            lasts = GUIDED_TICKS
        elif kind == "configure":
            tool = pose_multiply(np.array(HARDWARE.pose_flange_tcp), np.array([0.0, 0.0, rng.uniform(-0.03, 0.1),
                                                                              0.0, 0.0, 0.0, 1.0]))  # fmt: skip
            compliance = random_compliance(rng)
            self.log.breaks.append(i)
            loop.configure(ArmSetup(tool, compliance, self.log.limits, 0.1, 0.5))
            self.event_at = i + int(rng.integers(50, 800))
        elif kind == "hostile":  # past the door
            self.log.breaks.append(i)
            loop.configure(hostile_setup(rng, self.setup))
            lasts = 100
            self.event_at = i + int(rng.integers(400, 900))
        elif kind == "reset":
            loop.reset(int(rng.integers(1 << 30)))
            self.log.breaks.append(i)
            self.log.resets.append(i)
            self.event_at = i + int(rng.integers(200, 1000))
        self.ended = i + lasts if lasts else -1

    def _end_event(self) -> None:
        arm = self.arm
        self.torn = -1
        if self.scenario.event == "hostile set-up":
            self.log.breaks.append(len(self.log.faults))
            self.loop.configure(self.setup)
        arm.spoilt = {}
        arm.felt[:] = arm.push_hand[:] = arm.guide[:] = 0.0


# ----------------------------------------------------------------------------------- what is judged


def judge(rows: Rows, log: Log) -> dict[str, tuple[float, int, int]]:
    """Add to `log.found` what the truth shows; returns per limit (worst excess, ticks without and
    with a fault).
    """
    limits = log.limits
    bodies = BODIES if limits.keep_out or limits.body_low else ()
    faults, table = np.array(log.faults), {}
    assert len(rows) == len(faults), "a tick without a row of truth"
    excess = truth.excesses(rows, limits, bodies)
    forced, own = rows.get("forced") > 0, rows.get("own") > 0
    thrown = np.convolve(forced | own, np.ones(THROWN_TICKS))[: len(faults)] > 0.0
    excess["torque"][own] = excess["torque rate"][own] = -1.0
    excess["torque rate"][[0, *log.resets]] = -1.0
    since = _ticks_since_fault(faults)
    soon = np.array([faults[k : k + 1 + LATCH_TICKS].any() for k in range(len(faults))])
    for name, beyond in excess.items():
        if name in ("force", "cone"):
            continue
        beyond = beyond - MARGINS.get(name, 0.0)
        if name in ("torque", "torque rate"):
            bad = beyond > 1e-6
            _report(log, name, beyond, bad)
        elif name == "filtered force":
            late = np.array([
                not faults[k : k + FORCE_LATCH_TICKS].any() for k in range(len(faults))
            ])
            _report(log, f"{name} without a fault", beyond, (beyond > FORCE_SLACK_N) & late)
            hardest = IMPACT_N + IMPACT_NS_PER_M * limits.max_reference_speed - limits.max_force
            _report(log, f"{name} beyond that of an impact", beyond, (beyond > hardest) & ~thrown)
        else:
            beyond = np.where(thrown, -1.0, beyond - _pardon(excess[name], name, log, thrown))
            _report(log, f"{name} without a fault", beyond, (beyond > 1e-6) & ~soon)
            long = (since > BRAKING_TICKS) & (beyond > 1e-6) if name in SPEEDS else False
            _report(
                log, f"{name} after a fault", beyond, soon & ((beyond > EXCURSION[name]) | long)
            )
        over = beyond > 1e-6
        table[name] = (float(beyond.max()), int((over & ~soon).sum()), int((over & soon).sum()))
    _judge_cone(excess["cone"], faults, thrown, log)
    _judge_rests(rows, log, faults, forced | own)
    raw = excess["force"]
    table["force"] = (
        float(raw.max()),
        int(((raw > 0.0) & ~soon).sum()),
        int(((raw > 0.0) & soon).sum()),
    )
    table["cone"] = (float(excess["cone"].max()), int((excess["cone"] > 0.0).sum()), 0)
    return table


def _report(log: Log, what: str, amount: Array, bad: Array) -> None:
    if bad.any():
        log.add(what, amount[bad].max(), bad.sum(), int(np.flatnonzero(bad)[0]))


def _ticks_since_fault(faults: Array) -> Array:
    """For how many ticks a fault has been latched; 0 without one."""
    out = np.zeros(len(faults), int)
    for k in np.flatnonzero(faults):
        out[k] = out[k - 1] + 1 if k else 1
    return out


def _pardon(excess: Array, name: str, log: Log, forced: Array) -> Array:
    """What was already beyond a margin when it was acknowledged (or pushed there) may be so until
    it is back in.
    """
    out = np.zeros(len(excess))
    if name in SPEEDS:
        return out
    margin, slack = MARGINS.get(name, 0.0), PARDON_RAD if name == "joint range" else PARDON_M
    moments, now = set(log.acknowledged), 0.0
    for k in np.flatnonzero((excess > 0.0) | forced):
        if k == 0 or not (excess[k - 1] > 0.0 or forced[k - 1]):
            now = 0.0
        if forced[k] or k in moments:
            now = max(excess[k] - margin + slack, 0.0)
        out[k] = now
    return out


def _judge_cone(beyond: Array, faults: Array, forced: Array, log: Log) -> None:
    if log.scenario.compliance != "task" or log.scenario.tunes or log.scenario.event in ("configure", "outside",
                                                                                        "guided"):  # fmt: skip
        return
    pose = (
        np.array([mode == "pose" for mode in log.modes])
        & np.array(log.moving)
        & ~forced
        & (faults == 0)
    )
    if set(log.scenario.modes) == {"pose"}:
        _report(log, "cone", beyond, pose & (beyond > CONE_SLACK))


def _judge_rests(rows: Rows, log: Log, faults: Array, pushed: Array) -> None:
    """Each time that the arm should stand: in time, and it stays."""
    at_rest, count, moving = truth.is_at_rest(rows), len(faults), np.array(log.moving)
    starts: set[int] = {
        k
        for k in range(1, count)
        if not moving[k] and (moving[k - 1] or faults[k] > faults[k - 1] == 0)
    }
    starts |= {k for k in log.acknowledged if k < count and not moving[k]}
    starts |= {int(k) for k in np.flatnonzero(~pushed[1:] & pushed[:-1]) + 1 if not moving[k]}
    edges = sorted(starts | set(log.breaks) | {count})
    for begin, next_start in pairwise(edges):
        busy = np.flatnonzero(moving[begin:next_start] | pushed[begin:next_start])
        end = begin + int(busy[0]) if len(busy) else next_start
        mode = log.modes[begin]
        rest = FAULT_REST_TICKS if faults[begin] or pushed[begin - 1] else REST_TICKS
        if any(begin - 1600 < k <= begin for k in log.retreats):
            rest = RETREAT_TICKS
        acknowledged = begin in log.acknowledged and at_rest[max(begin - 300, 0) : begin].all()
        first = begin if acknowledged else begin + rest
        if end - first < 20:
            continue
        log.done["rests judged"] += 1
        why = (
            "an acknowledgement"
            if acknowledged
            else Fault(int(faults[begin])).name
            if faults[begin]
            else "a lease"
        )
        if not acknowledged and not at_rest[first:end].all():
            late = begin + truth.time_to_rest(at_rest[begin:end])
            speed = float(np.linalg.norm(truth.twists(rows)[first:end, :3], axis=1).max())
            turn = float(np.abs(rows.get("dq")[first:end]).max())
            log.add(f"not at rest in time after {why} ({mode}; {speed:.2f} m/s, {turn:.2f} rad/s) [s]",
                    0.001 * (late - begin), late - first, begin)  # fmt: skip
        tool, joint = truth.further_motion(rows, first, end)
        if tool > FURTHER[0] or joint > FURTHER[1]:
            log.add(
                f"further motion after {why} ({mode}; joint {joint:.3f} rad) [m]",
                tool,
                end - first,
                begin,
            )


def summary(
    found: list[Violation], table: dict[str, tuple[float, int, int]], done: Counter[str]
) -> str:
    """What was done, the worst of each limit, and each kind of violation with its worst bout."""
    lines = [", ".join(f"{count} {what}" for what, count in sorted(done.items()))]
    lines += [f"{'limit':16} {'worst excess':>12} {'ticks':>8} {'with a fault':>12}"]
    lines += [
        f"{name:16} {worst:12.4g} {free:8} {after:12}"
        for name, (worst, free, after) in table.items()
    ]
    kinds: dict[str, list[Violation]] = {}
    for one in found:
        kinds.setdefault(one.what.split("(")[0], []).append(one)
    for group in kinds.values():
        worst_one = max(group, key=lambda one: one.amount)
        lines.append(f"VIOLATED in {len({one.bout for one in group})} bouts: {worst_one}")
    return "\n".join(lines)


def attack(
    arm: TrueArm, ring: Ring, bouts: range, until_ticks: float = math.inf, ticks: int = 3000
):
    """Play and judge bouts: (violations, worst per limit, what was done)."""
    found: list[Violation] = []
    table: dict[str, tuple[float, int, int]] = {}
    done: Counter[str] = Counter()
    for bout in bouts:
        log = Attacker(arm, ring, bout, ticks).play()
        for name, (worst, free, after) in judge(arm.rows, log).items():
            last = table.get(name, (-math.inf, 0, 0))
            table[name] = (max(worst, last[0]), free + last[1], after + last[2])
        found += log.found
        done += log.done
        if done["ticks"] >= until_ticks:
            break
    return found, table, done


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Attack an arm with a body, and look at what it really does."
    )
    parser.add_argument(
        "--ticks", type=float, default=1e7, help="how many ticks; the short form has 1e6"
    )
    parser.add_argument(
        "--bout", type=int, help="play this bout alone, and print all that is wrong with it"
    )
    parser.add_argument("--first", type=int, default=0, help="begin with this bout")
    options = parser.parse_args()
    arm, ring = TrueArm(Options(), GIVEN), Ring(7)
    begun = time.monotonic()
    if options.bout is not None:
        found, table, done = attack(arm, ring, range(options.bout, options.bout + 1))
        print(summary([], table, done), *found, sep="\n")
        return bool(found)
    bouts = range(options.first, sys.maxsize)
    found, table, done = attack(arm, ring, bouts, options.ticks)
    print(summary(found, table, done))
    print(f"{time.monotonic() - begun:.0f} s: {len(found)} violations")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
