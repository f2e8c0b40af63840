"""Conditions on columns that were widened after a file was written apply in the table's types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import And, BooleanExpression, Or
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, IcebergType, LongType

from changeledger.lake import conditions, refs
from changeledger.lake.file_scans import FileReader
from changeledger.lake.file_writes import Writing, commit

LARGE = Decimal("5000000000.25")


def write(table: Table, ids: list[Any], kind: pa.DataType) -> None:
    """Appends a file of rows with these ids and notes that name them."""
    keys = [{"id": value} for value in ids]
    key = pa.array(keys, pa.struct([("id", kind)]))
    rows = pa.table({"id": pa.array(ids, kind), "key": key, "note": [f"note {value}" for value in ids]})
    commit(table, refs.MAIN, Writing.into(table).files(rows))


def with_ids(folder: Path, kind: pa.DataType, ids: list[Any]) -> Table:
    store = InMemoryCatalog("wide", warehouse=folder.as_uri())
    store.create_namespace("lake")
    columns = pa.schema([("id", kind), ("key", pa.struct([("id", kind)])), ("note", pa.string())])
    table = store.create_table("lake.wide", columns)
    write(table, ids, kind)
    return table


def widened(folder: Path, narrow: pa.DataType, wide: IcebergType, ids: list[Any], large: Any) -> Table:
    """A table with a file of the narrow type and one of the wide type."""
    table = with_ids(folder, narrow, ids)
    with table.update_schema() as update:
        update.update_column("id", wide)
        update.update_column(("key", "id"), wide)
    write(table, [large], table.schema().as_arrow().field("id").type)
    return table


def notes(table: Table, where: BooleanExpression) -> list[str]:
    """Returns the notes of matching rows in all files. No file is skipped by its statistics."""
    reader = FileReader.of(table.scan(where), table.schema().select("note"))
    return [
        row["note"]
        for task in table.scan().plan_files()
        for b in reader.batches(task)
        for row in b.to_pylist()
    ]


@pytest.mark.parametrize("name", ["id", "key.id"])
def test_a_decimal_that_became_wider(tmp_path: Path, name: str) -> None:
    """Each run looks for keys in the files of earlier releases."""
    ids = [Decimal("1.50"), Decimal("9999999.99"), None]
    table = widened(tmp_path, pa.decimal128(9, 2), DecimalType(12, 2), ids, LARGE)
    first, last, nothing, large = (f"note {value}" for value in [*ids, LARGE])
    assert notes(table, conditions.is_equal(name, LARGE)) == [large]
    assert notes(table, conditions.is_among(name, {LARGE, ids[0]})) == [large, first]
    near = And(conditions.is_from(name, ids[1]), conditions.is_up_to(name, LARGE))
    assert notes(table, near) == [large, last]
    assert notes(table, Or(near, conditions.is_null(name))) == [large, last, nothing]
    assert notes(table, And(near, conditions.is_equal("note", last))) == [last]
    assert notes(table, conditions.is_behind(name, LARGE)) == []


def test_a_decimal_that_is_about_to_become_wider(tmp_path: Path) -> None:
    """A run reads published rows for its new keys before it widens their table."""
    table = with_ids(tmp_path, pa.decimal128(18, 0), [Decimal(1), Decimal(2)])
    large = Decimal("9" * 38)
    for name in ("id", "key.id"):
        assert notes(table, conditions.is_among(name, {Decimal(1), large})) == ["note 1"]
        near = And(conditions.is_from(name, Decimal(2)), conditions.is_up_to(name, large))
        assert notes(table, near) == ["note 2"]


@pytest.mark.parametrize("name", ["id", "key.id"])
def test_a_whole_number_that_became_wider(tmp_path: Path, name: str) -> None:
    table = widened(tmp_path, pa.int32(), LongType(), [1, 2**31 - 1], 2**40)
    assert notes(table, conditions.is_equal(name, 2**40)) == [f"note {2**40}"]
    assert notes(table, conditions.is_up_to(name, 2**31)) == ["note 1", f"note {2**31 - 1}"]
