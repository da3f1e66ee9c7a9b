"""Who sends too much, too often, or what is no message: a bounded part of it is taken, and
everybody else is served.
"""

import json
import logging
import socket as system_socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_rl import config, packing
from robot_rl.config.run_settings import MOST_SEEDS, RunSettings
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmLink
from robot_rl.controllers.messages import Kind
from robot_rl.controllers.server import Server
from robot_rl.links import calls, flood, seldom
from robot_rl.links.calls import AT_ONCE, CallClient, CallServer, packed
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.links.flood import GuardedPort
from robot_rl.links.seldom import MOST_LINES, Seldom
from robot_rl.links.sockets import ANY_PORT, LinkSocket, connect, new_socket
from robot_rl.types import ConfigError, DataError, DeviceError, OperatorCommand
from tests.links.test_hostile import StandingArm, greeting, ready

PATIENCE_S = 60.0
MOST = 1 << 14
WAITING = 2


# messages in many frames


@pytest.fixture
def door() -> Iterator[LinkSocket]:
    """A socket at a port, without keys so that a test can speak to it byte by byte, that takes 16
    kB a message.
    """
    with new_socket(zmq.ROUTER) as socket:
        socket.bound(MOST, WAITING)
        socket._door = GuardedPort(socket, socket._most)
        socket.bind("tcp://127.0.0.1:*")
        socket._door.open()
        yield socket


def come_in(door: LinkSocket) -> system_socket.socket:
    """A connection that has greeted, over which frames can be sent."""
    assert door._door is not None
    connection = system_socket.create_connection(
        ("127.0.0.1", door._door._port), timeout=PATIENCE_S
    )
    connection.sendall(greeting(b"NULL", 0))
    answer = b""
    while b"READY" not in answer:
        answer += connection.recv(4096)
        if len(answer) >= 64:
            connection.sendall(ready(b"DEALER"))
    return connection


def frame(size: int, more: bool) -> bytes:
    return bytes([2 + more]) + struct.pack(">Q", size) + bytes(size)


def is_hung_up_on(connection: system_socket.socket) -> bool:
    """Waits for it."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_message_without_an_end_is_hung_up_on(door):
    with come_in(door) as endless, come_in(door) as honest:
        for _ in range(1 + door._most // 1000):
            endless.sendall(frame(1000, more=True))
        assert is_hung_up_on(endless)
        honest.sendall(frame(1000, more=True) + frame(1000, more=False))
        assert door.poll(1000 * PATIENCE_S)
        frames = door.recv_bounded(4)
        assert frames is not None and [len(part.bytes) for part in frames[1:]] == [1000, 1000]


def test_who_sends_many_messages_that_end_is_not_hung_up_on(door):
    files = flood._Files()
    with come_in(door) as connection:
        for _ in range(4 * door._most // MOST):
            connection.sendall(frame(MOST - 100, more=False))
            assert door.poll(1000 * PATIENCE_S) and door.recv_bounded(4) is not None
            with flood._lock:
                assert list(door._door.look(files))
        connection.sendall(frame(5, more=False))
        assert door.poll(1000 * PATIENCE_S)


def test_a_message_of_too_many_frames_is_passed_over_in_pieces(door):
    with come_in(door) as connection:
        connection.sendall(frame(1, more=True) * 1000 + frame(1, more=False) + frame(7, more=False))
        looks = 0
        assert door.poll(1000 * PATIENCE_S)
        while (frames := door.recv_bounded(4)) is None:
            looks += 1
        assert [len(part.bytes) for part in frames[1:]] == [7]
        assert looks == 1 + -(-(1002 - 4) // 200)


@pytest.fixture
def server() -> Iterator[CallServer]:
    server = CallServer()
    server.register("ping", lambda body, arrays: {"pong": 1})
    yield server
    server.close()


def test_calls_in_too_many_frames_or_too_large_ones_are_not_heard(server):
    heard: list[str] = []
    server.register("word", lambda body, arrays: heard.append(body["word"]))
    server.start()
    word = json.dumps({"id": 1, "name": "word", "body": {"word": "a"}}).encode()
    for request in (
        [word, packed({}), *[b""] * 20_000],
        [word, bytes(1 << 20)],
        [word + b" " * (1 << 14), packed({})],
    ):
        with new_socket(zmq.DEALER, linger_s=0.2) as stranger:
            connect(stranger, server.address)
            stranger.send_multipart(request)
    client = CallClient(server.address)
    assert client.call("ping", timeout_s=PATIENCE_S).body == {"pong": 1}
    client.close()
    assert heard == []


# very many messages

DEAF = """
import sys
from robot_rl.links.calls import CallServer
server = CallServer()
server.register("ping", lambda body, arrays: {"pong": 1})
print(server.address, flush=True)
sys.stdin.readline()
server.start()
sys.stdin.readline()
"""


def test_who_sends_more_than_waits_and_dies_takes_no_service_along():
    """While that takes nothing, for seconds."""
    deaf = subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert deaf.stdin is not None and deaf.stdout is not None
    address = deaf.stdout.readline().strip()
    with Flood(address, [b"x" * 100], 5000) as messages:
        assert not messages.socket.poll(500), "it is deaf"
    threading.Event().wait(2.5)
    assert deaf.poll() is None
    deaf.stdin.write("\n")
    deaf.stdin.flush()
    client = CallClient(address)
    assert client.call("ping", timeout_s=PATIENCE_S).body == {"pong": 1}
    client.close()
    deaf.communicate("\n")
    assert deaf.returncode == 0


def test_who_asks_again_and_again_of_a_service_that_is_busy_and_dies_takes_it_not_along():
    """As an actor does while the learner pretrains for minutes: what it has sent meanwhile is read
    when it is gone.
    """
    busy = CallServer()
    busy.register("ping", lambda body, arrays: {"pong": 1})
    actor = new_socket(zmq.DEALER)
    connect(actor, busy.address)
    for number in range(40):  # for longer than ZeroMQ would wait with a heartbeat
        actor.send_multipart([
            json.dumps({"id": number, "name": "ping", "body": {}}).encode(),
            packed({}),
        ])
        threading.Event().wait(0.08)
    assert busy.poll(5.0)
    threading.Event().wait(0.1)
    actor.close()
    threading.Event().wait(0.5)
    while busy.poll(0.5):
        pass
    client = CallClient(busy.address)
    busy.start()
    assert client.call("ping", timeout_s=PATIENCE_S).body == {"pong": 1}
    client.close()
    busy.close()


class Flood:
    """A client that has sent so many messages before anybody takes one, and goes on with that."""

    def __init__(self, address: str, message: list[bytes], count: int):
        self.socket = new_socket(zmq.DEALER)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        connect(self.socket, address)
        for _ in range(count):
            self.socket.send_multipart(message)

    def __enter__(self) -> "Flood":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def test_garbage_keeps_no_client_from_an_arm_and_fills_no_log(caplog):
    hardware = config.load_hardware("sim_panda").arms[0]
    server = Server(replace(hardware, address=ANY_PORT), StandingArm())  # type: ignore[arg-type]
    answers: list[bytes] = []

    def ask() -> None:
        link = ArmLink(server.address, PATIENCE_S)
        answers.append(link.ask(Kind.INFO))
        link.close()

    with caplog.at_level(logging.WARNING), Flood(server.address, [b"x"], 50_000):
        client = threading.Thread(target=ask)
        client.start()
        turns = 0
        while client.is_alive():
            server.serve_once(10)
            turns += 1
        client.join()
    server.close()
    assert answers and turns < 25_000, "the flood was served first"
    # its beginning and its end are lines as well, where the log is at INFO
    refused = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert 0 < len(refused) <= MOST_LINES


def test_stop_is_heard_in_the_midst_of_a_flood():
    desk = ConsoleLink()
    answered = 0
    answer = desk._server._answer

    def count(frames):
        nonlocal answered
        answered += 1
        return answer(frames)

    desk._server._answer = count  # type: ignore[method-assign]
    view = json.dumps({"id": 1, "name": "view", "body": {}}).encode()
    with Flood(desk.address, [view, packed({})], 20_000), Flood(desk.address, [b"garbage"], 20_000):
        console = ConsoleLinkClient(desk.address, timeout_s=PATIENCE_S)
        console.say("stop")
        assert answered < 20_000, "the flood was answered first"
        assert [event.command for event in desk.events.take()] == [OperatorCommand.STOP]
        console.close()
    desk.close()


class Clock:
    """Time that goes by only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_calls_take_no_more_than_their_share_of_the_time_from_whoever_polls(server, monkeypatch):
    clock, answering_s = Clock(), 0.0
    monkeypatch.setattr(calls, "time", clock)

    def policy(body, arrays):
        nonlocal answering_s
        answering_s += 0.02
        clock.now += 0.02
        return {}

    server.register("policy", policy)
    request = [json.dumps({"id": 1, "name": "policy", "body": {}}).encode(), packed({})]
    with Flood(server.address, request, 1000):
        answered = 0
        for _ in range(1000):
            assert server._socket.poll(1000 * PATIENCE_S), "the flood does not end while we look"
            answered += server.poll(share=0.05)
            clock.now += 0.01  # an update
    assert answered >= 10
    assert answering_s <= 0.05 * clock.now + 0.02


def test_one_look_at_the_calls_answers_a_bounded_number(server, monkeypatch):
    monkeypatch.setattr(calls, "time", Clock())
    request = [json.dumps({"id": 1, "name": "ping", "body": {}}).encode(), packed({})]
    with Flood(server.address, request, 10 * AT_ONCE):
        handled = [server.poll(PATIENCE_S)]
        while sum(handled) < 10 * AT_ONCE:
            handled.append(server.poll(PATIENCE_S))
    assert max(handled) <= AT_ONCE


ODD_WORDS = [
    "a" * 16_000, "stop" * 4_000, "\ud800" * 2_000, ["[" * 100] * 100, [1e5] * 3_000, {str(i): 0 for i in range(1_500)},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_WORDS, ids=lambda odd: f"{odd!r:.10}")
def test_no_request_at_the_desk_takes_long(odd):
    """In the process of a loop of 10 Hz. Processor time, the shortest of some, and ten times what
    is wanted of it.
    """
    desk = ConsoleLink()
    for request in (
        {"name": "say", "body": {"word": odd}},
        {"name": "grip", "body": {"pose": odd}},
        {"name": "picture", "body": {"camera": odd}},
        {"name": odd, "body": {}},
    ):
        head = json.dumps({"id": 1} | request).encode()
        took = []
        for _ in range(5):
            begun = time.thread_time()
            answer = desk._server._answer([head, packed({})])
            took.append(time.thread_time() - begun)
        assert min(took) < 0.01
        assert len(answer[0]) < 1000, "a refusal does not repeat all that was sent"
    desk.close()


# bytes that lie


@pytest.mark.parametrize(
    "rows",
    [
        [["a", "uint8", [0, 2**32 - 1, 2**32 - 1, 2**32 - 1]]],
        [["a", "float64", [2**32 - 1] * 16]],
        [["a", "float64", [2**31, 2**31, 4]]],
        [["a", "uint8", [-1]]],
        [["a", "uint8", [1.5]]],
        [["a", "uint8", [True]]],
        [["a", "uint8", [10**400]]],
        [["a", ["uint8"], [1]]],
        [["a", "uint8"]],
        [["a", "uint8", [0]]] * 2,
        ["abc"],
        {"abc": 1},
        3,
        [[1] * 100_000],
        [[str(i), "uint8", [0]] for i in range(100_000)],
    ],
    ids=lambda rows: f"{rows!r:.40}",
)
def test_a_layout_that_lies_is_refused_and_takes_no_memory(rows):
    text = json.dumps(rows).encode()
    data = len(text).to_bytes(4, "little") + text
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            packing.unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 21
    finally:
        tracemalloc.stop()


SHAPES = st.lists(
    st.sampled_from([0, 1, 2, 3, 255, 2**16, 2**31, 2**32 - 1, 2**32, 2**64, -1]), max_size=17
)
ROWS = st.tuples(
    st.sampled_from(["", "a", "b"]), st.sampled_from([*packing.DTYPES, "object", "U9"]), SHAPES
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()), st.lists
)


@settings(max_examples=100)
@given(
    rows=st.one_of(st.lists(ROWS, max_size=3), JSON),
    body=st.binary(max_size=40),
    length=st.integers(-8, 8),
)
def test_whatever_is_unpacked_is_arrays_or_a_data_error(rows, body, length):
    text = json.dumps(rows).encode()
    data = max(0, len(text) + length).to_bytes(4, "little") + text + body
    try:
        found = packing.unpack(data)
    except DataError:
        return
    assert sum(array.nbytes for array in found.values()) <= len(data)


# numbers that lie


@pytest.mark.parametrize("seed", [-1, -(2**63), MOST_SEEDS, 10**30, 10**400])
def test_a_seed_that_no_generator_takes_is_no_run(seed):
    with pytest.raises(ConfigError, match=r"seed is .*; it must be a whole number from 0 to"):
        RunSettings("peg_insert", "sim_panda", seed=seed)
    with pytest.raises(ConfigError, match=r"config.json: seed is .* whole number from 0 to"):
        config.from_json(
            RunSettings,
            {"task": "peg_insert", "hardware": "sim_panda", "seed": seed},
            "config.json",
        )


def body_size(kind: Kind, joints: int) -> int:
    sizes = {
        Kind.CONFIGURE: messages.setup_layout(joints),
        Kind.COMMAND: messages.TARGET,
        Kind.RESET: messages.SEED,
        Kind.TUNE: messages.compliance_layout(joints),
        Kind.MOVE_JOINTS: messages.joint_target_layout(joints),
    }
    return sizes[kind].itemsize if kind in sizes else 0


WILD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-300,
    1e300,
    -1e300,
    5e-324,
    np.inf,
    -np.inf,
    np.nan,
    0.1,
    2.0**63,
    1e6,
]


def test_an_arm_lives_whatever_its_requests_say(start_arm):
    process = start_arm("lockstep")
    link = ArmLink(process.address, 100.0)
    joints = messages.to_info(messages.body_as(messages.INFO, link.ask(Kind.INFO))).joints
    for seed in (-1, -(2**63)):
        with pytest.raises(ConfigError, match=rf"a seed of 0 to 2.63 - 1, not with {seed}"):
            link.ask(Kind.RESET, np.array((seed,), messages.SEED))
    rng = np.random.default_rng(0)
    for kind in [*Kind] * 3:
        size = body_size(kind, joints)
        for body in (
            rng.choice(WILD, size // 8).tobytes(),
            rng.bytes(size),
            rng.bytes(int(rng.integers(0, 900))),
        ):
            try:
                link.ask(kind, body)
            except (DeviceError, ConfigError) as error:
                assert "Error:" not in str(error), (
                    "refused at the door, not by an accident behind it"
                )
    link.ask(Kind.RESET, np.array((7,), messages.SEED))
    link.close()
    assert process.stop() == 0


# the log


def test_what_can_be_provoked_is_logged_seldom_and_counted(caplog, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(seldom, "time", SimpleNamespace(monotonic=lambda: clock.now))
    said = Seldom(logging.getLogger("test"))
    with caplog.at_level(logging.WARNING):
        for i in range(1000):
            said.warning("number %d %s", i, "x" * 10_000)
        assert len(caplog.records) == MOST_LINES
        assert "are counted" in caplog.messages[-1]
        clock.now = seldom.EVERY_S
        said.warning("again")
    assert (
        caplog.messages[-1]
        == f"again (and {1000 - MOST_LINES} like it before, which were not written)"
    )
    assert max(map(len, caplog.messages)) < 2 * seldom.MOST_CHARACTERS
