"""Laws of a file of records: room that was asked for ahead, holes that a power cut leaves, files of version 1."""

import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from robot_rl.data import records
from robot_rl.data.codec import SCHEMA, StepCodec, space_hash, space_json
from robot_rl.data.log import StepLog
from robot_rl.data.records import Kind, RecordFile
from robot_rl.data.recovery import BLOCK, repair
from robot_rl.data.spool import Held, Spool
from robot_rl.types import DataError, Identity, SpaceSpec
from tests.data.test_codec import make_step

LARGE = SpaceSpec({"image/wrist": ((128, 128, 3), "uint8")}, 6)
CODEC = StepCodec(LARGE)
SIZE = records.HEADER_SIZE + CODEC.size
COUNT = 100  # 5 MB: more than what is grown write by write
PAYLOADS = [CODEC.encode(make_step(index, LARGE)) for index in range(COUNT)]


def record(seq: int) -> records.Record:
    return records.frame(Kind.STEP, Identity("actor", 1, seq), PAYLOADS[seq])


@pytest.fixture
def unclosed(tmp_path) -> Path:
    """A log as its writer leaves it when it is killed."""
    with StepLog(tmp_path / "steps.log", LARGE) as log:
        log.append_records([record(seq) for seq in range(8)])
        for seq in range(8, COUNT):
            log.append_record(record(seq))
        with StepLog(log.path, LARGE, read_only=True) as reader:
            assert [step.index for step in reader.read()] == list(range(COUNT))
        return Path(shutil.copy(log.path, tmp_path / "killed.log"))


def indices(path: Path) -> list[int]:
    with StepLog(path, LARGE) as log:
        return [step.index for step in log.read()]


def test_room_that_was_asked_for_ahead_is_given_back(unclosed, tmp_path, caplog):
    assert unclosed.stat().st_size > COUNT * SIZE + BLOCK
    assert indices(unclosed) == list(range(COUNT))
    assert not caplog.records  # nothing was torn
    for path in (unclosed, tmp_path / "steps.log"):
        assert COUNT * SIZE < path.stat().st_size < COUNT * SIZE + BLOCK


def full(*_):
    raise OSError(28, "the disk is full")


def test_where_the_disk_has_no_room_ahead_records_go_on_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", full)
    with StepLog(tmp_path / "steps.log", LARGE) as log:
        for seq in range(COUNT):
            log.append_record(record(seq))
    assert indices(tmp_path / "steps.log") == list(range(COUNT))


@pytest.mark.parametrize("torn", [90, 98, 99])
@pytest.mark.parametrize("where", ["payload", "header and what is before it"])
def test_a_file_ends_where_a_power_cut_has_left_a_hole(unclosed, torn, where, caplog):
    whole = unclosed.with_name("steps.log").stat().st_size
    begin = whole - (COUNT - torn) * SIZE
    block = begin // BLOCK + (2 if where == "payload" else 0)
    kept = torn if where == "payload" else torn - 1
    with unclosed.open("r+b") as file:
        file.seek(block * BLOCK)
        file.write(bytes(BLOCK))
    assert indices(unclosed) == list(range(kept))
    assert "torn tail" in caplog.text
    with StepLog(unclosed, LARGE) as log:
        log.append_record(record(kept))  # as the actor sends it again
    assert indices(unclosed) == list(range(kept + 1))
    aside = list(unclosed.parent.glob("killed.log.cut-at-*"))
    assert len(aside) == (torn < COUNT - 1)  # nothing whole is thrown away


def test_a_changed_byte_is_no_hole(unclosed):
    with unclosed.open("r+b") as file:
        file.seek(90 * SIZE)
        file.write(b"\x00\x01\x02\x03" * 8)
    with pytest.raises(DataError, match="robot-rl data repair"):
        indices(unclosed)
    assert repair(unclosed) == (COUNT - 1, 1)
    assert len(indices(unclosed)) == COUNT - 1


def test_a_hole_in_a_spool_is_the_end_of_it(tmp_path):
    spool = Spool(tmp_path / "spool", "actor", 1, LARGE)
    for at in range(0, COUNT, 5):
        spool.append_all([record(seq) for seq in range(at, at + 5)])
    (path,) = (tmp_path / "spool").glob("*.seg")
    killed = tmp_path / "killed"
    killed.mkdir()
    shutil.copy(path, killed)
    spool.close()
    with (killed / path.name).open("r+b") as file:
        file.seek((95 * SIZE // BLOCK + 2) * BLOCK)
        file.write(bytes(BLOCK))
    spool = Spool(killed, "actor", 2, LARGE)
    assert spool.leftovers == [Held(1, 0, 95)]
    assert all(spool.read(1, seq).payload == PAYLOADS[seq] for seq in range(95))
    spool.close()


def test_a_write_that_the_disk_takes_in_part_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    file = RecordFile(fd, 0)
    file.append([b"abc", b"def"])
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: real(fd, [pieces[0]], at))
    file.append([b"gh", b"ij"])
    assert (tmp_path / "file").read_bytes() == b"abcdefghij"
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="full"):
        file.append([b"kl", b"mn"])
    assert (tmp_path / "file").read_bytes() == b"abcdefghij"
    os.close(fd)


def test_a_log_of_version_1_is_read_and_goes_on_as_version_2(tmp_path):
    path = tmp_path / "steps.log"
    text = json.dumps({"schema": SCHEMA, "space_hash": space_hash(LARGE), "space": space_json(LARGE)}).encode()
    data = struct.pack("<8sII", b"RRLOG\x00\x01\n", len(text), zlib.crc32(text)) + text
    for seq in range(3):
        payload = PAYLOADS[seq]
        header = struct.pack("<4sB3x32sQQII", b"RRrc", 0, b"actor", 1, seq, len(payload), zlib.crc32(payload))
        data += header + struct.pack("<I", zlib.crc32(header)) + payload
    path.write_bytes(data)
    with StepLog(path, LARGE, read_only=True) as log:
        assert [step.index for step in log.read()] == [0, 1, 2]
    assert path.read_bytes() == data
    with StepLog(path, LARGE) as log:
        log.append_record(record(3))
    assert path.read_bytes()[:8] == b"RRLOG\x00\x02\n"  # older code refuses it, and does not cut the new records off
    assert indices(path) == [0, 1, 2, 3]
    with path.open("r+b") as file:
        file.seek(len(text) + 200 + SIZE)
        file.write(b"\xff" * 8)
    assert repair(path) == (3, 1)
