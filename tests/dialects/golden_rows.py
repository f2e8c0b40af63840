"""Golden cases of change tables as Arrow batches of rows, as JDBC reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables.interface import Hidden, TableKernel
from changeledger.dialects.tables.pairs import joined
from changeledger.dialects.tables.rows import stored_names
from changeledger.kernels.arrow import RECORD, arrow_type
from changeledger.model.change import MASK_DISAGREES
from changeledger.model.contract import Contract
from tests.dialects.golden import Case, lines, outcomes

HEADER_TYPES = {
    "__$start_lsn": "binary",
    "__$end_lsn": "binary",
    "__$seqval": "binary",
    "__$operation": "int",
    "__$update_mask": "binary",
    "__$command_id": "int",
    "__$commit_time": "timestamp_ntz",
    "__$commit_fold": "int",
    "header__timestamp": "timestamp_ntz",
}


def plan(case: Case) -> TablePlan:
    assert case.stated is not None, "change tables do not have their contract in a row"
    path = case.folder / "shape.json"
    written = Contract.model_validate_json(path.read_text("utf-8")) if path.exists() else case.stated
    return TablePlan(case.feed, written, case.stated, "window")


def rows(case: Case) -> tuple[str, pa.RecordBatch]:
    """Returns the name of the change table, and its rows as read."""
    reported = plan(case)
    path = case.folder / "types.json"
    types = HEADER_TYPES | {
        c.name: c.spark_type for c in (*reported.contract.columns, *reported.writer_schema.columns)
    }
    types |= json.loads(path.read_text("utf-8")) if path.exists() else {}
    records = lines(case.folder / "input.jsonl")
    names = list(dict.fromkeys(name for record in records for name in record["row"]))
    kinds = {name: types.get(name, "string") for name in names}
    arrays = [
        pa.array([value(r["row"].get(name), kinds[name]) for r in records], arrow_type(kinds[name]))
        for name in names
    ]
    schema = pa.schema([(name, array.type) for name, array in zip(names, arrays, strict=True)])
    return records[0]["table"], pa.RecordBatch.from_arrays(arrays, schema=schema)


def raw(read: pa.RecordBatch, record: pa.StructArray) -> pa.RecordBatch:
    """Rows in the form of the raw table, with the row number as offset."""
    source, partition, _, row = record.flatten()
    numbered = [source, partition, pa.array(range(read.num_rows), pa.int64()), row]
    place = pa.StructArray.from_arrays(numbered, fields=list(RECORD))
    return pa.RecordBatch.from_arrays(
        [place, *read.columns], ["source_position", *stored_names(read.schema, {})]
    )


def value(cell: Any, kind: str) -> Any:
    if cell is None:
        return None
    text = cell if isinstance(cell, str) else json.dumps(cell)
    return _READERS.get(kind.split("(", 1)[0], int)(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "binary": lambda text: bytes.fromhex(text[2:]),
    "boolean": lambda text: text in {"true", "1"},
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "float": float,
    "double": float,
}


def of_the_rows(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row without the `mask_disagrees` flag that follows from comparing mask and images.

    The cases do not have this flag, as that comparison comes later.
    """
    flags = [flag for flag in row.get("flags", ()) if flag != MASK_DISAGREES or not _contradicts(row)]
    plain = {name: cell for name, cell in row.items() if name not in {"flags", "sort_key"}}
    return {**plain, "flags": flags} if flags else plain


def _contradicts(row: dict[str, Any]) -> bool:
    before, after = row.get("before"), row.get("after")
    if before is None or after is None or "changed" not in row:
        return False
    gaps = {*row.get("before_unknown_columns", ()), *row.get("after_unknown_columns", ())}
    return {n for n in before if before[n] != after[n]} - gaps != set(row["changed"]) - gaps


def rows_became(case: Case, kernel: TableKernel, captured: Callable[[str], str]) -> dict[int, dict[str, Any]]:
    """Results by row number (see `outcomes`). `captured` maps a change table to its source table."""
    table, read = rows(case)
    records = raw(read, kernel.record(read, captured(table), case.feed, Hidden()))
    return outcomes([joined(kernel.decode(records, plan(case)), plan(case))])


def assert_rows_as_expected(case: Case, results: Mapping[int, dict[str, Any]]) -> None:
    said = [of_the_rows(results[at]) for at in range(len(case.expected))]
    assert said == [of_the_rows(row) for row in case.expected]
