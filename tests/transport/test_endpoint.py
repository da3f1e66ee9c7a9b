"""Laws of addresses: this machine as it is, others with keys alone, and an error says what to do."""

import pytest
import zmq

from robot_rl.transport.address import parse_address
from robot_rl.transport.endpoint import FREE_PORTS, bind, check_address, connect, free_addresses, new_socket
from robot_rl.types import LinkError

OTHER_MACHINES = ["tcp://192.168.1.7:5555", "tcp://robot:5555", "tcp://gpu@10.0.0.2:5555", "tcp://gpu@127.0.0.1:5555"]
ALL_INTERFACES = ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://[::]:5555"]


@pytest.fixture(autouse=True)
def no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOT_RL_KEYS", str(tmp_path / "none"))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:5555", "tcp://localhost:1", "tcp://127.0.0.1:*", "ipc:///tmp/x"])
def test_this_machine_needs_no_keys(address):
    assert not parse_address(address).needs_keys
    assert check_address(address) == address


@pytest.mark.parametrize("address", [*OTHER_MACHINES, *ALL_INTERFACES, "tcp://self@127.0.0.1:5555"])
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
    ["", "5555", "127.0.0.1:5555", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "tcp://127.0.0.1:70000", "tcp://@host:1"],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(LinkError, match="is no address"):
        check_address(address)


def test_taken_port_is_named():
    first = new_socket(zmq.ROUTER)
    address = bind(first, "tcp://127.0.0.1:*")
    with pytest.raises(LinkError, match=f"cannot listen at {address}"):
        bind(new_socket(zmq.ROUTER), address)
    first.close()


def test_free_addresses_are_distinct_and_free():
    addresses = free_addresses(5)
    assert len(set(addresses)) == 5
    for address in addresses:
        socket = new_socket(zmq.ROUTER)
        assert bind(socket, address) == address
        socket.close()


def test_free_addresses_are_none_that_systems_hand_out_meanwhile():
    assert FREE_PORTS.stop <= 32768
    assert all(int(address.rsplit(":", 1)[1]) in FREE_PORTS for address in free_addresses(50))


def test_addresses_that_are_not_there_are_an_error():
    with pytest.raises(LinkError, match="no 100000 ports from 20000 to 31999 are free"):
        free_addresses(100_000)
