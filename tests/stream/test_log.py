"""Laws of the step log: what was appended is read again, once and in order, whatever became of the
writer.
"""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog, read_space
from robot_rl.stream.pages import LOG
from robot_rl.stream.records import Kind, Record, frame
from robot_rl.stream.recovery import repair
from robot_rl.stream.store import Store
from robot_rl.types import AXES, ActionSpec, DataError, Mark, MarkKind, RecordId, SpaceSpec, Step
from tests.stream.full_disk import files_of_at_most, read_only_folder
from tests.stream.test_codec import SPACE, assert_same, make_step
from tests.stream.torn import BLOCK, as_killed, flip, flip_in, punch


def write(path, count: int) -> list[Step]:
    steps = [make_step(i) for i in range(count)]
    with StepLog(path, SPACE) as log:
        for step in steps:
            log.append_step(step)
    return steps


def test_steps_come_back_in_order_after_reopening(tmp_path):
    steps = write(tmp_path / "steps.log", 5)
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        assert log.count == 5
        log.append_step(make_step(5))
        for before, after in zip([*steps, make_step(5)], log.read(), strict=True):
            assert_same(before, after)
        assert [step.index for step in log.read(4)] == [4, 5]


def test_positions_are_known_again(tmp_path):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        for identity in (RecordId("a", 1, 0), RecordId("b", 2, 0), RecordId("a", 1, 1)):
            log.append_step(make_step(), identity)
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        assert log.positions == {("a", 1): 1, ("b", 2): 0}
        assert [identity.actor for _, identity, _ in log.records()] == ["a", "b", "a"]


def test_a_log_that_went_on_after_a_power_cut_is_repaired_with_what_was_written_since(tmp_path):
    """What lies behind a torn place of the write-ahead log, of before, is no longer part of it."""
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE, sync_every_s=1e6) as log:
        for index in range(12):
            log.append_step(make_step(index), RecordId("a", 1, index))
        torn = as_killed(path, tmp_path / "torn")
    wal = torn.with_name(torn.name + "-wal")
    for block in range(0, wal.stat().st_size // BLOCK, 3):
        went_on = as_killed(torn, tmp_path / f"punched-{block}")
        punch(went_on.with_name(wal.name), block)
        try:
            with StepLog(went_on, SPACE, sync_every_s=1e6) as log:
                log.append_step(make_step(0), RecordId("b", 2, 0))
                then = as_killed(went_on, tmp_path / f"killed-{block}")
        except DataError:
            continue  # not even its head was on the disk
        with StepLog(then, SPACE, read_only=True) as log:
            known = [identity for _, identity, _ in log.records()]
        kept, lost, _ = repair(then)
        with StepLog(then, SPACE, read_only=True) as log:
            assert [identity for _, identity, _ in log.records()] == known
        assert (kept, lost) == (len(known), 0) and known[-1] == RecordId("b", 2, 0)


def test_whatever_is_missing_of_what_was_not_synced_the_rest_is_whole_and_goes_on(tmp_path):
    """A power cut may take any part of the write-ahead log, in blocks."""
    path = tmp_path / "steps.log"
    steps = [make_step(i) for i in range(12)]
    with StepLog(path, SPACE) as log:
        for step in steps[:3]:
            log.append_step(step, RecordId("a", 1, step.index))
        log.sync()
        for step in steps[3:]:
            log.append_step(step, RecordId("a", 1, step.index))
        whole = as_killed(path, tmp_path / "whole")
    size = Path(f"{whole}-wal").stat().st_size
    counts = set()
    for torn in range(0, size + 1, 4_001):
        for tear in ("cut", "hole"):
            wal = Path(f"{shutil.copy(whole, path)}-wal")
            data = bytearray(Path(f"{whole}-wal").read_bytes())
            data[torn : size if tear == "cut" else torn + BLOCK] = bytes(
                (size - torn) if tear == "cut" else BLOCK
            )
            wal.write_bytes(data[:torn] if tear == "cut" else data[:size])
            with StepLog(path, SPACE) as log:
                kept = log.count
                assert log.positions == {("a", 1): kept - 1} and kept >= 3
                log.append_step(make_step(99), RecordId("a", 1, kept))
            with StepLog(path, SPACE, read_only=True) as log:
                assert [step.index for step in log.read()] == [*range(kept), 99]
            counts.add(kept)
    assert counts >= set(range(3, 12))


@pytest.mark.parametrize("where", ["payload", "header"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_record_is_an_error_and_nothing_is_changed(tmp_path, number, where):
    path = tmp_path / "steps.log"
    several = write_records(path, [RecordId("a", 1, seq) for seq in range(3)])
    flip_in(path, several[number], where)
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(
            DataError, match=rf"{path} is damaged: record {number} .*robot-rl data repair {path}"
        ):
            read_whole(path, read_only)
    assert path.read_bytes() == before


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_records(path, identities) -> list[Record]:
    """A log with a step for each identity, whose index is its number in the log."""
    codec = StepCodec(SPACE)
    several = [
        frame(Kind.STEP, each, codec.encode(make_step(number)))
        for number, each in enumerate(identities)
    ]
    with StepLog(path, SPACE) as log:
        log.append_records(several)
    return several


def test_log_of_another_space_is_refused_naming_both(tmp_path):
    write(tmp_path / "steps.log", 1)
    other = SpaceSpec.unnamed({"state/sim_goal": ((6,), "float32")}, 6)
    with pytest.raises(DataError, match=r"state/tcp_pose.*state/sim_goal"):
        StepLog(tmp_path / "steps.log", other)
    assert read_space(tmp_path / "steps.log") == SPACE


def named(*axes: str) -> SpaceSpec:
    return SpaceSpec(SPACE.observations, ActionSpec(tuple(f"panda.{axis}" for axis in axes)))


def test_the_names_of_an_actions_numbers_stand_in_the_log(tmp_path):
    four = named("x", "y", "z", "rz")
    with StepLog(tmp_path / "steps.log", four) as log:
        log.append_step(make_step(space=four))
    assert read_space(tmp_path / "steps.log") == four
    for other in (named("x", "y", "rz", "z"), named("x", "y", "z", "rx"), SPACE):
        with pytest.raises(DataError, match=r"panda.z, panda.rz\).* this run has") as error:
            StepLog(tmp_path / "steps.log", other)
        assert ", ".join(other.actions.names) in str(error.value).partition("this run has")[2]


def test_a_log_of_before_actions_had_names_is_read_and_goes_on(tmp_path):
    """Its head as it was then, by hand."""
    path = tmp_path / "steps.log"
    space = {
        "observations": {
            n: [list(shape), d] for n, (shape, d) in sorted(SPACE.observations.items())
        },
        "action_size": 6,
    }
    text = json.dumps(space, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    head = {"schema": 2, "space_hash": digest, "space": space, "run": "r"}
    store = Store(path, "log", kind=LOG, create=head)
    store.append([frame(Kind.STEP, RecordId("a", 1, 0), StepCodec(SPACE).encode(make_step(0)))])
    store.close()
    assert read_space(path) == SPACE
    with StepLog(path, named(*AXES), run="r") as log:
        log.append_step(make_step(1))
        assert [step.index for step in log.read()] == [0, 1]
    with pytest.raises(DataError, match=r"0.ry, 0.rz\).* panda.rz, panda.x\)"):
        StepLog(path, named("y", "z", "rx", "ry", "rz", "x"), read_only=True)


def test_some_other_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("a long letter about something else entirely")
    with pytest.raises(DataError, match="not a step log"):
        StepLog(path, SPACE)
    assert path.read_text().startswith("a long letter")


def test_two_writers_are_refused_and_a_reader_is_not(tmp_path):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step())
        with StepLog(path, SPACE, read_only=True) as reader:
            assert reader.count == 1
        with pytest.raises(DataError, match="another process"):
            StepLog(path, SPACE)


def test_a_closed_log_is_one_file_and_opening_it_changes_nothing(tmp_path):
    path = tmp_path / "steps.log"
    write(path, 3)
    assert names(tmp_path) == ["steps.log"]
    before = path.read_bytes()
    with StepLog(path, SPACE) as log:
        assert log.count == 3
    with StepLog(path, SPACE, read_only=True) as log:
        assert len(list(log.read())) == 3
    assert names(tmp_path) == ["steps.log"] and path.read_bytes() == before


@pytest.mark.parametrize("read_at_the_end", [False, True])
def test_a_log_is_read_where_nothing_can_be_written(tmp_path, read_at_the_end):
    path = tmp_path / "shelf" / "steps.log"
    path.parent.mkdir()
    with StepLog(path, SPACE) as log:
        for index in range(3):
            log.append_step(make_step(index))
        reader = StepLog(path, SPACE, read_only=True) if read_at_the_end else None
    if reader is not None:
        assert len(list(reader.read())) == 3
        reader.close()
    with read_only_folder(path.parent):
        with StepLog(path, SPACE, read_only=True) as log:
            assert len(list(log.read())) == 3
        with pytest.raises(DataError, match="cannot be opened"):
            StepLog(path, SPACE)


def test_what_is_too_short_to_be_a_log_is_damage_and_no_empty_log(tmp_path):
    path = tmp_path / "steps.log"
    write(path, 3)
    data = path.read_bytes()
    for size in (0, 1, 7, 20, 100, 5000, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        for read_only in (True, False):
            with pytest.raises(DataError, match=r"steps\.log is damaged"):
                StepLog(path, SPACE, read_only)
        assert path.read_bytes() == data[:size]


def test_a_log_of_another_run_is_refused_and_one_of_no_run_is_not(tmp_path):
    path = tmp_path / "steps.log"
    StepLog(path, SPACE, run="aaaa").close()
    with pytest.raises(DataError, match=r"is of another run \(aaaa; this one is bbbb\)"):
        StepLog(path, SPACE, run="bbbb")
    for run in ("aaaa", ""):
        StepLog(path, SPACE, run=run).close()
    StepLog(tmp_path / "old.log", SPACE).close()
    StepLog(tmp_path / "old.log", SPACE, run="bbbb").close()


@pytest.mark.parametrize("where", ["payload", "header"])
def test_a_damaged_log_is_repaired_without_loss_of_the_other_records(tmp_path, where):
    path = tmp_path / "steps.log"
    identities = [
        RecordId(actor, epoch, seq) for seq in range(3) for actor, epoch in (("a", 1), ("b", 2))
    ]
    several = write_records(path, identities)
    flip_in(path, several[3], where)  # record 1 of b
    damaged = path.read_bytes()
    kept, lost, aside = repair(path)
    assert (kept, lost) == (5, 1)
    assert aside is not None and aside.name == "steps.log.damaged" and aside.read_bytes() == damaged
    assert names(tmp_path) == ["steps.log", "steps.log.damaged"]
    with StepLog(path, SPACE) as log:
        assert [identity for identity, _ in log.entries()] == identities
        assert [step.index for step in log.read()] == [0, 1, 2, 4, 5]
        (mark,) = [said for _, said in log.entries() if isinstance(said, Mark)]
        assert (mark.kind, mark.actor, mark.epoch, mark.last_seq) == (MarkKind.GAP, "b", 2, 0)


def test_no_repair_writes_over_what_an_earlier_one_has_set_aside(tmp_path):
    path = tmp_path / "steps.log"
    several = write_records(path, [RecordId("a", 1, seq) for seq in range(3)])
    contents = []
    for record, name in zip(
        several, ("steps.log.damaged", "steps.log.damaged-2", "steps.log.damaged-3"), strict=True
    ):
        flip_in(path, record)
        contents.append(path.read_bytes())
        assert repair(path)[2] == tmp_path / name
    assert [each.read_bytes() for each in sorted(tmp_path.glob("*.damaged*"))] == contents


def test_a_sound_log_is_not_written_anew(tmp_path):
    path = tmp_path / "steps.log"
    write_records(path, [RecordId("a", 1, seq) for seq in range(3)])
    before = path.read_bytes()
    assert repair(path) == (3, 0, None)
    assert names(tmp_path) == ["steps.log"] and path.read_bytes() == before


def test_a_log_in_use_is_not_repaired(tmp_path):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step(0))
        with pytest.raises(DataError, match="is being written by another process"):
            repair(path)
        log.append_step(make_step(1))
    assert len(read_whole(path)) == 2 and names(tmp_path) == ["steps.log"]


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_whichever_byte_is_damaged_at_most_one_record_is_lost_and_has_its_mark(
    tmp_path, large, killed
):
    """Also the last one, and that of an actor that was killed: its next process does not send it
    again.
    """
    draw = random.Random(large + 2 * killed)
    path, sizes = tmp_path / "x.log", (30_000,) if large else (50, 400)
    identities = [RecordId("a", epoch, seq) for epoch in range(4) for seq in range(epoch + 1)]
    several = [frame(Kind.STEP, each, draw.randbytes(draw.choice(sizes))) for each in identities]
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        log.append_records(several)
        if killed:
            log.sync()
            whole = as_killed(log.path, tmp_path / "killed")
    whole = whole if killed else tmp_path / "steps.log"
    size = whole.stat().st_size
    for at in [1, 17, 99, *(draw.randrange(size) for _ in range(14))]:
        shutil.copy(whole, path)
        flip(path, at, 1 << draw.randrange(8))
        *_, aside = repair(path)
        with StepLog(path, SPACE, read_only=True) as log:
            found = {identity: bytes(payload) for _, identity, payload in log.records()}
            assert log.count + log.lost == len(several)
        kept = sum(
            found[record.identity] == record.payload
            for record in several
            if record.identity in found
        )
        assert kept >= len(several) - 1
        assert list(found) == identities or kept == len(several) - 1
        if aside is not None:  # else that byte was one that nobody reads
            aside.unlink()


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_lost_block_of_a_closed_log_is_an_error_and_costs_what_lay_in_it(tmp_path, large):
    draw = random.Random(large)
    path, whole = tmp_path / "x.log", tmp_path / "steps.log"
    several = [
        frame(Kind.STEP, RecordId("a", 1, seq), draw.randbytes(98_000 if large else 500))
        for seq in range(8 if large else 100)
    ]
    with StepLog(whole, SPACE) as log:
        log.append_records(several)
    with StepLog(whole, SPACE, read_only=True) as log:
        payloads = [bytes(payload) for _, _, payload in log.records()]
    blocks = range(whole.stat().st_size // BLOCK)
    for block in [0, 1, 2, 4, 6, *draw.sample(blocks[7:], 7)]:
        shutil.copy(whole, path)
        punch(path, block)
        before = path.read_bytes()
        try:
            with StepLog(path, SPACE) as log:
                assert [bytes(payload) for _, _, payload in log.records()] == payloads
        except DataError as error:
            assert f"{path} is damaged" in str(error) and "data repair" in str(error)
        assert path.read_bytes() == before
        kept, lost, aside = repair(path)
        assert kept + lost == len(several) and lost <= (2 if large else BLOCK // 500 + 2)
        if aside is not None:
            assert aside.read_bytes() == before
            aside.unlink()


def read_whole(path, read_only=False):
    with StepLog(path, SPACE, read_only) as log:
        return list(log.read())


def test_marks_stand_between_the_steps_that_they_followed(tmp_path):
    path, mark = tmp_path / "steps.log", Mark(MarkKind.DISCARD, 3)
    with StepLog(path, SPACE, sync_every_s=0.01) as log:
        log.append_step(make_step(0), RecordId("a", 1, 0))
        log.append_mark(mark, RecordId("a", 1, 1))
        log.append_step(make_step(1), RecordId("a", 1, 2))
    with StepLog(path, SPACE) as log:
        entries = list(log.entries())
        assert [identity.seq for identity, _ in entries] == [0, 1, 2]
        assert entries[1][1] == mark
        assert [step.index for step in log.read()] == [0, 1]
        assert log.positions == {("a", 1): 2}


def test_a_disk_that_is_full_is_an_error_and_loses_nothing(tmp_path):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step(0))
        room = 60_000
        with (
            files_of_at_most(room),
            pytest.raises(DataError, match=r"records in it are not lost: make room"),
        ):
            for index in range(1, 99):
                log.append_step(make_step(index))
        kept = log.count
        assert 1 < kept < 99
        log.append_step(make_step(kept))
    assert [step.index for step in read_whole(path)] == list(range(kept + 1))


WRITER = """
import sys
from pathlib import Path
from robot_rl.stream.log import StepLog
from tests.stream.test_codec import SPACE, make_step
log = StepLog(Path(sys.argv[1]), SPACE)
index = log.count
while True:
    log.append_step(make_step(index))
    index += 1
    sys.stdout.write(f"{index}\\n")
    sys.stdout.flush()
"""


def test_killed_writer_loses_nothing_that_it_appended(tmp_path):
    path = tmp_path / "steps.log"
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout
        writer.stdout.readline()
        time.sleep(0.1)
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().split("\n")
        writer.wait()
        appended = int(lines[-2])
        with StepLog(path, SPACE) as log:
            assert log.count >= appended
            assert [step.index for step in log.read()] == list(range(log.count))
