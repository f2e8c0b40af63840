"""What `changeledger query` answers without Spark: one table, plain conditions, few rows.

Everything else is Spark's. Where this module answers, it answers what Spark does; its tests ask both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import pyarrow.compute as pc
import sqlglot
from pyiceberg import expressions as iceberg
from pyiceberg import types
from pyiceberg.table import DataScan, Table
from pyiceberg.table.refs import SnapshotRefType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from changeledger.cli.statement.check import Statement
from changeledger.storage import catalog

_T = TypeVar("_T")

# Rows of the files that would be read: beyond, Spark is faster.
_MOST_ROWS = 200_000

_SELECT = {"expressions", "from_", "where", "order", "limit"}
_TABLE = {"this", "db", "catalog", "version"}
_COMPARED: dict[type[exp.Expr], Any] = {
    exp.EQ: iceberg.EqualTo,
    exp.NEQ: iceberg.NotEqualTo,
    exp.LT: iceberg.LessThan,
    exp.LTE: iceberg.LessThanOrEqual,
    exp.GT: iceberg.GreaterThan,
    exp.GTE: iceberg.GreaterThanOrEqual,
}
_JOINED: dict[type[exp.Expr], Any] = {exp.And: iceberg.And, exp.Or: iceberg.Or}
# mypy takes the predicates for models, whose fields alone it sees.
_NULL: Any = iceberg.IsNull
_NOT_NULL: Any = iceberg.NotNull
_IN: Any = iceberg.In
_INTEGERS = (types.IntegerType, types.LongType)
_TIMES = (types.DateType, types.TimestampType, types.TimestamptzType)
# Not floats: NaN has a place of its own in Spark's order.
_SORTED = (*_INTEGERS, *_TIMES, types.StringType, types.BooleanType, types.DecimalType)


class Answer(NamedTuple):
    columns: list[str]
    rows: Sequence[tuple[object, ...]]


class _IsSparksError(Exception):
    """The query has a part that is not answered here."""


def answer(statement: Statement) -> Answer | None:
    """The query's columns and rows; None if Spark must answer, also where it is wrong."""
    # In Spark's texts a backslash begins an escape.
    if "\\" in statement.text:
        return None
    try:
        parsed = sqlglot.parse_one(statement.text, read="spark")
        while isinstance(parsed, exp.Subquery) and _has_only(parsed, {"this"}):
            parsed = parsed.this
        if not isinstance(parsed, exp.Select) or not _has_only(parsed, _SELECT):
            return None
        return _Query(parsed).answer()
    except (_IsSparksError, SqlglotError):
        return None


class _Query:
    """One SELECT of one table. Raises _IsSparksError."""

    def __init__(self, select: exp.Select) -> None:
        source = _need(select.args.get("from_")).this
        if (
            not isinstance(source, exp.Table)
            or not _has_only(source, _TABLE)
            or source.catalog != catalog.NAME
        ):
            raise _IsSparksError
        self.select = select
        self.table: Table = _need(catalog.found(f"{source.catalog}.{source.db}.{source.name}"))
        self.snapshot = _snapshot(self.table, source.args.get("version"))
        schema = self.table.scan(snapshot_id=self.snapshot).projection()
        # Spark finds a column whatever the case of its letters.
        self.fields = {field.name.lower(): field for field in schema.fields}
        if len(self.fields) != len(schema.fields):
            raise _IsSparksError

    def answer(self) -> Answer:
        limit = self._limit()
        columns = [*self._columns()]
        where = self.select.args.get("where")
        order = [*self._order()]
        is_count = [name for name, field in columns if field is None]
        if is_count and len(columns) > 1:
            raise _IsSparksError
        named = {field.name for _, field in columns if field is not None} | {name for name, _, _ in order}
        scan = self.table.scan(
            iceberg.AlwaysTrue() if where is None else self._condition(where.this),
            ("*",) if is_count else tuple(named),
            snapshot_id=self.snapshot,
            limit=None if is_count or order else limit,
        )
        if _rows_of_files(scan) > _MOST_ROWS:
            raise _IsSparksError
        if is_count:
            return Answer(is_count, [(scan.count(),)][:limit])
        rows = scan.to_arrow()
        if order:
            rows = rows.take(pc.sort_indices(rows, sort_keys=order))
        rows = rows.slice(0, limit)
        cells = [rows.column(_need(field).name).to_pylist(maps_as_pydicts="strict") for _, field in columns]
        plain = ([_plain(cell) for cell in column] for column in cells)
        return Answer([name for name, _ in columns], [*zip(*plain, strict=True)])

    def _columns(self) -> Iterator[tuple[str, types.NestedField | None]]:
        """Each column's name in the answer, and its field; no field: the count of all rows."""
        for one in self.select.expressions:
            named = one.this if isinstance(one, exp.Alias) else one
            if isinstance(one, exp.Star) and _has_only(one, set()):
                yield from ((field.name, field) for field in self.fields.values())
            elif isinstance(named, exp.Count) and named.this == exp.Star() and not named.expressions:
                yield one.alias or "count(1)", None
            else:
                yield one.alias_or_name, self._field(named)

    def _field(self, column: exp.Expr) -> types.NestedField:
        if not isinstance(column, exp.Column) or not _has_only(column, {"this"}):
            raise _IsSparksError
        return _need(self.fields.get(column.name.lower()))

    def _condition(self, asked: exp.Expr) -> Any:
        kind = type(asked)
        if isinstance(asked, exp.Paren):
            return self._condition(asked.this)
        if kind in _JOINED:
            return _JOINED[kind](self._condition(asked.this), self._condition(asked.expression))
        if isinstance(asked, exp.Not) and isinstance(asked.this, exp.Is):
            return _NOT_NULL(self._null(asked.this))
        if isinstance(asked, exp.Is):
            return _NULL(self._null(asked))
        if isinstance(asked, exp.In) and _has_only(asked, {"this", "expressions"}):
            field = self._field(asked.this)
            return _IN(field.name, [_literal(one, field) for one in asked.expressions])
        if kind in _COMPARED:
            field = self._field(asked.this)
            return _COMPARED[kind](field.name, _literal(asked.expression, field))
        raise _IsSparksError

    def _null(self, asked: exp.Is) -> str:
        if not isinstance(asked.expression, exp.Null):
            raise _IsSparksError
        return self._field(asked.this).name

    def _order(self) -> Iterator[tuple[str, str, str]]:
        """Each column, its direction and the place of its NULLs."""
        order = self.select.args.get("order")
        if order is not None and any(isinstance(one, exp.Alias) for one in self.select.expressions):
            # An alias may hide a column.
            raise _IsSparksError
        for one in () if order is None else order.expressions:
            field = self._field(one.this)
            if not isinstance(field.field_type, _SORTED):
                raise _IsSparksError
            direction = "descending" if one.args.get("desc") else "ascending"
            yield field.name, direction, "at_start" if one.args.get("nulls_first") else "at_end"

    def _limit(self) -> int | None:
        limit = self.select.args.get("limit")
        if limit is None:
            return None
        if not _has_only(limit, {"expression"}):
            raise _IsSparksError
        return _integer(limit.expression)


def _snapshot(table: Table, version: exp.Expr | None) -> int | None:
    """Of `VERSION AS OF`: a tag, or a snapshot's number; None: the table as it is."""
    if version is None:
        return None
    named = version.expression
    if version.name != "VERSION" or version.text("kind") != "AS OF" or not isinstance(named, exp.Literal):
        raise _IsSparksError
    if not named.is_string:
        return _need(table.snapshot_by_id(_integer(named))).snapshot_id
    ref = _need(table.metadata.refs.get(named.name))
    # Of a branch Spark reads the newest columns.
    if ref.snapshot_ref_type != SnapshotRefType.TAG:
        raise _IsSparksError
    return ref.snapshot_id


def _literal(written: exp.Expr, field: types.NestedField) -> object:
    """A literal of the column's own type: Spark casts others."""
    if isinstance(field.field_type, _INTEGERS):
        return _integer(written)
    if (
        isinstance(field.field_type, types.StringType)
        and isinstance(written, exp.Literal)
        and written.is_string
    ):
        return written.name
    if isinstance(field.field_type, types.BooleanType) and isinstance(written, exp.Boolean):
        return written.this
    raise _IsSparksError


def _integer(written: exp.Expr) -> int:
    if isinstance(written, exp.Neg):
        return -_integer(written.this)
    if isinstance(written, exp.Literal) and not written.is_string and written.name.isdecimal():
        return int(written.name)
    raise _IsSparksError


def _rows_of_files(scan: DataScan) -> int:
    return sum(task.file.record_count for task in scan.plan_files())


def _plain(cell: Any) -> object:
    """As Spark gives it to Python: an instant without a zone, in that of this process."""
    if isinstance(cell, datetime):
        return cell if cell.tzinfo is None else cell.astimezone().replace(tzinfo=None)
    if isinstance(cell, dict):
        return {name: _plain(member) for name, member in cell.items()}
    return [_plain(member) for member in cell] if isinstance(cell, list) else cell


def _has_only(part: exp.Expr, names: set[str]) -> bool:
    return all(name in names for name, value in part.args.items() if value not in (None, False, []))


def _need(found: _T | None) -> _T:
    if found is None:
        raise _IsSparksError
    return found
