"""The processes of a run: real ones."""

import os
import signal
import time
from pathlib import Path

import pytest

from robot_rl.actor.loop import ActorConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.controllers.client import ArmClient
from robot_rl.links.calls import CallServer
from robot_rl.machine.processes import GONE, ProcessFailed, Supervisor, Watchdog
from robot_rl.stream.compatibility import Hello, check

ARM = ["arm", "sim_panda", "--task", "peg_insert", "--clock", "lockstep", "--address"]


def test_a_process_that_fails_shows_the_end_of_its_log(tmp_path):
    with Supervisor(tmp_path) as processes, pytest.raises(ProcessFailed) as failure:
        processes.start("arm", ["arm", "no_such_bench"])
        processes.watch(until="arm", each=lambda: None, period_s=0.02)
    said = str(failure.value)
    assert f"the process 'arm' ended with code 2; the end of {tmp_path / 'arm.log'}:" in said
    assert "hardware_configs/no_such_bench.yaml does not exist" in said


def test_watching_ends_when_the_process_has_ended_well(tmp_path):
    seen = []
    with Supervisor(tmp_path) as processes:
        processes.start("helper", ["--version"])
        processes.watch(until="helper", each=lambda: seen.append(0), period_s=0.02)
        assert not processes.is_running("helper")
        processes.check()
    assert seen


def test_a_process_that_is_stopped_before_it_has_begun_has_not_failed(tmp_path):
    with Supervisor(tmp_path) as processes:
        processes.start("learner", ["--version"])  # loads first
        processes.stop("learner")
        processes.watch(until="learner", each=lambda: None, period_s=0.02)
        processes.check()


def test_leaving_the_block_stops_the_last_started_first(tmp_path, address, monkeypatch):
    stopped, stop = [], Supervisor.stop

    def noting(self, name):
        stopped.append(name)
        stop(self, name)

    monkeypatch.setattr(Supervisor, "stop", noting)
    with Supervisor(tmp_path) as processes:
        processes.start("arm", [*ARM, address])
        processes.start("helper", ["--version"])
        while "listens at" not in (tmp_path / "arm.log").read_text():
            processes.check()
            time.sleep(0.05)
        assert processes.is_running("arm")
    assert stopped == ["helper", "arm"]
    assert not processes.is_running("arm")
    processes.check()  # it was asked to go, and went with code 0


def test_a_run_that_stands_still_is_spoken_of_and_in_the_end_given_up(tmp_path, caplog):
    standstill = Watchdog(tmp_path, fail_after_s=300.0)
    for now in range(0, 1000, 10):
        standstill.look(("steps", now), float(now))
    assert not caplog.records
    for now in range(1000, 1290, 10):
        standstill.look("the same", float(now))
    assert len(caplog.records) == 4
    with pytest.raises(ProcessFailed, match=f"no step and no update for 310 s .* {tmp_path}"):
        standstill.look("the same", 1310.0)


def test_where_people_are_waited_for_a_standstill_is_only_spoken_of(tmp_path, caplog):
    standstill = Watchdog(tmp_path, fail_after_s=None)
    for now in (0.0, 61.0, 1e6):
        standstill.look("the same", now)
    assert len(caplog.records) == 2


@pytest.mark.slow
def test_a_process_that_is_refused_ends_the_run_at_once_and_says_why(tmp_path):
    server = CallServer()
    settings = RunSettings("peg_insert", "sim_panda", "state", calls_address=server.address)
    run = RunFolder.create(tmp_path / "run", {"run": settings, "actor": ActorConfig()})
    ours = Hello("learner", "another task", "another hardware", "another space", 0, "another code")
    server.register("hello", lambda body, _: check(ours, body))
    server.start()
    restarts: list[str] = []
    with Supervisor(tmp_path) as processes, pytest.raises(ProcessFailed) as failure:
        processes.start("actor", ["actor", str(run.path)])
        mend = lambda: processes.restart_failed(restarts.append)  # noqa: E731
        processes.watch(until="actor", each=lambda: None, period_s=0.02, mend=mend)
    server.close()
    assert "ended with code 2" in str(failure.value)
    assert "code: learner has 'another code', actor has" in str(failure.value)
    assert not restarts


@pytest.mark.slow
def test_an_arm_whose_loop_has_died_leaves_and_is_started_again(tmp_path, address):
    said: list[str] = []
    with Supervisor(tmp_path) as processes:
        processes.start(
            "arm", ["arm", "sim_panda", "--address", address, "--blackbox", str(tmp_path / "boxes")]
        )
        arm = ArmClient(address, timeout_s=60.0)
        pid = processes._children["arm"].pid
        spawned = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        (loop,) = [
            int(child)
            for child in spawned
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
        os.kill(loop, signal.SIGKILL)
        deadline = time.monotonic() + 30.0
        while not said:
            assert time.monotonic() < deadline, "the arm's process goes on without its loop"
            processes.restart_failed(said.append)
            time.sleep(0.02)
        assert f"the process 'arm' ended with code {GONE} and is started again" in said[0]
        arm.close()
        arm = ArmClient(address, timeout_s=60.0)
        assert arm.refresh().holding and not arm.refresh().fault
        arm.close()
    assert list((tmp_path / "boxes").glob("*LOOP_DIED.npz"))
