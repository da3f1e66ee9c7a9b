"""Laws of the spool: what was appended is there again, in order, until it is acknowledged, whatever happened."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_rl.data import records
from robot_rl.data.codec import StepCodec
from robot_rl.data.marks import decode_mark
from robot_rl.data.records import Kind, Record
from robot_rl.data.recovery import repair
from robot_rl.data.spool import Held, Spool
from robot_rl.types import DataError, Identity, MarkKind, SpaceSpec
from tests.data.full_disk import files_of_at_most
from tests.data.test_codec import SPACE, make_step

CODEC = StepCodec(SPACE)
SMALL = SpaceSpec({"state/x": ((1,), "float32")}, 1)
RECORD_BYTES = records.HEADER_SIZE + CODEC.size


def open_spool(folder: Path, epoch: int = 1, **options) -> Spool:
    return Spool(folder, "actor", epoch, SPACE, sync_every_s=0.05, **options)


def record(seq: int, epoch: int = 1) -> Record:
    return records.frame(Kind.STEP, Identity("actor", epoch, seq), CODEC.encode(make_step(seq)))


def fill(spool: Spool, count: int) -> None:
    for seq in range(count):
        spool.append(record(seq, spool.epoch))


def read_all(spool: Spool, held: Held) -> list[int]:
    """The step numbers of all records held, each checked against its identity."""
    found = []
    for seq in range(held.first, held.end):
        one = spool.read(held.epoch, seq)
        assert one.identity == Identity("actor", held.epoch, seq)
        found.append(CODEC.decode(one.payload).index)
    return found


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.seg"))


def test_records_come_back_over_several_segments_and_processes(tmp_path):
    for epoch in (7, 3):  # epochs are random numbers: the order is that of the files
        spool = open_spool(tmp_path, epoch, segment_bytes=3 * RECORD_BYTES)
        fill(spool, 8)
        assert read_all(spool, spool.held(epoch)) == list(range(8))
        spool.close()
    spool = open_spool(tmp_path, 5)
    assert spool.leftovers == [Held(7, 0, 8), Held(3, 0, 8)]
    assert [read_all(spool, held) for held in spool.leftovers] == [list(range(8))] * 2
    spool.close()


def test_segments_go_when_wholly_acknowledged_and_not_before(tmp_path):
    spool = open_spool(tmp_path, segment_bytes=3 * RECORD_BYTES, keep_s=0.0)
    fill(spool, 8)
    assert len(segments(tmp_path)) > 3
    spool.acknowledge(1, 0)
    assert spool.held(1).first == 0
    before = len(segments(tmp_path))
    spool.acknowledge(1, 5)
    assert len(segments(tmp_path)) < before
    held = spool.held(1)
    assert 0 < held.first <= 6 and read_all(spool, held) == list(range(held.first, 8))
    spool.acknowledge(1, 7)
    assert len(segments(tmp_path)) == 1  # the one that is written, so that a successor knows what was unfinished
    spool.append(record(8))
    assert CODEC.decode(spool.read(1, 8).payload).index == 8
    spool.close(delivered=True)
    assert segments(tmp_path) == []


def test_what_was_acknowledged_stays_for_some_seconds(tmp_path):
    spool = open_spool(tmp_path, segment_bytes=RECORD_BYTES, keep_s=60.0)
    fill(spool, 4)
    spool.acknowledge(1, 3)
    assert read_all(spool, spool.held(1)) == [0, 1, 2, 3]
    spool.close()


def test_a_process_without_records_leaves_nothing(tmp_path):
    open_spool(tmp_path, 1).close()
    spool = open_spool(tmp_path, 2)
    assert spool.leftovers == []
    spool.close()
    assert segments(tmp_path) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(0, 4 * RECORD_BYTES + 300))
def test_any_torn_tail_is_cut_off(tmp_path, cut):
    shutil.rmtree(tmp_path)
    spool = open_spool(tmp_path, 1)
    fill(spool, 4)
    spool.close()
    (path,) = tmp_path.glob("*.seg")
    size = path.stat().st_size
    os.truncate(path, max(size - cut, 0))
    spool = open_spool(tmp_path, 2)
    whole = max(0, 4 - -(-cut // RECORD_BYTES))
    assert [read_all(spool, held) for held in spool.leftovers] == ([list(range(whole))] if whole else [])
    fill(spool, 2)
    spool.close()


def test_a_torn_tail_at_every_byte_of_a_small_spool_is_cut_off(tmp_path):
    codec, master = StepCodec(SMALL), tmp_path / "master"
    spool = Spool(master, "a", 1, SMALL)
    ends = []
    for seq in range(2):
        payload = codec.encode(make_step(seq, SMALL))
        spool.append(records.frame(Kind.STEP, Identity("a", 1, seq), payload))
        ends.append(spool.bytes)
    spool.close()
    whole = (master / "00000001.seg").read_bytes()
    folder = tmp_path / "torn"
    folder.mkdir()
    for size in range(len(whole) + 1):
        (folder / "00000001.seg").write_bytes(whole[:size])
        reopened = Spool(folder, "a", 2, SMALL)
        expected = sum(size >= end for end in ends)
        assert reopened.leftovers == ([Held(1, 0, expected)] if expected else [])
        assert all(reopened.read(1, seq).identity.seq == seq for seq in range(expected))
        reopened.close()
        for path in folder.glob("*.seg"):
            path.unlink()


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("where", ["payload", "header"])
def test_damage_in_the_middle_is_named_and_repaired_without_loss_of_the_others(tmp_path, where):
    spool = open_spool(tmp_path, 1)
    fill(spool, 5)
    spool.close()
    (path,) = tmp_path.glob("*.seg")
    start = path.stat().st_size - 3 * RECORD_BYTES  # of record 2
    flip(path, start + (100 if where == "payload" else 10))
    untouched = path.read_bytes()
    with pytest.raises(DataError, match=rf"{path.name} is damaged.*record 2 at byte {start}.*robot-rl data repair"):
        spool = open_spool(tmp_path, 2)
        try:
            read_all(spool, spool.leftovers[0])
        finally:
            spool.close()
    assert path.read_bytes() == untouched

    assert repair(path) == (4, 1)
    assert path.with_name(path.name + ".damaged").read_bytes() == untouched
    spool = open_spool(tmp_path, 3)
    assert spool.leftovers == [Held(1, 0, 5)]
    assert [spool.read(1, seq).kind for seq in range(5)] == [Kind.STEP, Kind.STEP, Kind.MARK, Kind.STEP, Kind.STEP]
    mark = decode_mark(spool.read(1, 2).payload)
    assert (mark.kind, mark.actor, mark.epoch, mark.last_seq) == (MarkKind.GAP, "actor", 1, 1)
    spool.close()


def test_a_file_whose_end_is_missing_before_the_next_file_is_filled_with_marks(tmp_path, caplog):
    spool = open_spool(tmp_path, 1, segment_bytes=3 * RECORD_BYTES)
    fill(spool, 5)
    first = tmp_path / segments(tmp_path)[0]
    spool.close()
    in_first = spool.held(1).end
    os.truncate(first, first.stat().st_size - 10)
    spool = open_spool(tmp_path, 2)
    assert spool.leftovers == [Held(1, 0, in_first)]
    kinds = [spool.read(1, seq).kind for seq in range(in_first)]
    assert kinds.count(Kind.MARK) == 1 and "lacks the records" in caplog.text
    spool.close()


def test_a_disk_that_is_full_is_an_error_and_loses_nothing(tmp_path):
    spool = open_spool(tmp_path, 1)
    with files_of_at_most(3 * RECORD_BYTES), pytest.raises(DataError, match="2 records in it are not lost: make room"):
        fill(spool, 9)
    assert read_all(spool, spool.held(1)) == [0, 1]
    spool.append(record(2))  # there is room again
    spool.close()
    spool = open_spool(tmp_path, 2)
    assert [read_all(spool, held) for held in spool.leftovers] == [[0, 1, 2]]
    spool.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root")
def test_a_real_full_disk_is_an_error_and_loses_nothing(tmp_path):
    tmp_path = tmp_path / "disk"
    tmp_path.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True)
    if mount.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mount.stderr.decode().strip()}")
    try:
        spool = open_spool(tmp_path / "spool", 1, segment_bytes=16 * RECORD_BYTES)
        with pytest.raises(DataError, match="No space left on device"):
            fill(spool, 1000)
        held = spool.held(1)
        assert held.end > 40 and read_all(spool, held) == list(range(held.end))
        spool.close()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        with pytest.raises(DataError, match="Read-only file system"):
            open_spool(tmp_path / "spool", 2)
        subprocess.run(["mount", "-o", "remount,rw,size=1m", str(tmp_path)], check=True)
        spool = open_spool(tmp_path / "spool", 2)
        assert [read_all(spool, one) for one in spool.leftovers] == [list(range(held.end))]
        spool.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so():
    with pytest.raises(DataError, match="spool /proc/spool cannot be written"):
        open_spool(Path("/proc/spool"))


def test_a_disk_that_refuses_in_the_background_is_an_error_at_the_next_append(tmp_path, monkeypatch):
    def refuse(fd):
        raise OSError(5, "Input/output error")

    spool = open_spool(tmp_path, 1)
    monkeypatch.setattr(os, "fdatasync", refuse)
    spool.append(record(0))
    spool.sync_soon()
    seq = 1
    with pytest.raises(DataError, match="Input/output error"):
        while seq < 1_000_000:
            spool.append(record(seq))
            seq += 1
    spool.close()


def test_two_processes_are_not_let_into_one_spool(tmp_path):
    spool = open_spool(tmp_path, 1)
    with pytest.raises(DataError, match="another process"):
        open_spool(tmp_path, 2)
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


WRITER = """
import sys
from pathlib import Path
from tests.data.test_spool import RECORD_BYTES, open_spool, record
spool = open_spool(Path(sys.argv[1]), int(sys.argv[2]), segment_bytes=20 * RECORD_BYTES)
seq = 0
while True:
    spool.append(record(seq, spool.epoch))
    seq += 1
    sys.stdout.write(f"{seq}\\n")
    sys.stdout.flush()
"""


def test_a_killed_process_loses_nothing_that_it_appended(tmp_path):
    appended = []
    for epoch in (1, 2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(epoch)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(70):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        appended.append(70 + len(writer.stdout.read().split("\n")) - 2)
        writer.wait()
    spool = open_spool(tmp_path, 3)
    assert [held.epoch for held in spool.leftovers] == [1, 2]
    for held, count in zip(spool.leftovers, appended, strict=True):
        assert held.end >= count
        assert read_all(spool, held) == list(range(held.end))
    spool.close()
