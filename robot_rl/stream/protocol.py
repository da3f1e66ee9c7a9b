"""The messages of the steps link, as frames.

head (magic, kind, number of records, epoch, seq) | body

HELLO      actor to learner   JSON {actor, epoch, first, schema, space, run}: where does your log of this epoch end?
                              I have what follows from `first` on
POSITION   learner to actor   the last seq of this epoch that is in the log, -1 for none: go on behind it
RECORDS    actor to learner   all record headers | all payloads, as one frame: each of ZeroMQ's costs as much as it
                              takes to copy 100 kB. Each header has the identity and the checksums
                              under which the record lies on disk (`stream/records.py`)
ACK        learner to actor   everything up to this seq is in the log
REFUSED    learner to actor   the reason, for good
"""

import json
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from robot_rl.stream import records
from robot_rl.stream.records import HEADER_SIZE, Payload, Record
from robot_rl.types import DataError

BATCH = 8
"""Records in one message: fewer cost more per record, more wait longer and leave the processor's
cache.
"""

_HEAD = struct.Struct("<4sBB2xQq")
_MAGIC = b"RRs3"
_MAX_JSON = 4096
MAX_RUN = 64
"""The longest id of a run, in characters."""


class Message(IntEnum):
    """What a message is."""

    HELLO = 1
    RECORDS = 2
    POSITION = 3
    ACK = 4
    REFUSED = 5


class Head(NamedTuple):
    """The first frame of each message."""

    message: Message
    n_records: int
    epoch: int
    seq: int


class Greeting(NamedTuple):
    """What a HELLO says. `schema` and `space` are compared, whatever they are; `run` is empty if it
    has no id.
    """

    actor: str
    epoch: int
    first: int
    schema: Any
    space: Any
    run: str = ""


def plain(message: Message, epoch: int, seq: int = -1, body: bytes = b"") -> list[bytes]:
    """The frames of any message but RECORDS."""
    return [_HEAD.pack(_MAGIC, message, 0, epoch, seq), body]


def hello(greeting: Greeting) -> list[bytes]:
    """The frames of a HELLO."""
    return plain(
        Message.HELLO, greeting.epoch, greeting.first, json.dumps(greeting._asdict()).encode()
    )


def batch(epoch: int, several: Sequence[Record]) -> list[Payload]:
    """The frames of up to BATCH consecutive records of an epoch."""
    head = _HEAD.pack(_MAGIC, Message.RECORDS, len(several), epoch, several[0].identity.seq)
    return [
        head,
        b"".join(record.header for record in several),
        _together([record.payload for record in several]),
    ]


def _together(payloads: Sequence[Payload]) -> Payload:
    """The payloads, one after the other; without a copy if they lie so in one piece of memory."""
    first = payloads[0]
    if len(payloads) == 1:
        return first
    whole = first.obj if isinstance(first, memoryview) else None
    if whole is not None and all(
        isinstance(payload, memoryview) and payload.obj is whole for payload in payloads
    ):
        begins = [_address(payload) for payload in payloads]
        ends = [begin + len(payload) for begin, payload in zip(begins, payloads, strict=True)]
        if begins[1:] == ends[:-1]:
            start = _address(memoryview(whole))
            return memoryview(whole)[begins[0] - start : ends[-1] - start]
    return b"".join(payloads)


def _address(data: Payload) -> int:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address


def parse_head(frames: Sequence[Payload]) -> Head:
    """The head of a message that has the right number of frames; DataError for anything else."""
    if len(frames) < 2 or len(frames[0]) != _HEAD.size:
        raise DataError(f"{len(frames)} frames that are no message of the steps link")
    magic, message, count, epoch, seq = _HEAD.unpack(frames[0])
    if magic != _MAGIC or message not in set(Message):
        raise DataError(
            f"a message of an unknown kind {magic!r} {message}; this code speaks {_MAGIC!r}"
        )
    if (
        len(frames) != 2 + (count > 0)
        or (count > 0) != (message == Message.RECORDS)
        or count > BATCH
    ):
        raise DataError(f"{len(frames)} frames, though the head says {count} records")
    return Head(Message(message), count, epoch, seq)


def parse_hello(body: Payload) -> Greeting:
    """The greeting in a HELLO; DataError."""
    if len(body) > _MAX_JSON:
        raise DataError(f"a greeting of {len(body)} bytes; at most {_MAX_JSON} are allowed")
    try:
        said = json.loads(bytes(body))
        greeting = Greeting(**{name: said[name] for name in Greeting._fields if name in said})
        records.check_actor(greeting.actor)
        if not isinstance(greeting.run, str) or len(greeting.run) > MAX_RUN:
            raise ValueError(f"run {greeting.run!r:.40}")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"a damaged greeting: {error!r}") from error
    for count in (greeting.epoch, greeting.first):
        if type(count) is not int or not 0 <= count < 2**63:
            raise DataError(
                f"a greeting with epoch {greeting.epoch!r} and first {greeting.first!r}"
            )
    return greeting


def parse_records(head: Head, frames: Sequence[Payload]) -> list[Record]:
    """The records of a RECORDS message. Their headers are checked, their payloads (views of the
    frame) not yet.

    DataError for anything else.
    """
    headers, payloads = frames[1], memoryview(frames[2])
    if len(headers) != head.n_records * HEADER_SIZE:
        raise DataError(f"{len(headers)} bytes of headers for {head.n_records} records")
    found, at = [], 0
    for number in range(head.n_records):
        data = bytes(headers[number * HEADER_SIZE : (number + 1) * HEADER_SIZE])
        header = records.parse(data)
        if header is None or at + header.length > len(payloads):
            raise DataError(
                f"record {number} of a message has no valid header, or not the length that it says"
            )
        if header.identity.epoch != head.epoch or header.identity.seq != head.seq + number:
            raise DataError(
                f"a message of epoch {head.epoch} from {head.seq} on holds record {header.identity}"
            )
        found.append(Record(header.kind, header.identity, data, payloads[at : at + header.length]))
        at += header.length
    if at != len(payloads):
        raise DataError(f"{len(payloads)} bytes of payloads, though the headers say {at}")
    return found
