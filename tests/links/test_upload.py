"""Laws of an upload: the file arrives whole and checked, or not at all, over breaks and restarts."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_rl.links import upload as module
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.upload import Inbox, checksum, upload
from robot_rl.types import DataError, LinkError


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PORTION", 1000)
    path = tmp_path / "demos.log"
    path.write_bytes(np.random.default_rng(0).bytes(4321))
    return path


@pytest.fixture
def there(tmp_path):
    (tmp_path / "there").mkdir()
    return tmp_path / "there" / "demos.log"


@pytest.fixture
def server():
    server = CallServer()
    yield server
    server.close()


def test_the_file_arrives_as_it_was_with_its_facts(source, there, server):
    arrived: list[dict] = []
    server.register("upload", Inbox(there, arrived.append).answer)
    server.start()
    client = CallClient(server.address)
    upload(client, source, {"steps": 12})
    client.close()
    assert there.read_bytes() == source.read_bytes()
    assert [facts["steps"] for facts in arrived] == [12]
    assert [path.name for path in there.parent.iterdir()] == ["demos.log"]


def test_an_upload_that_was_broken_off_is_continued_by_another_process(source, there, server):
    data = source.read_bytes()
    whole = {"size": len(data), "crc32": checksum(source)}
    first = Inbox(there, lambda facts: None)
    first.answer({"offset": 0} | whole, {"data": np.frombuffer(data[:1700], np.uint8)})
    assert not there.exists()
    offsets, second = [], Inbox(there, lambda facts: None)

    def answer(body, arrays):
        offsets.append(body["offset"])
        return second.answer(body, arrays)

    server.register("upload", answer)
    server.start()
    client = CallClient(server.address)
    upload(client, source, {})
    client.close()
    assert there.read_bytes() == data
    assert offsets[:2] == [0, 1700]


def test_a_damaged_file_does_not_appear(source, there):
    data = source.read_bytes()
    inbox = Inbox(there, lambda facts: pytest.fail("it must not arrive"))
    with pytest.raises(DataError, match="checksum"):
        inbox.answer(
            {"offset": 0, "size": len(data), "crc32": 1}, {"data": np.frombuffer(data, np.uint8)}
        )
    assert not list(there.parent.iterdir())


def test_a_file_that_is_here_already_with_the_same_content_has_arrived(source, there):
    """The receiver died between the rename and what it does then: the sender comes again."""
    data = source.read_bytes()
    arrived: list[dict] = []
    there.write_bytes(data)
    whole = {"size": len(data), "crc32": checksum(source), "steps": 12}
    answer = Inbox(there, arrived.append).answer(
        {"offset": 0} | whole, {"data": np.frombuffer(data[:10], np.uint8)}
    )
    assert answer == {"have": len(data)}
    assert [facts["steps"] for facts in arrived] == [12]
    assert there.read_bytes() == data


def test_what_is_here_is_not_written_over(source, there, server):
    there.write_bytes(b"mine")
    server.register("upload", Inbox(there, lambda facts: None).answer)
    server.start()
    client = CallClient(server.address)
    with pytest.raises(LinkError, match="here already"):
        upload(client, source, {})
    client.close()
    assert there.read_bytes() == b"mine"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.dictionaries(
        st.sampled_from(["offset", "size", "crc32"]), st.one_of(st.none(), st.integers(), st.text())
    ),
    data=st.binary(max_size=20),
)
def test_nonsense_is_refused_or_harmless(there, body, data):
    inbox = Inbox(there, lambda facts: None)
    try:
        inbox.answer(body, {"data": np.frombuffer(data, np.uint8)})
    except DataError:
        pass
    else:
        assert not there.exists() or checksum(there) == body["crc32"]
    there.unlink(missing_ok=True)
