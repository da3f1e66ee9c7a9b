"""Laws of the archive: what the index names is whole and as it was recorded, whatever became of the
writer.
"""

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import zarr

from robot_rl.dataset.archive import Archive, Archived, ArchiveWriter, archive
from robot_rl.dataset.assembly import Assembler, Episode, EpisodeFacts, EpisodeKey
from robot_rl.stream.log import StepLog
from robot_rl.types import DataError, Mark, MarkKind, Provenance, RecordId, SpaceSpec
from tests.stream.test_codec import SPACE, make_step


class Recorder:
    """Writes episodes of one actor process into a log."""

    def __init__(self, log: StepLog, actor: str = "arm", epoch: int = 7):
        self.log, self.actor, self.epoch, self.seq = log, actor, epoch, 0

    def step(self, episode: int, index: int, **changes) -> None:
        at = {
            "t_monotonic": 10.0 + 0.1 * index,
            "t_wall": 1000.0 + 0.1 * index,
            "truncated": False,
            "reward": 0.0,
        }
        step = make_step(100 * episode + index, episode=episode, **at | changes)
        self.log.append_step(replace(step, index=index), self._next())

    def episode(self, episode: int, length: int, first: int = 0, **last) -> None:
        for index in range(first, length):
            self.step(episode, index)
        self.step(episode, length, **last or {"terminated": True, "reward": 1.0, "success": True})

    def mark(self, kind: MarkKind, episode: int, **values) -> None:
        self.log.append_mark(Mark(kind, episode, **values), self._next())

    def _next(self) -> RecordId:
        self.seq += 1
        return RecordId(self.actor, self.epoch, self.seq - 1)


@pytest.fixture
def log(tmp_path):
    with StepLog(tmp_path / "steps.log", SPACE) as log:
        yield log


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "archive"


def recorded(log: StepLog) -> dict[EpisodeKey, Episode]:
    """The complete episodes of a log."""
    assembler = Assembler(log, "steps")
    return {episode.key: episode for record in log.records() for episode in assembler.add(*record)}


def assert_equal(a: Episode, b: Episode) -> None:
    for field in fields(Episode):
        if field.name != "observations":
            np.testing.assert_array_equal(
                getattr(a, field.name), getattr(b, field.name), field.name
            )
    assert a.observations.keys() == b.observations.keys()
    for name in a.observations:
        assert a.observations[name].dtype == b.observations[name].dtype
        np.testing.assert_array_equal(a.observations[name], b.observations[name], name)


def assert_whole(folder: Path, expected: dict[EpisodeKey, Episode]) -> int:
    """Every listed episode is there and as it was recorded; returns how many are listed."""
    found = Archive(folder)
    for key in found.entries:
        assert_equal(found.load(key), expected[key])
    return len(found.entries)


def words(facts: EpisodeFacts) -> list[str]:
    return [word.kind for word in facts.label.words]


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_archived_episode_is_the_recorded_one(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 3)
    recorder.episode(1, 60, truncated=True)  # more than a chunk
    assert archive(log, folder, "steps") == Archived(added=2, marked=0, present=0, unfinished=0)
    assert assert_whole(folder, recorded(log)) == 2


def test_an_archive_of_steps_of_schema_1_is_read_and_added_to(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    archive(log, folder, "steps")
    head = json.loads((folder / "archive.json").read_text())
    (folder / "archive.json").write_text(json.dumps(head | {"schema": 1}))
    recorder.episode(1, 2)
    assert archive(log, folder, "steps") == Archived(added=1, marked=0, present=1, unfinished=0)
    assert assert_whole(folder, recorded(log)) == 2


def test_T_actions_stand_between_T_plus_1_observations(log, folder):
    Recorder(log).episode(0, 5)
    archive(log, folder, "steps")
    (episode,) = Archive(folder).episodes()
    steps = list(log.read())
    assert episode.length == 5
    for i, step in enumerate(steps):
        for name, value in step.observation.items():
            np.testing.assert_array_equal(episode.observations[name][i], value)
    for i, step in enumerate(steps[1:]):
        np.testing.assert_array_equal(episode.executed[i], step.executed)
        assert episode.provenance[i] == step.provenance


def test_an_episode_that_was_only_reset_has_length_0(log, folder):
    recorder = Recorder(log)
    recorder.step(0, 0)
    recorder.episode(1, 2)
    archive(log, folder, "steps")
    assert [entry.facts.length for entry in Archive(folder).entries.values()] == [0, 2]
    assert_whole(folder, recorded(log))


def test_any_program_can_read_a_group_with_zarr_alone(log, folder):
    Recorder(log).episode(4, 3)
    archive(log, folder, "steps", {"task": "peg_insert", "rate_hz": 10.0})
    line = json.loads((folder / "index.jsonl").read_text())
    group = zarr.open_group(folder / "episodes" / line["folder"], mode="r")
    shapes = {
        name: array.shape for name, array in group.members(None) if isinstance(array, zarr.Array)
    }
    assert shapes == {
        "observations/image/wrist": (4, 4, 5, 3),
        "observations/state/tcp_pose": (4, 6),
        **{f"actions/{name}": (3, 6) for name in ("proposed", "commanded", "executed")},
        **dict.fromkeys(
            ("reward", "terminated", "truncated", "provenance", "weights_version"), (3,)
        ),
        **dict.fromkeys(("t_monotonic", "t_wall"), (4,)),
    }
    assert group.attrs["key"] == line["key"] == "arm/7/4"
    assert group.attrs["context"] == {"task": "peg_insert", "rate_hz": 10.0}
    assert {
        "length",
        "success",
        "sha256",
        "schema",
        "space_hash",
        "acted",
        "duration_s",
    } <= line.keys()


def test_facts_count_who_acted_and_how_long(log, folder):
    recorder = Recorder(log)
    authors = [
        Provenance.POLICY,
        Provenance.HUMAN,
        Provenance.HUMAN,
        Provenance.POLICY,
        Provenance.HUMAN,
    ]
    recorder.step(0, 0)
    for index, author in enumerate(authors, start=1):
        last = {"terminated": True, "reward": 1.0, "success": True} if index == len(authors) else {}
        recorder.step(0, index, provenance=author, weights_version=index, **last)
    archive(log, folder, "steps")
    (entry,) = Archive(folder).entries.values()
    facts = entry.facts
    assert (facts.acted, facts.corrections, facts.weights_versions) == (
        {"policy": 2, "human": 3},
        2,
        (1, 5),
    )
    assert (facts.length, facts.reward, facts.success, facts.end) == (5, 1.0, True, "terminated")
    assert facts.duration_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    "key", [EpisodeKey("arm", 7, 3), EpisodeKey("a/b c", 2**63 - 1, 0, 4), EpisodeKey("..", 0, 1)]
)
def test_a_key_is_read_as_it_is_written(key, tmp_path, folder):
    assert EpisodeKey.parse(str(key)) == key
    with StepLog(tmp_path / "other.log", SPACE) as log:
        Recorder(log, key.actor, key.epoch).episode(key.episode, key.first + 2, first=key.first)
        archive(log, folder, "steps")
        assert list(Archive(folder).entries) == [key]
        assert_whole(folder, recorded(log))
    assert [path.parent for path in (folder / "episodes").iterdir()] == [folder / "episodes"]


def test_interleaved_actors_are_kept_apart(log):
    left, right = Recorder(log, "left"), Recorder(log, "right")
    for index in range(4):
        left.step(0, index, terminated=index == 3)
        right.step(0, index, truncated=index == 3)
    assert {str(key): episode.end for key, episode in recorded(log).items()} == {
        "left/7/0": "terminated",
        "right/7/0": "truncated",
    }


@pytest.mark.parametrize("by", ["next episode", "next process", "gap"])
def test_an_episode_that_just_stops_coming_was_cut_off(log, by):
    recorder = Recorder(log)
    recorder.step(0, 0)
    recorder.step(0, 1)
    assert recorded(log) == {}
    if by == "next episode":
        recorder.step(1, 0)
    elif by == "next process":
        Recorder(log, epoch=8).step(1, 0)
    else:
        Recorder(log, "arm", epoch=8).mark(MarkKind.GAP, 0, actor="arm", epoch=7, last_seq=1)
    (episode,) = recorded(log).values()
    assert (episode.length, episode.end) == (1, "cut off")


def test_an_unfinished_episode_is_left_for_the_next_time(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    recorder.step(1, 0)
    assert archive(log, folder, "steps") == Archived(1, 0, 0, unfinished=1)
    recorder.step(1, 1, terminated=True)
    assert archive(log, folder, "steps") == Archived(1, 0, 1, unfinished=0)
    assert assert_whole(folder, recorded(log)) == 2


def test_steps_that_are_missing_are_not_bridged(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2, truncated=False)
    recorder.episode(0, 6, first=4)
    archive(log, folder, "steps")
    lengths = {
        str(key): (e.facts.length, e.facts.missing, e.facts.end)
        for key, e in Archive(folder).entries.items()
    }
    assert lengths == {"arm/7/0": (2, 0, "cut off"), "arm/7/0+4": (2, 4, "terminated")}


def test_archiving_the_same_log_again_changes_nothing(log, folder):
    recorder = Recorder(log)
    for episode in range(3):
        recorder.episode(episode, 2)
    recorder.mark(MarkKind.SUCCESS, 1, reward=1.0)
    assert archive(log, folder, "steps") == Archived(3, 1, 0, 0)
    before = content(folder)
    assert archive(log, folder, "steps") == Archived(0, 0, 3, 0)
    assert content(folder) == before


def test_two_logs_of_a_run_share_an_archive(tmp_path, folder):
    for name, epoch in (("demos", 1), ("steps", 2)):
        with StepLog(tmp_path / f"{name}.log", SPACE) as log:
            Recorder(log, epoch=epoch).episode(0, 2)
            assert archive(log, folder, name).added == 1
    assert [entry.facts.source for entry in Archive(folder).entries.values()] == ["demos", "steps"]


def test_an_episode_with_other_content_is_refused(tmp_path, folder):
    for number, length in enumerate((2, 3)):
        with StepLog(tmp_path / f"{number}.log", SPACE) as log:
            Recorder(log).episode(0, length)
            if number == 0:
                archive(log, folder)
            else:
                with pytest.raises(DataError, match=r"arm/7/0 is in archive .* with other content"):
                    archive(log, folder)


def test_a_log_of_another_space_is_refused_naming_both(log, folder, tmp_path):
    archive(log, folder)
    with (
        StepLog(
            tmp_path / "other.log", SpaceSpec.unnamed({"state/q": ((7,), "float32")}, 6)
        ) as other,
        pytest.raises(DataError, match=r"state/tcp_pose.*state/q"),
    ):
        archive(other, folder)


def test_two_writers_are_refused_and_a_reader_is_not(log, folder):
    Recorder(log).episode(0, 2)
    archive(log, folder)
    with ArchiveWriter(folder, SPACE, {}):
        assert len(Archive(folder).entries) == 1
        with pytest.raises(DataError, match="written by another process"):
            ArchiveWriter(folder, SPACE, {})


def test_marks_come_later_and_rewrite_nothing(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2, truncated=True)
    archive(log, folder)
    before = content(folder)
    recorder.mark(MarkKind.SUCCESS, 0, reward=1.0)
    recorder.mark(MarkKind.DISCARD, 0)
    assert archive(log, folder) == Archived(0, marked=1, present=1, unfinished=0)
    after = content(folder)
    assert after.pop("index.jsonl").startswith(before.pop("index.jsonl"))
    assert after == before
    (entry,) = Archive(folder).entries.values()
    assert [mark["kind"] for mark in entry.facts.marks] == ["success", "discard"]
    assert words(entry.facts) == ["success", "discard"]
    assert entry.facts.label.succeeded and not entry.facts.success


def test_undo_takes_the_last_word_back(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    for kind in (MarkKind.FAILURE, MarkKind.DISCARD, MarkKind.UNDO):
        recorder.mark(kind, 0)
    archive(log, folder)
    facts = next(iter(Archive(folder).entries.values())).facts
    assert (words(facts), facts.label.succeeded) == (["failure"], False)
    recorder.mark(MarkKind.UNDO, 0)
    archive(log, folder)
    facts = next(iter(Archive(folder).entries.values())).facts
    assert (words(facts), facts.label.succeeded) == ([], True)


def test_a_mark_of_another_process_reaches_its_episode(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    Recorder(log, "console", 9).mark(MarkKind.DISCARD, 0, actor="arm", epoch=7)
    archive(log, folder)
    assert words(Archive(folder).entries[EpisodeKey("arm", 7, 0)].facts) == ["discard"]


def test_a_folder_that_the_index_does_not_name_does_not_exist(log, folder):
    Recorder(log).episode(0, 2)
    archive(log, folder)
    (whole,) = (folder / "episodes").iterdir()
    for name in ("arm-0000000000000007-000009", ".tmp-1234"):
        (folder / "episodes" / name).mkdir()
        (folder / "episodes" / name / "zarr.json").write_bytes(
            (whole / "zarr.json").read_bytes()[:20]
        )
    assert len(Archive(folder).entries) == 1
    Recorder(log, epoch=8).episode(9, 2)
    assert archive(log, folder).added == 1
    assert not list((folder / "episodes").glob(".tmp-*"))


@pytest.mark.parametrize("cut", [1, 5, 80])
def test_a_torn_line_of_the_index_is_passed_over_and_made_anew(log, folder, cut):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    recorder.episode(1, 2)
    archive(log, folder, "steps")
    index = folder / "index.jsonl"
    index.write_bytes(index.read_bytes()[:-cut])
    assert assert_whole(folder, recorded(log)) == 1
    assert archive(log, folder, "steps") == Archived(1, 0, 1, 0)
    assert assert_whole(folder, recorded(log)) == 2


def test_damage_in_the_index_is_named(log, folder):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    recorder.episode(1, 2)
    archive(log, folder)
    index = folder / "index.jsonl"
    index.write_bytes(b"x" + index.read_bytes()[1:])
    with pytest.raises(DataError, match=r"line 1 of .*index\.jsonl is damaged"):
        Archive(folder)


def test_damaged_content_is_named_and_never_handed_out(log, folder):
    Recorder(log).episode(0, 2)
    archive(log, folder, compress=False)
    (path,) = (folder / "episodes").glob("*/reward/[0-9]*")
    path.write_bytes(bytes(8) + path.read_bytes()[8:-1] + b"\x01")
    with pytest.raises(
        DataError, match=r"episode arm/7/0 is damaged: .* does not match its checksum"
    ):
        list(Archive(folder).episodes())


def test_the_shape_is_never_believed(log, folder):
    Recorder(log).episode(0, 2)
    archive(log, folder)
    (path,) = (folder / "episodes").iterdir()
    zarr.open_array(path / "reward").resize((
        5,
    ))  # what a writer leaves that grows an array and is killed
    with pytest.raises(
        DataError, match=r"the index says 2 steps, but in .* reward has 5 rows instead of 2"
    ):
        list(Archive(folder).episodes())


@pytest.mark.filterwarnings("ignore:Object at executed")
def test_a_missing_array_is_named(log, folder):
    Recorder(log).episode(0, 2)
    archive(log, folder)
    (path,) = (folder / "episodes").glob("*/actions/executed/zarr.json")
    path.unlink()
    with pytest.raises(DataError, match="actions/executed"):
        list(Archive(folder).episodes())


@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
def test_a_full_disk_is_an_error_that_leaves_what_is_listed(log, folder, monkeypatch, call):
    recorder = Recorder(log)
    recorder.episode(0, 2)
    archive(log, folder, "steps")
    recorder.episode(1, 2)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "rename" else os, call, full)
        with pytest.raises(
            DataError, match=r"No space left on device.*make room, then archive again"
        ):
            archive(log, folder, "steps")
    assert assert_whole(folder, recorded(log)) == 1
    assert archive(log, folder, "steps") == Archived(1, 0, 1, 0)
    assert assert_whole(folder, recorded(log)) == 2


class Crash(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_call_to_the_disk_leaves_every_listed_episode_whole(
    log, folder, monkeypatch, seed
):
    recorder = Recorder(log)
    for episode in range(3):
        recorder.episode(episode, 2)
    expected, rng = recorded(log), random.Random(seed)
    for _ in range(3):
        left = [rng.choice([1, 2, 3, rng.randrange(150)])]
        with monkeypatch.context() as patch:
            for owner, name in ((os, "fsync"), (Path, "rename"), (os, "write")):
                patch.setattr(owner, name, _crashing(getattr(owner, name), left))
            with contextlib.suppress(Crash):
                archive(log, folder, "steps")
        if (folder / "archive.json").exists():
            assert_whole(folder, expected)
    archive(log, folder, "steps")
    assert assert_whole(folder, expected) == 3


def _crashing(call, left: list[int]):
    """The call as it is, until `left` calls of this kind or another were made."""

    def crashing(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise Crash
        return call(*arguments, **options)

    return crashing


ARCHIVER = """
import sys
from pathlib import Path
from robot_rl.dataset.archive import archive
from robot_rl.stream.log import StepLog, read_space
path, folder = Path(sys.argv[1]), Path(sys.argv[2])
log = StepLog(path, read_space(path), read_only=True)
print("ready", flush=True)
archive(log, folder, "steps")
print("done", flush=True)
"""


@pytest.mark.slow
def test_a_killed_archiver_leaves_every_listed_episode_whole(log, folder):
    recorder = Recorder(log)
    for episode in range(30):
        recorder.episode(episode, 3)
    expected, rng = recorded(log), random.Random(3)
    listed = 0
    for _ in range(4):
        with _archiver(log.path, folder) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.6))
            process.send_signal(signal.SIGKILL)
            process.wait(20)
        if (folder / "archive.json").exists():
            now = assert_whole(folder, expected)
            assert now >= listed
            listed = now
    assert archive(log, folder, "steps").present == listed
    assert assert_whole(folder, expected) == len(expected) == 30
    assert len(list((folder / "episodes").iterdir())) == 30


def _archiver(*arguments: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", ARCHIVER, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_facts_survive_json(log):
    Recorder(log).episode(0, 2)
    (episode,) = recorded(log).values()
    facts = EpisodeFacts.of(episode)
    assert EpisodeFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
