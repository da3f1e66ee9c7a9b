"""Laws of the steps link: every step reaches the log, once, in order, whoever is killed or talks
nonsense.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import zmq

from robot_rl.links.sockets import ANY_PORT, connect, free_addresses, new_socket
from robot_rl.stream import Received, StepReceiver, StepSender, protocol
from robot_rl.stream.codec import SCHEMA, StepCodec, space_hash
from robot_rl.stream.log import StepLog
from robot_rl.stream.protocol import Greeting
from robot_rl.stream.records import Kind, Record, frame
from robot_rl.stream.spool import Spool
from robot_rl.types import LinkError, RecordId, SpaceSpec, Step
from tests.stream.test_codec import SPACE, assert_same, make_step


@pytest.fixture
def receiver():
    receiver = StepReceiver(ANY_PORT, SPACE)
    yield receiver
    receiver.close()


@pytest.fixture
def sender(receiver, tmp_path):
    sender = StepSender(receiver.address, SPACE, spool=tmp_path / "spool", resend_s=0.2)
    yield sender
    sender.close()


def take(receiver: StepReceiver, count: int, timeout_s: float = 5.0) -> list[Received]:
    """Receive this many steps, or what came until the time is up."""
    deadline = time.monotonic() + timeout_s
    taken: list[Received] = []
    while len(taken) < count and time.monotonic() < deadline:
        taken += receiver.receive(timeout_s=0.05)
    return taken


def step_of(received: Received) -> Step:
    assert isinstance(received.said, Step)
    return received.said


def test_steps_arrive_in_order_and_as_they_were(receiver, sender):
    sent = [make_step(i) for i in range(300)]
    identities = [sender.send(step) for step in sent]
    taken: list[Received] = []
    while len(taken) < 300:
        batch = receiver.receive(timeout_s=1.0)
        receiver.ack(batch)
        taken += batch
    assert [received.identity for received in taken] == identities
    for step, received in zip(sent, taken, strict=True):
        assert_same(step, step_of(received))
    sender.drain(timeout_s=2.0)
    assert sender.unacknowledged == 0


def test_what_is_not_acknowledged_is_sent_again_but_handed_over_once(receiver, sender):
    for i in range(10):
        sender.send(make_step(i))
    taken = take(receiver, 10)
    assert take(receiver, 1, timeout_s=0.6) == []  # meanwhile it was resent
    assert sender.unacknowledged == 10
    receiver.ack(taken)
    for _ in range(20):
        receiver.receive(timeout_s=0.05)
        if sender.unacknowledged == 0:
            break
    sender.drain(timeout_s=1.0)


def test_only_a_window_is_on_its_way(receiver, tmp_path):
    sender = StepSender(receiver.address, SPACE, spool=tmp_path, window=8)
    for i in range(30):
        sender.send(make_step(i))
    assert len(take(receiver, 30, timeout_s=0.4)) == 8
    sender.close()


def test_too_many_steps_in_memory_alone_are_an_error_in_real_time_and_a_wait_in_lockstep(
    receiver, tmp_path, monkeypatch
):
    disk, append, sent = threading.Event(), Spool.append_all, 0

    def slow(spool: Spool, several: Sequence[Record]) -> None:
        assert disk.wait(60.0)
        append(spool, several)

    monkeypatch.setattr(Spool, "append_all", slow)
    sender = StepSender(receiver.address, SPACE, spool=tmp_path / "a", limit=2)
    sender.send(make_step(0))
    sender.send(make_step(1))
    with pytest.raises(LinkError, match="2 steps wait"):
        sender.send(make_step(2))
    waiting = StepSender(
        receiver.address, SPACE, actor="other", spool=tmp_path / "b", limit=2, wait_when_full=True
    )

    def send() -> None:
        nonlocal sent
        for index in range(6):
            waiting.send(make_step(index))
            sent = index + 1

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and sent <= 2
    disk.set()
    thread.join(60.0)
    assert len(take(receiver, 8, timeout_s=60.0)) == 8
    sender.close()
    waiting.close()


def test_drain_says_how_many_steps_are_unsent(tmp_path):
    sender = StepSender(free_addresses(1)[0], SPACE, spool=tmp_path)
    for i in range(3):
        sender.send(make_step(i))
    with pytest.raises(LinkError, match="3 of 3 steps"):
        sender.drain(timeout_s=0.1)
    started = time.monotonic()
    sender.close()
    assert time.monotonic() - started < 0.5


def test_sender_of_another_space_is_refused_with_both_named(receiver, tmp_path):
    other = SpaceSpec.unnamed({"state/tcp_pose": ((7,), "float32")}, 6)
    sender = StepSender(receiver.address, other, spool=tmp_path)
    receiver.receive(timeout_s=1.0)
    with pytest.raises(
        LinkError, match=r"the actor has schema 3 and space .* the learner schema 3"
    ):
        sender.send(make_step(space=other))
        sender.drain(timeout_s=2.0)
    sender.close()


def test_a_learner_whose_log_ends_before_what_an_actor_still_has_is_refused(receiver):
    with new_socket(zmq.DEALER) as socket:
        connect(socket, receiver.address)
        socket.send_multipart(protocol.hello(Greeting("a", 1, 5, SCHEMA, space_hash(SPACE))))
        while not socket.poll(10):
            assert receiver.receive(timeout_s=0.05) == []
        head, reason = socket.recv_multipart()
    assert (
        protocol.parse_head([head, reason]).message is protocol.Message.REFUSED
        and b"resume the learner" in reason
    )


def test_step_behind_a_gap_or_with_a_wrong_checksum_is_not_taken(receiver):
    records = [framed(seq) for seq in range(4)]
    damaged = records[2]._replace(payload=bytes(records[2].payload[:-1]) + b"x")
    with new_socket(zmq.DEALER) as socket:
        connect(socket, receiver.address)
        socket.send_multipart(protocol.hello(Greeting("a", 1, 0, SCHEMA, space_hash(SPACE))))
        for sent in (
            [records[0]],
            [records[2], records[3]],
            [records[1]],
            [damaged],
            [records[0], records[1]],
        ):
            socket.send_multipart(protocol.batch(1, sent))
        assert [r.identity.seq for r in take(receiver, 4, timeout_s=0.3)] == [0, 1]
        # from the beginning: only what is new is taken
        socket.send_multipart(protocol.batch(1, records))
        assert [r.identity.seq for r in take(receiver, 2)] == [2, 3]


def framed(seq: int, actor: str = "a", epoch: int = 1) -> Record:
    return frame(Kind.STEP, RecordId(actor, epoch, seq), StepCodec(SPACE).encode(make_step(seq)))


def test_nobody_sends_in_the_name_of_another(receiver):
    with new_socket(zmq.DEALER) as socket:
        connect(socket, receiver.address)
        socket.send_multipart(protocol.batch(1, [framed(0)]))  # without a greeting
        socket.send_multipart(protocol.hello(Greeting("a", 1, 0, SCHEMA, space_hash(SPACE))))
        socket.send_multipart(protocol.batch(1, [framed(0, actor="b")]))
        socket.send_multipart(protocol.batch(2, [framed(0, epoch=2)]))
        assert take(receiver, 1, timeout_s=0.3) == []


LEARNER = """
import sys
from collections.abc import Sequence
from pathlib import Path
from robot_rl.stream.log import StepLog
from robot_rl.stream import StepReceiver
from tests.stream.test_codec import SPACE
log = StepLog(Path(sys.argv[1]), SPACE)
receiver = StepReceiver(sys.argv[2], SPACE, log.positions)
sys.stdout.write("ready\\n")
sys.stdout.flush()
while True:
    batch = receiver.receive(timeout_s=0.1, limit=16)
    log.append_records([received.record for received in batch])
    receiver.ack(batch)
"""


def start_learner(path: Path, address: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LEARNER, str(path), address], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


ACTOR = """
import sys
from collections.abc import Sequence
from pathlib import Path
from robot_rl.stream import StepSender
from tests.stream.test_codec import SPACE, make_step
sender = StepSender(sys.argv[1], SPACE, spool=Path(sys.argv[2]))
for i in range(50):
    sender.send(make_step(i))
sender.drain(10.0)
"""


@pytest.mark.slow
def test_second_actor_process_starts_anew_and_exits_at_once(tmp_path):
    path, address = tmp_path / "steps.log", free_addresses(1)[0]
    learner = start_learner(path, address)
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", ACTOR, address, str(tmp_path / "spool")], check=True, timeout=60
        )
    learner.kill()
    learner.wait()
    with StepLog(path, SPACE) as log:
        assert [step.index for step in log.read()] == [*range(50), *range(50)]
        assert sorted(log.positions.values()) == [49, 49]
