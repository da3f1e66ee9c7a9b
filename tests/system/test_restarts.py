"""A process of a run that is stopped while it waits for another."""

import signal
import subprocess
import sys

import pytest

from robot_rl.runs.create import TrainConfig, create_run
from tests.teleop.benches import wait_until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_an_actor_that_waits_for_a_learner_that_pretrains(
    tmp_path, monkeypatch, number
):
    monkeypatch.chdir(tmp_path)
    folder = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    with subprocess.Popen([sys.executable, "-m", "robot_rl", "actor", str(folder.path)]) as actor:
        try:
            wait_until(folder.episodes_file.exists, timeout_s=60.0)
            actor.send_signal(number)
            assert actor.wait(10.0) == 0
        finally:
            actor.kill()
