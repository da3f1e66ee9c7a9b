"""How old frames are when the actor takes them: two simulated RealSense cameras, the arm, the
policy, at 10 Hz.

.venv/bin/python benchmarks/cameras.py                 (pip install robot_rl[realsense])
.venv/bin/python benchmarks/cameras.py --burners 1     beside a niced process that uses up a core, as a learner does
.venv/bin/python benchmarks/cameras.py --burners 1 --console viewer     and a console that is looked at (looking.py)

The cameras are librealsense's own software devices, through its real pipelines, in the actor's
process: what it costs to make their pictures is in the figures too. A frame's age begins when its
picture is there, before it is handed over.
"""

import os
import sys
import time
from contextlib import ExitStack, chdir, closing
from dataclasses import replace
from itertools import count, islice
from json import dumps
from tempfile import TemporaryDirectory

import numpy as np
import tyro
from rich.console import Console

from benchmarks.data import Figure, table
from benchmarks.looking import Who, console_beside, cpu_s
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.cameras import realsense
from robot_rl.cameras._live import LiveCamera
from robot_rl.config import CameraConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.machine.processes import Supervisor
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.operator.intervention import Intervention
from robot_rl.runs.arms import start_arms
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.tools.benchmark_arm import busy
from robot_rl.tools.benchmark_rows import Row, machine
from robot_rl.types import Array
from tests.cameras.simulated_realsense import Bus, SimulatedRealSense

SERIALS = {"wrist": "0001", "front": "0002"}
RATE_HZ = 30
WARM_UP = 20


def run(
    seconds: float = 60.0, burners: int = 0, console: Who | None = None, json: bool = False
) -> None:
    """Measure for so long, beside so many niced busy processes and a console; print a table or one
    JSON object.
    """
    load = os.getloadavg()[0]
    rows = measure(seconds, burners, console)
    about = machine() | {
        "burners": burners,
        "console": console or "none",
        "load": f"{load:.1f} before, {os.getloadavg()[0]:.1f} after",
    }
    if json:
        print(dumps({"machine": about} | {row.name: row.value for row in rows}, indent=2))
    else:
        Console().print(table(rows, about))


def measure(seconds: float, burners: int, console: Who | None = None) -> list[Row]:
    """Ages of all frames that the actor took, and how evenly its steps came."""
    cameras = tuple(
        CameraConfig(name, "realsense", {"serial": serial}) for name, serial in SERIALS.items()
    )
    bus = Bus()
    realsense._context = lambda: bus.context
    with ExitStack() as stack:
        for serial, off_hz in zip(SERIALS.values(), (-0.1, 0.1), strict=True):
            device = SimulatedRealSense(bus, serial, rate_hz=RATE_HZ)
            device.rate_hz += (
                off_hz  # as real clocks differ: so the actor looks at every phase of a frame period
            )
            stack.callback(device.unplug)
        with chdir(stack.enter_context(TemporaryDirectory())):  # where the console finds the run
            folder = create_run("peg_insert", TrainConfig(clock="real", judge="simulator"))
            folder = RunFolder(folder.path.resolve())
        start_arms(folder, stack.enter_context(Supervisor(folder.logs)))
        task = replace(folder.load_task(), max_steps=100_000)
        env = RobotEnv(task, replace(folder.load_hardware(), cameras=cameras))
        stack.callback(env.close)
        desk = stack.enter_context(closing(ConsoleLink(folder.settings.desk_address)))
        ages = [watched(camera) for camera in env.cameras.values()]
        policy = LivePolicy(PolicySpec.from_space(env.space_spec, "goal"), {})
        looked_at = (
            stack.enter_context(console_beside(folder.path, console)) if console else os.getpid()
        )
        stack.enter_context(busy(burners, nice=10))
        runner, intervention = EpisodeRunner(env, desk=desk), Intervention(None, desk=desk)
        stamps: list[float] = []
        for episode in count():  # one alone, unless a frame or a state of the arm was stale
            steps = runner.play(
                episode, lambda seen: 0.1 * policy.act(seen), intervention, seed=episode
            )
            for _ in islice(steps, WARM_UP):
                pass
            for of_one in ages:
                of_one.clear()
            stamps, begun_cpu = [time.monotonic()], [time.process_time(), cpu_s(looked_at)]
            for _ in steps:
                stamps.append(time.monotonic())
                if stamps[-1] > stamps[0] + seconds:
                    break
            else:
                print(f"measured again from the start: {runner.summary.reason}", file=sys.stderr)
                continue
            break
        ended_cpu = [time.process_time(), cpu_s(looked_at)]
        shares = (np.array(ended_cpu) - begun_cpu) / (stamps[-1] - stamps[0])
    measured = rows(1e3 * np.array(ages), 1e3 * np.abs(np.diff(stamps) - env.period_s), shares[0])
    measured.append(
        Row("broken_off", episode, "times", "a stale frame, or a stale state of the arm")
    )
    if console:
        measured.append(
            Figure("console_cpu_percent", 1e2 * shares[1], "%", "of a core", 15.0, True)
        )
    return measured


def rows(ages_ms: Array, jitter_ms: Array, cpu: float) -> list[Row]:
    limit_ms = 1.5 * 1e3 / RATE_HZ
    return [
        Row(
            "camera_age_ms_p50",
            float(np.median(ages_ms)),
            "ms",
            f"{ages_ms.size} frames of {len(ages_ms)} cameras",
        ),
        Figure(
            "camera_age_ms_p99",
            float(np.percentile(ages_ms, 99)),
            "ms",
            "1.5 frame periods",
            limit_ms,
            True,
        ),
        Row("camera_age_ms_max", float(ages_ms.max()), "ms"),
        Row(
            "step_jitter_ms_p50",
            float(np.median(jitter_ms)),
            "ms",
            f"{len(jitter_ms)} steps at 10 Hz",
        ),
        Figure(
            "step_jitter_ms_p99",
            float(np.percentile(jitter_ms, 99)),
            "ms",
            "off the period",
            5.0,
            True,
        ),
        Row(
            "actor_cpu_percent",
            1e2 * cpu,
            "%",
            "of a core: cameras, their simulation, policy and environment",
        ),
    ]


def watched(camera: object) -> list[float]:
    """The age [s] of every frame that is read from now on."""
    assert isinstance(camera, LiveCamera)
    ages: list[float] = []

    def read() -> Array:
        frame = camera.newest()
        ages.append(time.monotonic() - frame.t)
        return frame.image

    camera.read = read  # type: ignore[method-assign]
    return ages


if __name__ == "__main__":
    tyro.cli(run)
