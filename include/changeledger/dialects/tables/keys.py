"""Finds the raw rows of change tables that have a given key, in whatever type and form they store it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.tables import values
from changeledger.dialects.tables.rows import RawRows
from changeledger.kernels.arrow import POSITIONS
from changeledger.model.contract import Contract


def typed(texts: Mapping[str, str], contract: Contract) -> Mapping[str, pa.Array]:
    """Converts the texts of a key to the types of the contract's columns: a one-element array for each.

    A text that is not a value of its column becomes NULL.
    """
    written = pa.record_batch({name: pa.array([text], pa.string()) for name, text in texts.items()})
    cells = values.typed(written, contract.model_copy(update={"columns": contract.key}))
    return {name: cells.column(name) for name in texts}


@dataclass(frozen=True)
class WithKey:
    """Returns the `POSITIONS` of the raw rows that have the key.

    `key` has its cells, each a one-element array, by the contract's names.
    """

    key: Mapping[str, pa.Array]
    contract: Contract

    def __call__(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        rows = RawRows.of(raw)
        same = [
            pc.equal(values.cells_of(rows, column, empty_is_null=False).values, self.key[column.name][0])
            for column in self.contract.key
        ]
        return raw.select(POSITIONS.names).filter(reduce(pc.and_, same))
