"""Converts planned repairs to changes: parses the texts in which a proof plans them.

A repair follows the last change of its key that the feed had when the source was read, and precedes all later
ones, so that it does not undo what the source has done since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import OUTCOME
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables.outcomes import Problems
from changeledger.kernels import changes, images, lsn, masks, sql_text, text_cells
from changeledger.kernels.arrow import Bools, places, table_schema, valid
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, Cells
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import SqlType

COLUMNS: Final = (
    ("window_id", "string"),
    ("source_position", change.RECORD_TYPE),
    ("table", "string"),
    ("proof_id", "string"),
    ("operation", "string"),
    ("before", "map<string,string>"),
    ("after", "map<string,string>"),
    ("follows", "binary"),
    ("since", "timestamp"),
)
RAW: Final = table_schema(COLUMNS)

_SIDES: Final = ("before", "after")
# Appended to a sort key, it sorts after that change and before the next: no dialect has a sort key that
# begins with another one.
_BEHIND: Final = b"\xff"
# Sorts before the first change of a key.
_FIRST: Final = b"\x00"
# What a timestamp in the lake holds, whatever SQL Server's type holds.
_TIMESTAMP: Final = SqlType("datetime2", 6)
_NONE: Final = -1


@dataclass(frozen=True)
class _Side:
    """One side of n repairs: its image, and what is wrong with it."""

    image: Image
    # By row: the names that the contract does not have.
    unknown: dict[int, list[str]]
    # n x columns: the cells whose text does not fit the type.
    unfit: Bools

    @classmethod
    def of(cls, planned: pa.MapArray, contract: Contract) -> _Side:
        present, names = valid(planned), pa.array(contract.names, pa.string())
        entries = planned.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
        row = pc.list_parent_indices(entries).to_numpy()
        name, text = entries.flatten().flatten()
        column = pc.fill_null(pc.index_in(name, value_set=names), _NONE).to_numpy()
        unknown: dict[int, list[str]] = {}
        for entry in np.flatnonzero(column == _NONE):
            unknown.setdefault(int(row[entry]), []).append(name[int(entry)].as_py())
        # Rows x columns: the index of the entry with the cell.
        where = np.full((len(planned), len(names)), _NONE, np.int64)
        is_one = column != _NONE
        where[row[is_one], column[is_one]] = np.flatnonzero(is_one)
        cells = [
            _cells(text.take(pa.array(where[:, at], mask=where[:, at] == _NONE)), described)
            for at, described in enumerate(contract.columns)
        ]
        states = np.where(where == _NONE, NOT_CAPTURED, KNOWN).astype(np.uint8)
        image = Image(present, [parsed.values for parsed in cells], states if states.any() else None)
        fits = np.zeros(len(planned), np.bool_)
        unfit = [fits if parsed.unfit is None else parsed.unfit for parsed in cells]
        return cls(image, unknown, np.column_stack([fits, *unfit])[:, 1:])


def _cells(texts: pa.StringArray, column: Column) -> Cells:
    """Parses values from the texts that `display.texts` writes."""
    if column.spark_type == "string":
        return Cells(texts)
    if column.spark_type == "binary":
        values = masks.from_texts(texts)
        unfit = valid(texts) & ~valid(values)
        return Cells(values, unfit if unfit.any() else None)
    sql = _TIMESTAMP if column.spark_type == "timestamp_ntz" else column.sql_type
    return text_cells.from_texts(sql, sql_text.reader(sql))(texts)


def decode(raw: pa.RecordBatch, plan: TablePlan) -> pa.RecordBatch:
    """Decodes planned repairs (`RAW`) of the contract's table to one row each of `decoded_schema`."""
    contract, size = plan.contract, raw.num_rows
    sides = [_Side.of(raw.column(name), contract) for name in _SIDES]
    old, new = (images.key(side.image, contract) for side in sides)
    key = [pc.coalesce(after, before) for before, after in zip(old, new, strict=True)]
    problems = _problems(sides, key, contract)
    planned_changes, good = _changes(raw, sides, key, contract), np.flatnonzero(~problems.bad)
    canonical = planned_changes if len(good) == size else changes.taken(planned_changes, good)
    ledger = changes.ledger_rows(canonical, contract, plan.feed.feed, plan.feed.dialect, plan.window_id)
    schema = message_rows.decoded_schema(contract)
    columns = message_rows.spread(ledger.columns, good, size)
    columns[schema.get_field_index("source_position")] = raw.column("source_position")
    outcome = [*problems.columns(), *_as_planned(raw, problems.bad)]
    return pa.RecordBatch.from_arrays([*columns, *outcome], schema=schema)


def _problems(sides: Sequence[_Side], key: Sequence[pa.Array], contract: Contract) -> Problems:
    """Collects what is wrong with repairs. If both images have a fault, the before image's is shown."""
    before, after = sides
    size = len(before.image.present)
    problems = Problems(size)
    unknown = {**after.unknown, **before.unknown}
    has_unknown = np.zeros(size, np.bool_)
    has_unknown[list(unknown)] = True
    problems.add(
        has_unknown,
        "unknown_column",
        lambda row: f"{contract.table} has no column {', '.join(unknown[row])}",
    )

    def misfits(row: int) -> str:
        unfit = before.unfit[row] if before.unfit[row].any() else after.unfit[row]
        columns = (c for c, is_one in zip(contract.columns, unfit, strict=True) if is_one)
        return "values that do not fit: " + ", ".join(f"{c.name} {c.type}" for c in columns)

    has_misfits: Bools = np.logical_or.reduce(before.unfit | after.unfit, axis=1)
    problems.add(has_misfits, "value_does_not_fit", misfits)
    lacks_key = np.zeros(size, np.bool_)
    for cell in key:
        lacks_key |= ~valid(cell)
    problems.add(lacks_key, "null_key", "a column of the key is NULL")
    return problems


def _changes(
    raw: pa.RecordBatch, sides: Sequence[_Side], key: Sequence[pa.Array], contract: Contract
) -> Changes:
    before, after = (side.image for side in sides)
    size, operation = raw.num_rows, raw.column("operation")
    nothing = np.zeros(size, np.bool_)
    behind = pc.binary_join_element_wise(
        raw.column("follows"), pa.scalar(_BEHIND, pa.binary()), pa.scalar(b"", pa.binary())
    )
    return Changes(
        operation=operation,
        before=images.fitted(before, contract, contract),
        after=images.fitted(after, contract, contract),
        key=key,
        moved=nothing,
        changed=images.changed(before, after, contract.names),
        commit_lsn=lsn.unknown(size),
        change_lsn=lsn.unknown(size),
        event_serial_no=pa.nulls(size, pa.int64()),
        sort_key=pc.fill_null(behind, _FIRST),
        committed_at=raw.column("since"),
        transaction_id=raw.column("proof_id"),
        flags={change.REPAIRED: ~nothing},
        source_position=raw.column("source_position"),
    )


def _as_planned(raw: pa.RecordBatch, wanted: Bools) -> list[pa.Array]:
    """Returns `raw_key`, `raw_value` and `raw_headers`: the wanted repairs as JSON, for the quarantine."""
    at = np.flatnonzero(wanted)
    planned = raw.select(["table", "proof_id", "operation", *_SIDES]).take(pa.array(at, pa.int64()))
    texts = [
        json.dumps({name: value for name, value in row.items() if value is not None}, ensure_ascii=False)
        for row in planned.to_pylist(maps_as_pydicts="lossy")
    ]
    kinds, size = dict(OUTCOME), raw.num_rows
    value = pa.array(texts, pa.string()).cast(pa.binary()).take(places(at, size))
    return [pa.nulls(size, kinds["raw_key"]), value, pa.nulls(size, kinds["raw_headers"])]
