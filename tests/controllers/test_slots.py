"""A slot hands over whole values, or none."""

import multiprocessing
import threading
import time

import numpy as np
import pytest

from robot_rl.controllers.slots import LatestSlot
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


def test_what_was_written_last_is_read():
    slot = LatestSlot(LAYOUT)
    assert slot.read()["count"] == 0
    slot.write(value(1))
    slot.write(value(2))
    assert slot.read()["count"] == 2
    np.testing.assert_array_equal(slot.read()["values"], 2.0)


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


def test_a_writer_that_died_in_the_middle_is_reported():
    slot = LatestSlot(LAYOUT)
    slot._header[0] += 1
    assert slot.try_read() is None
    with pytest.raises(DataError, match="writer has died"):
        slot.read()
    slot.write(value(7))  # the next writer mends it
    assert slot.read()["count"] == 7


def test_a_writer_that_was_interrupted_in_the_middle_is_waited_for():
    """An ordinary process may be set aside for many milliseconds: it has not died."""
    slot = LatestSlot(LAYOUT)
    slot._header[0] += 1
    threading.Timer(0.2, slot.write, [value(3)]).start()
    assert slot.read()["count"] == 3
