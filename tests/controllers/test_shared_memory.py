"""Shared memory belongs to whoever has it, and nothing is left behind; a slot hands over whole
values, or none.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_rl.controllers.shared_memory import LatestSlot, SharedBlock
from robot_rl.types import DataError

LAYOUT = np.dtype([("count", "<i8"), ("values", "<f8", 64)])


def value(count):
    return np.array((count, np.full(64, float(count))), LAYOUT)


def write_for(block, seconds):
    slot = LatestSlot(LAYOUT, block)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        slot.write(value(count))


def test_a_reader_in_another_process_never_sees_half_a_value():
    slot = LatestSlot(LAYOUT)
    writer = multiprocessing.get_context("spawn").Process(target=write_for, args=(slot.block, 1.0))
    writer.start()
    seen = set()
    while writer.is_alive():
        got = slot.try_read()
        if got is not None:
            assert (got["values"] == got["count"]).all()
            seen.add(int(got["count"]))
    writer.join()
    assert len(seen) > 5  # the writer never rests, so that most attempts meet it


class Interrupted(Exception):
    pass


class Stops:
    """Memory whose writer gets no further than so many stores, as one that is killed or set aside."""

    def __init__(self, memory, stores):
        self.memory, self.left = memory, stores

    def __getitem__(self, at):
        return self.memory[at]

    def __setitem__(self, at, what):
        if not self.left:
            raise Interrupted
        self.left -= 1
        self.memory[at] = what


class HalfWritten:
    """Copies of which each store fills the first half only."""

    def __init__(self, copies):
        self.copies = copies

    def __setitem__(self, copy, raw):
        self.copies[copy, : len(raw) // 2] = raw[: len(raw) // 2]


@pytest.mark.parametrize("stores", [0, 1])
def test_a_writer_that_is_interrupted_at_any_store_leaves_the_value_before(stores):
    """A loop that hangs in the middle of its report: the network side still says how old it is."""
    slot = LatestSlot(LAYOUT)
    for count in range(1, 4):
        slot.write(value(count))
        writer: Any = LatestSlot(LAYOUT, slot.block)
        writer._header = Stops(writer._header, stores)
        writer._copies = HalfWritten(writer._copies)
        with pytest.raises(Interrupted):
            writer.write(value(100 + count))
        assert slot.read()["count"] == count
        slot.write(value(200 + count))  # the next writer mends it
        got = slot.read()
        assert (got["values"] == got["count"]).all() and got["count"] == 200 + count


def test_damaged_memory_is_an_error():
    slot = LatestSlot(LAYOUT)
    slot._copies[:] = 77
    assert slot.try_read() is None
    with pytest.raises(DataError, match="damaged"):
        slot.read()


SHARE = """
import multiprocessing
import os
import sys
import numpy as np
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.shared_memory import LatestSlot

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
    ended = subprocess.run(
        [sys.executable, str(script), how], capture_output=True, text=True, timeout=60
    )
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
