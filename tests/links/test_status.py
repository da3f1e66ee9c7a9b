"""Laws of the status link: the newest values of each sender, and no sender ever waits."""

import time

import numpy as np
import pytest
import zmq

from robot_rl.links.sockets import ANY_PORT, bind, new_socket
from robot_rl.links.status import RunStatus, StatusPublisher, StatusReader


@pytest.fixture
def actor():
    publisher = StatusPublisher(sender="actor")
    yield publisher
    publisher.close()


def wait_for(
    reader: StatusReader, publisher: StatusPublisher, values: dict, timeout_s: float = 2.0
) -> None:
    """Publish until it arrives (what is published before a reader has connected is lost)."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        publisher.publish(values)
        time.sleep(0.02)
        if publisher.sender in reader.latest():
            return
    raise AssertionError("no status arrived")


def test_newest_values_of_each_sender(actor):
    learner = StatusPublisher(sender="learner")
    reader = StatusReader({"actor": actor.address, "learner": learner.address})
    assert reader.latest() == {}
    wait_for(reader, learner, {"updates_per_s": 1.0, "loss": 2.0})
    wait_for(reader, actor, {"env_steps": 0})
    for step in range(50):
        actor.publish({"env_steps": step})
    time.sleep(0.1)
    t = {name: status.t_wall for name, status in reader.latest().items()}
    assert reader.latest()["actor"] == RunStatus(t["actor"], env_steps=49)
    assert reader.latest()["learner"] == RunStatus(t["learner"], updates_per_s=1.0)
    assert abs(reader.latest()["actor"].t_wall - time.time()) < 5.0
    reader.close()
    learner.close()


def test_numbers_that_json_lacks_become_null(actor):
    reader = StatusReader({"actor": actor.address})
    wait_for(
        reader,
        actor,
        {"value": float("nan"), "q": np.float32(0.5), "done": np.int64(3)},
    )
    said = reader.latest()["actor"]
    assert (said.value, said.q, said.done) == (None, 0.5, 3)
    reader.close()


def test_publishing_without_readers_does_not_wait(actor):
    started = time.monotonic()
    for i in range(2000):
        actor.publish({"i": i})
    assert time.monotonic() - started < 2.0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"t_wall": "x", "values": 3}',
        b"null",
        b"[" * 5000,
        b'{"t_wall": 1.0, "values": {"phase": 3}}',
        b'{"t_wall": 1.0, "values": {"done": "x"}}',
    ],
)
def test_garbage_is_passed_over(data):
    with new_socket(zmq.XPUB, linger_s=0.1) as socket:
        reader = StatusReader({"actor": bind(socket, ANY_PORT)})
        assert socket.poll(2000) and socket.recv() == b"\x01"
        socket.send(data)
        time.sleep(0.05)
        assert reader.latest() == {}
        reader.close()
