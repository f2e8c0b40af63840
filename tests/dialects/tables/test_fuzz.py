"""Randomly corrupted rows of change tables neither stop kernels, nor get lost, nor change other rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC
from changeledger.dialects.tables.pairs import joined
from changeledger.kernels.arrow import RECORD
from changeledger.model.contract import Column, Contract
from sourcelab import qlik_tables, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.tables import ORDERS

CORRUPTED = 400
Row = dict[str, str | None]
BAD: tuple[str | None, ...] = (
    None, "", " ", "\0", "0x", "0xFF", "0xGG", "0x" + "FF" * 40, "NaN", "-1", "0", "9", "1" + "0" * 30, "1.5",
    "true", "[]", '{"a": [1]}', "9" * 400, "x" * 20_000, "I", "D", "TRUNCATE", "'; DROP TABLE t; --",
    "99999-01-01", "2026-02-30", "NULL", "`${x}`", "0001-01-01 00:00:00", "1e99999999", "\u0131",
)  # fmt: skip


def text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return None if value is None else str(value)


def rows(dialect: str, seed: int) -> tuple[tuple[str, ...], list[Row]]:
    log = simulate(seed, 40)
    if dialect == "sqlserver_cdc":
        reported = (change_row for tx in log.transactions for change_row in sqlserver_cdc.change_rows(tx))
        names = tuple(sqlserver_cdc.columns(ORDERS))
    else:
        reported = (change_row for tx in log.transactions for change_row in qlik_tables.change_rows(tx))
        names = (*qlik_tables.Task().columns, *ORDERS.names)
    return names, [
        dict(zip(names, map(text, row), strict=True)) for table, row in reported if table is ORDERS
    ]


def elsewhere(row: Row) -> Row:
    """Moves the row to a later position. At its own, it would be a duplicate of the good row, or its pair."""
    moved = dict(row)
    for name, begin in (("__$start_lsn", "0x7F"), ("header__change_seq", "2999")):
        if moved.get(name):
            moved[name] = begin + str(moved[name])[len(begin) :]
    return moved


def corrupted(rng: Random, row: Row) -> Row:
    row = dict(row)
    for name in rng.sample(list(row), rng.choice((1, 1, 1, 2, 5))):
        cell = row[name]
        if cell and rng.random() < 0.4:
            at = rng.randrange(len(cell))
            row[name] = rng.choice((cell[:at], cell[at:], cell[:at] + "\0" + cell[at:], cell * 2))
        else:
            row[name] = rng.choice(BAD)
    return row


def plan(dialect: str) -> TablePlan:
    place = {name: at for at, name in enumerate(ORDERS.key, 1)}
    before = 0 if dialect == "sqlserver_cdc" else len(qlik_tables.Task().columns)
    columns = tuple(
        Column(name=c.name, type=c.type, ordinal=c.ordinal + before, key_position=place.get(c.name, 0))
        for c in ORDERS.columns
    )
    contract = Contract(table=ORDERS.full_name, columns=columns, mask_order="big")
    feed = Feed.model_validate(
        {
            "feed": "fuzz", "dialect": dialect, "database": "fuzz", "connection": "none", "source": {},
            "tables": [{"table": ORDERS.full_name}],
        }
    )  # fmt: skip
    return TablePlan(feed, contract, contract, "window")


def results(dialect: str, names: tuple[str, ...], given: list[Row]) -> list[dict[str, Any]]:
    records = [{"source": "t", "partition": None, "offset": at, "row": None} for at in range(len(given))]
    arrays = [pa.array(records, RECORD), *(pa.array([row[n] for row in given], pa.string()) for n in names)]
    raw = pa.RecordBatch.from_arrays(arrays, ["source_position", *names])
    reported = plan(dialect)
    kernels = SQLSERVER_CDC.kernel if dialect == "sqlserver_cdc" else QLIK_TABLES.kernel
    return joined(kernels.decode(raw, reported), reported).to_pylist()


@pytest.mark.parametrize("dialect", ["sqlserver_cdc", "qlik_tables"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_corrupted_rows_are_accounted_for_and_hurt_nobody(dialect: str, seed: int) -> None:
    rng = Random(f"{dialect} {seed}")
    names, good = rows(dialect, seed)
    bad = [corrupted(rng, elsewhere(row)) for row in rng.choices(good, k=CORRUPTED)]
    clean = results(dialect, names, good)
    mixed = results(dialect, names, [*good, *bad])
    assert [result["source_position"]["offset"] for result in mixed] == list(range(len(good) + CORRUPTED))
    assert mixed[: len(good)] == clean
    assert {result["disposition"] for result in clean} == {"change", "paired"}
    quarantined = [result for result in mixed if result["disposition"] == "quarantined"]
    assert len({result["reason"] for result in quarantined}) >= 5, "corruption takes several forms"
    assert all(result["reason"] and result["detail"] and result["raw_value"] for result in quarantined)
    assert all(
        result["change_id"] and result["sort_key"] for result in mixed if result["disposition"] == "change"
    )
