"""Checks rows that a feed's own topic sends again after changes: a second or an incremental snapshot.

Such a row is the state of its key in the source at the row's place in the stream, so it must equal the
version of the key just before it. If it does not, the feed has lost or corrupted a change. The row itself has
already corrected what is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.cells import hashed
from changeledger.kernels import display, equality, images, order
from changeledger.kernels.arrow import (
    GAPS,
    Bools,
    Indices,
    batch_of,
    by_name,
    column,
    flags_of,
    members,
    row_type,
    table_of,
    taken,
)
from changeledger.kernels.hashed import by
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.verify.drift import EXPLAINED
from changeledger.verify.verdicts import DIFFERS, EQUAL, MISSING

# The columns read from the ledger, and from history besides the contract's.
OF_LEDGER: Final = ("operation", "window_id", "after", "after_unknown_columns", "sort_key")
OF_HISTORY: Final = ("_unknown_columns", "_sort_key", "_change_id", "_is_deleted")

ROWS: Final = "rows"
COUNTS: Final = "counts"
WRONG: Final = "wrong"
COUNTED: Final = pa.schema([("verdict", pa.string()), ("rows", pa.int64())])
OUTPUTS: Final = {COUNTS: COUNTED, WRONG: EXPLAINED}
# The bucket key, equal for rows of one key.
KEY: Final = by("key_hash")


def schema(contract: Contract) -> pa.Schema:
    """Returns the schema of rows that were sent again, and of versions, which have a `change_id`."""
    return pa.schema(
        [
            ("key_hash", pa.int64()),
            ("image", row_type(contract.columns)),
            ("unknown_columns", GAPS),
            ("sort_key", pa.binary()),
            ("change_id", pa.string()),
            ("is_deleted", pa.bool_()),
        ]
    )


def sent_again(batch: pa.RecordBatch, contract: Contract, runs: Sequence[str]) -> pa.RecordBatch:
    """Selects the ledger's snapshot rows of these runs. A row that shows what is known begins no version."""
    of_runs = pc.is_in(batch.column("window_id"), value_set=pa.array(list(runs), pa.string()))
    rows = batch.filter(pc.and_(pc.equal(batch.column("operation"), change.SNAPSHOT), of_runs))
    names = {"unknown_columns": "after_unknown_columns", "sort_key": "sort_key"}
    return _compared(rows, members(rows.column("after")), names, contract)


def as_versions(rows: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Converts rows of history to versions."""
    names = {name: f"_{name}" for name in ("unknown_columns", "sort_key", "change_id", "is_deleted")}
    return _compared(rows, by_name(rows), names, contract)


def _compared(
    rows: pa.RecordBatch, cells: Mapping[str, pa.Array], names: Mapping[str, str], contract: Contract
) -> pa.RecordBatch:
    """Converts rows to `schema`. `names`: the rows' own name of each column."""
    kinds = row_type(contract.columns)
    image = pa.StructArray.from_arrays([cells[f.name].cast(f.type) for f in kinds], fields=list(kinds))
    key_hash = hashed([cells[c.name] for c in contract.key], rows.num_rows)
    plain = {name: rows.column(row_column) for name, row_column in names.items()}
    return batch_of({**plain, "key_hash": key_hash, "image": image}, schema(contract))


@dataclass(frozen=True)
class Judge:
    """Kernel that judges rows with a version of their key before them. Other rows are new to the feed."""

    contract: Contract

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        rows = tables[ROWS]
        cells = members(column(rows, "image"))
        is_version = column(rows, "change_id").is_valid().to_numpy(zero_copy_only=False)
        at, before = self._behind(rows, cells, is_version)
        is_deleted = flags_of(column(rows, "is_deleted").take(pa.array(before)))
        differing = self._differing(rows, cells, at, before)
        verdicts = np.where(is_deleted, MISSING, np.where(differing.any(axis=1), DIFFERS, EQUAL))
        counts = [[verdict, int((verdicts == verdict).sum())] for verdict in (EQUAL, MISSING, DIFFERS)]
        wrong = np.flatnonzero(verdicts != EQUAL)
        keys = {c.name: taken(cells[c.name], at[wrong]) for c in self.contract.key}
        columns = {
            "verdict": verdicts[wrong].tolist(),
            "key": display.keys_as_json(keys),
            "cells": self._cells(cells, at[wrong], before[wrong], differing[wrong], is_deleted[wrong]),
            "last_change_id": taken(column(rows, "change_id"), before[wrong]),
        }
        return {
            COUNTS: pa.table([pa.array(c) for c in zip(*counts, strict=True)], schema=COUNTED),
            WRONG: table_of(columns, EXPLAINED),
        }

    def _behind(
        self, rows: pa.Table, cells: Mapping[str, pa.Array], is_version: Bools
    ) -> tuple[Indices, Indices]:
        """Returns the rows sent again that have a version before them, and these versions."""
        size = len(rows)
        key = order.codes([cells[c.name] for c in self.contract.key], size)
        # A row that begins a version sorts before that version.
        at = order.by([key, *order.words(column(rows, "sort_key")), is_version], size)
        first = order.begun_at(order.begins([key[at]], size))
        last = np.maximum.accumulate(np.where(is_version[at], np.arange(size), -1))
        has_one = ~is_version[at] & (last >= first)
        return at[has_one], at[last[has_one]]

    def _differing(
        self, rows: pa.Table, cells: Mapping[str, pa.Array], at: Indices, before: Indices
    ) -> Bools:
        """n x columns: the cells that are known in both and differ."""
        states = images.states(column(rows, "unknown_columns"), self.contract.names)
        differing = np.zeros((len(at), len(self.contract.columns)), np.bool_)
        for number, described in enumerate(self.contract.columns):
            values = cells[described.name]
            differing[:, number] = equality.differ(taken(values, at), taken(values, before), described)
        return differing if states is None else differing & (states[at] == 0) & (states[before] == 0)

    def _cells(
        self, cells: Mapping[str, pa.Array], at: Indices, before: Indices, differing: Bools, is_deleted: Bools
    ) -> pa.Array:
        texts = []
        for sides in (at, before):
            some = [taken(cells[name], sides) for name in self.contract.names]
            is_present = np.ones(len(sides), np.bool_)
            texts.append(display.lists_of_texts(some, None, is_present).to_pylist())
        cell_lists: list[list[dict[str, Any]] | None] = []
        for row, numbers in enumerate(differing):
            shown = [
                {"name": self.contract.names[n], "source": texts[0][row][n], "published": texts[1][row][n]}
                for n in np.flatnonzero(numbers).tolist()
            ]
            cell_lists.append(None if is_deleted[row] else shown)
        return pa.array(cell_lists, EXPLAINED.field("cells").type)
