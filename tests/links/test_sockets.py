"""Laws of addresses: this machine as it is, others with keys alone, and an error says what to do."""

import os
import subprocess
import sys

import pytest
import zmq

from robot_rl.links.address import draw_secret, parse_address
from robot_rl.links.keys import Keyring
from robot_rl.links.sockets import bind, check_address, connect, free_addresses, new_socket
from robot_rl.types import LinkError

OTHER_MACHINES = [
    "tcp://192.168.1.7:5555",
    "tcp://robot:5555",
    "tcp://gpu@10.0.0.2:5555",
    "tcp://gpu@127.0.0.1:5555",
]
ALL_INTERFACES = ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://[::]:5555"]


@pytest.fixture(autouse=True)
def no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOT_RL_KEYS", str(tmp_path / "none"))


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:5555", "tcp://localhost:1", "tcp://self@127.0.0.1:5555"]
)
def test_loopback_takes_the_keys_that_it_needs_from_this_machine(address):
    assert parse_address(address).is_loopback
    assert check_address(address) == address
    assert Keyring().own() is not None


@pytest.mark.parametrize("address", ["local://arm", "local://*"])
def test_a_local_address_needs_no_keys(address):
    assert parse_address(address).is_local
    with new_socket(zmq.ROUTER) as socket:
        assert check_address(bind(socket, address)).startswith("local://")
        assert socket.getsockopt(zmq.MECHANISM) == zmq.NULL
    assert Keyring().own() is None


@pytest.mark.parametrize("address", [*OTHER_MACHINES, *ALL_INTERFACES])
def test_without_keys_nobody_listens_to_other_machines(address):
    socket = new_socket(zmq.ROUTER)
    with pytest.raises(LinkError, match=r"`robot-rl keys`|can be named"):
        bind(socket, address)
    assert socket.closed


@pytest.mark.parametrize("address", OTHER_MACHINES)
def test_without_keys_nobody_connects_to_other_machines(address):
    socket = new_socket(zmq.DEALER)
    for use in (lambda: check_address(address), lambda: connect(socket, address)):
        with pytest.raises(LinkError, match="`robot-rl keys`"):
            use()
    assert socket.closed


@pytest.mark.parametrize("address", ALL_INTERFACES)
def test_all_interfaces_are_nothing_to_connect_to(address):
    with pytest.raises(LinkError, match="name the machine"):
        check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "5555",
        "ipc:///tmp/x",
        "inproc://x",
        "local://",
        "local://../x",
        "local://" + 41 * "x",
        "127.0.0.1:5555",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:70000",
        "tcp://@host:1",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(LinkError, match="is no address"):
        check_address(address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "local://*"])
def test_an_address_that_is_taken_is_named(address):
    with new_socket(zmq.ROUTER) as first, new_socket(zmq.DEALER) as client:
        address = bind(first, address)
        with pytest.raises(LinkError, match=f"cannot listen at {address}.*another run"):
            bind(new_socket(zmq.ROUTER), address)
        connect(client, address)
        client.send(b"still there")
        assert first.poll(10_000) and first.recv_multipart()[1] == b"still there"


def test_free_addresses_are_distinct_and_free():
    addresses = free_addresses(5)
    assert len(set(addresses)) == 5
    for address in addresses:
        socket = new_socket(zmq.ROUTER)
        assert bind(socket, address) == address
        socket.close()


# the folder of local sockets


@pytest.fixture
def links(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOT_RL_LINKS", str(tmp_path / "links"))
    return tmp_path / "links"


def test_the_folder_is_this_users_alone_and_is_left_empty(links):
    with new_socket(zmq.ROUTER) as socket:
        bind(socket, "local://x")
        draw_secret("local://x")
        assert links.stat().st_mode & 0o777 == 0o700
        assert (links / "x").is_socket() and (links / "x.secret").stat().st_mode & 0o777 == 0o600
    assert list(links.iterdir()) == []


def test_a_folder_that_is_gone_is_made_anew(links):
    for _ in range(2):
        with new_socket(zmq.ROUTER) as socket:
            bind(socket, "local://x")
        links.rmdir()


def spoil_mode(folder):
    folder.mkdir()
    folder.chmod(0o750)


def spoil_link(folder):
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def spoil_owner(folder):
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (spoil_mode, "others may enter"),
        (spoil_link, "is a link or a file"),
        (spoil_owner, "belongs to user 65534"),
        (lambda folder: folder.write_text(""), "is a link or a file"),
    ],
)
def test_a_folder_in_which_others_have_their_hands_is_never_used(links, spoil, why):
    spoil(links)
    for use in (bind, connect):
        socket = new_socket(zmq.DEALER)
        with pytest.raises(LinkError, match=why):
            use(socket, "local://x")
        assert socket.closed


def test_a_path_too_long_for_a_socket_is_refused(links, monkeypatch):
    monkeypatch.setenv("ROBOT_RL_LINKS", str(links) + "x" * 100)
    with pytest.raises(LinkError, match="too long for a socket"):
        bind(new_socket(zmq.ROUTER), "local://x")


KILLED = """
import os, signal, zmq
from robot_rl.links.address import draw_secret
from robot_rl.links.sockets import bind, new_socket
socket = new_socket(zmq.ROUTER)
bind(socket, "local://x")
draw_secret("local://x")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_hinders_nobody_and_does_not_stay(links):
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED], check=False, timeout=60)
        assert sorted(path.name for path in links.iterdir()) == ["x", "x.secret"]
    with new_socket(zmq.ROUTER) as socket:
        bind(socket, "local://other")
        assert [path.name for path in links.iterdir()] == ["other"]


def test_a_service_that_starts_again_at_once_is_reached_by_who_was_connected(links):
    with new_socket(zmq.DEALER) as client:
        connect(client, "local://x")
        for i in range(8):
            with new_socket(zmq.ROUTER) as server:
                bind(server, "local://x")
                while not server.poll(200):  # what was said to the one before is lost
                    client.send_multipart([b"%d" % i])
                assert server.recv_multipart()


def test_what_is_sent_once_the_connection_was_given_up_goes_over_a_new_one(links):
    with new_socket(zmq.ROUTER) as server, new_socket(zmq.DEALER) as client:
        bind(server, "local://x")
        connect(client, "local://x")
        client.disconnect(client.getsockopt_string(zmq.LAST_ENDPOINT))  # ZeroMQ does it unasked
        client.send_multipart([b"still here"])
        assert server.poll(5000)
        assert server.recv_multipart()[-1] == b"still here"
