"""Ids of changes: two chains of 64-bit hashes of a change's position and contents, as 32 hex digits.

The hash is Spark's `xxhash64` (XXH64 of each value, seeded with the hash so far, from 42; NULL leaves it
unchanged), because stored ids were made with it. Each value is hashed in the widest type of its kind, so that
an id survives a widened column, and with its column's name, so that it survives an added one.

Hashes of n rows are a matrix of 2 x n, one row per chain. Sources: the XXH64 specification
(github.com/Cyan4973/xxHash, doc/xxhash_spec.md), and Apache Spark's class XXH64 for what is hashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import octets
from changeledger.kernels.arrow import Bytes, Indices, fixed_width, numbers, valid

Hashes = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )
)  # fmt: skip
_SEED = 42
# The first value of each of the two chains.
_CHAINS = (b"a", b"b")
_STRIPE, _WORD = 32, 8
# Spark hashes numbers of up to this many bits as half a word.
_INT_BITS = 32
# Up to this many long values are hashed one at a time.
_FEW = 4
# Values of one width of up to this many bytes, such as ids and LSNs, are hashed together.
_FIXED = 64


def _rotated(value: Hashes, bits: int) -> Hashes:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _finished(h: Hashes) -> Hashes:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


def _round(word: Hashes) -> Hashes:
    return _rotated(word * _P2, 31) * _P1


def _with_word(h: Hashes, word: Hashes) -> Hashes:
    return _rotated(h ^ _round(word), 27) * _P1 + _P4


def _with_half(h: Hashes, half: Hashes) -> Hashes:
    return _rotated(h ^ (half * _P1), 23) * _P2 + _P3


def _with_byte(h: Hashes, byte: Hashes) -> Hashes:
    return _rotated(h ^ (byte * _P5), 11) * _P1


def of_longs(h: Hashes, values: npt.NDArray[Any]) -> Hashes:
    """Extends `h` by a 64-bit value for each row."""
    return _finished(_with_word(h + _P5 + np.uint64(8), values.view(np.uint64)))


def of_ints(h: Hashes, values: npt.NDArray[Any]) -> Hashes:
    """Extends `h` by a 32-bit value for each row."""
    halves = values.astype(np.int32).view(np.uint32).astype(np.uint64)
    return _finished(_with_half(h + _P5 + np.uint64(4), halves))


def of_bytes(h: Hashes, data: Bytes, starts: Indices, lengths: Indices) -> Hashes:
    """Extends `h` by the bytes `data[start : start + length]` for each row."""
    width = int(lengths[0]) if len(lengths) > _FEW and lengths[0] <= _FIXED else None
    if width is not None and (lengths == width).all() and (np.diff(starts) == width).all():
        return _of_fixed(h, data[int(starts[0]) :], width)
    words, halves = _unaligned(data, np.uint64), _unaligned(data, np.uint32)
    acc = h + _P5
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        acc[:, long] = _stripes(h[:, long], data, starts[long], lengths[long] // _STRIPE)
    acc += lengths.astype(np.uint64)
    at = starts + (lengths // _STRIPE) * _STRIPE
    tails = lengths % _STRIPE
    for number in range(_STRIPE // _WORD - 1):
        rows = np.flatnonzero(tails >= (number + 1) * _WORD)
        if not len(rows):
            break
        acc[:, rows] = _with_word(acc[:, rows], words[at[rows] + number * _WORD])
    at = at + (tails // _WORD) * _WORD
    rows = np.flatnonzero(tails & 4)
    if len(rows):
        acc[:, rows] = _with_half(acc[:, rows], halves[at[rows]].astype(np.uint64))
    at = at + (tails & 4)
    for number in range(3):
        rows = np.flatnonzero((tails & 3) > number)
        if not len(rows):
            break
        acc[:, rows] = _with_byte(acc[:, rows], data[at[rows] + number].astype(np.uint64))
    return _finished(acc)


def _of_fixed(h: Hashes, data: Bytes, width: int) -> Hashes:
    """Extends `h` by the next `width` bytes for each row, such as an id or an LSN: no row is looked for."""
    rows, stripes = h.shape[1], width // _STRIPE
    cells = data[: rows * width].reshape(rows, width)

    def at(begin: int, kind: Any) -> Hashes:
        end = begin + np.dtype(kind).itemsize
        numbers: Hashes = np.ascontiguousarray(cells[:, begin:end]).view(kind).ravel().astype(np.uint64)
        return numbers

    acc, place = h + _P5, stripes * _STRIPE
    if stripes:
        lanes = np.stack([h + _P1 + _P2, h + _P2, h, h - _P1], axis=1)
        for begin in range(0, place, _STRIPE):
            words = np.stack([at(begin + lane * _WORD, np.uint64) for lane in range(4)])
            lanes = _with_stripe(lanes, words)
        acc = _merged(lanes)
    acc = acc + np.uint64(width)
    for kind, step in ((np.uint64, _with_word), (np.uint32, _with_half), (np.uint8, _with_byte)):
        while width - place >= np.dtype(kind).itemsize:
            acc = step(acc, at(place, kind))
            place += np.dtype(kind).itemsize
    return _finished(acc)


def _with_stripe(lanes: Hashes, words: Hashes) -> Hashes:
    return _rotated(lanes + words * _P2, 31) * _P1


def _merged(lanes: Hashes) -> Hashes:
    """Merges the four lanes of stripes."""
    acc = np.zeros_like(lanes[:, 0])
    for lane, bits in enumerate((1, 7, 12, 18)):
        acc += _rotated(lanes[:, lane], bits)
    for lane in range(4):
        acc = (acc ^ _round(lanes[:, lane])) * _P1 + _P4
    return acc


def _unaligned(data: Bytes, kind: Any) -> npt.NDArray[Any]:
    """Views `data` as numbers, one beginning at each byte."""
    width = np.dtype(kind).itemsize
    return np.ndarray(max(len(data) - width + 1, 0), kind, data.data, strides=(1,))


def _stripes(seed: Hashes, data: Bytes, starts: Indices, counts: Indices) -> Hashes:
    """Returns the accumulator after each row's whole stripes of 32 bytes, `counts` of them."""
    order = np.argsort(-counts, kind="stable")
    seed, starts, counts = seed[:, order], starts[order], counts[order]
    words = np.ndarray((len(data) - _STRIPE + 1, 4), np.uint64, data.data, strides=(1, _WORD))
    lanes = np.stack([seed + _P1 + _P2, seed + _P2, seed, seed - _P1], axis=1)
    # How many rows have a stripe with this number.
    active = np.searchsorted(-counts, -np.arange(int(counts[0])), side="left").tolist()
    together = sum(rows > _FEW for rows in active)
    for stripe, rows in enumerate(active[:together]):
        lanes[:, :, :rows] = _with_stripe(lanes[:, :, :rows], words[starts[:rows] + stripe * _STRIPE].T)
    for row in range(active[together] if together < len(active) else 0):
        stripes = data[starts[row] + together * _STRIPE : starts[row] + counts[row] * _STRIPE]
        lanes[:, :, row] = _stripes_of_one(lanes[:, :, row], stripes)
    hashes = np.empty_like(seed)
    hashes[:, order] = _merged(lanes)
    return hashes


def _stripes_of_one(lanes: Hashes, data: Bytes) -> list[list[int]]:
    """Returns the lanes after all stripes of one value: few long values are faster as Python integers."""
    mixed = (data.view(np.uint64) * _P2).reshape(-1, 4).tolist()
    prime, most = int(_P1), 2**64 - 1
    chains = []
    for chain in lanes.tolist():
        a, b, c, d = chain
        for first, second, third, fourth in mixed:
            a, b, c, d = a + first & most, b + second & most, c + third & most, d + fourth & most
            a, b = (a << 31 | a >> 33) * prime & most, (b << 31 | b >> 33) * prime & most
            c, d = (c << 31 | c >> 33) * prime & most, (d << 31 | d >> 33) * prime & most
        chains.append([a, b, c, d])
    return chains


def of_constant(h: Hashes, value: bytes) -> Hashes:
    """Extends `h` by the same bytes for each row."""
    rows = h.shape[1]
    if len(value) >= _STRIPE:
        same = np.zeros(rows, np.int64)
        return of_bytes(h, np.frombuffer(value, np.uint8), same, same + len(value))
    acc = h + _P5 + np.uint64(len(value))
    whole = len(value) // _WORD * _WORD
    for at in range(0, whole, _WORD):
        acc = _with_word(acc, _number(value[at : at + _WORD]))
    if len(value) & 4:
        acc = _with_half(acc, _number(value[whole : whole + 4]))
        whole += 4
    for byte in value[whole:]:
        acc = _with_byte(acc, _number(bytes([byte])))
    return _finished(acc)


def _number(little_endian: bytes) -> Hashes:
    # An array, because numpy's scalars warn of overflow, which is intended here.
    return np.array([int.from_bytes(little_endian, "little")], np.uint64)


def of_column(h: Hashes, column: pa.Array, label: bytes | None = None) -> Hashes:
    """Extends `h` by the label and each value of a column; unchanged where the value is NULL."""
    if column.null_count == len(column):
        return h
    labelled = h if label is None else of_constant(h, label)
    hashes = _of_values(labelled, column)
    return np.where(valid(column), hashes, h) if column.null_count else hashes


def _of_values(h: Hashes, column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets, data = octets.parts(column)
        return of_bytes(h, data, offsets[:-1], np.diff(offsets))
    if pa.types.is_boolean(kind):
        return of_ints(h, column.fill_null(fill_value=False).to_numpy(zero_copy_only=False))
    if pa.types.is_date(kind) or (pa.types.is_integer(kind) and kind.bit_width <= _INT_BITS):
        return of_ints(h, numbers(column))
    if pa.types.is_decimal(kind):
        return _of_decimals(h, column)
    if pa.types.is_floating(kind):
        values = numbers(column).astype(np.float64)
        # 0 and -0 are one number.
        return of_longs(h, np.where(values == 0, 0.0, values))
    return of_longs(h, numbers(column).astype(np.int64))


def _of_decimals(h: Hashes, column: pa.Array) -> Hashes:
    """Hashes the unscaled value as the fewest bytes that hold it, in big-endian two's complement."""
    raw = np.frombuffer(column.buffers()[1], np.uint8)
    data = raw.reshape(-1, 16)[column.offset : column.offset + len(column), ::-1]
    sign = np.where(data[:, 0] >= 128, 255, 0).astype(np.uint8)
    spare = np.ones(len(data), np.bool_)
    leading = np.zeros(len(data), np.int64)
    for at in range(15):
        spare &= (data[:, at] == sign) & ((data[:, at + 1] ^ sign) < 128)
        if not spare.any():
            break
        leading += spare
    starts = np.arange(len(data), dtype=np.int64) * 16 + leading
    return of_bytes(h, np.ascontiguousarray(data).reshape(-1), starts, 16 - leading)


def of_image(h: Hashes, cells: Sequence[pa.Array], names: Sequence[str], number: int) -> Hashes:
    """Extends `h` by the cells of image `number`; unchanged without an image, whose cells are NULL."""
    for cell, name in zip(cells, names, strict=True):
        h = of_column(h, cell, f"{number}.{name}".encode())
    return h


def begun(rows: int, seed: int = _SEED) -> Hashes:
    """Returns one chain before any value."""
    return np.full((1, rows), seed, np.uint64)


def begun_chains(rows: int) -> Hashes:
    """Returns the two chains of an id before any value."""
    return np.vstack([of_constant(begun(rows), chain) for chain in _CHAINS])


def of_parts(said: Hashes, parts: Sequence[pa.Array]) -> Hashes:
    """Hashes the images' hashes and the parts that place a change; a struct's fields are hashed in order."""
    h = of_longs(np.full(said.shape, _SEED, np.uint64), said)
    for number, part in enumerate(parts):
        if part.null_count == len(part):
            continue
        placed = of_ints(h, np.full(len(part), number))
        for field in part.flatten() if pa.types.is_struct(part.type) else [part]:
            placed = of_column(placed, field)
        h = np.where(valid(part), placed, h) if part.null_count else placed
    return h


def as_text(h: Hashes) -> pa.StringArray:
    """Formats the two chains as 32 upper-case hex digits per row."""
    rows = h.shape[1]
    data = np.concatenate([half.astype(">u8").view(np.uint8).reshape(rows, 8) for half in h], axis=1)
    return fixed_width(octets.to_hex(data), kind=pa.string())


def widest(column: pa.Array) -> pa.Array:
    """Casts values to the widest type to which their column can grow (`contract.Contract.evolved_to`)."""
    kind = column.type
    if pa.types.is_integer(kind):
        return pc.cast(column, pa.int64())
    return pc.cast(column, pa.float64()) if pa.types.is_float32(kind) else column
