"""A console that is killed disturbs nobody."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from robot_rl.config.run_folder import RunFolder
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.runs.create import TrainConfig, create_run
from tests.hands import arm_at
from tests.links.test_console_link import a_step
from tests.teleop.benches import require, wait_until


@pytest.fixture
def run(tmp_path, monkeypatch):
    require("viser")
    monkeypatch.chdir(tmp_path)
    made = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    return RunFolder(made.path.rename(tmp_path / "moved"))


@pytest.mark.slow
def test_killed_with_no_word_of_farewell_the_actor_goes_on_also_of_a_run_that_was_moved(run):
    desk = ConsoleLink(run.settings.desk_address)
    command = [sys.executable, "-m", "robot_rl", "console", str(run.path.resolve()), "--port", "0"]
    console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    assert console.stdout is not None
    assert re.search(r"http://127\.0\.0\.1:\d+/", console.stdout.readline())
    slowest, index = 0.0, 0

    def act() -> bool:
        nonlocal slowest, index
        begun = time.thread_time()
        desk.show(a_step(index), [arm_at(0.1 * index)])
        desk.events.take(), desk.grip
        slowest, index = max(slowest, time.thread_time() - begun), index + 1
        time.sleep(0.002)
        return desk._jpegs[0] is not None  # somebody has looked

    wait_until(act, timeout_s=60.0)
    for _ in range(100):
        act()
    console.send_signal(signal.SIGKILL)
    console.wait(10)
    for _ in range(100):
        act()
    assert slowest < 0.005, "it waited for the console"
    other = ConsoleLinkClient(desk.address)
    view = other.look()
    assert view.step is not None and view.step["index"] == index - 1
    other.close()
    desk.close()
