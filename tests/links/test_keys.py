"""Laws of keys: who holds none, or one that is not trusted, gets nowhere and is told why."""

import os
import threading

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.links import allow_list
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.keys import KeyPair, Keyring, check_name, parse_key, this_machine
from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import bind, check_address, connect, new_socket
from robot_rl.links.status import StatusPublisher, StatusReader
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.stream import StepReceiver, StepSender
from robot_rl.types import ConfigError, LinkError
from tests.stream.test_codec import SPACE, make_step

LOOPBACK_WITH_KEYS = "tcp://self@127.0.0.1:*"


class Machine:
    """Keys of its own, and a way to be it."""

    def __init__(self, folder, monkeypatch):
        self.keys = Keyring(folder)
        self.public = self.keys.make().public.hex()
        self._monkeypatch = monkeypatch

    def __enter__(self):
        """What is bound or connected from now on is this machine's."""
        self._before = os.environ["ROBOT_RL_KEYS"]
        self._monkeypatch.setenv("ROBOT_RL_KEYS", str(self.keys.folder))
        return self

    def __exit__(self, *_):
        self._monkeypatch.setenv("ROBOT_RL_KEYS", self._before)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return lambda name: Machine(tmp_path / name, monkeypatch)


@pytest.fixture
def gpu(machine):
    return machine("gpu")


@pytest.fixture
def robot(machine):
    return machine("robot")


def make_friends(gpu, robot):
    gpu.keys.trust("robot", robot.public)
    robot.keys.trust("gpu", gpu.public)


def at(address, machine=""):
    """The same port, for a client that names the machine, or for one that takes it for its own."""
    return f"tcp://{machine}{'@' * bool(machine)}127.0.0.1:{address.rpartition(':')[2]}"


@pytest.fixture
def served(gpu):
    """A call server of the machine gpu; its address."""
    with gpu:
        server = CallServer(LOOPBACK_WITH_KEYS)
    server.register("ping", lambda body, arrays: {"pong": 1})
    server.start()
    yield server.address
    server.close()


def ping(address, timeout_s=20.0):
    client = CallClient(address)
    try:
        return client.call("ping", timeout_s=timeout_s).body
    finally:
        client.close()


# the folder


def test_a_pair_is_made_once_and_only_its_owner_can_read_the_secret(tmp_path):
    keys = Keyring(tmp_path / "keys")
    assert keys.own() is None
    pair = keys.make()
    assert keys.make() == keys.own() == pair
    assert (keys.folder / "secret.key").stat().st_mode & 0o777 == 0o600
    assert keys.folder.stat().st_mode & 0o077 == 0
    assert pair.secret.hex() not in repr(pair) and repr(pair.secret) not in repr(pair)
    assert [path.name for path in keys.folder.iterdir() if path.name.startswith(".")] == []


def test_two_processes_that_make_keys_at_once_get_the_same(tmp_path):
    pairs: list[KeyPair] = []
    threads = [
        threading.Thread(target=lambda: pairs.append(Keyring(tmp_path / "keys").make()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pairs) == 8 and len({pair.public for pair in pairs}) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_secret_that_others_can_read_is_refused(gpu, mode):
    (gpu.keys.folder / "secret.key").chmod(mode)
    with (
        gpu,
        pytest.raises(ConfigError, match=rf"can be read by others \(mode {mode:04o}.*chmod 600"),
    ):
        check_address("tcp://192.168.1.7:5555")


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 64, b"0" * 63, b"\x80\x04pickle"])
def test_a_damaged_key_file_is_named(gpu, robot, content):
    make_friends(gpu, robot)
    (gpu.keys.folder / "trusted" / "robot.key").write_bytes(content)
    with pytest.raises(ConfigError, match=r"robot\.key holds no key"):
        gpu.keys.trusted()
    (gpu.keys.folder / "secret.key").write_bytes(content)
    with pytest.raises(ConfigError, match=r"secret\.key holds no key"):
        gpu.keys.own()


def test_trusted_machines_are_listed_until_they_are_revoked(gpu, robot):
    make_friends(gpu, robot)
    gpu.keys.trust("robot", robot.public.upper())  # again: nothing changes
    assert gpu.keys.trusted() == {"robot": bytes.fromhex(robot.public)}
    gpu.keys.revoke("robot")
    assert gpu.keys.trusted() == {}
    with pytest.raises(ConfigError, match="'robot' is not trusted"):
        gpu.keys.revoke("robot")


def test_a_name_does_not_change_its_key_by_itself(gpu, robot, machine):
    make_friends(gpu, robot)
    with pytest.raises(ConfigError, match="--revoke robot"):
        gpu.keys.trust("robot", machine("other").public)
    assert gpu.keys.trusted() == {"robot": bytes.fromhex(robot.public)}


@given(name=st.text(max_size=80))
def test_a_name_never_leaves_the_folder(name):
    try:
        check_name(name)
    except ConfigError:
        return
    assert os.path.basename(name) == name and not name.startswith(".") and name != "self"  # noqa: PTH119


@pytest.mark.parametrize("key", ["", "abc", "g" * 64, "0" * 63, "0" * 65, "0" * 40])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(ConfigError, match="64 hex digits"):
        parse_key(key)


def test_this_machine_has_a_name_that_others_can_use():
    assert check_name(this_machine())


# which key belongs to an address


def test_the_machine_follows_from_the_address(robot, gpu, machine):
    keys, other = robot.keys, machine("other")
    with robot:
        with pytest.raises(
            LinkError, match=r"the key of the machine at 10.0.0.2 is not trusted.*none"
        ):
            check_address("tcp://10.0.0.2:5561")
        keys.trust("gpu", gpu.public)
        assert keys.server("", "10.0.0.2")[0] == "gpu"  # the only one
        keys.trust("other", other.public)
        assert keys.server("", "other") == ("other", bytes.fromhex(other.public))  # the host's name
        assert keys.server("gpu", "other") == ("gpu", bytes.fromhex(gpu.public))  # said so
        with pytest.raises(LinkError, match=r"tcp://NAME@10.0.0.2:PORT"):
            check_address("tcp://10.0.0.2:5561")
        with pytest.raises(LinkError, match=r"the key of 'gqu' is not trusted.*gpu, other"):
            check_address("tcp://gqu@10.0.0.2:5561")


# links


def test_trust_counts_at_once_and_revoking_for_the_next_connection(served, gpu, robot):
    make_friends(gpu, robot)
    with robot:
        assert ping(at(served, "gpu")) == {"pong": 1}
        gpu.keys.revoke("robot")
        with pytest.raises(LinkError, match=r"refuses this machine's key.*robot-rl keys"):
            ping(at(served, "gpu"))
        gpu.keys.trust("robot", robot.public)
        assert ping(at(served, "gpu")) == {"pong": 1}


def test_a_server_that_has_another_key_than_the_trusted_one_is_not_believed(
    served, gpu, robot, machine
):
    gpu.keys.trust("robot", robot.public)
    robot.keys.trust("gpu", machine("impostor").public)
    with robot, pytest.raises(LinkError, match=r"does not have the key that is trusted as 'gpu'"):
        ping(at(served, "gpu"))
    with robot, pytest.raises(LinkError, match=r"does not have the key|no answer"):
        ping(at(served, "gpu"), timeout_s=0.5)


def test_a_client_with_keys_does_not_talk_to_a_server_without(gpu, robot):
    make_friends(gpu, robot)
    with new_socket(zmq.ROUTER) as server:
        port = server.bind_to_random_port("tcp://127.0.0.1")
        with robot, pytest.raises(LinkError, match="speaks without keys"):
            ping(f"tcp://gpu@127.0.0.1:{port}")


def test_a_server_whose_keys_cannot_be_read_lets_nobody_in(served, gpu, robot):
    make_friends(gpu, robot)
    (gpu.keys.folder / "trusted" / "robot.key").write_text("damaged")
    with robot, pytest.raises(LinkError, match="refuses this machine's key"):
        ping(at(served, "gpu"))


def test_two_keyrings_in_one_process_are_told_apart(served, gpu, robot, machine):
    """As in the tests here; and each server knows its own friends alone."""
    stranger = machine("stranger")
    with stranger:
        other = CallServer(LOOPBACK_WITH_KEYS)
    other.start()
    make_friends(gpu, robot)
    robot.keys.trust("stranger", stranger.public)
    with robot:
        assert ping(at(served, "gpu")) == {"pong": 1}
        with pytest.raises(LinkError, match="refuses this machine's key"):
            ping(at(other.address, "stranger"))
    other.close()


def test_only_this_machine_can_be_named_to_listen(gpu, robot):
    make_friends(gpu, robot)
    with gpu, pytest.raises(LinkError, match="can be named is 'self'"):
        bind(new_socket(zmq.ROUTER), "tcp://robot@127.0.0.1:*")


def test_a_service_for_all_interfaces_is_reached_with_keys_alone(gpu, robot):
    make_friends(gpu, robot)
    with gpu:
        server = CallServer("tcp://0.0.0.0:*")
    server.register("ping", lambda body, arrays: {"pong": 1})
    server.start()
    with robot:
        assert ping(at(server.address, "gpu")) == {"pong": 1}
    with pytest.raises(LinkError, match="does not have the key"):
        ping(at(server.address))
    server.close()


def test_steps_and_weights_that_are_refused_say_so(gpu, robot, tmp_path, caplog):
    robot.keys.trust("gpu", gpu.public)
    with gpu:
        receiver, publisher = (
            StepReceiver(LOOPBACK_WITH_KEYS, SPACE),
            WeightsPublisher(LOOPBACK_WITH_KEYS),
        )
        status = StatusPublisher(LOOPBACK_WITH_KEYS, "learner")
    with robot:
        sender = StepSender(at(receiver.address, "gpu"), SPACE, spool=tmp_path / "spool")
        subscriber = WeightsSubscriber(at(publisher.address, "gpu"))
        reader = StatusReader({"learner": at(status.address, "gpu")})
        with pytest.raises(LinkError, match="refuses this machine's key"):
            sender.send(make_step(0))
            sender.drain(timeout_s=20.0)
        with pytest.raises(LinkError, match="refuses this machine's key"):
            subscriber.wait_for(0, timeout_s=20.0)
        while "no status of 'learner'" not in caplog.text:
            assert reader.latest() == {}
        for part in (sender, subscriber, reader, receiver, publisher, status):
            part.close()


def test_tcp_on_loopback_has_keys_without_being_asked_and_makes_them(
    machine, tmp_path, monkeypatch
):
    """As in the config of a run that was made when loopback had none."""
    monkeypatch.setenv("ROBOT_RL_KEYS", str(tmp_path / "none yet"))
    server = CallServer("tcp://127.0.0.1:*")
    server.register("ping", lambda body, arrays: {"pong": 1})
    server.start()
    assert server.address.startswith("tcp://127.0.0.1:")
    assert (
        ping(server.address)
        == ping(server.address.replace("127.0.0.1", "self@127.0.0.1"))
        == {"pong": 1}
    )
    with new_socket(zmq.DEALER) as socket:
        connect(socket, server.address)
        assert socket.getsockopt(zmq.MECHANISM) == zmq.CURVE
    with (
        machine("another user"),
        pytest.raises(LinkError, match=r"does not have the key of this user.*Another user"),
    ):
        ping(server.address)
    server.close()


def test_many_strangers_leave_few_lines_and_none_with_a_key_to_trust(
    served, gpu, machine, caplog, monkeypatch
):
    make_friends(gpu, machine("robot"))
    monkeypatch.setattr(
        allow_list._running, "_seldom", Seldom(allow_list.log, allow_list.MOST_LINES)
    )
    publics = []
    for i in range(10):
        stranger = machine(f"stranger {i}")
        stranger.keys.trust("gpu", gpu.public)
        publics.append(stranger.public)
        with stranger, pytest.raises(LinkError, match="refuses this machine's key"):
            ping(at(served, "gpu"))
    lines = [line for line in caplog.messages if "refused" in line]
    assert 1 <= len(lines) <= allow_list.MOST_LINES
    assert "robot-rl keys" in lines[0] and not any(key in caplog.text for key in publics)
