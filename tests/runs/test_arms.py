"""Waiting for the arms of a run: real processes."""

import importlib
import io
import os
import signal
from typing import Any

import pytest
import zmq
from rich.console import Console

from robot_rl import geometry
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.controllers import client
from robot_rl.controllers.client import ArmClient, first_answer, last_words
from robot_rl.links.sockets import bind, new_socket
from robot_rl.machine.compiled import LAW, is_first_time
from robot_rl.machine.processes import ProcessFailed, Supervisor
from robot_rl.runs import arms
from robot_rl.runs.arms import await_arms, start_arms
from robot_rl.runs.progress import Display
from robot_rl.types import LinkError, StoppedError


@pytest.fixture
def folder(tmp_path, address):
    settings = RunSettings("peg_insert", "sim_panda", "state", arm_addresses=(address,))
    return RunFolder.create(tmp_path / "run", {"run": settings})


@pytest.mark.slow
def test_an_arm_that_cannot_start_is_told_of_at_once_with_the_reason(folder, address):
    taken = new_socket(zmq.ROUTER)
    bind(taken, address)  # by a program that answers nobody
    with Supervisor(folder.logs) as processes:
        start_arms(folder, processes)
        with pytest.raises(
            ProcessFailed, match=f"'arm-panda' ended with code 3(.|\n)*cannot listen at {address}"
        ):
            await_arms(folder, processes, Display(), lambda: False)
    taken.close()


def test_an_arm_that_takes_its_time_is_waited_for_and_told_of(folder, address, monkeypatch):
    monkeypatch.setattr(arms, "STARTS_S", 0.0)
    monkeypatch.setattr(client, "STARTS_WITHIN_S", 60.0)
    shown = io.StringIO()

    class Patient(Display):
        """The arm's process gets no further than its start before it has been shown."""

        def show(self, *of: Any) -> None:
            super().show(*of)
            os.kill(pid, signal.SIGCONT)

    with Supervisor(folder.logs) as processes:
        (folder.logs / "arm-panda.log").write_text("what the process before it said last\n")
        start_arms(folder, processes)
        pid = processes._children["arm-panda"].pid
        os.kill(pid, signal.SIGSTOP)
        await_arms(folder, processes, Patient(Console(file=shown)), lambda: False)
        ArmClient(address, timeout_s=1.0).close()
    assert "arm 'panda' does not answer yet: it is starting" in shown.getvalue()


def test_what_an_arm_is_at_is_the_last_line_of_its_log(tmp_path):
    log = tmp_path / "arm-panda.log"
    assert last_words(log) == "it is starting"
    log.write_text(
        "2026-11-22 10:00:00,123 INFO robot_rl.controllers.server: compiling the control law\n\n"
    )
    assert last_words(log) == "compiling the control law"


def test_an_arm_that_lives_and_says_nothing_is_named_with_its_log(folder, address, monkeypatch):
    monkeypatch.setattr(client, "STARTS_WITHIN_S", 0.2)
    folder.logs.mkdir()
    log = folder.logs / "arm-panda.log"
    log.write_text(
        "2026-11-22 10:00:00,123 INFO robot_rl.controllers.server: compiling the control law\n"
    )
    with pytest.raises(
        LinkError,
        match=f"arm 'panda' lives, and .* 0.2 s: compiling the control law; its log: {log}",
    ):
        first_answer("panda", address, log, lambda: None)


def test_a_stop_ends_the_wait(folder):
    with Supervisor(folder.logs) as processes, pytest.raises(StoppedError):
        await_arms(folder, processes, Display(), lambda: True)


def test_the_function_that_says_whether_the_law_is_compiled_is_one_of_the_law():
    module, name = LAW.split(".")
    assert isinstance(
        getattr(importlib.import_module(f"robot_rl.controllers.{module}"), name),
        type(geometry.pose_multiply),
    )
    importlib.import_module("robot_rl.controllers.warm_up").warm_up(7)
    assert not is_first_time()
