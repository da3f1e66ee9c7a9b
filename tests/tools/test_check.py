"""What `check`, `pose` and `benchmark --arm` say of a bench: real processes, simulated arms."""

import math
import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config import GripperConfig, StartPose, make
from robot_rl.controllers.client import ArmClient
from robot_rl.env.robot import connect_arm
from robot_rl.tools.arm_check import check_timing
from robot_rl.tools.check import _check_gripper_range, check
from robot_rl.tools.pose import PoseWatcher
from robot_rl.types import ArmTarget, Compliance, GripperReading, OperatorCommand, Use

pytestmark = pytest.mark.real_clock

HARDWARE = config.load_hardware("sim_panda")
TASK = replace(config.load_task("peg_insert"), cameras=())
BARE = replace(HARDWARE, cameras=())
NO_FRANKA = "pip install robot_rl[franka] (x86-64 Linux with glibc 2.34)"


def said(findings, what):
    """The finding of that name."""
    return next(finding for finding in findings if finding.what == what)


def at(address):
    return replace(BARE, arms=(replace(BARE.arms[0], address=address),))


@pytest.mark.slow
def test_a_bench_that_is_ready_is_found_so_part_by_part(address):
    # nobody listens there: it starts the arm's process itself
    findings = check(at(address), TASK, seconds=0.3)
    parts = [
        "connection",
        "error state",
        "workspace",
        "joints",
        "force at rest",
        "limits against task 'peg_insert'",
    ]
    parts += ["reach", "set-up of task 'peg_insert'"]
    for what in parts:
        assert said(findings, what).right, said(findings, what)
    assert (
        said(findings, "set-up of task 'peg_insert'").found
        == "tool, compliance, limits and leash are taken"
    )
    # of the task's tool, whose tip is 42 mm below the TCP: by inverse kinematics at home 70 mm
    # above the rim
    assert said(findings, "workspace").found.endswith(" 0.095 m, inside")
    assert all(finding.right or finding.advice for finding in findings)


@pytest.mark.slow
def test_a_set_up_that_the_arm_refuses_and_a_box_that_it_cannot_fill_are_findings(address):
    arm = BARE.arms[0]
    wide = replace(arm, address=address, limits=replace(arm.limits, workspace_angle=0.6))
    stiff = replace(
        TASK, compliance=replace(TASK.compliance, stiffness=(20_000.0,) * 3 + (150.0,) * 3)
    )
    findings = check(replace(BARE, arms=(wide,)), stiff, seconds=0.2)
    finding = said(findings, "limits against task 'peg_insert'")
    assert not finding.right and "stiffness" in finding.advice and "20000" in finding.advice
    finding = said(findings, "set-up of task 'peg_insert'")
    # more than the arm's process has read
    assert not finding.right and "workspace_angle = 0.6" in finding.advice
    finding = said(findings, "reach")
    assert not finding.right and "joint 6 at the end" in finding.found
    angle = float(finding.advice.partition("workspace_angle ")[2].split()[0])
    assert 0.3 < angle < 0.6


def test_an_arm_that_serves_somebody_keeps_its_set_up(real_arm):
    arm = connect_arm(TASK, replace(BARE.arms[0], address=real_arm))
    findings = check(
        at(real_arm),
        replace(TASK, pose_tcp_tool=(0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0)),
        seconds=0.2,
    )
    assert said(findings, "set-up of task 'peg_insert'").found == "not tried"
    state = arm.refresh()
    assert not arm.command(ArmTarget(state.pose_base_tcp, 0.1)).verdict.refused, (
        "its command is not its own any more"
    )
    assert abs(state.pose_base_tcp[2] - 0.095) < 0.005
    arm.close()


class CountingClient:
    """An arm's client that knows nothing but what the robot says of our commands."""

    def __init__(self, success):
        self.success, self.ticks = success, 0

    def stats(self):
        return SimpleNamespace(
            command_success=self.success,
            nominal_hz=1000.0,
            late_ticks=0,
            lost_ticks=0,
            law_us_p50=10.0,
            tick_us_p50=50.0,
            tick_us_p999=90.0,
        )

    def refresh(self):
        self.ticks += 10
        return SimpleNamespace(sequence=self.ticks, t=0.001 * self.ticks)


@pytest.mark.parametrize(("success", "right"), [(1.0, True), (0.995, True), (0.5, False)])
def test_commands_that_the_robot_does_not_get_are_to_be_mended(success, right):
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    (arm,) = config.load_hardware("franka_fr3").arms
    client: Any = CountingClient(success)
    finding = said(check_timing(arm, client, 0.05), "communication with the robot")
    assert (
        finding.right == right == (not finding.advice) and f"{100 * success:.1f} %" in finding.found
    )
    simulated = [finding.what for finding in check_timing(BARE.arms[0], client, 0.05)]
    assert "communication with the robot" not in simulated, "there is no robot that could say so"


@pytest.mark.slow
def test_what_a_robot_is_set_to_is_found_before_its_process_starts(address):
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    from robot_rl.sim.fci.process import Simulation

    bench = config.load_hardware("fci_sim").arms[0]
    with Simulation(bench) as robot:
        robot.ask("hand_mass", 0.0)
        arm = replace(
            bench, driver="franka", address=address, options={**bench.options, "ip": robot.ip}
        )
        findings = check(replace(BARE, arms=(arm,)), TASK, seconds=0.3)
    finding = said(findings, "end effector in Desk")
    assert not finding.right and finding.found == "0.00 kg" and robot.ip in finding.advice
    assert said(findings, "mode of the robot").right and said(findings, "connection").right


def test_a_latched_fault_is_found_with_its_reason_and_stays(real_arm):
    arm = ArmClient(real_arm, timeout_s=60.0)
    bench = at(real_arm).arms[0]
    arm.configure(np.array(bench.pose_flange_tcp), Compliance(), bench.limits)
    arm.command(ArmTarget(np.full(7, math.nan), 0.1))
    finding = said(check(at(real_arm), TASK, seconds=0.3), "error state")
    assert (
        not finding.right
        and finding.found == "TARGET_NOT_FINITE"
        and "not finite" in finding.advice
    )
    assert arm.refresh().fault
    arm.close()


def test_an_arm_that_is_not_there_is_a_finding_with_advice(tmp_path, monkeypatch, address):
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    (tmp_path / "hardware_configs").mkdir()
    text = (config.PACKAGE.parent / "hardware_configs" / "franka_fr3.yaml").read_text()
    (tmp_path / "hardware_configs" / "gone.yaml").write_text(
        text.replace("172.16.0.2", "127.9.9.9")
    )
    monkeypatch.chdir(tmp_path)
    gone = config.load_hardware("gone")
    finding = said(
        check(
            replace(gone, cameras=(), grippers=(), arms=(replace(gone.arms[0], address=address),))
        ),
        "connection",
    )
    assert not finding.right and "127.9.9.9" in finding.advice and "FCI" in finding.advice


@pytest.mark.parametrize(
    ("widths", "right"), [((0.08, 0.0), True), ((0.085, 0.0), False), ((0.05, 0.0), False)]
)
def test_a_hand_that_never_reads_the_width_of_the_file_is_named(widths, right):
    gripper = GripperConfig("hand", "mujoco", open_m=widths[0], closed_m=widths[1])
    finding = _check_gripper_range(gripper, GripperReading(0.0795, 0.08, False))
    assert finding.right == right and ("open_m" in finding.advice) == (not right)


def test_what_pose_prints_is_a_task_files_and_a_hardware_files():
    watcher = PoseWatcher(HARDWARE.arms[0], TASK)
    pose = watcher.look()
    lines = watcher.lines(pose, 0.01)
    watcher.close()
    read = eval(f"dict({lines}\n)", {"StartPose": StartPose})
    np.testing.assert_allclose(read["start"][0].pose_base_tool, pose, atol=1e-4)
    np.testing.assert_allclose(read["limits"]["workspace_low"], pose[:3] - 0.01, atol=1e-4)
    np.testing.assert_allclose(read["limits"]["workspace_high"], pose[:3] + 0.01, atol=1e-4)
    np.testing.assert_allclose(read["limits"]["workspace_quat"], pose[3:], atol=1e-4)
    assert 0.09 < read["limits"]["workspace_angle"] < HARDWARE.arms[0].limits.workspace_angle
    config.check_fit(replace(TASK, limits=read["limits"], start=read["start"]), HARDWARE)
    (goal,) = [
        line.removeprefix("# reward=").rstrip(",") for line in lines.splitlines() if "Use(" in line
    ]
    judge = make("rewards", eval(goal, {"Use": Use}))
    arms = [SimpleNamespace(pose_base_tcp=pose)]
    assert [judge.judge({}, arms, OperatorCommand.NONE) for _ in range(2)] == [
        (0.0, False, False),
        (1.0, True, True),
    ]
    home = eval(lines.rpartition("home: ")[2])
    np.testing.assert_allclose(home, HARDWARE.arms[0].home, atol=1e-4)


@pytest.mark.slow
def test_the_benchmark_of_the_arm_has_every_number_and_leaves_priorities_as_they_were():
    pytest.importorskip("pylibfranka", reason=NO_FRANKA)
    from robot_rl.tools.benchmark_arm import measure_arm

    before = os.sched_getscheduler(0)
    # a machine that stands still for a second, as a shared one does, is no arm's fault
    numbers = measure_arm(3.0)
    assert os.sched_getscheduler(0) == before
    wanted = (
        "rate_hz",
        "lost_ticks",
        "server_slips",
        "tick_us_p50",
        "tick_us_p999",
        "pose_round_trip_ms_p99",
    )
    assert all(math.isfinite(numbers[name]) for name in wanted)
    assert 100.0 < numbers["rate_hz"] < 1010.0
