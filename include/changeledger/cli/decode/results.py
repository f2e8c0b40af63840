"""Decoded records as JSON: a change, or why a record is not a change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables import pairs
from changeledger.kernels import display
from changeledger.kernels.arrow import ledger_schema
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.reconcile import duplicates
from changeledger.stages.normalization.reading import Input

Result = dict[str, Any]
# A function that returns a record's number in the input by its position (`arrow.RECORD`).
Numbers = Callable[[Mapping[str, Any]], int]
# Stands for a window's id.
WINDOW = "decode"

# The members of a change's result, in this order.
_MEMBERS = (
    "key", "previous_key", "before", "after", "before_unknown_columns", "after_unknown_columns",
    "changed", "mask", "commit_lsn", "change_lsn", "event_serial_no", "sort_key",
    "committed_at", "transaction_id", "flags",
)  # fmt: skip
_OUTCOME = ("source_position", "disposition", "reason", "detail")


def of_input(feed: Feed, table_input: Input, number: Numbers) -> list[Result]:
    """Returns the results of a table's records, or of records that belong to no table."""
    batch = as_batch(table_input.decoded.collected())
    if table_input.contract is None:
        return [_no_change(row, table_input.table, number) for row in batch.select(_OUTCOME).to_pylist()]
    if "pair_key" in batch.schema.names:
        batch = pairs.joined(batch, TablePlan(feed, table_input.contract, table_input.contract, WINDOW))
    is_change = pc.equal(batch.column("disposition"), change.CHANGE)
    ledger = pa.Table.from_batches(
        [batch.filter(is_change).select(ledger_schema(table_input.contract).names)]
    )
    is_repeated, _ = duplicates.repeated(ledger, ledger.schema.empty_table(), table_input.contract)
    repeats = iter(is_repeated.tolist())
    kinds = {name: batch.schema.field(name).type for name in _MEMBERS}
    rows = batch.select((*_OUTCOME, "paired_source_position", "operation", *_MEMBERS)).to_pylist()
    others = _other_records(rows, number)
    results = []
    for row in rows:
        if row["disposition"] == change.CHANGE:
            records = sorted([number(row["source_position"]), *others[number(row["source_position"])]])
            results += _change(row, table_input.table, records, kinds, is_repeat=next(repeats))
        elif row["disposition"] != change.PAIRED:
            results.append(_no_change(row, table_input.table, number))
    return results


def _other_records(rows: list[dict[str, Any]], number: Numbers) -> dict[int, list[int]]:
    """Returns, by the number of a change's own record, the other records that the change is made of.

    A change names its row of old values. Segments of an event name the event's first segment.
    """
    others = defaultdict(list)
    for row in rows:
        if row["paired_source_position"] is not None:
            owner, other = row["source_position"], row["paired_source_position"]
            if row["disposition"] == change.PAIRED:
                owner, other = other, owner
            others[number(owner)].append(number(other))
    return others


def _change(
    row: Mapping[str, Any],
    table: str | None,
    records: list[int],
    kinds: Mapping[str, pa.DataType],
    *,
    is_repeat: bool,
) -> list[Result]:
    if is_repeat:
        outcome = {"disposition": change.DUPLICATE, "table": table, "reason": change.DELIVERED_AGAIN}
        return [{"record": n, **outcome} for n in records]
    result: Result = {"record": records[0], "disposition": change.CHANGE}
    if len(records) > 1:
        result["records"] = records
    result |= {"operation": row["operation"], "table": table}
    # The key of a table without key columns is an empty struct.
    members = {name: row[name] for name in _MEMBERS if row[name] is not None and row[name] != {}}
    result |= {name: _plain(value, kinds[name]) for name, value in members.items()}
    return [result]


def _no_change(row: Mapping[str, Any], table: str | None, number: Numbers) -> Result:
    members = {"record": number(row["source_position"]), "disposition": row["disposition"], "table": table}
    members |= {"reason": row["reason"], "detail": row["detail"]}
    return {name: value for name, value in members.items() if value is not None}


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Returns a value for JSON: exact numbers and times as text, bytes as 0x and hex."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return dict(sorted(value))
    return value if pa.types.is_list(kind) else _cell(value, kind)


def _cell(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, bytes):
        return f"0x{value.hex().upper()}"
    if isinstance(value, float):
        return _number(value, kind)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat(" ") if kind.tz is None else display.text_of(value).replace(" ", "T") + "Z"
    return value.isoformat() if isinstance(value, date) else value


def _number(value: float, kind: pa.DataType) -> float | str:
    """Returns the number in its fewest digits. Infinity and NaN become text: JSON does not have them."""
    if not math.isfinite(value):
        return str(value)
    return float(str(np.float32(value))) if pa.types.is_float32(kind) else value
