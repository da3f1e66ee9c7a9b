"""A version of a learned judge on its way to the robot's machine: whole, by its number alone, and
not at all where both have one folder.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from robot_rl.actor.loop import Actor
from robot_rl.links import judges
from robot_rl.links.calls import CallClient, CallServer
from robot_rl.links.judges import answerer, bring, fetch, taker
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.machine.versions import files_of, versions_in
from robot_rl.types import DataError, LinkError, Mark, MarkKind


def make(folder: Path, version: int) -> None:
    folder.mkdir(exist_ok=True)
    for suffix, path in files_of(folder, version).items():
        path.write_bytes(suffix.encode() * version)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[CallClient]:
    """The caller's end; the judge's versions 1 and 2 are on the other side, in `theirs`."""
    for version in (1, 2):
        make(tmp_path / "theirs", version)
    server = CallServer()
    server.register("judge", answerer(tmp_path / "theirs"))
    server.start()
    client = CallClient(server.address)
    yield client
    client.close()
    server.close()


def test_a_version_arrives_whole_and_the_newest_by_itself(
    calls: CallClient, tmp_path: Path
) -> None:
    ours = tmp_path / "ours" / "peg_in"
    assert fetch(calls, ours, 1) == 1 and fetch(calls, ours) == 2
    assert versions_in(ours) == [1, 2] and len(list(ours.iterdir())) == 4
    for version in (1, 2):
        for mine, theirs in zip(
            files_of(ours, version).values(), files_of(tmp_path / "theirs", version).values(),
            strict=True,
        ):  # fmt: skip
            assert mine.read_bytes() == theirs.read_bytes()


def test_what_is_there_is_not_asked_for(tmp_path: Path) -> None:
    make(tmp_path / "ours", 3)
    assert fetch(None, tmp_path / "ours", 3) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [-1, 10_000, True, 1.5, "../../secret", [1]])
def test_a_number_names_no_other_file(calls: CallClient, tmp_path: Path, version: object) -> None:
    with pytest.raises((LinkError, DataError)):
        calls.call("judge", {"version": version})
    with pytest.raises(
        LinkError, match="there is no version 7 of the judge 'theirs'; there are: 1, 2"
    ):
        fetch(calls, tmp_path / "ours", 7)
    assert not (tmp_path / "ours").exists()


def test_a_file_that_is_no_judge_is_not_sent(
    calls: CallClient, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(judges, "MOST_BYTES", 3)
    with pytest.raises(LinkError, match="larger than"):
        fetch(calls, tmp_path / "ours", 2)


def test_the_actor_goes_on_with_the_version_that_came_with_the_weights_and_says_so_once(
    calls: CallClient, tmp_path: Path
) -> None:
    """Over a real link; while the learner has no such version, with the one before."""
    publisher, sent, loaded = WeightsPublisher(), list[Mark](), list[int]()
    actor = object.__new__(Actor)
    reward = SimpleNamespace(version=1)

    def load(version: int) -> None:
        loaded.append(version)
        reward.version = version

    reward.load = load
    actor._env, actor._sender = SimpleNamespace(reward=reward), SimpleNamespace(send=sent.append)  # type: ignore[assignment]
    actor._calls, actor._judge_told = calls, 1
    actor._weights = WeightsSubscriber(publisher.address)
    try:
        for version, judge in enumerate((0, 2, 2, 7)):
            publisher.judge = judge
            publisher.publish(version, {"w": np.zeros(2, np.float32)})
            assert actor._weights.wait_for(version, 30.0) is not None
            actor._take_newest_judge(tmp_path / "peg_in")
    finally:
        actor._weights.close()
        publisher.close()
    assert loaded == [2] and versions_in(tmp_path / "peg_in") == [2]
    assert [(mark.kind, mark.version, mark.reason) for mark in sent] == [
        (MarkKind.REWARD_VERSION, 2, "peg_in")
    ]


def test_a_judge_that_was_learnt_at_the_robot_comes_to_the_learner_once_and_as_it_is(
    tmp_path: Path,
) -> None:
    ours, theirs, outcomes = tmp_path / "ours", tmp_path / "run" / "theirs", tmp_path / "run" / "o"
    server = CallServer()
    server.register("judge", answerer(theirs))
    server.register("take_judge", taker(theirs, outcomes))
    server.start()
    calls = CallClient(server.address)
    try:
        assert fetch(calls, ours) == 0 and not ours.exists(), "it has yet to be learnt"
        make(ours, 2)
        (tmp_path / "outcomes.log").write_bytes(b"shown")
        for _ in range(2):  # a robot that comes again
            bring(calls, ours, tmp_path / "outcomes.log")
            assert versions_in(theirs) == [2] and outcomes.read_bytes() == b"shown"
        assert fetch(calls, tmp_path / "again") == 2
        for path in (*files_of(ours, 2).values(), tmp_path / "outcomes.log"):
            path.write_bytes(b"else")
            with pytest.raises(LinkError, match="nothing is written over"):
                bring(calls, ours, tmp_path / "outcomes.log")
        for part, version in (("config", 1), ("../x", 1), ("json", 0), ("json", "../../x"), (3, 1)):
            said = {"part": part, "version": version, "offset": 0, "size": 1, "crc32": 0}
            with pytest.raises(LinkError, match=r"wanted|no part"):
                calls.call("take_judge", said)
        assert {path.name for path in (tmp_path / "run").rglob("*")} == {
            "theirs", "o", "v0002.json", "v0002.safetensors"
        }  # fmt: skip
    finally:
        calls.close()
        server.close()
