"""Columns are published hashed, cast, renamed or dropped, alike in ledger, current rows and history."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.messages.message_rows import decoded_schema
from changeledger.kernels import publishing
from changeledger.kernels.arrow import arrow_type
from changeledger.kernels.publishing import PublishChanges, PublishRows, key_id
from changeledger.kernels.rows import as_batch
from changeledger.model.contract import Column, Contract
from changeledger.model.publishing import PublishRule
from sourcelab.log import Log, simulate
from tests.ledger_rows import Manner, contract_of, rows
from tests.reconcile import tables

SECRET = "a secret of sixteen or more"
CUSTOMERS = "dbo.customers"


def digest(text: str) -> str:
    return hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()


def published(kind: str, values: list[Any], **rule: Any) -> list[Any]:
    column = Column(name="c", type=kind, ordinal=1, publish=PublishRule.model_validate(rule))
    return publishing.cells(pa.array(values, arrow_type(column.spark_type)), column, SECRET).to_pylist()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("nvarchar(50)", "a@b.c", "a@b.c"),
        ("char(5)", "ab   ", "ab"),
        ("uniqueidentifier", "0e984725-c51c-4bf4-9960-e1c80e27aba0", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
        ("int", 5, "5"),
        ("decimal(9,2)", Decimal("5.00"), "5"),
        ("decimal(9,0)", Decimal(500), "500"),
        ("decimal(9,4)", Decimal("5.2500"), "5.25"),
        ("date", date(2024, 2, 29), "2024-02-29"),
        ("datetime2(3)", datetime(2024, 2, 29, 1, 2, 3), "2024-02-29 01:02:03"),
        ("datetime2(7)", "2024-02-29 01:02:03.5000000", "2024-02-29 01:02:03.5000000"),
        ("time(7)", "01:02:03.5000000", "01:02:03.5"),
        # 19,782 days after 1970, and 1:02:03.5 less the five hours.
        ("datetimeoffset(7)", "2024-02-29T01:02:03.5000000+05:00", "1709150523.5"),
        ("varbinary(4)", b"\x01\xff", "0x01FF"),
        ("bit", True, "true"),
    ],
)
def test_a_hash_is_of_the_text_that_equal_values_share(kind: str, value: Any, text: str) -> None:
    assert published(kind, [value, None], hash=True) == [digest(text), None]


@pytest.mark.parametrize(
    ("kind", "to", "value", "cast"),
    [
        ("int", "string", 7, "7"),
        ("decimal(9,2)", "string", Decimal("7.50"), "7.50"),
        ("smallint", "bigint", 7, 7),
        ("int", "decimal(12,2)", -7, Decimal("-7.00")),
        ("decimal(9,2)", "decimal(12,4)", Decimal("7.50"), Decimal("7.5000")),
        ("date", "timestamp", date(2024, 2, 29), datetime(2024, 2, 29)),
    ],
)
def test_a_cast_keeps_the_value(kind: str, to: str, value: Any, cast: Any) -> None:
    assert published(kind, [None, value], cast=to) == [None, cast]


def test_the_key_is_named_without_being_told() -> None:
    assert key_id(SECRET) != key_id(SECRET + "2")
    assert SECRET not in repr(PublishRows(Contract(table="dbo.t", columns=()), SECRET, ()))


def in_both(log: Log, table: str, rules: Mapping[str, Any], manner: Manner) -> tuple[pa.Table, ...]:
    """Builds history before and after publishing.

    Returns closed and then open intervals, each of published changes first, then of the source's changes
    published afterwards.
    """
    parsed = {name: PublishRule.model_validate(rule) for name, rule in rules.items()}
    source = contract_of(log.table(table))
    contract = source.published_by(parsed, key_id(SECRET))
    ledger = tables.ledger(rows(log, log.table(table), manner), source)
    schema = decoded_schema(source)
    decoded = pa.table(
        [
            ledger.column(f.name) if f.name in ledger.column_names else pa.nulls(len(ledger), f.type)
            for f in schema
        ],
        schema=schema,
    )
    kernel = PublishChanges(contract, SECRET, schema)
    changes = pa.Table.from_batches([kernel(as_batch(decoded))]).select(ledger.column_names)
    after = tables.all_at_once(changes, contract.published, "run")
    before = tables.all_at_once(ledger, source, "run")
    shape = PublishRows(contract, SECRET, contract.published.names)
    compared = []
    for published, plain in ((after.closed, before.closed), (after.opened, before.opened)):
        order = [(name, "ascending") for name in ("_sort_key", "_valid_from", contract.published.names[0])]
        shaped = pa.Table.from_batches([shape(as_batch(plain.select(list(source.names))))])
        for name in ("_sort_key", "_valid_from", "_valid_to", "_is_deleted"):
            shaped = shaped.append_column(name, plain.column(name))
        compared += [published.select(shaped.column_names).sort_by(order), shaped.sort_by(order)]
    return tuple(compared)


@pytest.mark.parametrize(
    "manner",
    [
        Manner(),
        Manner(parts_key_updates=True, key_only_deletes=True),
        Manner(before_images=False, unsent=frozenset({"name"})),
    ],
)
def test_publishing_before_or_after_history_is_the_same(manner: Manner) -> None:
    """Publishing keeps equal values and keys equal, so history of published changes has the same rows."""
    log = simulate(3, 60)
    rules = {"id": {"hash": True, "rename": "person"}, "name": "hash", "notes": "drop"}
    closed, closed_there, opened, opened_there = in_both(log, CUSTOMERS, rules, manner)
    assert len(closed) > 10
    assert len(opened) > 5
    assert closed.equals(closed_there)
    assert opened.equals(opened_there)
