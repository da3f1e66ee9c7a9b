"""How fast each part is on this machine: one row per part, and what it has to keep up with.

`robot-rl benchmark` prints a table, with `--json` one object of numbers. Everything runs as in a
run: the arm in a process of its own, steps over a real link into a log on disk, updates compiled.
Nothing else should run meanwhile.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Hardware, ObsKind, Task, arms_by_process
from robot_rl.config.judge import TRUTH
from robot_rl.config.limits import MOST_KEEP_OUT
from robot_rl.controllers.impedance import filter_reference, impedance_torque
from robot_rl.controllers.kinematics import body_clearance, capsules_of, chain_of
from robot_rl.controllers.setup import open_driver
from robot_rl.interfaces import Given
from robot_rl.machine.compiled import njit
from robot_rl.tools.benchmark_learner import measure_learning, measure_link
from robot_rl.tools.benchmark_rows import Row, Sizes, machine, median, table
from robot_rl.types import Array, DeviceError

TASK, HARDWARE = "peg_insert", "sim_panda"


def run_benchmark(json: bool = False, sizes: Sizes | None = None) -> None:
    """Measure every part and print a table on stdout, or one JSON object of numbers and the
    machine's description.
    """
    from robot_rl.machine.terminal import terminal

    task, hardware = config.load_task(TASK), config.load_hardware(HARDWARE)
    task = config.with_judge(task, TRUTH)  # no classifier is needed to measure speeds
    rows: list[Row] = []
    parts = (
        measure_law,
        measure_env,
        measure_cameras,
        measure_jitter,
        measure_link,
        measure_learning,
    )
    for part in parts:
        try:
            rows += part(task, hardware, sizes or Sizes())
        except DeviceError as error:  # no headless GL: the other rows are still worth having
            print(f"robot-rl: {part.__name__}: {error}", file=sys.stderr)
    if json:
        print(dumps({"machine": machine()} | {row.name: row.value for row in rows}, indent=2))
    else:
        terminal().print(table(rows))


def measure_law(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """The control law alone, called from compiled code as the loop calls it."""
    arm = open_driver(hardware.arms[0], task.scene)
    reading, compliance = arm.read(), task.compliance
    clip = compliance.error_clip
    gains = np.array([compliance.stiffness, compliance.damping, clip, clip, compliance.integral])
    target = geometry.pose_move(reading.pose, np.array([0.01, 0.0, 0.0, 0.0, 0.0, 0.05]))
    measured = (reading.q, reading.dq, reading.coriolis, reading.pose, reading.jacobian)
    arguments = (target, *measured, reading.q.copy(), gains, compliance.nullspace_stiffness)
    repeat_law(1, *arguments)  # compiles
    portion = max(sizes.law_calls // 20, 1)
    seconds = median(lambda: repeat_law(portion, *arguments), 20) / portion
    arm.close()
    rows = [
        Row(
            "law_us", 1e6 * seconds, "us", "per tick of 1000 us; reference filter and impedance law"
        )
    ]
    chain, capsules = chain_of(arm.facts, arm.joints), capsules_of(arm.facts.bodies)
    for boxes in (0, MOST_KEEP_OUT):
        around = np.tile([[0.3, 0.3, 0.0], [0.5, 0.5, 0.3]], (boxes, 1, 1))
        looks = partial(repeat_clearance, portion, reading.q, chain, capsules, around)
        looks()  # compiles
        what = (
            f"elbow, forearm, wrist and hand to table, walls and {boxes} boxes; once or twice a"
            " tick"
        )
        rows.append(Row(f"bodies_{boxes}_boxes_us", 1e6 * median(looks, 20) / portion, "us", what))
    return rows


@njit
def repeat_clearance(n: int, q: Array, chain: Array, capsules: Array, boxes: Array) -> float:
    """`n` looks at what the guarded bodies come near."""
    room, total = np.array([[-1.2, -1.2, 0.0], [1.2, 1.2, 1.6]]), 0.0
    for i in range(n):
        total += body_clearance(q + 1e-9 * i, chain, capsules, room, boxes)[0]
    return total


@njit
def repeat_law(
    n: int,
    target: Array,
    q: Array,
    dq: Array,
    coriolis: Array,
    pose: Array,
    jacobian: Array,
    posture: Array,
    gains: Array,
    nullspace_stiffness: float,
) -> float:
    """`n` ticks of reference filter and torque law; the sum keeps the compiler from leaving them
    out.
    """
    reference, nothing, total = pose.copy(), np.zeros(6), 0.0
    for _ in range(n):
        reference = filter_reference(reference, target, 0.02, 0.00025, 0.001)
        tau = impedance_torque(
            q, dq, coriolis, pose, jacobian, reference, posture, gains, nullspace_stiffness, nothing
        )
        total += tau[0]
    return total


def measure_env(task: Task, hardware: Hardware, sizes: Sizes, obs: ObsKind = "state") -> list[Row]:
    """`RobotEnv.step` through a lockstep arm process, an operator inserting the peg, contact
    included.
    """
    from robot_rl.operator.mapping import open_operator

    with lockstep_env(task, hardware, obs) as env:
        given = Given(task=task, world=env.world, mode="demonstrate")
        operator = open_operator(hardware, given, env.space_spec.actions)
        seconds: list[float] = []
        while len(seconds) < sizes.env_steps:
            env.reset(seed=len(seconds))
            operator.begin_episode()
            done = False
            while not done and len(seconds) < sizes.env_steps:
                action = operator.read(env.arm_states).action
                begun = time.perf_counter()
                _, _, terminated, truncated, _ = env.step(action)
                seconds.append(time.perf_counter() - begun)
                done = terminated or truncated
        step_s, period_s = float(np.mean(seconds)), env.period_s
    asked = {"state": "40 asked for", "pixels": "20 asked for; two cameras, 128 px"}[obs]
    return [
        Row(f"env_step_{obs}_ms", 1e3 * step_s, "ms", f"a period of {1e3 * period_s:.0f} ms"),
        Row(f"env_step_{obs}_realtime", period_s / step_s, "x real time", asked),
    ]


def measure_cameras(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """The same step with two cameras drawn for each observation."""
    return measure_env(task, hardware, sizes, "pixels")


@contextmanager
def lockstep_env(task: Task, hardware: Hardware, obs: ObsKind) -> Iterator[Any]:
    """A `RobotEnv` on arm processes of its own."""
    from robot_rl.controllers.client import ArmClient
    from robot_rl.env.robot import RobotEnv
    from robot_rl.links.sockets import free_addresses
    from robot_rl.machine.processes import Supervisor

    addresses = free_addresses(len(hardware.arms))
    arms = tuple(
        replace(arm, address=address) for arm, address in zip(hardware.arms, addresses, strict=True)
    )
    with tempfile.TemporaryDirectory() as folder, Supervisor(Path(folder)) as processes:
        for served in arms_by_process(replace(hardware, arms=arms)):
            there = [arm.address for arm in served]
            of = ["--arm", served[0].name, "--task", task.name, "--clock", "lockstep"]
            processes.start(served[0].name, ["arm", hardware.name, *of, "--address", *there])
        for arm in arms:
            ArmClient(arm.address, each=processes.check).close()
        env = RobotEnv(task, replace(hardware, arms=arms), obs=obs)
        try:
            yield env
        finally:
            env.close()


def measure_jitter(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """The 1 kHz loop on the real clock, in its own process, by its own black box."""
    from robot_rl.controllers.recorder import T
    from robot_rl.controllers.served_arm import open_arm

    arm = open_arm(hardware.arms[0], task.scene, "real")
    try:
        # the first ticks after the start are not the loop's rhythm
        time.sleep(min(0.5, sizes.jitter_s))
        before = arm.stats()
        time.sleep(sizes.jitter_s)
        after = arm.stats()
        ticks, late = after.ticks - before.ticks, after.late_ticks - before.late_ticks
        periods = 1e6 * np.diff(arm.ring.copy(int(ticks))[:, T])
    finally:
        arm.close()
    half, nearly = np.percentile(periods, [50, 99]) if len(periods) else (np.nan, np.nan)
    return [
        Row("loop_period_p50_us", float(half), "us", "1000, real clock"),
        Row(
            "loop_period_p99_us", float(nearly), "us", "1000; a Panda stops after 20 lost in a row"
        ),
        Row("loop_late_per_mille", 1e3 * late / max(ticks, 1.0), "per mille", "late: 0.5 ms"),
        Row("loop_worst_late_ms", after.worst_late_ms, "ms", "since the start"),
    ]
