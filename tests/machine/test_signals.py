"""A stop is a flag: whatever the handler does may be interrupted by the next signal, so it must
take no lock.
"""

import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from robot_rl import cli
from robot_rl.cli import verbs
from robot_rl.machine.signals import StopRequest
from robot_rl.types import StoppedError

CHILD = """
import select, sys
from robot_rl import cli
from robot_rl.cli import verbs
from robot_rl.machine.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    while not (stop.is_set() and select.select([sys.stdin], [], [], 0.0)[0]):  # closed: no more come
        pass
"""


def test_signals_that_interrupt_each_other_stop_a_process_and_hang_nothing() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            child.send_signal(signal.SIGTERM)
        child.stdin.close()
        try:
            assert child.wait(10) == 0
        finally:
            child.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_where_nothing_needs_an_end_the_first_signal_is_heard_at_once(number) -> None:
    with StopRequest() as stop:
        with pytest.raises(StoppedError), stop.at_once():
            signal.raise_signal(number)
        assert stop.is_set()
        with pytest.raises(StoppedError), stop.at_once():
            raise AssertionError("it has been asked for before")


@pytest.mark.parametrize("becomes", [ImportError("initialization failed"), None])
def test_where_nothing_needs_an_end_no_import_loses_the_signal_either(becomes) -> None:
    with StopRequest() as stop, pytest.raises(StoppedError), stop.at_once():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            if becomes is not None:
                raise becomes from None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_swallowed_in_front_of_a_long_wait_ends_the_wait(number) -> None:
    begun = time.monotonic()
    with StopRequest() as stop, pytest.raises(StoppedError), stop.at_once():
        for _ in range(2):  # swallowed is also the second time
            with contextlib.suppress(KeyboardInterrupt):
                if not stop.is_set():
                    signal.raise_signal(number)
                time.sleep(60.0)
        time.sleep(60.0)
    assert time.monotonic() - begun < 30.0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_in_a_thread_a_request_that_somebody_else_hears_for_may_end_a_block_at_once_too() -> None:
    stop, came = StopRequest(), list[bool]()

    def waits() -> None:
        with stop.at_once():
            came.append(True)

    thread = threading.Thread(target=waits)
    thread.start()
    thread.join(10.0)
    assert came == [True] and not stop.is_set()


def test_what_goes_wrong_before_a_stop_is_asked_for_is_told_as_it_is() -> None:
    with StopRequest() as stop, pytest.raises(ImportError), stop.at_once():
        raise ImportError("no such module")


def test_elsewhere_the_first_signal_asks_and_the_second_ctrl_c_insists() -> None:
    with StopRequest() as stop:
        with stop.at_once():
            pass
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_ctrl_c_that_an_import_swallows_or_makes_an_error_of_is_not_lost(
    monkeypatch, capsys
) -> None:
    asked = []

    def swallows(arguments):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with StopRequest() as stop:
            asked.append(stop.is_set())

    def garbles(arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr(verbs, "VERBS", {"swallows": swallows, "garbles": garbles})
    assert cli.main(["swallows"]) == 0 and asked == [True]
    assert cli.main(["garbles"]) == 130 and capsys.readouterr().err == "robot-rl: stopped\n"
    with StopRequest() as stop:
        assert not stop.is_set()
