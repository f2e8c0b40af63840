"""Cells as hashes: for n rows, a matrix with a 64-bit number per column, and which cells are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.kernels import fingerprints
from changeledger.kernels.arrow import Bools, Bytes, Indices, bitmap, valid
from changeledger.kernels.equality import Conversion

HASHES = pa.list_(pa.int64())
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CellHashes:
    """n images. `numbers`: n x columns, 0 where a cell is not `known`. Without an image no cell is known."""

    present: Bools
    numbers: Numbers
    known: Bools

    def __len__(self) -> int:
        return len(self.present)

    def take(self, rows: Indices) -> CellHashes:
        """Takes the images of these rows; a row below 0 has none."""
        has_row = rows >= 0
        if not len(self):
            width = self.numbers.shape[1]
            return CellHashes(
                has_row, np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.bool_)
            )
        return CellHashes(
            self.present[rows] & has_row, self.numbers[rows], self.known[rows] & has_row[:, None]
        )

    def differing(self, other: CellHashes) -> Bools:
        """n x columns: the cells that are known in both images and differ."""
        unequal: Bools = self.known & other.known & (self.numbers != other.numbers)
        return unequal

    def only(self, rows: Bools) -> CellHashes:
        """Returns the images of these rows; all other rows have none."""
        return CellHashes(self.present & rows, self.numbers, self.known & rows[:, None])

    def array(self) -> pa.ListArray:
        """Converts to array<bigint>: NULL without an image, and with NULL for unknown cells."""
        width = self.numbers.shape[1]
        offsets = np.concatenate(([0], np.cumsum(np.where(self.present, width, 0)))).astype(np.int32)
        numbers, known = self.numbers[self.present].ravel(), self.known[self.present].ravel()
        values = pa.Array.from_buffers(pa.int64(), len(numbers), [bitmap(known), pa.py_buffer(numbers)])
        return pa.Array.from_buffers(
            HASHES, len(self), [bitmap(self.present), pa.py_buffer(offsets)], children=[values]
        )

    @classmethod
    def of(cls, lists: pa.ListArray, width: int) -> CellHashes:
        """Inverse of `array`."""
        present, rows = valid(lists), len(lists)
        numbers, known = np.zeros((rows, width), np.int64), np.zeros((rows, width), np.bool_)
        values = lists.drop_null().flatten()
        shape = (int(present.sum()), width)
        numbers[present] = values.fill_null(0).to_numpy().reshape(shape)
        known[present] = valid(values).reshape(shape)
        return cls(present, numbers, known)


def of_cells(
    cells: Sequence[pa.Array], present: Bools, states: Bytes | None, forms: Sequence[Conversion | None]
) -> CellHashes:
    """Hashes cells. `states`: n x columns, not 0 for a gap. `forms`: how each column is compared."""
    rows = len(present)
    numbers = np.zeros((rows, len(cells)), np.int64)
    known = np.ones((rows, len(cells)), np.bool_) if states is None else states == 0
    known &= present[:, None]
    for at, (cell, form) in enumerate(zip(cells, forms, strict=True)):
        numbers[:, at] = hashed([cell if form is None else form(cell)], rows)
    return CellHashes(present, np.where(known, numbers, 0), known)


def hashed(columns: Sequence[pa.Array], rows: int, seed: int = 42) -> Numbers:
    """Returns a number for each row: equal where all columns are equal, and hardly ever elsewhere."""
    hashes = fingerprints.begun(rows, seed)
    for number, column in enumerate(columns):
        # A NULL leaves a hash unchanged. The number tells which column a value is of.
        hashes = fingerprints.of_column(fingerprints.of_ints(hashes, np.full(rows, number)), column)
    numbers: Numbers = hashes[0].view(np.int64)
    return numbers


def folded(parts: Sequence[Numbers], rows: int) -> Numbers:
    """Folds several numbers per row into one: equal where all are equal, and hardly ever elsewhere."""
    hashes = fingerprints.begun(rows)
    for part in parts:
        hashes = fingerprints.of_longs(hashes, part)
    numbers: Numbers = hashes[0].view(np.int64)
    return numbers
