"""Laws of the steps link over crashes: what was appended arrives once and in order, and what is
missing is recorded.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robot_rl.links.sockets import ANY_PORT, free_addresses
from robot_rl.stream import StepReceiver, StepSender
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.records import Kind, frame
from robot_rl.stream.recovery import repair
from robot_rl.stream.sender_thread import KEPT_WINDOWS
from robot_rl.types import DataError, LinkError, Mark, MarkKind, RecordId, Step
from tests.stream.full_disk import files_of_at_most
from tests.stream.test_codec import SPACE, make_step
from tests.stream.test_steps import start_learner
from tests.stream.torn import as_killed, flip_in

ACTOR = """
import sys, time
from pathlib import Path
from robot_rl.stream import StepSender
from tests.stream.test_codec import SPACE, make_step
sender = StepSender(sys.argv[1], SPACE, spool=Path(sys.argv[2]), resend_s=0.3)
for index in range(1_000_000):
    sender.send(make_step(index, episode=0, truncated=False))
    sys.stdout.write(f"{sender.epoch} {sender.stored}\\n")
    sys.stdout.flush()
    time.sleep(0.001)
"""


class Killable:
    """An actor process that sends until it is killed, and says how many of its records are on the
    disk.
    """

    def __init__(self, address: str, spool: Path):
        command = [sys.executable, "-c", ACTOR, address, str(spool)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.epoch = self._said()[0]

    def _said(self) -> tuple[int, int]:
        assert self._process.stdout is not None
        epoch, stored = self._process.stdout.readline().split()
        return int(epoch), int(stored)

    def run_until_stored(self, count: int) -> None:
        while self._said()[1] < count:
            pass

    def kill(self) -> int:
        """Kill it; returns how many records it knew to be on the disk."""
        self._process.send_signal(signal.SIGKILL)
        assert self._process.stdout is not None
        lines = [
            line for line in self._process.stdout.read().split("\n")[:-1] if line.count(" ") == 1
        ]
        self._process.wait()
        return int(lines[-1].split()[1]) if lines else 0


def entries(path: Path) -> list[tuple[RecordId, Step | Mark]]:
    with StepLog(path, SPACE, read_only=True) as log:
        return list(log.entries())


def require_each_once_and_in_order(path: Path, stored: dict[int, int]) -> None:
    """`stored`: of each epoch, in the order in which they lived, how many records are in the log at
    least.
    """
    found = entries(path)
    epochs = list(dict.fromkeys(identity.epoch for identity, _ in found))
    assert epochs == list(stored)
    at = 0
    for number, epoch in enumerate(epochs):
        of_epoch = [(identity, said) for identity, said in found if identity.epoch == epoch]
        assert found[at : at + len(of_epoch)] == of_epoch  # not mixed with another
        at += len(of_epoch)
        assert [identity.seq for identity, _ in of_epoch] == list(range(len(of_epoch)))
        assert len(of_epoch) >= stored[epoch]
        steps = [said for _, said in of_epoch if isinstance(said, Step)]
        assert [step.index for step in steps] == list(range(len(steps)))
        if number:
            before = [identity for identity, _ in found if identity.epoch == epochs[number - 1]]
            gap = of_epoch[0][1]
            assert isinstance(gap, Mark) and gap.kind is MarkKind.GAP
            assert (gap.actor, gap.epoch, gap.episode) == ("actor", epochs[number - 1], 0)
            assert gap.last_seq == before[-1].seq


@pytest.mark.slow
@pytest.mark.parametrize("order", ["learner first", "actor first"])
def test_actor_and_learner_are_killed_and_nothing_stored_is_lost(tmp_path, order):
    log, spool, address = tmp_path / "steps.log", tmp_path / "spool", free_addresses(1)[0]
    stored = {}
    learner = start_learner(log, address)
    for round_ in range(3):
        actor = Killable(address, spool)
        actor.run_until_stored(60)
        if round_ == 1:
            learner.kill()
            learner.wait()
            actor.run_until_stored(120)  # the learner is away: into the spool alone
            if order == "learner first":
                learner = start_learner(log, address)
                actor.run_until_stored(160)
        stored[actor.epoch] = actor.kill()
        if round_ == 1 and order == "actor first":
            learner = start_learner(log, address)
    sender = StepSender(address, SPACE, spool=spool, resend_s=0.3)
    sender.drain_leftovers(20.0)
    sender.drain(20.0)
    sender.close()
    learner.kill()
    learner.wait()
    stored[sender.epoch] = 1  # its mark
    require_each_once_and_in_order(log, stored)


class Here:
    """A learner in this process: a receiver and its log."""

    def __init__(self, path: Path, address: str = ANY_PORT):
        self.log = StepLog(path, SPACE)
        self.receiver = StepReceiver(address, SPACE, self.log.positions)
        self.address = self.receiver.address

    def take_until(self, done, timeout_s: float = 20.0) -> None:
        """Receive, log and acknowledge until `done()`."""
        deadline = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, f"{self.log.count} records came"
            batch = self.receiver.receive(0.05)
            self.log.append_records([received.record for received in batch])
            self.receiver.ack(batch)

    def said(self) -> list[Step | Mark]:
        return [said for _, said in self.log.entries()]

    def close(self) -> None:
        self.receiver.close()
        self.log.close()


@pytest.fixture
def learner(tmp_path):
    learner = Here(tmp_path / "steps.log")
    yield learner
    learner.close()


def delivered(sender: StepSender):
    return lambda: sender.unacknowledged + sender.leftovers == 0


def test_the_backlog_lies_on_the_disk_and_not_in_memory(tmp_path, learner):
    learner.receiver.close()
    sender = StepSender(
        learner.address, SPACE, spool=tmp_path / "spool", window=8, resend_s=0.2, limit=2000
    )
    for index in range(500):
        sender.send(make_step(index))
    deadline = time.monotonic() + 20.0
    while sender.stored < 500 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sender.stored == 500 == sender.unacknowledged
    assert len(sender._thread._queue._memory) <= 8 * KEPT_WINDOWS
    learner.receiver = StepReceiver(learner.address, SPACE)
    learner.take_until(delivered(sender))
    assert [step.index for step in learner.log.read()] == list(range(500))
    sender.close()
    # all of it is at the learner, and the episode has its end
    assert not list((tmp_path / "spool").iterdir())


def test_marks_travel_among_the_steps(tmp_path, learner):
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    sent: list[Step | Mark] = [
        make_step(0),
        make_step(1),
        Mark(MarkKind.SUCCESS, 3, reward=1.0),
        make_step(2),
    ]
    for said in sent:
        sender.send(said)
    learner.take_until(delivered(sender))
    sender.close()
    assert learner.said()[2] == sent[2]
    assert [said.index for said in learner.said() if isinstance(said, Step)] == [0, 1, 2]


@pytest.mark.parametrize("ended", [False, True])
def test_a_gap_is_recorded_only_where_an_episode_has_no_end(tmp_path, learner, ended):
    first = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    first.send(make_step(0, episode=4, truncated=False))
    first.send(make_step(1, episode=4, truncated=ended))
    first.send(Mark(MarkKind.UNDO, 3))
    first.close()
    second = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    second.send(make_step(0, episode=5))
    learner.take_until(delivered(second))
    second.close()
    marks = [
        said for said in learner.said() if isinstance(said, Mark) and said.kind is MarkKind.GAP
    ]
    assert [(m.actor, m.epoch, m.episode, m.last_seq) for m in marks] == [
        ("actor", first.epoch, 4, 2)
    ] * (not ended)
    assert [identity.epoch for identity, _ in learner.log.entries()][:3] == [first.epoch] * 3


def test_a_bad_step_is_refused_where_it_is_made_and_those_around_it_arrive(tmp_path, learner):
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    sender.send(make_step(0))
    with pytest.raises(DataError, match="reward nan"):
        sender.send(make_step(1, reward=float("nan")))
    sender.send(make_step(2))
    learner.take_until(delivered(sender))
    sender.close()
    assert [step.index for step in learner.log.read()] == [0, 2]


def test_a_full_disk_stops_the_actor_and_what_it_handed_over_still_arrives(tmp_path, learner):
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool", window=4)
    sent = 0
    with (
        files_of_at_most(90_000),
        pytest.raises(DataError, match=r"cannot be written: .* are not lost: make room"),
    ):
        while sent < 100_000:
            sender.send(make_step(sent, truncated=False))
            sent += 1
            time.sleep(0.002)
    learner.take_until(delivered(sender))  # what the disk did not take came from memory
    sender.drain(1.0)
    sender.close()
    assert [step.index for step in learner.log.read()] == list(range(sent))
    successor = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    learner.take_until(delivered(successor))
    assert [step.index for step in learner.log.read()] == list(range(sent))  # nothing came twice
    successor.close()


def test_a_full_disk_without_a_learner_keeps_what_was_written_for_the_next_process(
    tmp_path, learner
):
    nowhere = free_addresses(1)[0]
    sender = StepSender(nowhere, SPACE, spool=tmp_path / "spool")
    with files_of_at_most(90_000), pytest.raises(DataError, match="cannot be written"):
        while True:
            sender.send(make_step(sender.unacknowledged, truncated=False))
            time.sleep(0.002)
    stored = sender.stored
    assert stored > 2
    with pytest.raises(LinkError, match="Is it running"):
        sender.drain(0.1)
    sender.close()
    successor = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    learner.take_until(delivered(successor))
    assert [step.index for step in learner.log.read()] == list(range(stored))
    successor.close()


def test_a_damaged_leftover_is_named_and_after_its_repair_all_others_arrive(tmp_path, learner):
    sender = StepSender(free_addresses(1)[0], SPACE, spool=tmp_path / "spool")
    for index in range(5):
        sender.send(make_step(index))
    sender.close()
    path = tmp_path / "spool" / SPOOL_FILE
    flip_in(
        path,
        frame(Kind.STEP, RecordId("actor", sender.epoch, 2), StepCodec(SPACE).encode(make_step(2))),
    )
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    with pytest.raises(DataError, match=f"robot-rl data repair {path}"):
        learner.take_until(lambda: sender._failure is not None)
        sender.drain_leftovers(10.0)
    sender.close()
    assert repair(path)[1] == 1
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool")
    learner.take_until(delivered(sender))
    sender.close()
    kinds = [said.kind if isinstance(said, Mark) else said.index for said in learner.said()]
    assert kinds == [0, 1, MarkKind.GAP, 3, 4]


@pytest.mark.parametrize("told_by", ["a new step", "the learner's count"])
def test_a_learner_that_has_lost_its_last_records_is_given_them_again(tmp_path, learner, told_by):
    sender = StepSender(learner.address, SPACE, spool=tmp_path / "spool", resend_s=0.2)
    for index in range(10):
        sender.send(make_step(index))
    learner.take_until(delivered(sender))
    path = as_killed(learner.log.path, tmp_path / "killed")
    learner.close()
    os.truncate(f"{path}-wal", Path(f"{path}-wal").stat().st_size - 20_000)  # its power was cut
    learner = Here(path, learner.address)
    assert learner.log.count < 10
    end = 10
    if told_by == "a new step":
        sender.send(make_step(end))
        end += 1
    else:
        assert not sender.confirm(learner.log.count - 1)
    learner.take_until(lambda: learner.log.count == end)
    assert [step.index for step in learner.log.read()] == list(range(end))
    assert sender.confirm(end - 1)
    sender.close()
    learner.close()


def test_two_actors_with_a_past_feed_one_learner(tmp_path, learner):
    for name in ("left", "right"):
        past = StepSender(free_addresses(1)[0], SPACE, actor=name, spool=tmp_path / name)
        past.send(make_step(0, truncated=False))
        past.close()
    senders = [
        StepSender(learner.address, SPACE, actor=name, spool=tmp_path / name)
        for name in ("left", "right")
    ]
    for index in range(20):
        for sender in senders:
            sender.send(make_step(index))
    learner.take_until(lambda: all(delivered(sender)() for sender in senders))
    for sender in senders:
        own = [said for identity, said in learner.log.entries() if identity.epoch == sender.epoch]
        assert isinstance(own[0], Mark) and own[0].actor == sender.actor
        assert [said.index for said in own[1:] if isinstance(said, Step)] == list(range(20))
        sender.close()
