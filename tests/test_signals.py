"""A stop is a flag: whatever the handler does may be interrupted by the next signal, so it must take no lock."""

import signal
import subprocess
import sys
import time

CHILD = """
import time
from robot_rl.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    end = time.monotonic() + 1.0
    while not stop.is_set() or time.monotonic() < end:
        pass
"""


def test_signals_that_interrupt_each_other_stop_a_process_and_hang_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            child.send_signal(signal.SIGTERM)
        try:
            assert child.wait(10) == 0
        finally:
            child.kill()
