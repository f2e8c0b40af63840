"""Randomly corrupted rows of change tables neither stop the job, nor get lost, nor change other rows."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from changeledger.cli.decode import reader, records
from changeledger.model.contract import Column, Contract
from sourcelab import qlik_tables, sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.tables import ORDERS
from tests.dialects.test_dialect_equivalence import row_lines

CORRUPTED = 250
Line = dict[str, Any]
BAD: tuple[Any, ...] = (
    None, "", " ", "\0", "\ud800", "0x", "0xFF", "0xGG", "0x" + "FF" * 40, "NaN", "-1", -1, 0, 9,
    10**30, 1.5, True, [], {"a": [1]}, "9" * 400, "x" * 100_000, "I", "D", "TRUNCATE", "'; DROP TABLE t; --",
    "99999-01-01", "2026-02-30", "NULL", "`${x}`",
)  # fmt: skip


def reported(dialect: str, log: Log) -> list[Line]:
    if dialect == "sqlserver_cdc":
        rows = (change_row for tx in log.transactions for change_row in sqlserver_cdc.change_rows(tx))
        names = sqlserver_cdc.columns(ORDERS)
    else:
        rows = (change_row for tx in log.transactions for change_row in qlik_tables.change_rows(tx))
        names = (*qlik_tables.Task().columns, *ORDERS.names)
    of_table = [(table, row) for table, row in rows if table is ORDERS]
    return list(row_lines(of_table, {ORDERS.full_name: tuple(names)}))


def elsewhere(line: Line) -> Line:
    """Moves the row to a later position. At its own, it would be a duplicate of the good row, or its pair."""
    moved = dict(line["row"])
    for name, begin in (("__$start_lsn", "0x7F"), ("header__change_seq", "2999")):
        if name in moved:
            moved[name] = begin + moved[name][len(begin) :]
    return {**line, "row": moved}


def corrupted(rng: Random, line: Line) -> Line:
    row = dict(line["row"])
    for name in rng.sample(list(row), rng.choice((1, 1, 1, 2, 5))):
        cell = row[name]
        if isinstance(cell, str) and cell and rng.random() < 0.4:
            at = rng.randrange(len(cell))
            row[name] = rng.choice((cell[:at], cell[at:], cell[:at] + "\0" + cell[at:], cell * 2))
        elif rng.random() < 0.1:
            del row[name]
        else:
            row[name] = rng.choice(BAD)
    return {**line, "row": row}


def contract(dialect: str) -> Contract:
    place = {name: at for at, name in enumerate(ORDERS.key, 1)}
    before = 0 if dialect == "sqlserver_cdc" else len(qlik_tables.Task().columns)
    return Contract(
        table=ORDERS.full_name,
        columns=tuple(
            Column(name=c.name, type=c.type, ordinal=c.ordinal + before, key_position=place.get(c.name, 0))
            for c in ORDERS.columns
        ),
    )


def results(dialect: str, lines: list[Line]) -> list[dict[str, Any]]:
    read = records.rows([json.dumps(line) for line in lines])
    stated = {ORDERS.full_name: contract(dialect)}
    return list(reader.results(reader.feed_of(dialect, read), read, stated))


@pytest.mark.parametrize("dialect", ["sqlserver_cdc", "qlik_tables"])
@pytest.mark.parametrize("seed", [1, 2])
def test_corrupt_rows_are_accounted_for_and_hurt_nobody(dialect: str, seed: int) -> None:
    rng = Random(f"{dialect} {seed}")
    good = reported(dialect, simulate(seed, 40))
    bad = [corrupted(rng, elsewhere(line)) for line in rng.choices(good, k=CORRUPTED)]
    clean = results(dialect, good)
    mixed = results(dialect, [*good, *bad])
    numbers = sorted(n for r in mixed for n in r.get("records", [r["record"]]))
    assert numbers == list(range(1, len(good) + CORRUPTED + 1)), "each record has exactly one result"
    assert [r for r in mixed if r["record"] <= len(good)] == clean
    assert {r["disposition"] for r in clean} == {"change"}
    quarantined = [r for r in mixed if r["disposition"] == "quarantined"]
    assert len({r["reason"] for r in quarantined}) >= 5, "chance finds more than one way"
    assert all(r.get("reason") and r.get("detail") is not None for r in quarantined), quarantined
    assert json.dumps(mixed), "written as JSON"
