"""Ids that ledgers hold already, beside the messages that they are of.

`stored_ids.jsonl`: messages of a simulated source, each with the `change_id` that version 0.1.0 stored for it
with Spark 4.0.4, as the Parquet files of that ledger have it; `stored_contracts.json`: the writer schema and
the table's contract, by the number in `schema`. Never write these ids from a run of the kernels.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.messages.message_rows import decoded_schema
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Contract


class Stored(NamedTuple):
    """Messages of one writer schema, and the ids of their changes."""

    writer_schema: Contract
    contract: Contract
    messages: pa.RecordBatch
    ids: list[str]


def stored(folder: Path) -> list[Stored]:
    # Texts have the line ends of Unicode in them.
    texts = (folder / "stored_ids.jsonl").read_text("utf-8").split("\n")
    lines = [json.loads(text) for text in texts if text]
    found = []
    for number, one in enumerate(json.loads((folder / "stored_contracts.json").read_text("utf-8"))):
        mine = [line for line in lines if line["schema"] == number]
        if mine:
            written, contract = (Contract.model_validate(one[name]) for name in ("writer", "contract"))
            batch = pa.RecordBatch.from_pylist([_message(line) for line in mine], MESSAGE)
            found.append(Stored(written, contract, batch, [line["change_id"] for line in mine]))
    return found


def _message(line: dict[str, Any]) -> dict[str, Any]:
    place = {name: line[name] for name in ("topic", "partition", "offset")}
    return {**place, "key": None, "value": line["value"].encode(), "timestamp": None, "headers": []}


def feed(dialect: str) -> Feed:
    return Feed.model_validate(
        {"feed": "sales", "dialect": dialect, "database": "sales", "connection": "none",
         "source": {"topics": ["*"]}, "tables": [{"table": "dbo.orders"}]}
    )  # fmt: skip


# Of a batch, by a dialect's plan of the table.
Decode = Callable[[pa.RecordBatch, Any], pa.RecordBatch]


def assert_stored_ids(decode: Decode, plan: Any, one: Stored) -> None:
    found = decode(one.messages, plan)
    assert found.column("disposition").unique().to_pylist() == ["change"]
    assert found.column("change_id").to_pylist() == one.ids


def assert_cut_anywhere(decode: Decode, plan: Any, one: Stored) -> None:
    """A batch cut in two gives the rows of the whole one; the plan travels."""
    plan = pickle.loads(pickle.dumps(plan))
    whole, cut = decode(one.messages, plan), one.messages.num_rows // 3
    parts = [decode(one.messages.slice(0, cut), plan), decode(one.messages.slice(cut), plan)]
    assert pa.Table.from_batches(parts).combine_chunks().to_pylist() == whole.to_pylist()
    assert whole.schema.equals(decoded_schema(one.contract))
    whole.validate(full=True)
    assert decode(one.messages.slice(0, 0), plan).num_rows == 0
