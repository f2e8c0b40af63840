"""Change ids and records equal those in existing ledgers.

`stored_rows.jsonl`: raw rows of a simulated source. Each has its position and the `change_id` that version
0.1.0 stored for it with Spark 4.0.4 (null for the row before an update), as in the Parquet files of that
lake. `stored_tables.json`: its change tables. Never write these from a run of the kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.pairs import joined
from changeledger.kernels.arrow import arrow_type
from changeledger.model.contract import Contract
from tests.dialects.golden_rows import value

KERNELS = {kernel.name: kernel for kernel in (SQLSERVER_CDC.kernel, QLIK_TABLES.kernel)}
HERE = Path(__file__).parent
TABLES = json.loads((HERE / "stored_tables.json").read_text("utf-8"))
STORED = [json.loads(line) for line in (HERE / "stored_rows.jsonl").read_text("utf-8").split("\n") if line]


def rows(table: dict[str, Any]) -> tuple[list[dict[str, Any]], pa.RecordBatch]:
    stored = [line for line in STORED if all(line[n] == table[n] for n in ("dialect", "instance"))]
    types: dict[str, str] = table["types"]
    arrays = [
        pa.array([value(line["row"].get(name), kind) for line in stored], arrow_type(kind))
        for name, kind in types.items()
    ]
    return stored, pa.RecordBatch.from_arrays(arrays, list(types))


@pytest.mark.parametrize("table", [pytest.param(table, id=table["instance"]) for table in TABLES])
def test_ids_and_records_are_those_that_are_stored(table: dict[str, Any]) -> None:
    contract = Contract.model_validate(table["contract"])
    written = Contract.model_validate(table["shape"]).model_copy(update={"mask_order": "big"})
    feed = Feed.model_validate(
        {
            "feed": "sales", "dialect": table["dialect"], "database": "sales", "connection": "none",
            "source": {}, "tables": [{"table": contract.table}],
        }
    )  # fmt: skip
    plan = TablePlan(feed, written, contract, "window")
    stored, read = rows(table)
    kernels = KERNELS[table["dialect"]]
    record = kernels.record(read, table["instance"], feed, Hidden())
    decoded = joined(kernels.decode(read.append_column("source_position", record), plan), plan)
    assert [position["row"].hex().upper() for position in record.to_pylist()] == [
        line["place"] for line in stored
    ]
    assert decoded.column("change_id").to_pylist() == [line["change_id"] for line in stored]
    expected = ["paired" if line["change_id"] is None else "change" for line in stored]
    assert decoded.column("disposition").to_pylist() == expected


def test_there_are_ids_of_every_operation_and_of_pairs() -> None:
    for dialect in ("sqlserver_cdc", "qlik_tables"):
        mine = [line for line in STORED if line["dialect"] == dialect]
        assert {line["change_id"] is None for line in mine} == {True, False}
        assert len(mine) > 30
