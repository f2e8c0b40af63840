"""Rows of the lake's tables, read by this process: for few rows, and for counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
    LiteralPredicate,
    Or,
)

from changeledger.storage import catalog, summaries
from changeledger.storage.selection import selected

# Rows, and bytes in files, which are packed.
Weight = tuple[int, int]

_RUN = "window_id"


def weight(table: str, run: str | None = None) -> Weight:
    """How many rows the files of main have, and bytes; or those of a run's partition."""
    asked = AlwaysTrue() if run is None else of_window(run)
    files = [task.file for task in catalog.load(table).scan(asked).plan_files()]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def read(table: str, where: BooleanExpression, schema: pa.Schema, snapshot: int | None = None) -> pa.Table:
    """The rows that meet the condition, on main or in a snapshot, in the columns and types of `schema`."""
    scan = catalog.load(table).scan(where, snapshot_id=snapshot)
    chosen = scan.update(selected_fields=tuple(selected(schema, scan.projection())))
    return chosen.to_arrow().select(schema.names).cast(schema)


def batches(table: str, where: BooleanExpression, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """`read` of main, file by file: not all rows are here at once."""
    for batch in catalog.load(table).scan(where, tuple(schema.names)).to_arrow_batch_reader():
        yield from pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_batches()


def among(cells: Mapping[str, pa.Array]) -> BooleanExpression:
    """Is the value of each column one of these? Files without any are passed over, however many there are.

    A column may be a member of a struct: `key.id`. See `can_ask`.
    """
    found: BooleanExpression = AlwaysTrue()
    for name, values in cells.items():
        there = pc.unique(values).drop_null()
        found = And(found, In(name, there.to_pylist()))  # type: ignore[call-arg, arg-type]
        if len(there) and not pa.types.is_boolean(there.type):
            ends = pc.min_max(there).as_py()
            found = And(found, _bound(GreaterThanOrEqual, name, ends["min"]))
            found = And(found, _bound(LessThanOrEqual, name, ends["max"]))
    return found


def are(rows: pa.Table) -> BooleanExpression:
    """Are the columns' values those of one of the rows?"""
    found = among({name: rows.column(name).combine_chunks() for name in rows.column_names})
    if rows.num_columns == 1:
        return found
    each = [[is_equal(name, value) for name, value in row.items()] for row in rows.to_pylist()]
    whole = [And(*row) for row in each]
    return And(found, Or(*whole) if len(whole) > 1 else whole[0])


def can_ask(schema: pa.Schema) -> bool:
    """May `among` be asked for such columns? NaN is among nothing, and a dot leads into a struct."""
    return not any(pa.types.is_floating(field.type) or "." in field.name for field in schema)


def is_equal(name: str, value: object) -> BooleanExpression:
    return _bound(EqualTo, name, value)


def is_behind(name: str, value: object) -> BooleanExpression:
    return _bound(GreaterThan, name, value)


def is_between(ends: pa.RecordBatch, prefix: str = "") -> BooleanExpression:
    """Does a row stand between the two rows of `ends`, in each column that has them?

    `prefix`: `key.` where the columns are members of the struct `key`. A dot in a name leads into a struct.
    """
    found: BooleanExpression = AlwaysTrue()
    for name, values in zip(ends.schema.names, ends.columns, strict=True):
        if values.null_count or not len(values) or "." in name:
            continue
        least, greatest = values.to_pylist()
        found = And(found, _bound(GreaterThanOrEqual, prefix + name, least))
        found = And(found, _bound(LessThanOrEqual, prefix + name, greatest))
    return found


def is_null(name: str) -> BooleanExpression:
    return IsNull(name)  # type: ignore[call-arg, arg-type]


def _bound(kind: type[LiteralPredicate], name: str, value: object) -> BooleanExpression:
    # mypy takes the predicates for models, whose fields alone it sees.
    return kind(name, value)


def of_run(snapshots: Mapping[str, int], run: str) -> dict[str, int]:
    """By table, how many rows the run has in that snapshot."""
    return {
        table: catalog.load(table).scan(of_window(run), (_RUN,), snapshot_id=snapshot).count()
        for table, snapshot in snapshots.items()
    }


def has_rows(table: str, run: str | None = None, snapshot: int | None = None) -> bool:
    """Has the table rows, or those of a run; on main or in a snapshot."""
    found = catalog.load(table)
    one = next(iter(found.schema().fields)).name if run is None else _RUN
    asked = AlwaysTrue() if run is None else of_window(run)
    return found.scan(asked, (one,), snapshot_id=snapshot).count() > 0


def grouped(table: str, snapshot: int, run: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """How many rows the run has in that snapshot by the values of these columns: each with their number."""
    rows = catalog.load(table).scan(of_window(run), (*columns, _RUN), snapshot_id=snapshot).to_arrow()
    counted = rows.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
    return [(*(row[name] for name in columns), row["count_all"]) for row in counted]


def count(table: str, snapshot: int) -> int:
    """How many rows the snapshot has; from what it says of itself, where it says it."""
    said = summaries.built({table: snapshot})[table].now.live
    return catalog.load(table).scan(snapshot_id=snapshot).count() if said is None else said


def of_window(window_id: str, column: str = _RUN) -> BooleanExpression:
    """Is a row the window's own?"""
    return is_equal(column, window_id)
