"""The one process of arms that stand in one world, as clients see it: a socket for each arm."""

import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import numpy as np
import pytest

from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.types import ArmTarget, DeviceError, Fault, LinkError
from tests.helpers import wait_until
from tests.system.main_job import descendants, still_running
from tests.two_arms import TASK, at_free_addresses

pytestmark = [pytest.mark.slow, pytest.mark.real_clock]
STARTS_S = 200.0


@contextmanager
def process_of_both(clock, place):
    """`robot-rl arm` on the bench of two, at addresses of its own."""
    bench = at_free_addresses()
    where = ["--address", *(arm.address for arm in bench.arms), "--blackbox", str(place)]
    command = [sys.executable, "-m", "robot_rl", "arm", bench.name, "--clock", clock, *where]
    process = subprocess.Popen(command)
    try:
        yield process, bench.arms
    finally:
        process.kill()
        process.wait(20)


@contextmanager
def set_up(configs):
    """A client of each arm, that has set it up."""
    clients = []
    try:
        for config in configs:
            clients.append(ArmClient(config.address, timeout_s=STARTS_S))
            tcp = np.array(config.pose_flange_tcp)
            clients[-1].configure(tcp, TASK.compliance, config.limits)
            clients[-1]._link._timeout_s = 1.0
        yield clients
    finally:
        for client in clients:
            client.close()


def move(arm, dz, lease_periods=3.0):
    pose = arm.refresh().pose_base_tcp.copy()
    pose[2] += dz
    return arm.command(ArmTarget(pose, 0.1, lease_periods))


def test_on_the_real_clock_each_arm_obeys_its_own_program_until_the_process_is_killed(tmp_path):
    """Both move, one faults and the other goes on, a reset is one of the world; then nobody is
    left.
    """
    with process_of_both("real", tmp_path) as (process, configs), set_up(configs) as arms:
        assert [arm.info.name for arm in arms] == ["left", "right"]
        assert all(arm.info.shared and arm.info.fingers is False for arm in arms)
        before = [arm.refresh().pose_base_tcp[2] for arm in arms]
        for _ in range(8):
            for arm, dz in zip(arms, (0.01, -0.01), strict=True):
                move(arm, dz)
            time.sleep(0.05)
        moved = [arm.refresh().pose_base_tcp[2] - z for arm, z in zip(arms, before, strict=True)]
        assert moved[0] > 0.003 and moved[1] < -0.003

        nowhere = ArmTarget(np.full(7, np.nan), 0.1)
        arms[0].command(nowhere)
        wait_until(lambda: arms[0].refresh().fault == Fault.TARGET_NOT_FINITE)
        assert move(arms[1], 0.01).fault == Fault.NONE
        wait_until(lambda: not move(arms[1], 0.0).holding)
        wait_until(lambda: list(tmp_path.glob("*left*TARGET_NOT_FINITE*")))
        assert not list(tmp_path.glob("*right*TARGET_NOT_FINITE*"))

        with closing(WorldClient(configs[1].address)) as world:
            world.reset(3)
        np.testing.assert_allclose(
            [arm.refresh().pose_base_tcp[2] for arm in arms], before, atol=1e-3
        )
        assert arms[0].refresh().fault == Fault.TARGET_NOT_FINITE, "a reset acknowledges nothing"

        children = descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        wait_until(lambda: not still_running(children), what="the loop outlives the network side")
        for arm in arms:
            with pytest.raises(LinkError, match="no arm process answered"):
                arm.refresh()


def test_when_the_loop_dies_each_arm_says_so_and_the_process_ends(tmp_path):
    with process_of_both("real", tmp_path) as (process, configs), set_up(configs) as arms:
        loop = next(
            pid for pid, line in descendants(process.pid).items() if "resource_tracker" not in line
        )
        subprocess.run(["kill", "-9", str(loop)], check=True)
        with pytest.raises((DeviceError, LinkError)):
            for _ in range(100):
                arms[1].refresh()
                time.sleep(0.01)
        assert process.wait(20) == 3
        for name in ("left", "right"):
            assert list(tmp_path.glob(f"*{name}*LOOP_DIED*"))


def test_a_signal_ends_the_process_of_both_cleanly(tmp_path):
    with process_of_both("lockstep", tmp_path) as (process, configs), set_up(configs) as arms:
        assert [move(arm, 0.01).t for arm in arms] == pytest.approx([0.0, 0.1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
