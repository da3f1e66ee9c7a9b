"""Mending a damaged log or spool: whatever records are whole in it, wherever they lie, into a new
file.

SQLite is not asked: its tables lead to the records, and may be what is damaged. How they are found:
`pages.py`.
"""

import contextlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from robot_rl.machine.sync import beside, has_wal, lock, remove_file
from robot_rl.stream import records
from robot_rl.stream.codec import encode_mark
from robot_rl.stream.pages import (
    LOG,
    OLD_MAGICS,
    ROW_MAGIC,
    SPOOL,
    Pages,
    Place,
    find_all,
    payload_at,
    places,
    unseal,
)
from robot_rl.stream.records import HEADER_SIZE, Header, Kind, Record
from robot_rl.stream.store import Store
from robot_rl.types import ActorStream, DataError, Mark, MarkKind, RecordId

_ODD = 100_000
"""A number that is so far from the next one is damaged itself."""


def repair(path: Path) -> tuple[int, int, Path | None]:
    """Write the file anew from its whole records; the damaged one stays beside it as `NAME.damaged`
    (or `-2`, ...).

    The seq of each stream stays without holes: a mark GAP stands in the place of each record that
    is lost. Returns how many records are kept, how many are lost, and where the damaged file is
    now: None if it was sound, and stays as it is. Raises DataError if somebody is writing the file,
    if it is none of records, or if it or its new form cannot be read or written.
    """
    path = Path(path)
    with _explained(path):
        if not path.is_file():
            raise DataError(f"{path} is not a file: name the log or spool that is damaged")
        if (kept := _count_if_sound(path)) is not None:
            return kept, 0, None
        with lock(path, str(path)), path.open("rb") as file:
            pages = Pages(
                file.fileno(), wal.read_bytes() if (wal := beside(path, "-wal")).exists() else b""
            )
            about, state = _head(pages)
            if about is None:
                raise DataError(_what_it_is(path, file.read(len(OLD_MAGICS[0]))))
            found = _Found.of(pages, about, state)
            draft = path.with_name(path.name + ".repairing")
            kept, lost = write_anew(draft, about, found.parts(pages), found.expected, found.lost)
            aside = _set_aside(path)
            draft.rename(path)
            return kept, lost, aside


def write_anew(
    path: Path,
    about: dict[str, Any],
    parts: Iterable[Record | Header],
    expected: int = 0,
    lost_before: int = 0,
) -> tuple[int, int]:
    """A closed file with these records, a mark in the place of each that is missing in its stream;
    how many of both.

    A Header stands for a record that was there and is not whole. `expected`: so many there were at
    least; of which no more is known is added to the `lost_before`, which have no mark. What is not
    complete does not stay.
    """
    remove_file(path)
    kept = lost = 0
    last: dict[ActorStream, int] = {}
    try:
        store = Store(path, "the new file", kind=about["kind"], create=about)
        try:
            for part in parts:
                stream, seq = (part.identity.actor, part.identity.epoch), part.identity.seq
                # whose first records may be delivered and removed
                oldest = about["kind"] == SPOOL and not last
                begin = last.get(stream, seq - 1 if oldest else -1) + 1
                if seq < begin:
                    continue
                whole = isinstance(part, Record)
                lost += _fill(store, stream, range(begin, seq if whole else seq + 1))
                if isinstance(part, Record):
                    store.append([part])
                    kept += 1
                last[stream] = seq
            nameless = max(0, expected - kept - lost)
            store.close(lost=lost_before + nameless)
        finally:
            store.abandon()
    except BaseException:
        remove_file(path)
        raise
    return kept, lost + nameless


def _fill(store: Store, stream: ActorStream, missing: range) -> int:
    store.append([placeholder(RecordId(*stream, seq)) for seq in missing])
    return len(missing)


def placeholder(identity: RecordId) -> Record:
    """The mark that stands for a record that is lost."""
    mark = Mark(MarkKind.GAP, actor=identity.actor, epoch=identity.epoch, last_seq=identity.seq - 1)
    return records.frame(Kind.MARK, identity, encode_mark(mark))


class _Found(NamedTuple):
    """What is in a damaged file, in the order of its numbers; so many were in it at least, and lost
    before.
    """

    places: list[Place]
    expected: int
    lost: int

    @staticmethod
    def of(pages: Pages, about: dict[str, Any], state: dict[str, Any]) -> "_Found":
        first = state.get("first", 0) if about["kind"] == SPOOL else 0
        best: dict[RecordId, Place] = {}
        for place in places(pages):
            if place.n is not None and place.n < first:
                continue  # removed, and not written over yet
            before = best.get(place.header.identity)
            if before is None or (place.whole, place.n is not None) > (
                before.whole,
                before.n is not None,
            ):
                best[place.header.identity] = place
        closed, before = state.get("closed"), state.get("lost", 0)
        located = {place.stream for place in best.values() if place.n is not None}
        # else: delivered
        here = [p for p in best.values() if about["kind"] == LOG or p.stream in located]
        return _Found(_ordered(here, first), 0 if closed is None else closed - first, before)

    def parts(self, pages: Pages) -> Iterator[Record | Header]:
        """Record by record, or the headers of those that are not whole."""
        for place in self.places:
            if place.whole:
                data = pages.page(place.page)[place.at : place.at + HEADER_SIZE]
                payload = payload_at(pages, place.page, place.at, place.header)
                yield Record(place.header.kind, place.header.identity, data, payload or b"")
            else:
                yield place.header


def _ordered(places: Iterable[Place], first: int) -> list[Place]:
    """By number, from `first` on; within each stream by seq, whatever a damaged number says.

    Where a seq is missing in a stream there is a place that is not whole, with a number that no
    other has.
    """
    streams: defaultdict[ActorStream, list[Place]] = defaultdict(list)
    for place in places:
        streams[place.stream].append(place)
    numbers = sorted(
        place.n for several in streams.values() for place in several if place.n is not None
    )
    free = [
        n
        for before, after in pairwise([first - 1, *numbers])
        if after - before < _ODD
        for n in range(before + 1, after)
    ]
    keyed: list[tuple[tuple[float, int], Place]] = []
    for several in streams.values():
        several.sort(key=lambda place: place.header.identity.seq)
        own = iter(sorted(place.n for place in several if place.n is not None))
        last, seq = first - 1, several[0].header.identity.seq
        number = several[0].n
        if number is not None and number - first < _ODD:
            # where it begins at the latest
            for missing in range(seq - 1, max(0, seq - (number - first)) - 1, -1):
                number = _next_free(free, number, -1)
                keyed.append(((number, missing), _lost(several[0], missing)))
        for place in several:
            for missing in range(seq, place.header.identity.seq):
                last = _next_free(free, last)
                keyed.append(((last, missing), _lost(place, missing)))
            seq = place.header.identity.seq + 1
            last = next(own) if place.n is not None else _next_free(free, last)
            keyed.append(((last, seq - 1), place))
    return [place for _, place in sorted(keyed, key=lambda one: one[0])]


def _next_free(free: list[int], last: int, way: int = 1) -> int:
    """The next number behind (or before) `last` that no record has, for one that is lost; the same
    if there is none.
    """
    at = bisect_right(free, last) - (way < 0)
    return free.pop(at) if 0 <= at < len(free) else last


def _lost(place: Place, seq: int) -> Place:
    """A record of the same stream that has left no trace."""
    identity = RecordId(*place.stream, seq)
    return Place(None, place.header._replace(identity=identity), 0, 0, False)


def _head(pages: Pages) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What the file is, and the newest of what it says of its state, wherever that is found."""
    about: dict[str, Any] | None = None
    state: dict[str, Any] = {}
    for number in range(1, min(pages.count, 64) + 1):
        page = pages.page(number)
        for at in find_all(page, ROW_MAGIC):
            said = unseal(page[at:])
            if said is not None and "kind" in said:
                about = said
            elif said is not None and said["turn"] >= state.get("turn", -1):
                state = said
    return about, state


def _set_aside(path: Path) -> Path:
    """The damaged file under a name that none has yet, with its write-ahead log."""
    names = (f"{path.name}.damaged" + (f"-{number}" if number > 1 else "") for number in count(1))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    path.rename(aside)
    if (wal := beside(path, "-wal")).exists():
        wal.rename(beside(aside, "-wal"))
    beside(path, "-shm").unlink(missing_ok=True)
    return aside


def _count_if_sound(path: Path) -> int | None:
    """How many records are in a closed file that a writer would take as it is; None of any
    other.
    """
    if has_wal(path):  # SQLite would take it over, as far as it is whole
        return None
    for kind in (LOG, SPOOL):
        with (
            contextlib.suppress(DataError),
            contextlib.closing(Store(path, "file", kind=kind)) as store,
        ):
            return store.check()
    return None


def _what_it_is(path: Path, begins: bytes) -> str:
    if begins in OLD_MAGICS:
        return (
            f"{path} was written by an older version: 'robot-rl data convert {path}' keeps all that"
            " is whole in it"
        )
    return (
        f"{path} is neither a {LOG} nor a {SPOOL}, or nothing that could say so is left of it:"
        " restore it from a copy"
    )


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError to older Pythons
        raise DataError(
            f"{path} cannot be repaired: {getattr(error, 'strerror', None) or error}"
        ) from error
