"""How fast each part is on this machine: one row per part, and what it has to keep up with.

`robot-rl benchmark` prints a table, with `--json` one object of numbers. Everything runs as in a
run: the arm in a process of its own, steps over a real link into a log on disk, updates compiled.
Nothing else should run meanwhile.
"""

import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Hardware, ObsKind, Task
from robot_rl.config.limits import MOST_KEEP_OUT
from robot_rl.controllers.impedance import filter_reference, impedance_torque
from robot_rl.controllers.kinematics import body_clearance, capsules_of, chain_of
from robot_rl.controllers.setup import open_driver
from robot_rl.interfaces import Given
from robot_rl.machine.compiled import njit
from robot_rl.types import Array, DeviceError, Provenance, SpaceSpec, Step

TASK, HARDWARE = "peg_insert", "sim_panda"


@dataclass(frozen=True)
class Sizes:
    """How much of each part is measured; the defaults take about half a minute, with nothing to
    compile 20 s.
    """

    law_calls: int = 100_000
    env_steps: int = 200
    jitter_s: float = 3.0
    link_steps: int = 400
    replay_steps: int = 3_000
    batches: int = 200
    updates: int = 100
    compile: bool = True


@dataclass(frozen=True)
class Row:
    """One number. `beside` says what to compare it with."""

    name: str
    value: float
    unit: str
    beside: str = ""


def run_benchmark(json: bool = False, sizes: Sizes = Sizes()) -> None:
    """Measure every part and print a table on stdout, or one JSON object of numbers and the
    machine's description.
    """
    from robot_rl.machine.terminal import terminal

    task, hardware = config.load_task(TASK), config.load_hardware(HARDWARE)
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
            rows += part(task, hardware, sizes)
        except DeviceError as error:  # no headless GL: the other rows are still worth having
            print(f"robot-rl: {part.__name__}: {error}", file=sys.stderr)
    if json:
        print(dumps({"machine": machine()} | {row.name: row.value for row in rows}, indent=2))
    else:
        terminal().print(table(rows))


def table(rows: list[Row]) -> Any:
    """The rows as a table for a terminal."""
    from rich.table import Table

    out = Table(title=", ".join(f"{name} {value}" for name, value in machine().items()))
    for heading in ("part", "value", "unit", "beside"):
        out.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        out.add_row(row.name, f"{row.value:.4g}", row.unit, row.beside)
    return out


def machine() -> dict[str, str | int]:
    """What the numbers were measured on."""
    import torch

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


# ------------------------------------------------------------------------------------------ the arm


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
        operator = open_operator(hardware, Given(task=task, world=env.world, mode="demonstrate"))
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
    from robot_rl.runs.processes import Supervisor

    addresses = free_addresses(len(hardware.arms))
    arms = tuple(
        replace(arm, address=address) for arm, address in zip(hardware.arms, addresses, strict=True)
    )
    with tempfile.TemporaryDirectory() as folder, Supervisor(Path(folder)) as processes:
        for arm in arms:
            of = [
                "arm",
                HARDWARE,
                "--arm",
                arm.name,
                "--task",
                TASK,
                "--clock",
                "lockstep",
                "--address",
                arm.address,
            ]
            processes.start(arm.name, of)
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
        time.sleep(
            min(0.5, sizes.jitter_s)
        )  # the first ticks after the start are not the loop's rhythm
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


# ----------------------------------------------------------------------------------------- the data


def measure_link(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """Steps with two images, from `send` until another process has them in its log and has said so."""
    from robot_rl.links.sockets import free_addresses
    from robot_rl.stream import StepSender

    space, (address,) = config.spaces(task, hardware, "pixels"), free_addresses(1)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        stop = context.Event()
        receiver = context.Process(
            target=persist, args=(address, Path(folder) / "steps.log", space, stop), daemon=True
        )
        receiver.start()
        sender = StepSender(address, space, spool=Path(folder) / "spool")
        step = next(random_steps(space, 1))
        try:
            sender.send(step)
            sender.drain(60.0)  # the receiver has started

            def there_and_back() -> None:
                sender.send(step)
                sender.drain(10.0)

            round_trip_s = median(there_and_back, sizes.link_steps)
            begun = time.perf_counter()
            for _ in range(sizes.link_steps):
                sender.send(step)
            sender.drain(60.0)
            per_s = sizes.link_steps / (time.perf_counter() - begun)
        finally:
            sender.close()
            stop.set()
            receiver.join(10.0)
    megabytes = sum(value.nbytes for value in step.observation.values()) / 1e6
    return [
        Row(
            "link_round_trip_ms",
            1e3 * round_trip_s,
            "ms",
            f"spooled, sent, logged, acknowledged; {megabytes:.2f} MB",
        ),
        Row("link_steps_per_s", per_s, "steps/s", f"{task.rate_hz:g} per arm on the real clock"),
    ]


def persist(address: str, path: Path, space: SpaceSpec, stop: Any) -> None:
    """The learner's end of the link, as `learner/loop.py` uses it, in a process of its own."""
    from robot_rl.stream import StepReceiver
    from robot_rl.stream.log import StepLog

    log = StepLog(path, space)
    receiver = StepReceiver(address, space, log.positions)
    while not stop.is_set():
        batch = receiver.receive(0.05)
        log.append_records([received.record for received in batch])
        receiver.ack(batch)
    receiver.close()
    log.close()


def random_steps(space: SpaceSpec, count: int, episode_steps: int = 50) -> Iterator[Step]:
    """Steps that fit the space and mean nothing, half of the episodes demonstrations."""
    rng = np.random.default_rng(0)
    zeros = np.zeros(space.action_size, np.float32)
    images = {
        name: rng.integers(0, 256, shape).astype(np.uint8)
        for name, (shape, dtype) in space.observations.items()
        if dtype == "uint8"
    }
    for number in range(count):
        episode, index = divmod(number, episode_steps)
        state = {
            name: 0.03 * rng.normal(size=shape).astype(np.float32)
            for name, (shape, dtype) in space.observations.items()
            if dtype != "uint8"
        }
        action = rng.uniform(-1.0, 1.0, space.action_size).astype(np.float32) if index else zeros
        end = index == episode_steps - 1
        author = Provenance.DEMO if episode % 2 == 0 else Provenance.POLICY
        yield Step(
            episode,
            index,
            state | images,
            action,
            action,
            action,
            float(end),
            end,
            False,
            author,
            0,
            0.1 * number,
            0.0,
        )


# ----------------------------------------------------------------------------------------- learning


def measure_learning(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """Batches, updates, actions and memory: from state, and from two cameras of 128 px by each kind
    of encoder.
    """
    import torch

    from robot_rl.learner.agents import rlpd
    from robot_rl.learner.options import LearnerConfig
    from robot_rl.networks.resnet10 import ResNet10, save_weights

    state, pixels = (config.spaces(task, hardware, obs) for obs in OBSERVATIONS)
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "resnet10.safetensors"
        save_weights(ResNet10(), weights)  # as fast as the published ones
        cases = (
            ("state", state, LearnerConfig()),
            ("pixels", pixels, LearnerConfig()),
            ("resnet10", pixels, LearnerConfig(encoder="resnet10", encoder_weights=str(weights))),
            (
                "end_to_end",
                pixels,
                LearnerConfig(agent=rlpd.Config(batch_size=64), encoder="end_to_end", threads=2),
            ),
        )
        try:
            return [
                row
                for name, space, learner in cases
                for row in _measure_learning(name, space, learner, sizes)
            ]
        finally:
            torch.set_num_threads(threads)


OBSERVATIONS: tuple[ObsKind, ...] = ("state", "pixels")
BARS = {
    "pixels": "; bar 100, HIL-SERL recomputes: 6900",
    "resnet10": "; bar 100, HIL-SERL recomputes: 6900",
    "end_to_end": "; bar 150, LeRobot: 600",
}
"""Of an update from two cameras of 128 px on two cores [ms]."""


def _measure_learning(name: str, space: SpaceSpec, learner: Any, sizes: Sizes) -> list[Row]:
    from robot_rl.learner.batches import Batches
    from robot_rl.learner.health import health
    from robot_rl.learner.memory import replay_for
    from robot_rl.learner.training import Training
    from robot_rl.networks.policy import LivePolicy

    learner = replace(learner, compile=sizes.compile)
    training = Training(space, learner, seed=0, run_steps=0)
    if sizes.compile:
        training.warm_up()
    size, rng = learner.agent.batch_size, np.random.default_rng(0)
    replay, batch_config = (
        replay_for(space, learner, training.agent.policy, sizes.replay_steps),
        training.batch_config,
    )
    shape = (batch_config.variants, training.agent.policy.cached_size)
    features = rng.normal(size=shape).astype(np.float16) if shape[1] else None
    for step in random_steps(space, sizes.replay_steps):
        replay.append(step, features)
    batches = Batches(replay, batch_config, rng)

    def batch() -> dict[str, Any]:
        return next(batches.draw(1))

    one = batch()
    sample_s = median(batch, sizes.batches)
    period = (
        learner.agent.actor_period
    )  # not every update moves the actor: the mean of whole rounds
    update_s = (
        median(lambda: [training.agent.update(one) for _ in range(period)], sizes.updates // period)
        / period
    )
    told_s = median(lambda: health(training.agent, replay, 0.97, learner.device), sizes.batches)
    policy, observation = (
        LivePolicy(training.spec, training.policy()),
        next(random_steps(space, 1)).observation,
    )
    act_s = median(lambda: policy.act(observation), sizes.updates)
    kept = "state" if not training.spec.cameras else "images, shifted"
    if shape[1]:
        kept = f"{shape[1]} cached numbers in {shape[0]} variants"
    work = (
        f"RLPD, {learner.agent.critics} critics, batch {size}; {learner.threads}"
        f" thread{'s' * (learner.threads > 1)}"
    )
    return [
        Row(f"sample_{name}_ms", 1e3 * sample_s, "ms", f"batch of {size}, {kept}"),
        Row(f"update_{name}_ms", 1e3 * update_s, "ms", work + BARS.get(name, "")),
        Row(
            f"updates_{name}_per_s",
            1.0 / (update_s + sample_s),
            "1/s",
            f"{learner.schedule.utd:g} per control step",
        ),
        Row(f"health_{name}_ms", 1e3 * told_s, "ms", "once per line of metrics, every 50 steps"),
        Row(f"act_{name}_ms", 1e3 * act_s, "ms", "one action; one thread"),
        Row(
            f"memory_{name}_kb_per_step",
            replay.bytes_per_step / 1e3,
            "kB",
            f"in the replay: {kept}",
        ),
    ]


def median(call: Callable[[], object], times: int) -> float:
    """Median seconds of a call, after one that does not count."""
    call()
    seconds = []
    for _ in range(max(times, 1)):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds))
