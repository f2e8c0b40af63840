"""Change ids in existing ledgers, with their messages.

`stored_ids.jsonl`: messages of a simulated source. Each has the `change_id` that version 0.1.0 stored for it
with Spark 4.0.4, as in the Parquet files of that ledger. `stored_contracts.json`: the writer schema and the
table's contract, by the number in `schema`. Never write these ids from a run of the kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Contract


class Stored(NamedTuple):
    """Messages of one writer schema, and the ids of their changes."""

    writer_schema: Contract
    contract: Contract
    messages: pa.RecordBatch
    ids: list[str]


def stored(folder: Path) -> list[Stored]:
    # Splits at line feeds only: texts contain Unicode line separators.
    texts = (folder / "stored_ids.jsonl").read_text("utf-8").split("\n")
    lines = [json.loads(text) for text in texts if text]
    groups = []
    for number, contracts in enumerate(json.loads((folder / "stored_contracts.json").read_text("utf-8"))):
        mine = [line for line in lines if line["schema"] == number]
        if mine:
            written, contract = (Contract.model_validate(contracts[name]) for name in ("writer", "contract"))
            batch = pa.RecordBatch.from_pylist([_message(line) for line in mine], MESSAGE)
            groups.append(Stored(written, contract, batch, [line["change_id"] for line in mine]))
    return groups


def _message(line: dict[str, Any]) -> dict[str, Any]:
    place = {name: line[name] for name in ("topic", "partition", "offset")}
    return {**place, "key": None, "value": line["value"].encode(), "timestamp": None, "headers": []}


def feed(dialect: str) -> Feed:
    """A feed with settings that are mappings: kernels cache by the plan, which includes the feed."""
    checked = [{"expect_column_values_to_not_be_null": {"column": "id"}}]
    told = [{"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "with": {"to": "team"}}]
    return Feed.model_validate(
        {"feed": "sales", "dialect": dialect, "database": "sales", "connection": "none", "notify": told,
         "source": {"topics": ["*"]}, "tables": [{"table": "dbo.orders", "expectations": checked}]}
    )  # fmt: skip
