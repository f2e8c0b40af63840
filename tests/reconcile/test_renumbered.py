"""A change that Debezium delivers again under another `event_serial_no` is one change.

Debezium's own tests switch `data.query.mode` and receive the last transaction again (debezium/debezium#7728,
`SqlServerDataQueryModeIT.shouldReReadLastTransactionOnModeSwitch`). SQL Server logs their updates of a unique
column as delete and insert, row by row at one position. The mode `function` delivers the two halves of a row
one behind the other, numbered 1 and 2. `direct`, the default since 3.4, delivers all deletes first: each half
is alone at its position, and its number is 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.kernels.arrow import ledger_schema
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium.decoding import batch, event, feed
from tests.dialects.reading import decoded
from tests.reconcile.tables import Lake, LedgerRow

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="ref", type="varchar(50)", ordinal=2),
    ),
)
FEED = feed({"table": "dbo.t", "columns": [{"name": c.name, "type": c.type} for c in CONTRACT.columns]})
Row = dict[str, Any]


def message(op: str, row: Row, transaction: int, place: int, number: int) -> bytes:
    images = (row, None) if op == "d" else (None, row)
    commit_lsn, change_lsn = (f"0000002a:000003b0:{part:04x}" for part in (transaction, place))
    payload = event(op, *images, commit_lsn=commit_lsn, change_lsn=change_lsn, event_serial_no=number)
    return json.dumps(payload).encode()


def halves(moved: int, mode: str) -> list[bytes]:
    """The halves of two updates. `moved`: what they add to the key."""
    deletes = [message("d", {"id": row, "ref": "old"}, 2, row, 1) for row in (1, 2)]
    number = 2 if mode == "function" else 1
    inserts = [message("c", {"id": row + moved, "ref": "new"}, 2, row, number) for row in (1, 2)]
    if mode == "direct":
        return deletes + inserts
    return [half for pair in zip(deletes, inserts, strict=True) for half in pair]


def rows(messages: Sequence[bytes]) -> list[LedgerRow]:
    names = ledger_schema(CONTRACT).names
    (batch_of_table,) = decoded(DEBEZIUM.kernel, batch(messages), FEED, CONTRACT)[1:]
    assert set(batch_of_table.column("disposition").to_pylist()) == {change.CHANGE}
    return [
        {
            name: tuple(value.values()) if isinstance(value, dict) else value
            for name, value in row.items()
            if name in names
        }
        for row in batch_of_table.to_pylist()
    ]


LOADED = [message("c", {"id": row, "ref": "old"}, 1, row, 1) for row in (1, 2)]


@pytest.mark.parametrize("moved", [0, 100], ids=["the key stays", "the key changes"])
@pytest.mark.parametrize("modes", [("function", "direct"), ("direct", "function")], ids="-".join)
def test_the_second_delivery_counts_for_nothing(modes: Sequence[str], moved: int) -> None:
    first, second = (rows(halves(moved, mode)) for mode in modes)
    once = Lake(CONTRACT, [rows(LOADED), first]).all_shown
    assert [row["operation"] for row in once["changes"]].count("update") == 2
    assert once["breaks"] == []

    assert Lake(CONTRACT, [rows(LOADED), first, second]).all_shown == once
    assert Lake(CONTRACT, [rows(LOADED), first + second]).all_shown == once
    # The window ends between the halves of the second row.
    parted = Lake(CONTRACT, [rows(LOADED), first[:3], second])
    assert [row["operation"] for row in parted.shown("changes")].count("update") == 2
    assert (len(parted.changes), parted.shown("breaks")) == (4, [])
