"""The archive of finished episodes: one immutable zarr group each, for other programs, for export,
and for ever.

    archive/
      archive.json            format, schema, spaces, and what made it (task, hardware, rate, code): written once
      index.jsonl             one line per fact (`archive_index.py`); what it does not name does not exist
      episodes/NAME/          zarr 3: observations/*, actions/*, reward, terminated, truncated, provenance, ...

An episode is written under a temporary name, every file and folder of it is fsynced, then it is
renamed, then a line is appended to the fsynced index. The rename and the line are the commit:
a writer that is killed in between leaves a folder that is not read and that the next one replaces.
The length is the index's; what zarr calls `shape` is only compared with it, and the content with
its sha256.

A batch for the learner is never sampled from here: reading single rows is a hundred times slower
than from memory.
"""

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

from robot_rl.dataset.archive_index import Entry, Index, read_index
from robot_rl.dataset.assembly import Assembler, Episode, EpisodeFacts, EpisodeKey
from robot_rl.machine.sync import sync_path
from robot_rl.packing import raw
from robot_rl.stream.codec import (
    ACTIONS,
    READABLE,
    SCHEMA,
    space_from_json,
    space_hash,
    space_json,
    space_words,
)
from robot_rl.stream.episodes import Relabel
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, DataError, SpaceSpec

FORMAT = 1
"""Version of the folder's layout."""

CHUNK_STEPS = 50
"""Frames in one file. One frame per file appends at half the speed, and a whole long episode is
read to see one.
"""

_PER_STEP = ("reward", "terminated", "truncated", "provenance", "weights_version")
_PER_OBSERVATION = ("t_monotonic", "t_wall")
# no folders for the chunks of an array: each costs an fsync
_FLAT: Any = {"name": "v2", "separator": "."}
_SYNCING = 8  # threads: what a disk is told at the same time it writes in one go
_TEMPORARY = ".tmp-"
_HEAD, _INDEX, _EPISODES = "archive.json", "index.jsonl", "episodes"


@dataclass(frozen=True)
class Archived:
    """What one call of `archive` did: episodes added, marked anew, there before, and not finished
    yet.
    """

    added: int
    marked: int
    present: int
    unfinished: int


def is_archive(folder: Path) -> bool:
    return (folder / _HEAD).is_file()


def archive(
    log: StepLog,
    folder: Path,
    source: str = "",
    context: Mapping[str, Any] | None = None,
    compress: bool = True,
) -> Archived:
    """Archive the finished episodes of a log that are not in the archive yet, and what was marked
    since.

    Idempotent, and may be killed at any moment. An episode that may still be going on is left for
    the next time. `source` names the log; `context` is plain JSON about what made it (task,
    hardware, rate_hz, ...), for exports.
    """
    assembler = Assembler(log, source)
    added = present = 0
    with ArchiveWriter(folder, log.space, context or {}, compress) as writer:
        for record in log.records():
            for episode in assembler.add(*record):
                new = writer.add(episode)
                added, present = added + new, present + (not new)
        marked = sum(
            writer.mark(key, assembler.marks_of(key), assembler.relabel_of(key))
            for key in assembler.finished
        )
    return Archived(added, marked, present, len(assembler.unfinished()))


class Archive:
    """An archive as it is now, for reading, also while it is being written: a
    `recordings.Recording`.

    Raises DataError if it is damaged.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.name = self.folder.name
        head = _read_head(self.folder)
        self.space = space_from_json(head["space"])
        self.context: Mapping[str, Any] = head["context"]
        self.entries = read_index(self.folder / _INDEX)[0]

    def load(self, key: EpisodeKey) -> Episode:
        """One episode, checked against length and checksum in the index."""
        if key not in self.entries:
            raise DataError(
                f"episode {key} is not in archive {self.folder}, which has {len(self.entries)}"
                " episodes"
            )
        entry = self.entries[key]
        path = self.folder / _EPISODES / entry.folder
        arrays = _read_group(path)
        episode = _from_arrays(arrays, entry, self.space, path)
        if _sha256(arrays) != entry.sha256:
            raise DataError(f"episode {key} is damaged: {path} does not match its checksum. Restore the folder from a "
                            "copy, or remove the archive and make it anew from the log")  # fmt: skip
        return episode

    def facts(self) -> list[EpisodeFacts]:
        """Of all episodes, in the order in which they were archived; marks included."""
        return [entry.facts for entry in self.entries.values()]

    def episodes(self) -> Iterator[Episode]:
        """The same ones, one in memory at a time."""
        for key in self.entries:
            yield self.load(key)


class ArchiveWriter:
    """The one writer of an archive; makes it if there is none. A context manager: it holds a lock
    on the index.
    """

    def __init__(
        self, folder: Path, space: SpaceSpec, context: Mapping[str, Any], compress: bool = True
    ):
        self.folder, self._space, self._context = Path(folder), space, dict(context)
        self._compressors = (ZstdCodec(level=1),) if compress else None
        (self.folder / _EPISODES).mkdir(parents=True, exist_ok=True)
        self._index = Index(self.folder / _INDEX)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def add(self, episode: Episode) -> bool:
        """Archive a complete episode; False if it is there already. Raises DataError if it is, with
        other content.
        """
        if episode.end == "open":
            raise DataError(
                f"episode {episode.key} has not ended; only what is complete is archived"
            )
        arrays = _to_arrays(episode)
        digest = _sha256(arrays)
        if (known := self._index.entries.get(episode.key)) is not None:
            if known.sha256 != digest:
                raise DataError(f"episode {episode.key} is in archive {self.folder} with other content. Archive this "
                                "log into another folder")  # fmt: skip
            return False
        entry = Entry(EpisodeFacts.of(episode), _folder_name(episode.key), digest)
        line = entry.line(SCHEMA, space_hash(self._space))
        self._write_group(entry.folder, arrays, line)
        self._index.append(line)
        return True

    def mark(
        self, key: EpisodeKey, marks: Sequence[Mapping[str, Any]], relabel: Relabel | None = None
    ) -> bool:
        """Say what operator and judge have said of an archived episode by now; False if the index
        says so already.
        """
        known = self._index.entries[key].facts
        if list(known.marks) == list(marks) and known.relabel == relabel:
            return False
        line: dict[str, Any] = {"kind": "marks", "key": str(key), "marks": list(marks)}
        self._index.append(line | ({} if relabel is None else {"relabel": relabel._asdict()}))
        return True

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        """Under the lock: head and index, without what a killed writer left behind."""
        if not is_archive(self.folder):
            _write_head(self.folder, self._space, self._context)
        theirs = space_from_json(_read_head(self.folder)["space"])
        if space_hash(theirs) != space_hash(self._space):
            raise DataError(
                f"archive {self.folder} holds episodes of space {space_hash(theirs)} "
                f"({space_words(theirs)}); this log has space {space_hash(self._space)} "
                f"({space_words(self._space)}). Use another folder"
            )
        self._index.mend()
        for left in (self.folder / _EPISODES).glob(_TEMPORARY + "*"):
            shutil.rmtree(left)

    def _write_group(
        self, name: str, arrays: Mapping[str, Array], attributes: Mapping[str, Any]
    ) -> None:
        """Write the folder of an episode whole, or leave nothing that has its name."""
        place = self.folder / _EPISODES
        temporary = place / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            group = zarr.create_group(
                temporary,
                zarr_format=3,
                attributes={**attributes, "context": self._context, "format": FORMAT},
            )
            for path, array in arrays.items():
                chunks = (
                    max(1, min(CHUNK_STEPS if array.ndim > 2 else len(array), len(array))),
                    *array.shape[1:],
                )
                group.create_array(
                    path,
                    data=array,
                    chunks=chunks,
                    compressors=self._compressors,
                    chunk_key_encoding=_FLAT,
                )
            _sync_tree(temporary)
            unlisted = place / f"{_TEMPORARY}{secrets.token_hex(8)}"
            # a writer was killed between rename and line: the index does not know it
            if (place / name).exists():
                (place / name).rename(unlisted)
            temporary.rename(place / name)
            sync_path(place)
            shutil.rmtree(unlisted, ignore_errors=True)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise DataError(f"archive {self.folder} cannot be written: {error.strerror}. The episodes in its index are "
                            "whole: make room, then archive again") from error  # fmt: skip


def _folder_name(key: EpisodeKey) -> str:
    first = f"+{key.first}" if key.first else ""
    return (
        f"{quote(key.actor, safe='').replace('.', '%2E')}-{key.epoch:016x}-{key.episode:06d}{first}"
    )


def _to_arrays(episode: Episode) -> dict[str, Array]:
    """The arrays of an episode by their path in its group; the names are the contract with the
    exports.
    """
    arrays = {f"observations/{name}": array for name, array in sorted(episode.observations.items())}
    arrays |= {f"actions/{name}": getattr(episode, name) for name in ACTIONS}
    if episode.corrected is not None:
        arrays["corrected"] = episode.corrected
    return arrays | {name: getattr(episode, name) for name in (*_PER_STEP, *_PER_OBSERVATION)}


def _from_arrays(
    arrays: Mapping[str, Array], entry: Entry, space: SpaceSpec, path: Path
) -> Episode:
    length = entry.facts.length
    observations = {f"observations/{name}": name for name in space.observations}
    expected = dict.fromkeys((*observations, *_PER_OBSERVATION), length + 1)
    expected |= dict.fromkeys((*(f"actions/{name}" for name in ACTIONS), *_PER_STEP), length)
    expected |= {"corrected": length} if "corrected" in arrays else {}
    found = {name: len(array) for name, array in arrays.items()}
    if found != expected:
        names = sorted(found.keys() | expected.keys())
        wrong = [f"{n} has {found.get(n)} rows instead of {expected.get(n)}" for n in names
                 if found.get(n) != expected.get(n)]  # fmt: skip
        raise DataError(f"episode {entry.facts.key} is damaged: the index says {length} steps, but in {path} "
                        f"{', '.join(wrong)}. Restore the folder from a copy")  # fmt: skip
    return Episode(
        key=entry.facts.key,
        source=entry.facts.source,
        end=entry.facts.end,
        success=entry.facts.success,
        observations={name: arrays[at] for at, name in observations.items()},
        **{name: arrays[f"actions/{name}"] for name in ACTIONS},
        **{name: arrays[name] for name in (*_PER_STEP, *_PER_OBSERVATION)},
        corrected=arrays.get("corrected"),
    )


def _read_group(path: Path) -> dict[str, Array]:
    try:
        # a codec of the older format is pickle
        group = zarr.open_group(path, mode="r", zarr_format=3)
        return {
            name: np.asarray(node[...])
            for name, node in group.members(None)
            if isinstance(node, zarr.Array)
        }
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(f"{path} is damaged: {error}. Restore the folder from a copy") from error


def _sha256(arrays: Mapping[str, Array]) -> str:
    """Of names, dtypes, shapes and values, whatever the order of the arrays and the compression on
    disk.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(raw(array))
    return digest.hexdigest()


def _sync_tree(folder: Path) -> None:
    """Wait until the disk has every file under `folder`, then every folder, and itself."""
    paths = sorted(folder.rglob("*"))
    with ThreadPoolExecutor(_SYNCING) as threads:
        list(threads.map(sync_path, (path for path in paths if path.is_file())))
        list(threads.map(sync_path, (path for path in paths if path.is_dir())))
    sync_path(folder)


def _write_head(folder: Path, space: SpaceSpec, context: Mapping[str, Any]) -> None:
    head = {
        "format": FORMAT,
        "schema": SCHEMA,
        "space_hash": space_hash(space),
        "space": space_json(space),
    }
    temporary = folder / f"{_TEMPORARY}{_HEAD}"
    temporary.write_text(json.dumps(head | {"context": dict(context)}, indent=2) + "\n")
    sync_path(temporary)
    temporary.rename(folder / _HEAD)
    sync_path(folder)
    sync_path(folder.parent)


def _read_head(folder: Path) -> dict[str, Any]:
    try:
        head: dict[str, Any] = json.loads((folder / _HEAD).read_text())
    except (OSError, ValueError) as error:
        raise DataError(
            f"'{folder}' is no archive: its {_HEAD} cannot be read ({error})"
        ) from error
    if head.get("format") != FORMAT or head.get("schema") not in READABLE:
        raise DataError(f"archive {folder} has format {head.get('format')} and schema {head.get('schema')}; this code "
                        f"reads format {FORMAT} and schema {SCHEMA}: use the version that wrote it")  # fmt: skip
    return head
