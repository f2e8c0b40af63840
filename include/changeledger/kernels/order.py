"""Sorts and groups rows by numeric ranks: one sort serves every comparison of neighbouring rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import octets
from changeledger.kernels.arrow import Bools, Bytes, Indices, numbers, valid

# One number per row to sort or group by.
Ranks = npt.NDArray[Any]

_WORD = 8


def words(values: pa.BinaryArray) -> list[Ranks]:
    """Returns ranks that order as the bytes do, the most significant first.

    Bytes are unsigned, and a value sorts before any longer one that begins with it, as in Spark. NULL counts
    as empty. Words that are the same in all rows are left out.
    """
    matrix, lengths = _padded(values)
    big_endian = [matrix[:, at : at + _WORD].view(">u8").ravel() for at in range(0, matrix.shape[1], _WORD)]
    native = [word.astype(np.uint64) for word in big_endian]
    return [rank for rank in (*native, lengths) if (rank != rank[:1]).any()]


def _padded(values: pa.BinaryArray) -> tuple[Bytes, Indices]:
    """Returns each row's bytes, padded with zeros to a whole number of words, and their unpadded lengths."""
    rows = len(values)
    offsets, data = octets.parts(values)
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    matrix = np.zeros((rows, -(-longest // _WORD) * _WORD), np.uint8)
    if (lengths == longest).all():
        matrix[:, :longest] = data.reshape(rows, longest)
        return matrix, lengths
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        matrix[same, :length] = data[offsets[same][:, None] + np.arange(length)]
    return matrix, lengths


def repeated(ranks: Ranks) -> Indices:
    """Returns the rows whose rank occurs more than once."""
    at = np.argsort(ranks)
    is_same = ranks[at[1:]] == ranks[at[:-1]]
    is_repeated = np.zeros(len(ranks), np.bool_)
    is_repeated[at[1:][is_same]] = is_repeated[at[:-1][is_same]] = True
    return np.flatnonzero(is_repeated)


def codes(columns: Sequence[pa.Array], rows: int) -> Ranks:
    """Returns a number per row; two rows have the same number exactly if all their columns are equal.

    Two NULLs are equal; so are 0 and -0.
    """
    if len(columns) == 1 and pa.types.is_integer(columns[0].type) and not columns[0].null_count:
        return numbers(columns[0]).astype(np.int64)
    ranks, size = np.zeros(rows, np.int64), 1
    for column in columns:
        comparable = pc.add(column, 0.0) if pa.types.is_floating(column.type) else column
        encoded = comparable.dictionary_encode(null_encoding="encode")
        count = len(encoded.dictionary)
        if size * count >= 2**62:
            _, ranks = np.unique(ranks, return_inverse=True)
            size = int(ranks.max(initial=0)) + 1
        ranks = ranks * count + numbers(encoded.indices)
        size *= count
    return ranks


def are_among(columns: Sequence[pa.Array], among: Sequence[pa.Array]) -> Bools:
    """Returns which rows equal, as in `codes`, a row of `among`, whose columns have the same types."""
    both = [pa.concat_arrays(pair) for pair in zip(columns, among, strict=True)]
    rows = len(columns[0])
    ranks = codes(both, len(both[0]))
    return is_among(ranks[:rows], distinct(ranks[rows:]))


def distinct(ranks: Ranks) -> Ranks:
    """Returns each number once, sorted. numpy's `unique` hashes them, which takes thirty times as long."""
    ordered = np.sort(ranks)
    return ordered[begins([ordered], len(ordered))]


def is_among(ranks: Ranks, known: Ranks) -> Bools:
    """Returns which of the numbers are in `known`, which is sorted and has each number once."""
    if not len(known):
        return np.zeros(len(ranks), np.bool_)
    is_known: Bools = known[np.minimum(np.searchsorted(known, ranks), len(known) - 1)] == ranks
    return is_known


def begins(ordered: Sequence[Ranks], rows: int) -> Bools:
    """Returns which sorted rows differ from the row before; the first row does."""
    is_first = np.zeros(rows, np.bool_)
    is_first[:1] = True
    for ranks in ordered:
        is_first[1:] |= ranks[1:] != ranks[:-1]
    return is_first


def by(ranks: Sequence[Ranks], rows: int) -> Indices:
    """Returns the rows sorted by the ranks, the most significant first; equal rows keep their order."""
    return np.lexsort(tuple(reversed(ranks))) if ranks else np.arange(rows)


def nulls_first(values: pa.Array) -> list[Ranks]:
    """Returns ranks of a column of whole numbers that sort NULL first."""
    known = valid(values)
    return [known, np.where(known, numbers(values), 0)]


def of_delivery(records: pa.StructArray) -> list[Ranks]:
    """Returns ranks of records by source, partition and offset."""
    source, partition, offset, _ = records.flatten()
    return [*words(source), *nulls_first(partition), *nulls_first(offset)]


def begun_at(first: Bools) -> Indices:
    """Returns, for each row, the row at which its group begins."""
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def running_max(values: Ranks, first: Bools) -> Ranks:
    """Returns, for each row, the greatest value in its group so far; of flags, whether one is set so far."""
    goes_back = values[1:] < values[:-1]
    if not (goes_back & ~first[1:]).any():
        return values
    greatest, start = values.copy(), begun_at(first)
    at, step = np.arange(len(values)), 1
    longest = int((at - start).max()) + 1
    while step < longest:
        reach = np.flatnonzero(at - step >= start)
        greatest[reach] = np.maximum(greatest[reach], greatest[reach - step])
        step *= 2
    return greatest
