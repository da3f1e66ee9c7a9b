"""Laws of addresses: this machine only, and an error says what to do."""

import pytest
import zmq

from robot_rl.transport.endpoint import bind, check_local, connect, free_addresses, new_socket
from robot_rl.types import LinkError


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:5555", "tcp://localhost:1", "tcp://127.0.0.1:*", "ipc:///tmp/x"])
def test_this_machine_is_allowed(address):
    assert check_local(address) == address


@pytest.mark.parametrize(
    "address", ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://192.168.1.7:5555", "tcp://robot:5555"]
)
@pytest.mark.parametrize("use", [bind, connect])
def test_other_machines_need_keys_that_come_later(address, use):
    with pytest.raises(LinkError, match="encryption keys"):
        use(new_socket(zmq.ROUTER), address)


@pytest.mark.parametrize(
    "address", ["", "5555", "127.0.0.1:5555", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "tcp://127.0.0.1:70000"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(LinkError, match="is no address"):
        check_local(address)


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
