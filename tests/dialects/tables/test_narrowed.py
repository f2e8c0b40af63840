"""After the source narrows a column of a max type, older rows still lack values that did not change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.interface import TableDialect
from changeledger.dialects.registry import DIALECTS
from changeledger.kernels.arrow import RECORD
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.lsn import WIDTH
from changeledger.model.contract import Column, Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone

# The new values of an update of `qty` only. Qlik's header has four columns.
UPDATES: dict[str, tuple[int, dict[str, Any]]] = {
    "sqlserver_cdc": (
        0,
        {
            "__$start_lsn": b"\1" * WIDTH, "__$seqval": b"\1" * WIDTH, "__$operation": 4,
            "__$update_mask": b"\x04", "__$command_id": 1, "__$commit_time": "2026-08-07 16:25:00",
        },
    ),
    "qlik_tables": (
        4,
        {
            "header__change_seq": "20260807162500000000000000000000001", "header__change_oper": "U",
            "header__change_mask": b"\x40", "header__timestamp": "2026-08-07 16:25:00",
        },
    ),
}  # fmt: skip


def written(before: int, note: str) -> Contract:
    kinds = (("id", "int"), ("note", note), ("qty", "int"))
    columns = (
        Column(name=name, type=kind, ordinal=before + at, key_position=int(name == "id"))
        for at, (name, kind) in enumerate(kinds, 1)
    )
    return Contract(table="dbo.items", columns=tuple(columns))


@pytest.mark.parametrize("dialect", UPDATES)
@pytest.mark.parametrize(
    ("known", "now", "unknown"),
    [
        ("nvarchar(max)", "nvarchar(500)", True),
        ("nvarchar(max)", "nvarchar(max)", True),
        ("nvarchar(500)", "nvarchar(500)", False),
        (None, "nvarchar(500)", False),
    ],
)
def test_a_null_that_no_mask_names(dialect: str, known: str | None, now: str, unknown: bool) -> None:
    before, header = UPDATES[dialect]
    feed = Feed.model_validate(
        {"feed": "f", "dialect": dialect, "database": "shop", "connection": "c", "source": {},
         "tables": [{"table": "dbo.items", "key": ["id"]}]}
    )  # fmt: skip
    of_dialect = DIALECTS[dialect]
    assert isinstance(of_dialect, TableDialect)
    cells = {**header, "id": 1, "note": None, "qty": 2}
    kinds = {"note": pa.string()}
    raw = pa.RecordBatch.from_arrays(
        [pa.array([{"source": "t", "row": b"1"}], RECORD),
         *(pa.array([cell], kinds.get(name)) for name, cell in cells.items())],
        ["source_position", *cells],
    )  # fmt: skip
    records = reading.of_change_table(
        of_dialect.kernel, "dbo.items", written(before, now), InMemory.of(raw), feed, "w"
    )
    contracts = {} if known is None else {"dbo.items": written(before, known)}
    (decoded,) = reading.inputs([records], reading.TableKnowledge(contracts, resolved_alone))
    (row,) = decoded.decoded.collected().to_pylist()
    assert row["after"] == {"id": 1, "note": None, "qty": 2}, row
    assert dict(row["after_unknown_columns"] or ()) == ({"note": "unavailable"} if unknown else {})
    assert decoded.contract is not None
    assert decoded.contract.columns[1].type == (known or now), "the next window reads older rows, too"
