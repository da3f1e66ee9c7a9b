"""Named arrays as bytes: a layout in JSON, then the raw buffers, each aligned to 8 bytes. No
pickle, no objects.

    u32 length of the layout | layout [[name, dtype, shape], ...] padded with spaces | array | pad |
    array | pad ...

Everything little-endian. Arrays that come out are read-only views into the bytes that went in.
"""

import json
import math
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from robot_rl.types import Array, DataError

_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64))
DTYPES = ("bool", *_INTEGERS, "float16", "float32", "float64")
ALIGNMENT = 8
# byte orders of a dtype that lie in memory as they travel
_NATIVE = "|=<" if sys.byteorder == "little" else "|<"
MOST_LAYOUT_BYTES = 1 << 18
"""Of any layout that is read: the largest policy's has a tenth of it."""

# of one array, and so small enough that no sum of them is too large to count with
_MOST_BYTES = 1 << 40
_LENGTH = struct.Struct("<I")
_PADDING = tuple(bytes(n) for n in range(ALIGNMENT))

Layout = Sequence[tuple[str, str, tuple[int, ...]]]
"""(name, dtype name, shape) of each array, in the order of the buffers."""


def padding(size: int) -> bytes:
    """The zeros that fill `size` bytes up to the alignment."""
    return _PADDING[-size % ALIGNMENT]


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of one array, without padding."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def layout_of(arrays: Mapping[str, Array]) -> Layout:
    """The layout of these arrays; raises DataError for a dtype that does not travel."""
    layout = [(name, array.dtype.name, tuple(array.shape)) for name, array in arrays.items()]
    for name, dtype, _ in layout:
        if dtype not in DTYPES:
            raise DataError(
                f"array '{name}' is of dtype {dtype}, which does not travel; allowed:"
                f" {', '.join(DTYPES)}"
            )
    return layout


def encode_layout(layout: Layout) -> bytes:
    """The bytes in front of the buffers, a multiple of the alignment long."""
    text = json.dumps(
        [[name, dtype, list(shape)] for name, dtype, shape in layout], separators=(",", ":")
    ).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % ALIGNMENT)
    return _LENGTH.pack(len(text)) + text


def decode_layout(
    buffer: bytes | memoryview, offset: int = 0, most: int = MOST_LAYOUT_BYTES
) -> tuple[Layout, int]:
    """The layout at `offset`, of `most` bytes, and where its first array begins. DataError for
    anything malformed.
    """
    try:
        (length,) = _LENGTH.unpack_from(buffer, offset)
        start = offset + _LENGTH.size
        if start + length > len(buffer):
            raise ValueError(f"it says {length} bytes, {len(buffer) - start} are there")
        if length > most:
            raise ValueError(f"it has {length} bytes; at most {most} are allowed")
        rows = json.loads(bytes(buffer[start : start + length]))
        if not isinstance(rows, list):
            raise ValueError("it is no list")
        return [_checked_row(row) for row in rows], start + length
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"the layout of the arrays is damaged: {error!s:.300}") from error


def _checked_row(row: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError(f"{row!r:.80} is not [name, dtype, shape]")
    name, dtype, shape = row
    if not isinstance(name, str) or dtype not in DTYPES:
        raise ValueError(
            f"{row!r:.80} is not [name, dtype, shape] with dtype one of {', '.join(DTYPES)}"
        )
    if (
        not isinstance(shape, list)
        or len(shape) > 16
        or not all(type(n) is int and 0 <= n < 2**32 for n in shape)
    ):
        raise ValueError(f"array '{name:.80}' has the shape {shape!r:.80}")
    # numpy multiplies the sizes that are not zero, also where one is and the array is empty
    if math.prod(max(n, 1) for n in shape) * np.dtype(dtype).itemsize > _MOST_BYTES:
        raise ValueError(
            f"array '{name:.80}' has the shape {shape}, which is larger than any memory"
        )
    return name, dtype, tuple(shape)


def pack(arrays: Mapping[str, Array]) -> list[bytes | memoryview]:
    """The pieces whose concatenation is the message: join them, or write them one after the other."""
    pieces: list[bytes | memoryview] = [encode_layout(layout_of(arrays))]
    for array in arrays.values():
        pieces += [raw(array), padding(array.nbytes)]
    return pieces


def raw(array: Array) -> memoryview | bytes:
    """The bytes of an array in C order, little-endian, without a copy where it is so already."""
    if array.size and array.flags.c_contiguous and array.dtype.byteorder in _NATIVE:
        return array.data.cast("B")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.size == 0 or not little.flags.c_contiguous:
        return little.tobytes()
    return little.data.cast("B")


def unpack(
    buffer: bytes | memoryview, offset: int = 0, most: int = MOST_LAYOUT_BYTES
) -> dict[str, Array]:
    """The arrays packed from `offset` to the end of the buffer, as read-only views of it.

    Nothing is copied but their layout, which has `most` bytes. Raises DataError for whatever else
    the bytes may be.
    """
    layout, at = decode_layout(buffer, offset, most)
    if len({name for name, _, _ in layout}) != len(layout):
        raise DataError("an array is named twice")
    expected = at + sum(size_of(d, s) + len(padding(size_of(d, s))) for _, d, s in layout)
    if expected != len(buffer):
        raise DataError(f"the arrays need {expected - at} bytes, {len(buffer) - at} are there")
    arrays = {}
    for name, dtype, shape in layout:
        array = np.frombuffer(
            buffer, np.dtype(dtype).newbyteorder("<"), math.prod(shape), at
        ).reshape(shape)
        array.flags.writeable = False
        arrays[name] = array
        at += array.nbytes + len(padding(array.nbytes))
    return arrays


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """CRC-32C (Castagnoli) of these bytes, behind others whose checksum is `crc`.

    Processors compute it themselves: 3.5 us for a step of 98 kB, where zlib's CRC-32 takes 15 (one
    core of an EPYC). The package is one that zarr needs too.
    """
    # it takes no memoryview
    whole = data if isinstance(data, bytes) else np.frombuffer(data, np.uint8)
    return google_crc32c.extend(crc, whole)
