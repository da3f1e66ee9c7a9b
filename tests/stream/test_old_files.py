"""Laws of files of older versions: they are told apart, converted with all that is whole in them,
and kept.
"""

import json
import struct
import zlib
from pathlib import Path

import pytest

from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec, space_hash, space_json
from robot_rl.stream.log import StepLog
from robot_rl.stream.old_files import SPOOL_FILE, convert
from robot_rl.stream.recovery import repair
from robot_rl.stream.spool import Held, Spool
from robot_rl.types import DataError, RecordId
from tests.stream.test_codec import SPACE, make_step

HEAD = {"schema": 1, "space_hash": space_hash(SPACE), "space": space_json(SPACE)}


def old_file(magic: bytes, head: dict, several: list[RecordId], version: int = 2) -> bytes:
    """As it was written, from record to record; the step of each has its seq as index."""
    text = json.dumps(head).encode()
    data = (
        struct.pack("<8sII", magic + bytes([version]) + b"\n", len(text), zlib.crc32(text)) + text
    )
    for identity in several:
        payload = StepCodec(SPACE).encode(make_step(identity.seq))
        if version == 2:
            record = records.frame(records.Kind.STEP, identity, payload)
            data += record.header + payload
        else:
            header = struct.pack(
                "<4sB3x32sQQII", b"RRrc", 0, identity.actor.encode(), identity.epoch, identity.seq, len(payload),
                zlib.crc32(payload),
            )  # fmt: skip
            data += header + struct.pack("<I", zlib.crc32(header)) + payload
    return data


@pytest.mark.parametrize("version", [1, 2])
def test_a_log_of_an_older_version_is_named_and_converted_and_kept(tmp_path, version):
    path = tmp_path / "steps.log"
    identities = [RecordId("a", 1, seq) for seq in range(5)]
    # room ahead, of a writer that was killed
    data = old_file(b"RRLOG\0", HEAD, identities, version) + bytes(5_000)
    path.write_bytes(data)
    for read_only in (True, False):
        with pytest.raises(DataError, match=f"older version.*robot-rl data convert {path}"):
            StepLog(path, SPACE, read_only)
    with pytest.raises(DataError, match="robot-rl data convert"):
        repair(path)
    assert convert(path) == (path, 5, 0)
    assert Path(f"{path}.old").read_bytes() == data
    with StepLog(path, SPACE, run="now") as log:
        assert [identity for identity, _ in log.entries()] == identities
        assert [step.index for step in log.read()] == list(range(5))


def test_of_a_damaged_one_every_whole_record_is_kept(tmp_path):
    path = tmp_path / "steps.log"
    data = bytearray(old_file(b"RRLOG\0", HEAD, [RecordId("a", 1, seq) for seq in range(5)]))
    size = (len(data) - 300) // 5
    data[-2 * size - size // 2] ^= 0xFF
    path.write_bytes(data[:-10])  # and its end is torn
    assert convert(path)[1:] == (3, 1)
    with StepLog(path, SPACE) as log:
        assert [step.index for step in log.read()] == [0, 1, 3]
        assert log.positions == {("a", 1): 3}


def test_a_spool_of_an_older_version_is_converted_in_the_order_of_its_files(tmp_path):
    head = {"schema": 1, "space": space_hash(SPACE), "actor": "actor"}
    parts = [(7, 2, 4), (7, 4, 6), (3, 0, 2)]  # epoch, first, end
    for number, (epoch, first, end) in enumerate(parts, 1):
        identities = [RecordId("actor", epoch, seq) for seq in range(first, end)]
        data = old_file(b"RRSPL\0", head | {"epoch": epoch, "first": first}, identities)
        (tmp_path / f"{number:08d}.seg").write_bytes(data)
    (tmp_path / "lock").touch()
    with pytest.raises(DataError, match=f"robot-rl data convert {tmp_path}"):
        Spool(tmp_path, "actor", 9, SPACE)
    assert convert(tmp_path) == (tmp_path / SPOOL_FILE, 6, 0)
    spool = Spool(tmp_path, "actor", 9, SPACE)
    assert spool.leftovers == [Held(7, 2, 6), Held(3, 0, 2)]
    for held in spool.leftovers:
        for seq in range(held.first, held.end):
            assert spool.read(held.epoch, seq).identity == RecordId("actor", held.epoch, seq)
    spool.close()
    assert len(list(tmp_path.glob("*.seg.old"))) == 3


def test_what_is_no_older_file_is_a_sentence(tmp_path):
    (tmp_path / "notes.log").write_text("something else")
    StepLog(tmp_path / "new.log", SPACE).close()
    for name in ("notes.log", "new.log", "missing.log", "."):
        with pytest.raises(DataError, match=str(tmp_path)):
            convert(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.log", "notes.log"]
