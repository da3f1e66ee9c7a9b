"""Laws of the step log: what was appended is read again, once and in order, whatever became of the writer."""

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_rl.data.log import StepLog, read_space
from robot_rl.data.recovery import repair
from robot_rl.types import DataError, Identity, Mark, MarkKind, SpaceSpec, Step
from tests.data.full_disk import files_of_at_most
from tests.data.test_codec import SPACE, assert_same, make_step


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
        for identity in (Identity("a", 1, 0), Identity("b", 2, 0), Identity("a", 1, 1)):
            log.append_step(make_step(), identity)
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        assert log.positions == {("a", 1): 1, ("b", 2): 0}
        assert [identity.actor for _, identity, _ in log.records()] == ["a", "b", "a"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(cut=st.integers(1, 2000))
def test_any_torn_tail_is_cut_off(tmp_path, cut):
    path = tmp_path / "steps.log"
    path.unlink(missing_ok=True)
    steps = write(path, 4)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(max(size - cut, 0))
    with StepLog(path, SPACE) as log:
        kept = list(log.read())
        assert len(kept) == log.count < 4
        assert log.count == len(log.positions) == 0 or log.positions.popitem()[1] == log.count - 1
        log.append_step(make_step(9))
    with StepLog(path, SPACE) as log:
        for before, after in zip([*steps[: len(kept)], make_step(9)], log.read(), strict=True):
            assert_same(before, after)


def test_last_record_with_a_wrong_checksum_is_cut_off_with_a_warning(tmp_path, caplog):
    path = tmp_path / "steps.log"
    write(path, 3)
    damage(path, path.stat().st_size - 20)
    with StepLog(path, SPACE) as log:
        assert log.count == 2
    assert "torn tail" in caplog.text


def damage(path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_damaged_payload_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "steps.log"
    write(path, 3)
    damage(path, path.stat().st_size // 2)
    with StepLog(path, SPACE) as log, pytest.raises(DataError, match="record 1 at byte"):
        list(log.read())


def test_damaged_header_in_the_middle_is_an_error_and_nothing_is_cut_off(tmp_path):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step(0))
        boundary = path.stat().st_size
        log.append_step(make_step(1))
        log.append_step(make_step(2))
    size = path.stat().st_size
    damage(path, boundary + 5)
    with pytest.raises(DataError, match="damaged in the middle: record 1"):
        StepLog(path, SPACE)
    assert path.stat().st_size == size


def test_log_of_another_space_is_refused_naming_both(tmp_path):
    write(tmp_path / "steps.log", 1)
    other = SpaceSpec({"state/sim_goal": ((6,), "float32")}, 6)
    with pytest.raises(DataError, match=r"state/tcp_pose.*state/sim_goal"):
        StepLog(tmp_path / "steps.log", other)
    assert read_space(tmp_path / "steps.log") == SPACE


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


def test_failed_append_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step(0))
        real = os.pwritev
        monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: real(fd, [pieces[0]], at))

        def full(fd, data, at):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(DataError, match="No space left"):
            log.append_step(make_step(1))
        monkeypatch.undo()
        log.append_step(make_step(1))
        assert [step.index for step in log.read()] == [0, 1]


@pytest.mark.parametrize("where", ["payload", "header"])
def test_a_damaged_log_is_repaired_without_loss_of_the_other_records(tmp_path, where):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        for seq in range(3):
            log.append_step(make_step(seq), Identity("a", 1, seq))
            if seq == 1:
                middle = path.stat().st_size
            log.append_step(make_step(10 + seq), Identity("b", 2, seq))
    damage(path, middle + (90 if where == "payload" else 3))  # record 1 of b
    with pytest.raises(DataError, match=rf"record 3 at byte {middle}.*robot-rl data repair {path}"):
        read_whole(path)
    assert repair(path) == (5, 1)
    assert path.with_name("steps.log.damaged").exists()
    with StepLog(path, SPACE) as log:
        assert [step.index for step in log.read()] == [0, 10, 1, 2, 12]
        assert log.positions == {("a", 1): 2, ("b", 2): 2}  # each stream goes on behind its own last record
        (mark,) = [said for _, said in log.entries() if isinstance(said, Mark)]
        assert (mark.kind, mark.actor, mark.epoch, mark.last_seq) == (MarkKind.GAP, "b", 2, 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(sittings=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
def test_whichever_byte_is_damaged_one_record_is_lost_and_has_its_mark(tmp_path, sittings, data):
    """Also the last one of an actor that was killed: its next process does not send it again."""
    path = tmp_path / "steps.log"
    path.unlink(missing_ok=True)
    identities = [Identity("a", epoch, seq) for epoch, many in enumerate([*sittings, 1]) for seq in range(many)]
    with StepLog(path, SPACE) as log:
        begin = []
        for number, identity in enumerate(identities):
            begin.append(path.stat().st_size)
            log.append_step(make_step(number), identity)
    at = data.draw(st.integers(begin[0], begin[-1] - 1))
    damage(path, at)
    lost = sum(offset <= at for offset in begin) - 1
    assert repair(path) == (len(identities) - 1, 1)
    with StepLog(path, SPACE) as log:
        entries = list(log.entries())
    assert [said.index for _, said in entries if isinstance(said, Step)] == [
        number for number in range(len(identities)) if number != lost
    ]
    if sum(identity.epoch == identities[lost].epoch for identity in identities) > 1:  # else nobody knows whose it was
        assert [identity for identity, _ in entries] == identities
        assert isinstance(entries[lost][1], Mark)


def test_what_its_sender_still_has_is_not_given_up(tmp_path):
    path = tmp_path / "steps.log"
    with StepLog(path, SPACE) as log:
        log.append_step(make_step(0), Identity("a", 1, 0))
        last = path.stat().st_size
        log.append_step(make_step(1), Identity("a", 1, 1))
        log.append_step(make_step(2), Identity("b", 2, 0))
    damage(path, last + 90)
    assert repair(path) == (2, 0)
    with StepLog(path, SPACE) as log:
        assert log.positions == {("a", 1): 0, ("b", 2): 0}  # from where a sends it again


def read_whole(path):
    with StepLog(path, SPACE) as log:
        return list(log.read())


def test_what_a_power_cut_kept_from_the_disk_at_the_end_is_cut_off(tmp_path):
    path = tmp_path / "steps.log"
    write(path, 5)
    size = path.stat().st_size
    record = (size - 200) // 5
    with path.open("r+b") as file:  # the file has grown, but the bytes of the last payloads are zeros
        for number in (1, 2):
            file.seek(size - number * record + 150)
            file.write(bytes(100))
    assert [step.index for step in read_whole(path)] == [0, 1, 2]


def test_marks_stand_between_the_steps_that_they_followed(tmp_path):
    path, mark = tmp_path / "steps.log", Mark(MarkKind.DISCARD, 3)
    with StepLog(path, SPACE, sync_every_s=0.01) as log:
        log.append_step(make_step(0), Identity("a", 1, 0))
        log.append_mark(mark, Identity("a", 1, 1))
        log.append_step(make_step(1), Identity("a", 1, 2))
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
        room = 3 * (path.stat().st_size - 200)
        with files_of_at_most(room), pytest.raises(DataError, match=r"records in it are not lost: make room"):
            for index in range(1, 9):
                log.append_step(make_step(index))
        kept = log.count
        assert 1 < kept < 9
        log.append_step(make_step(kept))
    assert [step.index for step in read_whole(path)] == list(range(kept + 1))


WRITER = """
import sys
from pathlib import Path
from robot_rl.data.log import StepLog
from tests.data.test_codec import SPACE, make_step
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
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
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
