"""Rows of change tables, as received, that have one key, in whatever type and form they have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.tables import values
from changeledger.dialects.tables.rows import RawRows
from changeledger.kernels.arrow import RECORD
from changeledger.model.contract import Contract

POSITIONS: Final = pa.schema([("source_position", RECORD)])


def typed(texts: Mapping[str, str], contract: Contract) -> Mapping[str, pa.Array]:
    """The cells of a key, each an array of one, in the types of the contract's columns; NULL for a text that
    is no value of its column."""
    columns = [column for column in contract.key if column.name in texts]
    written = pa.record_batch(
        {column.name: pa.array([texts[column.name]], pa.string()) for column in columns}
    )
    cells = values.typed(written, contract.model_copy(update={"columns": tuple(columns)}))
    return {column.name: cells.column(column.name) for column in columns}


@dataclass(frozen=True)
class WithKey:
    """`POSITIONS` of the raw rows with the key. `texts`: its cells, by the contract's names."""

    texts: Mapping[str, str]
    contract: Contract

    def __call__(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        rows, cells = RawRows.of(raw), typed(self.texts, self.contract)
        same = [
            pc.equal(values.cells_of(rows, column, empty_is_null=False).values, cells[column.name][0])
            for column in self.contract.key
        ]
        return raw.select(POSITIONS.names).filter(reduce(pc.and_, same))
