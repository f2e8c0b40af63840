"""Change ids equal those in existing ledgers.

`stored_ids.jsonl`: messages of a simulated source. Each has the `change_id` that version 0.1.0 stored for it
with Spark 4.0.4, as in the Parquet files of that ledger. `stored_contracts.json`: its contracts. Together the
tables have every type of the lake. Never write these ids from a run of the kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Contract

HERE = Path(__file__).parent
CONTRACTS = [
    Contract.model_validate(contract)
    for contract in json.loads((HERE / "stored_contracts.json").read_text("utf-8"))
]
STORED = [json.loads(line) for line in (HERE / "stored_ids.jsonl").read_text("utf-8").splitlines()]


def message(stored: dict[str, Any]) -> dict[str, Any]:
    texts = {name: stored[name].encode() for name in ("key", "value")}
    place = {name: stored[name] for name in ("topic", "partition", "offset")}
    return {**place, **texts, "timestamp": None, "headers": []}


@pytest.mark.parametrize("contract", [pytest.param(c, id=c.table) for c in CONTRACTS])
def test_ids_are_those_that_are_stored(contract: Contract) -> None:
    feed = Feed.model_validate(
        {
            "feed": "sales", "dialect": "debezium", "database": "sales", "connection": "none",
            "source": {"topics": ["*"], "decimal.handling.mode": "string"},
            "tables": [{"table": contract.table}],
        }
    )  # fmt: skip
    stored = [line for line in STORED if line["table"] == contract.table]
    raw = pa.RecordBatch.from_pylist([message(line) for line in stored], MESSAGE)
    names = {c.name for c in contract.columns}
    lacking = {c for c in names if not any(f'"{c}"' in line["value"] for line in stored)}
    writer = contract.model_copy(
        update={"columns": tuple(c for c in contract.columns if c.name not in lacking)}
    )
    decoded = decode(raw, TablePlan(feed, writer, contract, "window", database="sales"))
    assert decoded.column("disposition").unique().to_pylist() == ["change"]
    assert decoded.column("change_id").to_pylist() == [line["change_id"] for line in stored]


def test_there_are_ids_of_every_type() -> None:
    kinds = {c.spark_type.partition("(")[0] for contract in CONTRACTS for c in contract.columns}
    assert kinds == {
        "boolean", "smallint", "int", "bigint", "float", "double", "decimal", "date", "timestamp_ntz",
        "string", "binary",
    }  # fmt: skip
