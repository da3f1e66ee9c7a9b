"""A step as bytes, on the wire and in the log: a fixed header, then named arrays. Checked against
the spaces.

The layout of the arrays is the same for every step of a space, so a good message is recognised by
comparing it with the expected one; only a bad message is parsed, to say what is wrong with it. A
mark is a small JSON object, checked on the way in and out.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, fields
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from robot_rl import packing
from robot_rl.stream.records import check_actor
from robot_rl.types import (
    CORRECTS,
    ActionSpec,
    Array,
    DataError,
    Mark,
    MarkKind,
    Provenance,
    SpaceSpec,
    Step,
)

SCHEMA = 3
"""Version of the bytes of a step; a peer of another schema is refused."""

READABLE = (1, 2, SCHEMA)
"""What a log, a spool or an archive may be of. A step of schema 1 does not say whether the episode
succeeded: there it did where it was terminated with a reward above 0, which was the rule then; nor
does it say that it was cut short. Before schema 3 an operator gave all numbers of an action."""

LARGEST = 1e6
"""Of a reward, and of any number of an observation or an action. In SI units no arm comes near it.
A critic that is told a reward of 1e6 for ever has a value of 3e7 at a discount of 0.97, whose
square, a loss of 1e15, and the square of that loss's gradient in Adam are still numbers of float32
(up to 3e38)."""

_MOST = 1 << 31
"""Episodes of a run, and steps of an episode: ten million hours at 10 Hz are fewer."""

ACTIONS = ("proposed", "commanded", "executed")

# magic, schema, terminated, truncated, provenance, success, cut short, corrected, episode, index,
# weights_version, reward, t_monotonic, t_wall
_HEADER = struct.Struct("<4sHBBBBB5sqqqddd")
_NUMBERS = 40
"""Of an action, that may be corrected in part: a bit for each, the first one's the lowest. No bit:
all of them, or none, as the step's author says."""
_MAGIC = b"RRst"
_PROVENANCES = {int(p): p for p in Provenance}


def space_json(space: SpaceSpec) -> dict[str, object]:
    """The spaces as plain JSON, names sorted: what a log's header holds and what `space_hash` is
    of.
    """
    observations = {
        name: [list(shape), dtype] for name, (shape, dtype) in sorted(space.observations.items())
    }
    return {"observations": observations, "actions": space.actions.to_json()}


def space_from_json(value: Mapping[str, object]) -> SpaceSpec:
    """The inverse of `space_json`; raises DataError."""
    try:
        observations = {str(n): (tuple(s), str(d)) for n, (s, d) in value["observations"].items()}  # type: ignore[attr-defined]
        return SpaceSpec(observations, ActionSpec.from_json(value))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"this is no description of spaces: {value!r}") from error


def space_words(space: SpaceSpec) -> str:
    """The names of the spaces on a line, for complaints."""
    seen = [f"{name} {tuple(shape)}" for name, (shape, _) in sorted(space.observations.items())]
    return f"{', '.join(seen)}; actions {', '.join(space.actions.names)}"


def space_hash(space: SpaceSpec) -> str:
    """16 hex digits that are equal for spaces whose numbers mean the same, whatever the order of the
    observations. Of the actions the `plain` names count; without any it is that of before there
    were names.
    """
    told: dict[str, Any] = {"observations": space_json(space)["observations"]}
    told["action_size"] = space.action_size
    if plain := space.actions.plain:
        told["actions"] = plain, space.actions.discrete
    text = json.dumps(told, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Place(NamedTuple):
    """Where an array stands in every message of a space: `n` numbers from byte `at` on."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    n: int
    at: int
    padding: bytes


class StepCodec:
    """Step to bytes and back, for one space. Holds no state; any thread may use it.

    `size` is the length in bytes of every message of this space. Decoded arrays are read-only views
    of the message. Actions travel as float32; observations must have the dtype of the space. No
    number of a step is larger than `LARGEST`: neither in one that is made nor in one that arrives.
    """

    def __init__(self, space: SpaceSpec):
        self.space = space
        self._observations = sorted(space.observations)
        self._layout: packing.Layout = [
            (f"action/{name}", "float32", (space.action_size,)) for name in ACTIONS
        ]
        self._layout += [
            (n, space.observations[n][1], tuple(space.observations[n][0]))
            for n in self._observations
        ]
        for name, dtype, _ in self._layout:
            if dtype not in packing.DTYPES:
                raise DataError(
                    f"observation '{name}' is of dtype {dtype}; allowed:"
                    f" {', '.join(packing.DTYPES)}"
                )
        self._prefix = packing.encode_layout(self._layout)
        self._start = _HEADER.size + len(self._prefix)
        self._places: list[_Place] = []
        self.size = self._start
        for name, dtype, shape in self._layout:
            length = packing.size_of(dtype, shape)
            padding = packing.padding(length)
            place = _Place(
                name, np.dtype(dtype).newbyteorder("<"), shape, math.prod(shape), self.size, padding
            )
            self._places.append(place)
            self.size += length + len(padding)
        # dtype, first byte, bytes, what is there
        self._runs: list[tuple[np.dtype, int, int, list[_Place]]] = []
        for dtype, several in groupby(self._places, lambda place: place.dtype):
            run = list(several)
            length = sum(place.n * dtype.itemsize + len(place.padding) for place in run)
            self._runs.append((dtype, run[0].at, length, run))

    def encode(self, step: Step) -> bytes:
        """The message of a step; raises DataError if it does not fit the space."""
        out = bytearray(self.size)
        self.encode_into(step, memoryview(out))
        return bytes(out)

    def encode_into(self, step: Step, out: memoryview) -> None:
        """Write the message of a step over these `size` bytes: the one copy of its images.
        DataError as `encode`.
        """
        _check_scalars(step.reward, step.index, step.t_monotonic, step.t_wall)
        _HEADER.pack_into(
            out, 0, _MAGIC, SCHEMA, step.terminated, step.truncated, step.provenance, step.success, step.cut_short,
            self._bits(step), step.episode, step.index, step.weights_version, step.reward, step.t_monotonic,
            step.t_wall,
        )  # fmt: skip
        out[_HEADER.size : self._start] = self._prefix
        given = self._arrays(step)
        for (name, dtype, shape, n, at, padding), array in zip(self._places, given, strict=True):
            if array.dtype != dtype or array.shape != shape:
                raise DataError(f"{_what(name)} of the step is {_describe(array.dtype.name, array.shape)}; the "
                                f"space says {_describe(dtype.name, shape)}: convert it where it is made")  # fmt: skip
            end = at + n * dtype.itemsize
            out[at:end] = packing.raw(array)
            if padding:
                out[end : end + len(padding)] = padding
        _check_sizes(step.reward, step.episode, step.index)
        for dtype, at, size, _ in self._runs:
            if dtype.kind == "f" and not _all_within(
                np.frombuffer(out, dtype, size // dtype.itemsize, at)
            ):
                _check_within(
                    {place.name: array for place, array in zip(self._places, given, strict=True)},
                    LARGEST,
                )

    def decode(self, message: bytes | memoryview, recorded: bool = False) -> Step:
        """The step of a message; raises DataError for anything that is not exactly a step of this
        space.

        A step that was `recorded`, in a log or a spool, may have larger numbers than `LARGEST`: it
        was let in before there was that limit, and the learner passes it over
        (`too_large`).
        """
        if len(message) < _HEADER.size or message[:4] != _MAGIC:
            raise DataError(
                f"{len(message)} bytes that are not a step (they do not begin with {_MAGIC!r})"
            )
        fields = _HEADER.unpack_from(message)
        _, schema, terminated, truncated, provenance, success, cut_short, bits = fields[:8]
        episode, index, weights_version, reward, t, t_wall = fields[8:]
        if schema not in READABLE:
            raise DataError(
                f"a step of schema {schema}; this code reads schema {SCHEMA}: run the same version"
                " on both sides"
            )
        if bytes(message[_HEADER.size : self._start]) != self._prefix or len(message) != self.size:
            raise DataError(self._explain(bytes(message)))
        if max(terminated, truncated, success, cut_short) > 1 or provenance not in _PROVENANCES:
            raise DataError(f"the flags of a step are damaged: terminated {terminated}, truncated {truncated}, "
                            f"provenance {provenance}, success {success}, cut short {cut_short}")  # fmt: skip
        if schema == 1:
            success = terminated and reward > 0.0
        _check_scalars(reward, index, t, t_wall)
        if not recorded:
            _check_sizes(reward, episode, index)
        values = self._views(memoryview(message).toreadonly(), math.inf if recorded else LARGEST)
        proposed, commanded, executed = (values.pop(f"action/{name}") for name in ACTIONS)
        return Step(episode, index, values, proposed, commanded, executed, reward, bool(terminated), bool(truncated),
                    _PROVENANCES[provenance], weights_version, t, t_wall, bool(success), bool(cut_short),
                    self._corrected(bits, provenance))  # fmt: skip

    def _bits(self, step: Step) -> bytes:
        """Which numbers are corrected; DataError for what cannot be."""
        if (corrected := step.corrected) is None:
            return b""
        size, fits = self.space.action_size, min(self.space.action_size, _NUMBERS)
        if step.provenance not in CORRECTS or not np.any(corrected) or len(corrected) != size:
            raise DataError(f"a step of {step.provenance.name} of whose {size} numbers {corrected} are corrected: some "
                            "are, in a step of the operator's, and None says all")  # fmt: skip
        if np.any(corrected[fits:]):
            raise DataError(
                f"of an action's {size} numbers the first {_NUMBERS} may be corrected in part"
            )
        return np.packbits(corrected, bitorder="little").tobytes()

    def _corrected(self, bits: bytes, provenance: int) -> Array | None:
        """The inverse of `_bits`."""
        if not any(bits):
            return None
        flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").astype(bool)
        size = self.space.action_size
        if provenance not in CORRECTS or flags[size:].any():
            raise DataError(f"the flags of a step are damaged: {bits.hex()} are no corrected numbers of {size} in a "
                            f"step of {_PROVENANCES[provenance].name}")  # fmt: skip
        corrected = np.zeros(size, bool)
        corrected[: len(flags)] = flags[:size]
        return corrected

    def _views(self, whole: memoryview, largest: float) -> dict[str, Array]:
        """The arrays in a message. What lies side by side and is of one dtype is looked at in one
        go.
        """
        values: dict[str, Array] = {}
        for dtype, at, size, places in self._runs:
            run = np.frombuffer(whole, dtype, size // dtype.itemsize, at)
            for place in places:
                start = (place.at - at) // dtype.itemsize
                part = run[start : start + place.n]
                values[place.name] = part if len(place.shape) == 1 else part.reshape(place.shape)
            if dtype.kind == "f" and not _all_within(run):
                _check_within(values, largest)
        return values

    def _arrays(self, step: Step) -> list[Array]:
        if step.observation.keys() != self.space.observations.keys():
            raise DataError(f"the step observes {', '.join(sorted(step.observation)) or 'nothing'}; "
                            f"the space has {', '.join(self._observations)}")  # fmt: skip
        actions = [
            np.asarray(a, dtype=np.float32) for a in (step.proposed, step.commanded, step.executed)
        ]
        return actions + [np.asarray(step.observation[n]) for n in self._observations]

    def _explain(self, message: bytes) -> str:
        """What is wrong with a message whose layout or length is not that of this space."""
        layout, _ = packing.decode_layout(message, _HEADER.size)
        theirs = {name: (dtype, shape) for name, dtype, shape in layout}
        ours = {name: (dtype, shape) for name, dtype, shape in self._layout}
        wrong = [f"{_what(n)} is missing" for n in ours if n not in theirs]
        wrong += [f"{_what(n)} is not in the space" for n in theirs if n not in ours]
        wrong += [f"{_what(n)} is {_describe(*theirs[n])} and should be {_describe(*ours[n])}"
                  for n in ours if n in theirs and theirs[n] != ours[n]]  # fmt: skip
        if not wrong:
            wrong = [f"it has {len(message)} bytes and should have {self.size}"]
        return (
            f"a step of another space: {'; '.join(wrong)}. Start actor and learner with the same"
            " task, hardware and obs"
        )


def _what(name: str) -> str:
    if name.startswith("action/"):
        return f"the {name.removeprefix('action/')} action"
    return f"observation '{name}'"


def _describe(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} {tuple(shape)}"


def too_large(step: Step) -> str:
    """What of a recorded step is larger than `LARGEST`, in words; "" if nothing is."""
    try:
        _check_sizes(step.reward, step.episode, step.index)
        _check_within(step.observation, LARGEST)
        _check_within({f"action/{name}": getattr(step, name) for name in ACTIONS}, LARGEST)
    except DataError as error:
        return str(error)
    return ""


def _all_within(run: Array) -> bool:
    """Whether all numbers together are so small that each of them is within `LARGEST`: one sum of
    squares.

    Every step pays for this four times. NaN and what overflows are not; nor is much that a closer
    look lets pass.
    """
    with np.errstate(over="ignore"):
        return bool(run.dot(run) <= LARGEST * LARGEST)


def _check_within(values: Mapping[str, Array], largest: float) -> None:
    """Name the array that has a number which is none, or beyond `largest`. Called when
    `_all_within` found some.
    """
    for name, array in values.items():
        if array.dtype.kind != "f" or _all_within(array.ravel()):
            continue
        if not np.isfinite(array).all():
            raise DataError(f"{_what(name)} of a step is not finite: {array}")
        worst = float(np.abs(array).max())
        if worst > largest:
            raise DataError(f"{_what(name)} of a step reaches {worst:g}; allowed: up to {largest:g}, in SI units. "
                            "Look at the sensor that it comes from, and at its unit")  # fmt: skip


def _check_sizes(reward: float, episode: int, index: int) -> None:
    if not abs(reward) <= LARGEST:
        raise DataError(
            f"a step with reward {reward:g}; allowed: {-LARGEST:g} to {LARGEST:g}. Scale the task's"
            " rewards"
        )
    if episode >= _MOST or index >= _MOST:
        raise DataError(
            f"a step of episode {episode} with index {index}; allowed: less than {_MOST} of either"
        )


def _check_scalars(reward: float, index: int, t_monotonic: float, t_wall: float) -> None:
    if (
        not (math.isfinite(reward) and math.isfinite(t_monotonic) and math.isfinite(t_wall))
        or index < 0
    ):
        raise DataError(f"a step with reward {reward}, index {index}, times {t_monotonic} and {t_wall}: "
                        "all must be finite and the index not negative")  # fmt: skip


# -------------------------------------------------------------------------------------------- marks

MARK_BYTES = 4096
"""No mark is longer."""

_MARK_DEFAULTS = {field.name: field.default for field in fields(Mark) if field.name != "kind"}


def encode_mark(mark: Mark) -> bytes:
    """The bytes of a mark: only what differs from the defaults. DataError for nonsense."""
    given = asdict(mark)
    _check_mark(given)
    named = {name: value for name, value in given.items() if value != _MARK_DEFAULTS.get(name)}
    text = json.dumps(named, separators=(",", ":")).encode()
    if len(text) > MARK_BYTES:
        raise DataError(
            f"a mark of {len(text)} bytes; at most {MARK_BYTES} are allowed: shorten its names"
        )
    return text


def decode_mark(message: bytes | memoryview) -> Mark:
    """The mark of a message; raises DataError for anything that is not exactly a mark."""
    if len(message) > MARK_BYTES:
        raise DataError(f"{len(message)} bytes are no mark, which has at most {MARK_BYTES}")
    try:
        given = json.loads(bytes(message))
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is no mark: {error}") from error
    if not isinstance(given, dict):
        raise DataError(f"this is no mark but {given!r}")
    _check_mark(given)
    return Mark(**given | {"kind": MarkKind(given["kind"])})


def _check_mark(given: dict[str, Any]) -> None:
    if unknown := given.keys() - _MARK_DEFAULTS.keys() - {"kind"}:
        raise DataError(
            f"a mark knows no {', '.join(sorted(unknown))}; it has: kind,"
            f" {', '.join(_MARK_DEFAULTS)}"
        )
    if given.get("kind") not in [str(kind) for kind in MarkKind]:
        raise DataError(
            f"a mark of the kind {given.get('kind')!r}; there are: {', '.join(MarkKind)}"
        )
    for name, default in _MARK_DEFAULTS.items():
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
