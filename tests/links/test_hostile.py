"""Whatever somebody sends to a service, with keys or without, it goes on and serves the next good
client.

Each service runs as it does in a run, in this process, behind a thread that does its owner's part.
What is sent: raw TCP that is no ZeroMQ, or only begins to be; ZeroMQ messages that are no messages
of ours, or too large; clients without keys or with wrong ones.
"""

import contextlib
import os
import socket as system_socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl import config
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.recorder import LoopStats, Ring, loop_stats
from robot_rl.controllers.server import Server
from robot_rl.links.address import parse_address, path_of
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.keys import Keyring
from robot_rl.links.sockets import ANY_PORT, LinkSocket, bind, connect, new_socket
from robot_rl.links.status import StatusPublisher, StatusReader
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.stream import StepReceiver, StepSender
from robot_rl.types import LinkError
from tests.helpers import SPACE, make_step, wait_until

PATIENCE_S = 30.0
TOO_LARGE = 1 << 20
"""Bytes: more than a step, a subscription or a message of an arm may have, and no burden for a
test.
"""


@dataclass
class Service:
    """One that runs: `serve` does its owner's part now and then, `ask` is what a good client does."""

    address: str
    client: int
    serve: Callable[[], object]
    ask: Callable[[], object]
    close: Callable[[], object]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def open_stream(self) -> system_socket.socket:
        """A connection below ZeroMQ."""
        where = parse_address(self.address)
        if not where.is_local:
            return system_socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection = system_socket.socket(system_socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path_of(where.name)))
        return connection


class StandingArm:
    """An arm that nobody moves."""

    clock, joints, objects, scene_joints, fingers = "lockstep", 7, 1, 0, False
    shared, resets = False, 0

    def __init__(self) -> None:
        self.ring = Ring(self.joints)

    def stats(self) -> LoopStats:
        return loop_stats(self.ring, 0, 0.0, 0)

    def close(self) -> None:
        pass


def serve_steps(address: str) -> Service:
    receiver = StepReceiver(address, SPACE)

    def ask() -> None:
        with tempfile.TemporaryDirectory() as spool:
            sender = StepSender(receiver.address, SPACE, spool=Path(spool), resend_s=0.2)
            sender.send(make_step(0))
            sender.drain(PATIENCE_S)
            sender.close()

    return Service(
        receiver.address,
        zmq.DEALER,
        lambda: receiver.ack(receiver.receive(timeout_s=0.02)),
        ask,
        receiver.close,
    )


def serve_calls(address: str) -> Service:
    server = CallServer(address)
    server.register("ping", lambda body, arrays: {"pong": 1})

    def ask() -> None:
        client = CallClient(server.address)
        assert client.call("ping", timeout_s=PATIENCE_S).body == {"pong": 1}
        client.close()

    return Service(
        server.address, zmq.DEALER, lambda: server.poll(timeout_s=0.02), ask, server.close
    )


def serve_weights(address: str) -> Service:
    publisher = WeightsPublisher(address)
    publisher.publish(1, {"w": np.zeros(3, np.float32)})

    def ask() -> None:
        subscriber = WeightsSubscriber(publisher.address)
        assert subscriber.wait_for(1, timeout_s=PATIENCE_S) is not None
        subscriber.close()

    return Service(
        publisher.address, zmq.XSUB, lambda: threading.Event().wait(0.02), ask, publisher.close
    )


def serve_status(address: str) -> Service:
    publisher = StatusPublisher(address, "learner")

    def publish() -> None:
        publisher.publish({"updates": 1})
        threading.Event().wait(0.02)

    def ask() -> None:
        reader = StatusReader({"learner": publisher.address})
        wait_until(lambda: bool(reader.latest()))
        reader.close()

    return Service(publisher.address, zmq.XSUB, publish, ask, publisher.close)


def serve_arm(address: str) -> Service:
    hardware = config.load_hardware("sim_panda").arms[0]
    server = Server(replace(hardware, address=address), StandingArm())  # type: ignore[arg-type]

    def ask() -> None:
        arm = ArmClient(server.address, timeout_s=PATIENCE_S)
        assert arm.info.name == hardware.name
        arm.close()

    return Service(server.address, zmq.DEALER, lambda: server.serve_once(20), ask, server.close)


SERVICES = {
    "steps": serve_steps,
    "calls": serve_calls,
    "weights": serve_weights,
    "status": serve_status,
    "arm": serve_arm,
}


@pytest.fixture(scope="module", autouse=True)
def keys(tmp_path_factory) -> Iterator[Keyring]:
    """This machine's keys, which every process here has unless it says otherwise."""
    keyring = Keyring(tmp_path_factory.mktemp("keys"))
    keyring.make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBOT_RL_KEYS", str(keyring.folder))
        yield keyring


@contextlib.contextmanager
def running(name: str, address: str) -> Iterator[Service]:
    """The service, which must have gone on without an error of its owner's when all is over."""
    service, stop, failures = SERVICES[name](address), threading.Event(), []

    def own() -> None:
        try:
            while not stop.is_set():
                service.serve()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    owner = threading.Thread(target=own)
    owner.start()
    try:
        service.ask()
        yield service
        service.ask()
    finally:
        stop.set()
        owner.join()
        service.close()
    assert failures == []


@pytest.fixture(scope="module", params=[ANY_PORT, "tcp://127.0.0.1:*"], ids=["local", "keys"])
def any_address(request) -> str:
    return request.param


@pytest.fixture(params=list(SERVICES))
def service(request, any_address) -> Iterator[Service]:
    with running(request.param, any_address) as service:
        yield service


# what is no ZeroMQ, or not quite: ZMTP 3.1, as its specification (37/ZMTP) lays it out

SIGNATURE = b"\xff" + bytes(8) + b"\x7f"


def greeting(mechanism: bytes, minor: int = 1) -> bytes:
    return SIGNATURE + bytes([3, minor]) + mechanism.ljust(20, b"\x00") + bytes(32)


def command(name: bytes, body: bytes) -> bytes:
    content = bytes([len(name)]) + name + body
    return bytes([6]) + struct.pack(">Q", len(content)) + content  # 6: a long command


def ready(kind: bytes) -> bytes:
    return command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind)


def announced(size: int, body: bytes) -> bytes:
    """A long frame that says it has `size` bytes, and its beginning."""
    return bytes([2]) + struct.pack(">Q", size) + body


GREETINGS = st.sampled_from([
    greeting(b"NULL"),
    greeting(b"NULL", 0),
    greeting(b"CURVE"),
    greeting(b"PLAIN"),
])
SIZES = st.sampled_from([0, 1, 255, 1 << 16, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
PARTS = st.one_of(
    st.binary(max_size=300),
    st.builds(ready, st.sampled_from([b"DEALER", b"SUB", b"XSUB", b"ROUTER", b"", b"\xff" * 40])),
    st.builds(
        command,
        st.sampled_from([b"HELLO", b"INITIATE", b"ERROR", b"PING", b"SUBSCRIBE"]),
        st.binary(max_size=200),
    ),
    # of the right size for CURVE, and of nobody
    st.just(command(b"HELLO", b"\x01\x00" + bytes(192))),
    st.builds(announced, SIZES, st.binary(max_size=100)),
)
STREAMS = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda whole, end: whole[:end], GREETINGS, st.integers(0, 64)),
    st.builds(lambda start, parts: start + b"".join(parts), GREETINGS, st.lists(PARTS, max_size=4)),
)


def test_raw_streams_leave_a_service_running(service):
    with contextlib.ExitStack() as open_streams:

        @settings(max_examples=30)
        @given(stream=STREAMS, stays=st.booleans())
        def attack(stream: bytes, stays: bool) -> None:
            connection = service.open_stream()
            with contextlib.suppress(OSError):  # the service may have hung up
                connection.sendall(stream)
            if stays:
                open_streams.enter_context(connection)
            else:
                connection.close()

        attack()
        service.ask()  # while those that stay still do


@pytest.mark.parametrize("name", ["steps", "calls", "arm"])
def test_a_frame_that_announces_more_than_is_allowed_is_hung_up_on(name):
    """In memory it would be this machine's end: a call may have 16 kB, an arm's message 64 kB."""
    with running(name, ANY_PORT) as service, service.open_stream() as connection:
        connection.sendall(greeting(b"NULL") + ready(b"DEALER") + announced(1 << 40, b"x" * 1000))
        with contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                pass  # an empty answer, or a reset, is the end of the connection


# ZeroMQ, but none of ours

FRAMES = st.lists(
    st.one_of(st.binary(max_size=300), st.sampled_from([b"{}", b"\x01", b"\x00", b"RRs2", b"[" * 500])),
    min_size=1, max_size=6,
)  # fmt: skip


def test_messages_that_are_none_leave_a_service_running(service):
    with open_client(service) as socket:

        @settings(max_examples=30)
        @given(frames=FRAMES)
        def attack(frames: list[bytes]) -> None:
            socket.send_multipart(frames)

        attack()
        service.ask()


def test_messages_that_are_too_large_leave_a_service_running(service):
    for frames in ([b"x" * TOO_LARGE], [b"x" * 100, b"y" * TOO_LARGE]):
        with open_client(service) as socket:
            socket.send_multipart(frames)
            service.ask()


@pytest.mark.parametrize("name", ["weights", "status"])
def test_a_subscription_of_a_megabyte_leaves_a_publisher_running(name):
    """Not by a socket of ZeroMQ: it would keep the subscription in a tree so deep that its own
    removal is its end.
    """
    topic = os.urandom(TOO_LARGE)
    with running(name, ANY_PORT) as service:
        for minor, message in (
            (0, announced(len(topic) + 1, b"\x01" + topic)),
            (1, command(b"SUBSCRIBE", topic)),
        ):
            with service.open_stream() as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(greeting(b"NULL", minor) + ready(b"SUB") + message)
                service.ask()


def test_a_reader_goes_on_whatever_a_publisher_sends():
    """A large second frame ended the process when the reader's socket kept the newest message
    alone.
    """
    with new_socket(zmq.PUB, linger_s=0.2) as socket:
        good = StatusPublisher(sender="actor")
        reader = StatusReader({"learner": bind(socket, ANY_PORT), "actor": good.address})
        for frames in (
            [b"x" * 100, b"y" * 2 * TOO_LARGE],
            [b"x" * 2 * TOO_LARGE],
            [b"a", b"b"],
            [b""] * 100,
        ) * 10:
            socket.send_multipart(frames)
            threading.Event().wait(0.02)
            assert "learner" not in reader.latest()

        def arrives() -> bool:
            good.publish({"episode": 3})
            return "actor" in reader.latest()

        wait_until(arrives)
        reader.close()
        good.close()


def test_messages_of_very_many_frames_leave_a_service_running(service):
    with open_client(service) as socket:
        socket.send_multipart([b""] * 20_000)
        service.ask()


@contextlib.contextmanager
def open_client(service: Service) -> Iterator[LinkSocket]:
    """A socket of the kind that fits, with this machine's keys where they are wanted; it has
    reached the service.
    """
    with new_socket(service.client, linger_s=0.2) as socket:
        connect(socket, service.address)
        yield socket


# the wrong keys


def is_refused(socket: LinkSocket) -> bool:
    return socket.problem(patience_s=0.0) is not None


@pytest.mark.parametrize("name", SERVICES)
def test_who_has_no_keys_or_wrong_ones_is_refused_and_disturbs_nobody(
    name, tmp_path, monkeypatch, keys
):
    stranger = Keyring(tmp_path / "stranger")
    with running(name, "tcp://127.0.0.1:*") as service:
        stranger.trust("victim", keys.make().public.hex())
        impostor_known = Keyring(tmp_path / "fooled")
        impostor_known.trust("victim", stranger.make().public.hex())
        for folder, machine in (
            (stranger.folder, "victim@"),
            (impostor_known.folder, "victim@"),
            (stranger.folder, ""),
        ):
            with monkeypatch.context() as patch, new_socket(service.client) as socket:
                patch.setenv("ROBOT_RL_KEYS", str(folder))
                connect(socket, f"tcp://{machine}127.0.0.1:{service.port}")
                with contextlib.suppress(zmq.Again):
                    socket.send_multipart([b"hello", b"\x00"], zmq.DONTWAIT)
                wait_until(partial(is_refused, socket))
                with pytest.raises(LinkError):
                    socket.check(patience_s=0.0)
                assert not socket.poll(0), "somebody without a key was answered"
            service.ask()


# services that are hostile themselves


@settings(max_examples=15)
@given(stream=STREAMS)
def test_a_client_of_something_that_is_no_service_gets_an_error_in_time(stream):
    with system_socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        client = CallClient(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        held = []

        def answer() -> None:
            with contextlib.suppress(OSError):
                held.append(listener.accept()[0])
                held[-1].sendall(stream)

        thread = threading.Thread(target=answer)
        thread.start()
        for _ in range(2):  # the second, too, has something to say it to
            with pytest.raises(LinkError):
                client.call("policy", timeout_s=0.05)
        thread.join()
        client.close()
        for connection in held:
            connection.close()


def test_an_arm_takes_no_message_larger_than_any_of_its_own():
    largest = messages.setup_layout(14).itemsize + messages.HEADER.size
    assert 4 * largest < messages.MAX_BYTES < TOO_LARGE
