"""Laws of calls: an answer, or a LinkError that says why; and no request ends the server."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zmq

from robot_rl.links.calls import AGAIN_S, CallClient, CallServer
from robot_rl.links.sockets import LinkSocket, bind, connect, free_addresses, new_socket
from robot_rl.types import DataError, LinkError, SpaceSpec

SPACE = SpaceSpec.unnamed({"state/tcp_pose": ((6,), "float32")}, 6)


@pytest.fixture
def server():
    server = CallServer()
    server.register(
        "double", lambda body, arrays: ({"x": 2 * body["x"]}, {n: 2 * a for n, a in arrays.items()})
    )
    server.register("nothing", lambda body, arrays: None)
    server.start()
    yield server
    server.close()


@pytest.fixture
def client(server):
    client = CallClient(server.address)
    yield client
    client.close()


def test_body_and_arrays_go_there_and_back(client):
    reply = client.call("double", {"x": 4}, {"a": np.arange(3), "b": np.ones((2, 2), np.float32)})
    assert reply.body == {"x": 8}
    np.testing.assert_array_equal(reply.arrays["a"], [0, 2, 4])
    assert reply.arrays["b"].shape == (2, 2) and reply.arrays["b"].dtype == np.float32
    assert client.call("nothing").body == {}


def test_unknown_name_lists_the_known_ones(client):
    with pytest.raises(LinkError, match="no call 'tripel'; there are: double, nothing"):
        client.call("tripel")


def test_failing_handler_is_an_error_of_the_caller_alone(client):
    with pytest.raises(LinkError, match="KeyError: 'x'"):
        client.call("double", {})
    assert client.call("double", {"x": 1}).body == {"x": 2}


def test_reply_that_is_no_json_is_an_error_of_the_caller_alone(server, client):
    server.register("bad", lambda body, arrays: {"x": object()})
    with pytest.raises(LinkError, match="TypeError"):
        client.call("bad")
    assert client.call("nothing").body == {}


def test_silence_names_the_address_and_what_to_do():
    address = free_addresses(1)[0]
    client = CallClient(address)
    with pytest.raises(LinkError, match=rf"the learner at {address} within 0.1 s.*Start it"):
        client.call("hello", timeout_s=0.1)
    client.close()


def test_a_server_that_dies_with_the_request_is_followed_by_one_that_is_asked_again(monkeypatch):
    monkeypatch.setattr("robot_rl.links.calls.AGAIN_S", 0.2)
    address = free_addresses(1)[0]
    dying = new_socket(zmq.ROUTER)
    bind(dying, address)
    client = CallClient(address)
    with ThreadPoolExecutor(1) as asking:
        answer = asking.submit(client.call, "nothing", timeout_s=60.0)
        assert dying.poll(30_000)
        dying.recv_multipart()
        dying.close()
        successor = CallServer(address)
        successor.register("nothing", lambda body, arrays: None)
        while not answer.done():
            successor.poll(0.1)
        assert answer.result().body == {}
    client.close()
    successor.close()


def test_connections_that_end_before_anything_is_sent_over_them_are_no_error(server, monkeypatch):
    """As those end that a server refuses, where who connects gets no time to send in between."""
    ended: list[None] = []

    def connect_and_end(socket, endpoint):
        zmq.Socket.connect(socket, endpoint)
        if len(ended) < 2:
            socket.disconnect(endpoint)
            ended.append(None)

    monkeypatch.setattr("robot_rl.links.calls.AGAIN_S", 0.2)
    monkeypatch.setattr(LinkSocket, "connect", connect_and_end)
    client = CallClient(server.address)
    try:
        assert client.call("double", {"x": 4}).body == {"x": 8} and len(ended) == 2
    finally:
        client.close()


def test_late_answer_is_not_taken_for_that_of_the_next_call():
    with_poll = CallServer()
    with_poll.register("echo", lambda body, arrays: body)
    client = CallClient(with_poll.address)
    with pytest.raises(LinkError):
        client.call("echo", {"x": 1}, timeout_s=0.2)
    assert with_poll.poll(timeout_s=0.2) == 1
    with_poll.start()
    assert client.call("echo", {"x": 2}).body == {"x": 2}
    with_poll.close()
    client.close()


def test_a_request_that_dies_with_its_server_is_asked_anew_of_the_next():
    """Else its caller would wait for `AGAIN_S`, where the next server is there at once."""
    with ThreadPoolExecutor(1) as thread:
        dying = CallServer()
        dying.register("nothing", lambda body, arrays: None)
        client = CallClient(dying.address)
        answer = thread.submit(client.call, "nothing", timeout_s=0.8 * AGAIN_S)
        assert dying.poll(5.0) and answer.result().body == {}
        answer = thread.submit(client.call, "nothing", timeout_s=0.8 * AGAIN_S)
        assert dying._socket.poll(5000), "it is not asked"
        dying.close()
        following = CallServer(dying.address)
        following.register("nothing", lambda body, arrays: {"again": True})
        following.start()
        assert answer.result().body == {"again": True}
        thread.submit(client.close).result()
        following.close()


def test_server_answers_after_garbage(server, client):
    with new_socket(zmq.DEALER, linger_s=0.1) as socket:
        connect(socket, server.address)
        socket.send_multipart([b"\xff" * 50])
        assert socket.poll(2000)
        assert b"error" in socket.recv_multipart()[0]
    assert client.call("double", {"x": 3}).body == {"x": 6}


def test_arrays_of_objects_are_not_sent(client):
    with pytest.raises(DataError):
        client.call("double", {"x": 1}, {"a": np.array([None])})
