"""Shared memory belongs to whoever has it: nothing has to be let go of, and nothing is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robot_rl.controllers.shared import SharedBlock

SHARE = """
import multiprocessing
import os
import sys
import numpy as np
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.slots import LatestSlot

LAYOUT = np.dtype([("count", "<i8")])

def write(slot, ring):
    slot, ring = LatestSlot(LAYOUT, slot), Ring(7, ring)
    ring.rows[0, 0] = 42.0
    slot.write(np.array((7,), LAYOUT))

if __name__ == "__main__":
    slot, ring = LatestSlot(LAYOUT), Ring(7)
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(slot.block, ring.block))
    writer.start()
    writer.join()
    print(slot.read()["count"], ring.rows[0, 0], flush=True)
    how = sys.argv[1]
    if how == "error":
        raise SystemExit(3)
    if how == "kill":
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("error", 3), ("kill", -signal.SIGKILL)])
def test_processes_that_share_a_slot_and_a_ring_end_without_a_word(tmp_path, how, code):
    script = tmp_path / "share.py"
    script.write_text(SHARE)
    ended = subprocess.run([sys.executable, str(script), how], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("7 42.0\n", "", code)


def test_memory_lives_as_long_as_somebody_looks_at_it():
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    block = SharedBlock(1 << 20)
    array = np.frombuffer(block.memory, np.uint8)
    del block
    array[:] = 5
    assert (array == 5).all()
    del array
    assert len(list(open_files.iterdir())) == before


def fill(block):
    np.frombuffer(block.memory, np.uint8)[:] = 9
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_process_wrote_is_there_after_it_was_killed():
    block = SharedBlock(100)
    writer = multiprocessing.get_context("spawn").Process(target=fill, args=(block,))
    writer.start()
    writer.join()
    assert bytes(block.memory) == b"\x09" * 100
