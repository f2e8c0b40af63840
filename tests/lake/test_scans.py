"""Conditions skip files without any of some keys, and lose no row with one of the keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.typedef import Record

from changeledger.kernels.touched import FEW, Touched, keys_touched, touched_schema
from changeledger.lake.scans import are_near

KEY = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(18, 2)),
        ("is_on", pa.bool_()), ("x", pa.float64()), ("a.b", pa.int32()),
    ]
)  # fmt: skip
ID = pa.schema([KEY.field("id")])
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-3, 500),
    "name": st.text("aZä", max_size=2),
    "amount": st.decimals(-5, 5, places=2),
    "is_on": st.booleans(),
    "x": st.floats(),
    "a.b": st.integers(0, 3),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | cells for name, cells in CELLS.items()}))


def touched(rows: list[dict[str, Any]], schema: pa.Schema = KEY, at_once: int = 1_000) -> Touched:
    of = touched_schema(pa.struct(list(schema)))
    whole = pa.Table.from_pylist(rows, schema)
    batches = [keys_touched(part, of) for part in whole.to_batches(at_once) if part.num_rows]
    return Touched.of(pa.Table.from_batches(batches, of))


FIELDS = [field for field in KEY if "." not in field.name]
IN_ICEBERG = pyarrow_to_schema(
    pa.schema([field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(FIELDS, 1)])
)


def passes(where: BooleanExpression, *rows: dict[str, Any]) -> list[bool]:
    """Evaluates the condition as Iceberg does, to which a name with a dot is a struct's field."""
    if isinstance(where, AlwaysTrue | AlwaysFalse):
        return [isinstance(where, AlwaysTrue)] * len(rows)
    evaluator = expression_evaluator(IN_ICEBERG, where, True)
    return [bool(evaluator(Record(*(row[field.name] for field in FIELDS)))) for row in rows]


def row(**cells: object) -> dict[str, Any]:
    """A row with NULL in the other columns."""
    return {**dict.fromkeys(KEY.names), **cells}


def ids(*values: int | None) -> list[dict[str, Any]]:
    return [{"id": value} for value in values]


@given(ROWS, st.integers(1, 5), st.booleans())
def test_each_key_passes_however_rows_are_cut(rows: list[dict[str, Any]], at_once: int, many: bool) -> None:
    if many:
        added = ({**key, "id": number} for number in range(FEW + 1) for key in rows[:1])
        rows = [*rows, *added]
    touched_keys = touched(rows, at_once=at_once)
    assert touched_keys.are_few or not rows or many
    where = are_near(touched_keys)
    assert all(passes(where, *rows))
    assert where == AlwaysFalse() or rows
    whole = touched(rows)
    assert whole.hashes.tolist() == touched_keys.hashes.tolist()
    assert str(are_near(whole)) == str(where) or whole.are_few


def test_few_keys_are_asked_for_one_by_one() -> None:
    where = are_near(touched(ids(5, 2, 9, 2), ID))
    assert np.flatnonzero(passes(where, *(row(id=n) for n in range(12)))).tolist() == [2, 5, 9]
    assert passes(where, row()) == [False]


@pytest.mark.parametrize(("last", "expected"), [(FEW, [True, False]), (FEW + 1, [True, True])])
def test_of_many_keys_only_the_ends_are_known(last: int, expected: list[bool]) -> None:
    """No row has the key 1. The rows come in two batches, each with few keys."""
    keys = ids(0, *range(2, last + 1))
    where = are_near(touched(keys, ID, 150))
    assert passes(where, row(id=2), row(id=1)) == expected
    assert passes(where, row(id=last + 1), row(id=-1)) == [False, False]


@pytest.mark.parametrize("added", [0, FEW])
def test_null_is_near_where_a_key_has_it(added: int) -> None:
    keys = ids(None, 3, *range(10, 10 + added))
    where = are_near(touched(keys, ID, 50))
    assert passes(where, *(row(id=n) for n in (None, 3, 4, 2))) == [True, True, bool(added), False]
    assert str(are_near(touched(ids(None), ID))) == "IsNull(term=Reference(name='id'))"


def test_what_cannot_be_asked_for_is_left_out() -> None:
    """NaN equals nothing, Iceberg reads a dot as the way into a struct, and booleans have no ends."""
    of_none = [{"x": float("nan"), "a.b": 1}, {"x": 1.0, "a.b": 2}]
    assert are_near(touched(of_none, pa.schema([KEY.field("x"), KEY.field("a.b")]))) == AlwaysTrue()
    flag = pa.schema([KEY.field("is_on"), KEY.field("id")])
    few = are_near(touched([{"is_on": True, "id": 1}], flag))
    assert passes(few, row(is_on=True, id=1), row(is_on=False, id=1)) == [True, False]
    many = are_near(touched([{"is_on": True, "id": n} for n in range(FEW + 1)], flag))
    assert passes(many, row(is_on=False, id=1)) == [True]
    assert are_near(touched([], ID)) == AlwaysFalse()


def test_each_column_of_a_composite_key_counts() -> None:
    kinds = pa.schema([KEY.field("id"), KEY.field("amount")])
    keys = [{"id": 1, "amount": Decimal("1.00")}, {"id": 9, "amount": Decimal("2.50")}]
    where = are_near(touched(keys, kinds))
    rows = [row(id=n, amount=Decimal(a)) for n in (1, 5, 9) for a in ("1", "2", "2.5")]
    assert np.flatnonzero(passes(where, *rows)).tolist() == [0, 2, 6, 8]
    within = are_near(touched(keys, kinds), "key.")
    assert "name='key.id'" in str(within)
    assert "name='key.amount'" in str(within)
