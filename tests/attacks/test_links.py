"""Attacks on the links: by another account, by a web page, by a program of the same user, by silent
connections.

The stranger's side is written with the system's own sockets, and runs as another user where root
allows it.
"""

import contextlib
import errno
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import zmq

from robot_rl import cli, config
from robot_rl.cli import verbs
from robot_rl.controllers import messages, server
from robot_rl.controllers.client import ArmClient, ArmLink
from robot_rl.controllers.messages import Kind
from robot_rl.links.address import parse_address, path_of, read_secret
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.console_link import ConsoleLink
from robot_rl.links.sockets import allow_many_files, new_socket
from robot_rl.links.status import StatusPublisher
from robot_rl.links.weights import WeightsPublisher
from robot_rl.machine.processes import GONE
from robot_rl.stream import StepReceiver
from robot_rl.stream.compatibility import Hello, check
from robot_rl.types import ArmTarget, ConfigError, DeviceError, RefusedError
from tests.controllers.bench import LIMITS, TASK, TOOL
from tests.links.test_hostile import greeting, ready, serve_arm
from tests.stream.test_codec import SPACE

NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
PATIENCE_S = 60.0


def configured(address: str) -> ArmClient:
    arm = ArmClient(address, timeout_s=100.0)
    arm.configure(TOOL, TASK.compliance, LIMITS, TASK.leash_translation, TASK.leash_rotation)
    return arm


# another account

STRANGER = """
import json, os, socket, sys
done = {}
def attempt(name, what):
    try:
        done[name] = repr(what())
    except PermissionError:
        pass
for path in json.loads(sys.argv[1]):
    attempt("connect " + path, lambda: socket.socket(socket.AF_UNIX).connect(path))
    attempt("secret " + path, lambda: open(path + ".secret").read())
    attempt("remove " + path, lambda: os.unlink(path))
    folder = os.path.dirname(path)
    attempt("squat", lambda: socket.socket(socket.AF_UNIX).bind(folder + "/next"))
    attempt("list", lambda: os.listdir(folder))
    attempt("rename", lambda: os.rename(folder, folder + "-old"))
print(json.dumps(done))
"""


@pytest.fixture
def as_nobody() -> list[str]:
    """How to run the system's Python as another user; skip where that cannot be."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.getuid() != 0 or shutil.which("setpriv") is None or python is None:
        pytest.skip(
            "only root can be somebody else, with setpriv and a Python that everybody may run"
        )
    return [*NOBODY, python]


def test_another_account_reaches_no_link_of_a_bench(start_arm, as_nobody, monkeypatch):
    # where a run has it: in a folder that everybody may enter
    monkeypatch.delenv("ROBOT_RL_LINKS", raising=False)
    arm = configured(start_arm("lockstep").address)
    before = arm.refresh()
    calls, desk, steps = CallServer(), ConsoleLink(), StepReceiver("local://*", SPACE)
    weights, status = WeightsPublisher(), StatusPublisher(sender="learner")
    weights.publish(1, {"w": np.zeros(3, np.float32)})
    with (
        closing(calls),
        closing(desk),
        closing(steps),
        closing(weights),
        closing(status),
        closing(arm),
    ):
        links = [
            calls.address,
            desk.address,
            steps.address,
            weights.address,
            status.address,
            arm._link._address,
        ]
        paths = [str(path_of(parse_address(address).name)) for address in links]
        assert all(Path(path).is_socket() for path in paths)
        said = subprocess.run(
            [*as_nobody, "-c", STRANGER, json.dumps(paths)],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd="/",
        )  # fmt: skip
        assert json.loads(said.stdout) == {}
        assert calls.poll() == 0 and steps.receive(timeout_s=0.0) == []
        np.testing.assert_array_equal(arm.refresh().q, before.q)


# a web page, and whatever else speaks to a port


def version_1(frames: list[bytes]) -> bytes:
    """A message of ZeroMQ's first protocol, which has no greeting and no mechanism: length, flags,
    content.
    """
    last = len(frames) - 1
    return b"".join(bytes([len(f) + 1, int(i < last)]) + f for i, f in enumerate(frames))


REQUEST = [b'{"id":1,"name":"pause","body":{}}', struct.pack("<I", 2) + b"[]"]
POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
# "P" announces 80 bytes: the head of the request is its first frame
POST = POST.ljust(77, b"a") + b"\r\n\r\n"
BYTES = {
    "web page": [POST + version_1(REQUEST)],
    "version 1": [version_1([b""]) + version_1(REQUEST)],
    "without keys": [
        greeting(b"NULL"),
        ready(b"DEALER"),
        b"".join(bytes([i == 0, len(f)]) + f for i, f in enumerate(REQUEST)),
    ],
}
"""What is said at once, and what when the other side has answered with as much as in `ANSWERS`."""

ANSWERS = [
    len(greeting(b"NULL")),
    len(b"\x04\x29\x05READY\x0bSocket-Type....ROUTER\x08Identity...."),
]
"""Who sends a message sooner breaks the protocol, and is hung up on, now and then."""


def shout(port: int, parts: list[bytes]) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
        contextlib.suppress(OSError),
    ):
        for part, answer in zip(parts[:-1], ANSWERS, strict=False):
            connection.sendall(part)
            answers.read(answer)
        connection.settimeout(0.5)
        connection.sendall(parts[-1])
        answers.read()


@pytest.mark.parametrize("what", BYTES)
def test_who_has_no_keys_is_not_heard_at_a_port(what):
    with new_socket(zmq.ROUTER) as open_to_all:  # where anybody is heard: the bytes are a message
        port = open_to_all.bind_to_random_port("tcp://127.0.0.1")
        shout(port, BYTES[what])
        assert open_to_all.poll(60_000) and open_to_all.recv_multipart()[-2:] == REQUEST
    with pressed_by("tcp://127.0.0.1:*") as (buttons, presses):
        shout(int(buttons.address.rpartition(":")[2]), BYTES[what])
        client = CallClient(buttons.address)
        client.call("ping", timeout_s=PATIENCE_S)  # whatever was said before is heard by now
        client.close()
        assert presses == []


@contextlib.contextmanager
def pressed_by(address: str) -> Iterator[tuple[CallServer, list[int]]]:
    """A server with a button, and how often it was pressed."""
    presses: list[int] = []
    buttons = CallServer(address)
    buttons.register("pause", lambda *_: presses.append(1))
    buttons.register("ping", lambda *_: {})
    buttons.start()
    with closing(buttons):
        yield buttons, presses


# a program of the same user


def test_who_does_not_know_the_secret_moves_nothing_and_may_stop_and_look_on(start_arm):
    process = start_arm("lockstep")
    arm = configured(process.address)
    command = Path(f"/proc/{process.process.pid}/cmdline").read_bytes()
    assert read_secret(process.address).hex().encode() not in command
    before = arm.refresh()
    pose = before.pose_base_tcp + [0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    target = messages.record(messages.TARGET, ArmTarget(pose, 0.1, seen_t=before.t))
    orders = {kind: b"" for kind in Kind if kind not in messages.OPEN} | {Kind.COMMAND: target}
    for secret in (messages.NO_SECRET, b"x" * 16):
        with closing(ArmLink(process.address, PATIENCE_S, secret)) as stranger:
            stranger.ask(Kind.INFO)
            stranger._own = stranger._in_force  # all that is asked for but the secret
            for kind, body in orders.items():
                with pytest.raises(ConfigError, match=rf"{kind.name} wants the arm's secret"):
                    stranger.ask(kind, body)
            past = np.array((0.1,), messages.AGE)
            for kind in set(messages.OPEN) - {Kind.FINGERS}:
                assert stranger.ask(kind, past if kind in (Kind.PAST, Kind.PAST_WORLD) else b"")
            with pytest.raises(DeviceError, match="no fingers move in its world"):
                stranger.ask(Kind.FINGERS)
    after = arm.refresh()
    # a hold is a tick of the simulation
    np.testing.assert_allclose(after.q, before.q, rtol=0.0, atol=1e-9)
    with closing(ArmLink(process.address, PATIENCE_S, read_secret(process.address))) as knowing:
        knowing.ask(Kind.INFO)
        knowing._own = knowing._in_force
        assert knowing.ask(Kind.COMMAND, target)
    arm.close()


def test_the_secret_is_another_one_each_time_an_arm_is_started():
    drawn = set()
    for _ in range(2):
        arm = serve_arm("local://attacked")
        drawn.add(read_secret(arm.address))
        arm.close()
    assert len(drawn) == 2 and messages.NO_SECRET not in drawn


def test_a_secret_that_was_cleared_away_is_laid_there_again(monkeypatch):
    monkeypatch.setattr(server, "SECRET_EVERY_S", 0.0)
    arm = serve_arm("local://*")
    secret = read_secret(arm.address)
    path_of(parse_address(arm.address).name).with_suffix(".secret").unlink()
    arm.serve()
    assert read_secret(arm.address) == secret != messages.NO_SECRET
    arm.close()
    assert read_secret(arm.address) == messages.NO_SECRET


# a robot of another run


def test_a_robot_of_another_run_is_sent_away_with_both_named():
    task, hardware = config.load_task("peg_insert"), config.load_hardware("sim_panda")
    ours = Hello.of("learner", task, hardware, SPACE, "a" * 16)
    theirs = replace(ours, role="actor", run="b" * 16)
    with closing(CallServer()) as calls:
        calls.register("hello", lambda body, arrays: check(ours, body))
        calls.start()
        with closing(CallClient(calls.address)) as client:
            with pytest.raises(
                RefusedError, match=rf"two runs.*{'a' * 16}.*{'b' * 16}.*robot-rl join"
            ):
                client.call("hello", asdict(theirs), timeout_s=PATIENCE_S)
            for run in ("a" * 16, ""):  # runs were made before they had ids
                client.call("hello", asdict(replace(theirs, run=run)), timeout_s=PATIENCE_S)


# silent connections

SERVER = """
import resource, sys, time
from robot_rl.links import flood, sockets
sockets.HANDSHAKE_MS = 2000
brought = flood.GuardedPort._brought
def slowly(*of_a_connection):
    time.sleep(float(sys.argv[1]))
    return brought(*of_a_connection)
flood.GuardedPort._brought = slowly
from robot_rl.links.calls import CallServer
server = CallServer("tcp://127.0.0.1:*")
server.register("ping", lambda body, arrays: {"opened": open("/dev/null").close()})
resource.setrlimit(resource.RLIMIT_NOFILE, (900, 900))
print(server.address, flush=True)
while True:
    server.poll(1.0)
"""


@pytest.mark.parametrize("look_s", [0.0, 0.01])
def test_more_silent_connections_than_a_process_may_have_files_end_nothing(look_s):
    """However long it takes to look at what each of them has brought: seen on a busy machine."""
    allow_many_files()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(look_s)], stdout=subprocess.PIPE, text=True
    )
    with process, contextlib.ExitStack() as opened:
        opened.callback(process.kill)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        port = int(address.rpartition(":")[2])
        with closing(CallClient(address)) as client:
            for i in range(1100):
                connection = opened.enter_context(socket.socket())
                connection.setblocking(False)  # the one that is not let in is not waited for
                connection.connect_ex(("127.0.0.1", port))
                if i == 300:
                    time.sleep(0.2)  # these are being looked at by now
                if i % 50 == 0:
                    assert client.call("ping", timeout_s=PATIENCE_S).body == {"opened": None}
        # who comes now is let in when the first ones are hung up on
        with closing(CallClient(address)) as client:
            assert client.call("ping", timeout_s=PATIENCE_S).body == {"opened": None}
        assert process.poll() is None


def test_a_process_may_have_as_many_files_as_the_system_allows():
    count = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    code = "from robot_rl.links.sockets import allow_many_files; allow_many_files(); " + count
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 900)),
    )  # fmt: skip
    assert said.stdout.strip() == "900"


def test_a_process_that_can_open_no_more_files_leaves_to_be_started_again(monkeypatch, capsys):
    def write_metrics(arguments):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "metrics.jsonl")

    monkeypatch.setitem(verbs.VERBS, "learner", write_metrics)
    assert cli.main(["learner"]) == GONE
    assert "metrics.jsonl cannot be opened: Too many open files" in capsys.readouterr().err
