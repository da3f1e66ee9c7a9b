"""What `check`, `pose` and `benchmark --arm` say of a bench: real processes, simulated arms."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.check import PoseWatcher, check
from robot_rl.config import StartPose
from robot_rl.controllers.client import ArmClient
from robot_rl.types import ArmTarget, Compliance

HARDWARE = config.load_hardware("sim_panda")
TASK = replace(config.load_task("peg_insert"), cameras=())
BARE = replace(HARDWARE, cameras=())
NO_FRANKA = "pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"


def said(findings, what):
    """The finding of that name."""
    return next(finding for finding in findings if finding.what == what)


def at(address):
    return replace(BARE, arms=(replace(BARE.arms[0], address=address),))


def test_a_bench_that_is_ready_is_found_so_part_by_part(address):
    findings = check(at(address), TASK, seconds=0.3)  # nobody listens there: it starts the arm's process itself
    parts = ("connection", "error state", "workspace", "joints", "force at rest", "limits against task 'peg_insert'")
    for what in parts:
        assert said(findings, what).right, said(findings, what)
    assert all(finding.right or finding.advice for finding in findings)


def test_a_latched_fault_is_found_with_its_reason_and_stays(start_arm):
    process = start_arm("real")
    arm = ArmClient(process.address, timeout_s=60.0)
    bench = at(process.address).arms[0]
    arm.configure(np.array(bench.pose_flange_tcp), Compliance(), bench.limits)
    arm.command(ArmTarget(np.full(7, math.nan), 0.1))
    finding = said(check(at(process.address), TASK, seconds=0.3), "error state")
    assert not finding.right and finding.found == "TARGET_NOT_FINITE" and "not finite" in finding.advice
    assert arm.refresh().fault
    arm.close()


def test_an_arm_that_is_not_there_is_a_finding_with_advice(tmp_path, monkeypatch, address):
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    (tmp_path / "hardware_configs").mkdir()
    text = (config.PACKAGE.parent / "hardware_configs" / "franka_fr3.yaml").read_text()
    (tmp_path / "hardware_configs" / "gone.yaml").write_text(text.replace("172.16.0.2", "127.9.9.9"))
    monkeypatch.chdir(tmp_path)
    gone = config.load_hardware("gone")
    finding = said(
        check(replace(gone, cameras=(), grippers=(), arms=(replace(gone.arms[0], address=address),))), "connection"
    )
    assert not finding.right and "127.9.9.9" in finding.advice and "FCI" in finding.advice


def test_what_pose_prints_is_a_task_files_and_a_hardware_files():
    watcher = PoseWatcher(HARDWARE.arms[0], TASK)
    pose = watcher.look()
    lines = watcher.lines(pose, 0.01)
    watcher.close()
    read = eval(f"dict({lines}\n)", {"StartPose": StartPose})
    np.testing.assert_allclose(read["start"][0].pose_base_tool, pose, atol=1e-4)
    np.testing.assert_allclose(read["limits"]["workspace_low"], pose[:3] - 0.01, atol=1e-4)
    np.testing.assert_allclose(read["limits"]["workspace_high"], pose[:3] + 0.01, atol=1e-4)
    config.check_fit(replace(TASK, limits=read["limits"], start=read["start"]), HARDWARE)
    home = eval(lines.rpartition("home: ")[2])
    np.testing.assert_allclose(home, HARDWARE.arms[0].home, atol=1e-4)


def test_the_benchmark_of_the_arm_has_every_number_and_leaves_priorities_as_they_were():
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    from robot_rl.benchmark_arm import measure_arm

    before = os.sched_getscheduler(0)
    numbers = measure_arm(0.5)
    assert os.sched_getscheduler(0) == before
    wanted = ("rate_hz", "lost_ticks", "server_slips", "tick_us_p50", "tick_us_p999", "pose_round_trip_ms_p99")
    assert all(math.isfinite(numbers[name]) for name in wanted)
    assert 100.0 < numbers["rate_hz"] < 1010.0
