"""Selects the rows of data files to remove, and the kernel that keeps the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, Or

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, column, flags_of, valid
from changeledger.kernels.hashed import hash_of
from changeledger.kernels.touched import Known
from changeledger.lake import conditions
from changeledger.model.change import quoted


class Ends(NamedTuple):
    """Selects rows without an end (NULL in the column); with `since`, also those that end there or later."""

    column: str
    since: bytes | None = None

    @property
    def where(self) -> BooleanExpression:
        is_open = conditions.is_null(self.column)
        return is_open if self.since is None else Or(is_open, conditions.is_from(self.column, self.since))

    @property
    def sql(self) -> str:
        """The condition in SQL, for the rows `t` of a MERGE."""
        name = f"t.{quoted(self.column)}"
        ends_later = "" if self.since is None else f" OR {name} >= X'{self.since.hex()}'"
        return f"({name} IS NULL{ends_later})"

    def among(self, rows: pa.RecordBatch) -> Bools:
        """Returns which rows are selected."""
        ends = rows.column(self.column)
        is_open = ~valid(ends)
        if self.since is None:
            return is_open
        return is_open | flags_of(pc.greater_equal(ends, pa.scalar(self.since, ends.type)))


@dataclass(frozen=True)
class Stays:
    """A kernel that keeps rows with none of these keys, and rows that `ends` does not select."""

    keys: pa.Table
    hashes: Known
    ends: Ends | None

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        # Cast to the types of the keys: Iceberg reads strings as large strings.
        cells = [rows.column(field.name).cast(field.type) for field in self.keys.schema]
        may_go = order.is_among(hash_of(cells), self.hashes)
        if self.ends is not None:
            may_go &= self.ends.among(rows)
        candidates = np.flatnonzero(may_go)
        if not len(candidates):
            return rows
        # Keys may share a hash, so the cells are compared.
        keys = [column(self.keys, name) for name in self.keys.schema.names]
        stays = np.ones(len(rows), np.bool_)
        stays[candidates[order.are_among([cell.take(pa.array(candidates)) for cell in cells], keys)]] = False
        return rows.filter(pa.array(stays))
