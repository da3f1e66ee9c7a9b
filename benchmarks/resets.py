"""How many resets succeed, tare included, with friction and a load that nobody knows of: `python
benchmarks/resets.py`.

Random starts of a task on the simulated arm in lockstep, with the reset law of a hardware file; the
seeds are those of the episodes 0, 1, 2 ... A reset succeeds if the arm arrives within the tolerance
and its wrench can be tared.
"""

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import tyro

from robot_rl import config
from robot_rl.controllers.server import serve
from robot_rl.env.robot import RobotEnv
from robot_rl.links.sockets import free_addresses
from robot_rl.types import Compliance, RobotRLError

BENCH = "sim_panda"


@dataclass(frozen=True)
class Resets:
    """What came of them: how many arrived and were tared, how long each took [s], what the others
    said.
    """

    asked: int
    succeeded: int
    seconds: tuple[float, ...]
    complaints: Counter[str]


@contextmanager
def rubbing_bench(
    task: config.Task, friction_nm: float, load_kg: float, law: Compliance | None
) -> Iterator[RobotEnv]:
    """The simulated bench, in lockstep, whose joints all rub with `friction_nm` and that carries
    `load_kg` unknown.
    """
    hardware = config.load_hardware(BENCH)
    options = {"friction_nm": [friction_nm] * 7, "unknown_load_kg": load_kg}
    arm = replace(
        hardware.arms[0], address=free_addresses(1)[0], options=options, reset_compliance=law
    )
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(arm, task.scene, "lockstep")
    )
    process.start()
    try:
        with closing(RobotEnv(task, replace(hardware, arms=(arm,)), obs="state")) as env:
            yield env
    finally:
        process.terminate()
        process.join()


def try_resets(env: RobotEnv, count: int) -> Resets:
    """So many resets, one after the other."""
    seconds, complaints, succeeded = [], Counter[str](), 0
    for seed in range(count):
        begun = env.clock.now()
        try:
            env.reset(seed=seed)
            succeeded += 1
        except RobotRLError as error:
            complaints[str(error)] += 1
            if any(arm.refresh().fault for arm in env.arms):
                env.acknowledge_faults()
        seconds.append(env.clock.now() - begun)
    return Resets(count, succeeded, tuple(seconds), complaints)


def main(
    task: str = "peg_insert",
    law: Annotated[
        str, tyro.conf.arg(help="hardware file whose reset_compliance is tried; '' for none")
    ] = "fci_sim",
    count: int = 100,
    friction: Sequence[float] = (0.0, 0.6, 1.0, 1.137),
    load: Sequence[float] = (0.0, 0.4, 0.8),
) -> None:
    """A line for each friction [Nm] of every joint and each unknown load [kg]."""
    compliance = config.load_hardware(law).arms[0].reset_compliance if law else None
    print("friction [Nm]  load [kg]  succeeded    mean [s]  longest [s]")
    for friction_nm in friction:
        for load_kg in load:
            with rubbing_bench(
                config.with_judge(config.load_task(task), "simulator"),
                friction_nm,
                load_kg,
                compliance,
            ) as env:
                came = try_resets(env, count)
            line = f"{friction_nm:13.3f} {load_kg:10.1f} {came.succeeded:6d} of {came.asked}"
            print(f"{line} {np.mean(came.seconds):9.1f} {max(came.seconds):12.1f}", flush=True)
            for complaint, times in came.complaints.most_common(3):
                print(f"    {times} x {complaint}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
