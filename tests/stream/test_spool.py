"""Laws of the spool: what was appended is there again, in order, until it is acknowledged, whatever
happened.
"""

import os
import subprocess
from pathlib import Path

import pytest

from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.records import Kind, Record
from robot_rl.stream.recovery import repair
from robot_rl.stream.spool import Held, Spool
from robot_rl.types import DataError, RecordId, SpaceSpec
from tests.stream.test_codec import SPACE, make_step
from tests.stream.torn import flip_in

CODEC = StepCodec(SPACE)
SMALL = SpaceSpec.unnamed({"state/x": ((1,), "float32")}, 1)
RECORD_BYTES = records.HEADER_SIZE + CODEC.size


def open_spool(folder: Path, epoch: int = 1, **options) -> Spool:
    return Spool(folder, "actor", epoch, SPACE, sync_every_s=0.05, **options)


def record(seq: int, epoch: int = 1) -> Record:
    return records.frame(Kind.STEP, RecordId("actor", epoch, seq), CODEC.encode(make_step(seq)))


def fill(spool: Spool, count: int) -> None:
    for seq in range(count):
        spool.append_all([record(seq, spool.epoch)])


def read_all(spool: Spool, held: Held) -> list[int]:
    """The step numbers of all records held, each checked against its identity."""
    found = []
    for seq in range(held.first, held.end):
        one = spool.read(held.epoch, seq)
        assert one.identity == RecordId("actor", held.epoch, seq)
        found.append(CODEC.decode(one.payload).index)
    return found


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_records_come_back_over_several_processes(tmp_path):
    for epoch in (7, 3):  # epochs are random numbers: the order is that in which they came
        spool = open_spool(tmp_path, epoch)
        fill(spool, 8)
        assert read_all(spool, spool.held(epoch)) == list(range(8))
        spool.close()
    assert files(tmp_path) == [SPOOL_FILE]
    spool = open_spool(tmp_path, 5)
    assert spool.leftovers == [Held(7, 0, 8), Held(3, 0, 8)]
    assert [read_all(spool, held) for held in spool.leftovers] == [list(range(8))] * 2
    spool.close()


def test_what_is_acknowledged_goes_and_nothing_else(tmp_path):
    spool = open_spool(tmp_path, 1, keep_s=0.0, keep_records=4)
    fill(spool, 10)
    spool.acknowledge(1, 2)
    assert spool.held(1) == Held(1, 0, 10)  # a few at a time are not worth the while
    spool.acknowledge(1, 5)
    assert spool.held(1) == Held(1, 6, 10) and read_all(spool, spool.held(1)) == [6, 7, 8, 9]
    spool.acknowledge(1, 9)
    assert spool.held(1) == Held(1, 6, 10)  # so that a successor knows what was unfinished
    spool.close()
    spool = open_spool(tmp_path, 2, keep_s=0.0, keep_records=4)
    assert spool.leftovers == [Held(1, 6, 10)]
    fill(spool, 10)
    spool.acknowledge(1, 9)
    spool.acknowledge(2, 9)
    assert spool.held(1) == Held(1, 10, 10) and spool.held(2) == Held(2, 6, 10)
    assert read_all(spool, spool.held(2)) == [6, 7, 8, 9]
    spool.close()
    spool = open_spool(tmp_path, 3)
    assert spool.leftovers == [Held(2, 6, 10)]
    spool.close(delivered=True)
    assert files(tmp_path) == []


def test_a_spool_whose_records_are_acknowledged_does_not_grow(tmp_path):
    spool = open_spool(tmp_path, 1, keep_s=0.0, keep_records=16)
    sizes = []
    for seq in range(2_000):
        spool.append_all([record(seq)])
        spool.acknowledge(1, seq)
        if seq % 500 == 499:
            spool._store.sync()
            sizes.append((tmp_path / SPOOL_FILE).stat().st_size)
    assert max(sizes) < 2 * sizes[0] < 300 * RECORD_BYTES
    spool.close()


def test_what_was_acknowledged_stays_for_some_seconds(tmp_path):
    spool = open_spool(tmp_path, keep_records=0, keep_s=60.0)
    fill(spool, 4)
    spool.acknowledge(1, 3)
    assert read_all(spool, spool.held(1)) == [0, 1, 2, 3]
    spool.close()


def test_a_process_without_records_leaves_nothing(tmp_path):
    open_spool(tmp_path, 1).close()
    spool = open_spool(tmp_path, 2)
    assert spool.leftovers == []
    spool.close()
    assert files(tmp_path) == []


@pytest.mark.parametrize("lost", range(4, 16))
def test_a_repaired_spool_has_each_epoch_without_a_hole_and_nothing_that_was_delivered(
    tmp_path, lost
):
    for epoch in (1, 2):
        spool = open_spool(tmp_path, epoch)
        fill(spool, 8)
        spool.close()
    spool = open_spool(tmp_path, 3)
    spool._store.remove(4)  # the first four are delivered
    spool.append_all([record(0, 3)])
    spool.close()
    path = tmp_path / SPOOL_FILE
    flip_in(path, record(lost % 8, 1 + lost // 8), "header" if lost % 2 else "payload")
    assert repair(path)[:2] == (12, 1)
    spool = open_spool(tmp_path, 4)
    assert spool.leftovers == [Held(1, 4, 8), Held(2, 0, 8), Held(3, 0, 1)]
    for held in spool.leftovers:
        for seq in range(held.first, held.end):
            assert spool.read(held.epoch, seq).identity == RecordId("actor", held.epoch, seq)
    spool.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root")
def test_a_real_full_disk_is_an_error_and_loses_nothing(tmp_path):
    tmp_path = tmp_path / "disk"
    tmp_path.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mount.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mount.stderr.decode().strip()}")
    try:
        spool = open_spool(tmp_path / "spool", 1)
        with pytest.raises(DataError, match="No space left on device"):
            fill(spool, 1000)
        held = spool.held(1)
        assert held.end > 10 and read_all(spool, held) == list(range(held.end))
        spool.close()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        with pytest.raises(DataError, match="Read-only file system"):
            open_spool(tmp_path / "spool", 2)
        subprocess.run(["mount", "-o", "remount,rw,size=2m", str(tmp_path)], check=True)
        spool = open_spool(tmp_path / "spool", 2)
        assert [read_all(spool, one) for one in spool.leftovers] == [list(range(held.end))]
        spool.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so():
    with pytest.raises(DataError, match="spool /proc/spool cannot be written"):
        open_spool(Path("/proc/spool"))


def test_a_disk_that_refuses_in_the_background_is_an_error_at_the_next_append(
    tmp_path, monkeypatch
):
    def refuse(fd):
        raise OSError(5, "Input/output error")

    spool = open_spool(tmp_path, 1)
    spool.append_all([record(0)])
    monkeypatch.setattr(os, "fsync", refuse)
    spool.append_all([record(1)])
    spool.sync_soon()
    seq = 2
    with pytest.raises(DataError, match="Input/output error"):
        while seq < 1_000_000:
            spool.append_all([record(seq)])
            seq += 1
    spool.close()


def test_two_processes_are_not_let_into_one_spool(tmp_path):
    spool = open_spool(tmp_path, 1)
    with pytest.raises(DataError, match="another process"):
        open_spool(tmp_path, 2)
    spool.close()


def test_a_spool_of_another_run_is_refused_and_one_of_no_run_is_not(tmp_path):
    spool = open_spool(tmp_path, 1, run="aaaa")
    fill(spool, 2)
    spool.close()
    with pytest.raises(
        DataError,
        match=r"another run \(aaaa; this one is bbbb\): deliver them with that run, or move",
    ):
        open_spool(tmp_path, 2, run="bbbb")
    for run in ("", "aaaa"):
        spool = open_spool(tmp_path, 3, run=run)
        assert spool.leftovers == [Held(1, 0, 2)]
        spool.close()


def test_a_spool_of_another_space_is_refused_and_left_alone(tmp_path):
    spool = open_spool(tmp_path, 1)
    fill(spool, 2)
    spool.close()
    with pytest.raises(DataError, match="written with another space"):
        Spool(tmp_path, "actor", 2, SMALL)
    spool = open_spool(tmp_path, 3)
    assert spool.leftovers == [Held(1, 0, 2)]
    spool.close()
