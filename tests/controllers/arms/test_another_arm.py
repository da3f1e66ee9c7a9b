"""docs/another_arm.md, as it stands there: a stranger's driver and hardware file, found in the
folder one works in.
"""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config import kinds
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.links.sockets import free_addresses
from robot_rl.tools.arm_check import check_reach
from robot_rl.types import ArmTarget, Compliance, ConfigError, Fault

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A folder with the page's two files, in which one works."""
    (tmp_path / "arms").mkdir()
    shutil.copy(DOCS / "examples" / "arms" / "toy.py", tmp_path / "arms")
    (tmp_path / "hardware_configs").mkdir()
    (bench,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "another_arm.md").read_text(), re.DOTALL)
    (tmp_path / "hardware_configs" / "toy_bench.yaml").write_text(bench)
    monkeypatch.chdir(tmp_path)
    return config.load_hardware("toy_bench").arms[0]


@pytest.mark.slow
def test_it_runs_in_a_process_of_its_own_at_its_own_rate(bench):
    (address,) = free_addresses(1)
    command = [sys.executable, "-m", "robot_rl", "arm", "toy_bench", "--address", address]
    process = subprocess.Popen(command)
    try:
        arm = ArmClient(address, timeout_s=100.0)
        start = arm.configure(
            np.array(bench.pose_flange_tcp), Compliance(), bench.limits
        ).pose_base_tcp
        goal, begun = start + [0.0, 0.04, 0.0, 0.0, 0.0, 0.0, 0.0], time.monotonic()
        pose = start.copy()
        while np.linalg.norm(arm.refresh().pose_base_tcp - goal) > 0.002:
            pose[1] = min(pose[1] + 0.008, goal[1])
            arm.command(ArmTarget(pose, 0.1))
            assert time.monotonic() - begun < 5.0, (
                "an eighth of the speed, if a tick were a millisecond"
            )
            time.sleep(0.1)
        rates = []  # of which a machine that stands still for a moment spoils one
        for _ in range(5):
            before, t = arm.refresh().sequence, time.monotonic()
            time.sleep(0.3)
            rates.append((arm.refresh().sequence - before) / (time.monotonic() - t))
        assert 80 < np.median(rates) < 130
        assert arm.stats().nominal_hz == pytest.approx(125.0)
        assert arm.refresh().holding and not arm.refresh().fault
        arm.close()
    finally:
        process.terminate()
        assert process.wait(10.0) == 0


@pytest.mark.parametrize("ends", ["hold", "lease", "fault"])
def test_the_reference_never_jumps_when_the_motion_ends(bench, ends):
    arm = open_driver(bench)
    loop = ArmLoop(
        arm, ArmSetup(np.array(bench.pose_flange_tcp), Compliance(), bench.limits, 0.05, 0.15)
    )
    sent = [arm.sent[-1].copy()]
    for tick in range(300):
        if tick < 100:
            target = loop.state().pose_base_tcp + [0.0, 0.03, 0.0, 0.0, 0.0, 0.0, 0.0]
            loop.command(target, loop.t + (10.0 if ends != "lease" else 0.02))
        elif tick == 100 and ends == "hold":
            loop.hold()
        elif tick == 100 and ends == "fault":
            loop.command(np.full(7, np.nan), loop.t + 1.0)
        loop.tick(loop.t + arm.tick_s)
        sent.append(arm.sent[-1].copy())
    steps = np.linalg.norm(np.diff(np.array(sent)[:, :3], axis=0), axis=1)
    assert steps.max() <= bench.limits.max_reference_speed * arm.tick_s + 1e-12
    assert steps[:100].max() > 0.0005 and steps[-50:].max() < 1e-5
    assert loop.holding and loop.fault == (
        Fault.TARGET_NOT_FINITE if ends == "fault" else Fault.NONE
    )
    np.testing.assert_allclose(arm.sent[-1][:3], loop.state().pose_base_tcp[:3], atol=1e-4)


def test_a_guard_that_nobody_can_watch_is_refused(bench):
    file = Path("hardware_configs/toy_bench.yaml")
    guard = (
        "    guards: [{name: mount, start: [0.0, 0.0, 0.0], end: [0.1, 0.0, 0.0], radius_m:"
        " 0.03}]\n"
    )
    file.write_text(file.read_text().replace("    limits:\n", f"{guard}    limits:\n"))
    with pytest.raises(
        ConfigError, match=r"toy_bench\.yaml:\d+: arms\[0\]\.guards cannot be watched"
    ):
        config.load_hardware("toy_bench")


def test_a_driver_that_does_not_run_says_file_and_line(bench):
    Path("arms/broken.py").write_text("import numpy\n\nlength = nump.pi\n")
    with pytest.raises(ConfigError, match=r"arms/broken\.py:3: NameError"):
        kinds.find("controllers/arms", "broken")


def test_check_says_that_nobody_looked_at_its_reach(bench):
    (finding,) = check_reach(bench, None)
    assert finding.right and "does not say how the arm is built" in finding.advice
