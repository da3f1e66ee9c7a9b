"""A mark as bytes, on the wire and in the log: a small JSON object, checked on the way in and out."""

import json
import math
from dataclasses import asdict, fields
from typing import Any

from robot_rl.data.records import check_actor
from robot_rl.types import DataError, Mark, MarkKind

MAX_BYTES = 4096
"""No mark is longer."""

_DEFAULTS = {field.name: field.default for field in fields(Mark) if field.name != "kind"}


def encode_mark(mark: Mark) -> bytes:
    """The bytes of a mark: only what differs from the defaults. DataError for nonsense."""
    given = asdict(mark)
    _check(given)
    named = {name: value for name, value in given.items() if value != _DEFAULTS.get(name)}
    text = json.dumps(named, separators=(",", ":")).encode()
    if len(text) > MAX_BYTES:
        raise DataError(f"a mark of {len(text)} bytes; at most {MAX_BYTES} are allowed: shorten its names")
    return text


def decode_mark(message: bytes | memoryview) -> Mark:
    """The mark of a message; raises DataError for anything that is not exactly a mark."""
    if len(message) > MAX_BYTES:
        raise DataError(f"{len(message)} bytes are no mark, which has at most {MAX_BYTES}")
    try:
        given = json.loads(bytes(message))
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is no mark: {error}") from error
    if not isinstance(given, dict):
        raise DataError(f"this is no mark but {given!r}")
    _check(given)
    return Mark(**given | {"kind": MarkKind(given["kind"])})


def _check(given: dict[str, Any]) -> None:
    if unknown := given.keys() - _DEFAULTS.keys() - {"kind"}:
        raise DataError(f"a mark knows no {', '.join(sorted(unknown))}; it has: kind, {', '.join(_DEFAULTS)}")
    if given.get("kind") not in [str(kind) for kind in MarkKind]:
        raise DataError(f"a mark of the kind {given.get('kind')!r}; there are: {', '.join(MarkKind)}")
    for name, default in _DEFAULTS.items():
        value = given.get(name, default)
        if isinstance(default, float):
            good = type(value) in (int, float) and math.isfinite(value)
        elif isinstance(default, int):
            good = type(value) is int and -1 <= value < 2**63
        else:
            good = isinstance(value, str)
        if not good:
            raise DataError(f"a mark whose {name} is {value!r}; it is a {type(default).__name__}, "
                            "numbers are finite and counts from -1 on")  # fmt: skip
    if given.get("actor"):
        check_actor(given["actor"])
