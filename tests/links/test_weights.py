"""Laws of the weights link: the newest parameters or nothing, for whoever comes, whenever they
come.
"""

import threading
import time

import numpy as np
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from robot_rl import packing
from robot_rl.links import weights
from robot_rl.links.sockets import ANY_PORT, bind, connect, new_socket
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.types import DataError, LinkError

PARAMETERS: dict[str, np.ndarray] = {
    "layer/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layer/bias": np.array([1.5, -2.0], np.float32),
}


@pytest.fixture
def publisher():
    publisher = WeightsPublisher()
    yield publisher
    publisher.close()


def subscribe(publisher: WeightsPublisher) -> WeightsSubscriber:
    return WeightsSubscriber(publisher.address)


def test_parameters_arrive_as_they_were(publisher):
    subscriber = subscribe(publisher)
    publisher.publish(3, PARAMETERS)
    assert subscriber.wait_for(3, timeout_s=2.0) is not None
    newest = subscriber.latest()
    assert newest is not None and newest[0] == 3
    for name, array in PARAMETERS.items():
        np.testing.assert_array_equal(newest[1][name], array)
        assert newest[1][name].dtype == array.dtype
    subscriber.close()


def test_parameters_are_copied_when_they_are_published(publisher):
    array = np.zeros(1000, np.float32)
    publisher.publish(0, {"w": array})
    array[:] = 1.0
    subscriber = subscribe(publisher)
    newest = subscriber.wait_for(0, timeout_s=2.0)
    assert newest is not None and not newest[1]["w"].any()
    subscriber.close()


def test_each_late_joiner_gets_the_current_weights(publisher):
    publisher.publish(7, PARAMETERS)
    time.sleep(0.05)
    subscribers = []
    # the second and third too: XPUB announces only the first unless it is told otherwise
    for _ in range(3):
        subscribers.append(subscribe(publisher))
        newest = subscribers[-1].wait_for(7, timeout_s=1.0)
        assert newest is not None and newest[0] == 7
    for subscriber in subscribers:
        subscriber.close()


def test_latest_returns_each_version_once_and_never_blocks(publisher):
    subscriber = subscribe(publisher)
    started = time.monotonic()
    assert subscriber.latest() is None
    assert time.monotonic() - started < 0.1
    publisher.publish(0, PARAMETERS)
    assert subscriber.wait_for(0, timeout_s=2.0)
    assert subscriber.latest() is not None
    assert subscriber.latest() is None
    assert subscriber.wait_for(0, timeout_s=0.0) is not None
    subscriber.close()


def test_slow_subscriber_gets_the_newest(publisher):
    subscriber = subscribe(publisher)
    large = {"w": np.zeros(250_000, np.float32)}
    publisher.publish(0, large)
    subscriber.wait_for(0, timeout_s=20.0)
    for version in range(1, 31):
        publisher.publish(version, large)
        time.sleep(0.005)
    assert subscriber.wait_for(30, timeout_s=20.0) is not None
    newest = subscriber.latest()
    assert newest is not None and newest[0] == 30
    assert subscriber.latest() is None
    subscriber.close()


def test_waiting_for_a_version_that_does_not_come_ends(publisher):
    subscriber = subscribe(publisher)
    publisher.publish(4, PARAMETERS)
    started = time.monotonic()
    assert subscriber.wait_for(5, timeout_s=0.3) is None
    assert 0.2 < time.monotonic() - started < 1.0
    subscriber.close()


def test_restarted_publisher_with_an_older_version_is_followed(publisher):
    subscriber = subscribe(publisher)
    publisher.publish(9, PARAMETERS)
    assert subscriber.wait_for(9, timeout_s=2.0) and subscriber.latest()
    publisher.close()
    restarted = WeightsPublisher(publisher.address)
    restarted.publish(5, PARAMETERS)
    deadline = time.monotonic() + 3.0
    newest = None
    while newest is None and time.monotonic() < deadline:
        newest = subscriber.latest()
        time.sleep(0.01)
    assert newest is not None and newest[0] == 5
    restarted.close()
    subscriber.close()


def test_no_version_is_lost_among_other_events(publisher):
    """Each frame of the noise wakes the publisher's thread, and a version that is published then
    must not be missed. (By a plain socket: one that keeps the newest frame alone may miss the
    signal for it, and asks again.)
    """
    stop = threading.Event()

    def make_noise() -> None:
        with new_socket(zmq.XSUB) as socket:
            connect(socket, publisher.address)
            while not stop.is_set():
                socket.send(b"\x02 no subscription")
                time.sleep(0.0002)

    noise = threading.Thread(target=make_noise)
    noise.start()
    try:
        publisher.publish(0, PARAMETERS)
        with new_socket(zmq.SUB) as socket:
            socket.setsockopt(zmq.SUBSCRIBE, b"")
            connect(socket, publisher.address)
            for version in range(1000):
                came = -1
                while came < version:  # the first comes again to whoever subscribes
                    assert socket.poll(30_000), f"version {version} was never sent"
                    came = weights._decode(socket.recv())[1]
                publisher.publish(version + 1, PARAMETERS)
    finally:
        stop.set()
        noise.join()


def test_weights_of_another_layout_are_refused_with_both_sides_named(publisher, caplog):
    subscriber = WeightsSubscriber(publisher.address, packing.layout_of(PARAMETERS))
    publisher.publish(0, PARAMETERS)
    assert subscriber.wait_for(0, timeout_s=20.0)
    publisher.publish(1, PARAMETERS | {"layer/weight": np.zeros((2, 4), np.float32)})
    reason = r"'layer/weight' is float32 \(2, 4\) there and float32 \(2, 3\) here"
    with pytest.raises(LinkError, match=reason):
        subscriber.wait_for(1, timeout_s=2.0)
    assert "are refused" in caplog.text
    newest = subscriber.latest()
    assert newest is not None and newest[0] == 0, "what was here before did not stay"
    publisher.publish(2, dict(reversed(PARAMETERS.items())))  # their order is no difference
    assert subscriber.wait_for(2, timeout_s=20.0)
    subscriber.close()


@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_wherever_it_is(at, bit):
    frame = bytearray(make_frame())
    frame[at % len(frame)] ^= 1 << bit
    with pytest.raises(DataError):
        weights._decode(bytes(frame))


def make_frame() -> bytes:
    publisher = WeightsPublisher()
    publisher.publish(3, PARAMETERS)
    publisher.close()
    assert publisher._frame is not None
    return publisher._frame


def test_objects_are_not_published(publisher):
    with pytest.raises(DataError):
        publisher.publish(0, {"w": np.array([None])})


def test_a_frame_that_is_none_leaves_a_subscriber_running():
    with new_socket(zmq.XPUB) as socket:
        subscriber = WeightsSubscriber(bind(socket, ANY_PORT))
        assert socket.poll(60_000) and socket.recv() == b"\x01"
        for data in (b"", b"\x00\xff" * 50, make_frame()[:-1], make_frame()):
            assert subscriber.latest() is None
            socket.send(data)
        assert subscriber.wait_for(3, timeout_s=60.0) is not None
        subscriber.close()
