"""Golden cases: each folder below tests/cases/<dialect>/ is a case. Adding a case needs no code.

* `input.jsonl`: raw records. A message has topic, partition (0 if not stated), key and value (text, or
  `key_hex`, `value_hex`), headers and timestamp; its offset is its index in the file. A change table has
  rows; `0x...` in a binary column is hex.
* `expected.jsonl`: for each record, in order, the result by the specification: the members of MEMBERS that
  are not NULL. A record that is no change has only disposition and reason. Decimals are text without trailing
  zeros, binary is `0x...`.
* `contract.json`: the table's contract, if the messages do not have it.
* `shape.json`: the columns of the change table, if the contract has other ones.
* `feed.yaml`: members of the feed that differ from the defaults.
* `schemas.json`: the Avro schemas of a registry, by id.
* `types.json`: Spark types of raw columns that differ from the contract's.
* `order.json`: in cases about order, the numbers of the changes, from 1, in the source's order.

`<<x*1000>>` in a text means a thousand x.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Contract

CASES = Path(__file__).parents[1] / "cases"
MEMBERS = (
    "operation", "key", "previous_key", "before", "after", "before_unknown_columns", "after_unknown_columns",
    "changed", "commit_lsn", "change_lsn", "event_serial_no", "committed_at", "transaction_id", "flags",
)  # fmt: skip
_IN_HEX = ("commit_lsn", "change_lsn", "sort_key")
# A feed's default settings, by dialect.
SETTINGS: dict[str, dict[str, Any]] = {
    "debezium": {"source": {"topics": ["server1.*"]}},
    "ces": {"source": {"topics": ["shop.changes"]}},
    "qlik_messages": {"source": {"topics": ["qlik.*"]}, "tables": [{"table": "dbo.items"}]},
    "qlik_tables": {"source": {}},
    "sqlserver_cdc": {"source": {}},
}


def lines(path: Path) -> list[dict[str, Any]]:
    def full(text: str) -> str:
        return re.sub(r"<<(.)\*(\d+)>>", lambda match: match[1] * int(match[2]), text)

    return [json.loads(full(line)) for line in path.read_text("utf-8").split("\n") if line.strip()]


@dataclass(frozen=True)
class Case:
    """A golden case: a folder and its files."""

    folder: Path

    @cached_property
    def stated(self) -> Contract | None:
        path = self.folder / "contract.json"
        return Contract.model_validate_json(path.read_text("utf-8")) if path.exists() else None

    @cached_property
    def schemas(self) -> dict[str, str]:
        path = self.folder / "schemas.json"
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return {number: json.dumps(schema) for number, schema in known.items()}

    @cached_property
    def feed(self) -> Feed:
        path = self.folder / "feed.yaml"
        return Feed.model_validate(
            {
                "feed": "golden", "dialect": self.folder.parent.name,
                "database": "shop", "connection": "shop",
                **SETTINGS[self.folder.parent.name],
                **({"tables": [{"table": self.stated.table}]} if self.stated else {}),
                **(yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}),
            }
        )  # fmt: skip

    @cached_property
    def order(self) -> list[int]:
        path = self.folder / "order.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else []

    @cached_property
    def expected(self) -> list[dict[str, Any]]:
        return lines(self.folder / "expected.jsonl")

    @cached_property
    def messages(self) -> pa.RecordBatch:
        rows = [_message(at, record) for at, record in enumerate(lines(self.folder / "input.jsonl"))]
        return pa.RecordBatch.from_pylist(rows, MESSAGE)


def cases(dialect: str) -> list[Case]:
    return [Case(folder) for folder in sorted((CASES / dialect).glob("*")) if folder.is_dir()]


def _message(offset: int, record: dict[str, Any]) -> dict[str, Any]:
    sent = record.get("timestamp")
    return {
        "topic": record["topic"],
        "partition": record.get("partition", 0),
        "offset": offset,
        "timestamp": sent and datetime.fromisoformat(sent),
        "key": _data(record, "key"),
        "value": _data(record, "value"),
        "headers": [{"key": k, "value": v.encode()} for k, v in record.get("headers", {}).items()],
    }


def _data(record: dict[str, Any], member: str) -> bytes | None:
    if f"{member}_hex" in record:
        return bytes.fromhex(record[f"{member}_hex"])
    text = record.get(member)
    # Keeps a lone surrogate, for the decoder to refuse.
    return None if text is None else text.encode("utf-8", "surrogatepass")


def assert_as_expected(case: Case, results: Mapping[int, dict[str, Any]]) -> None:
    """Asserts that the results (see `outcomes`) are the case's expected ones."""
    said = [{n: v for n, v in results[at].items() if n != "sort_key"} for at in range(len(case.expected))]
    assert said == case.expected


def assert_in_order(case: Case, results: Mapping[int, dict[str, Any]]) -> None:
    """Asserts that sort keys order the changes as the source does. The case counts records from 1."""
    changes = [at + 1 for at in sorted(results) if results[at]["disposition"] == "change"]
    assert sorted(case.order) == changes
    keys = {at: results[at - 1]["sort_key"] for at in changes}
    assert sorted(changes, key=lambda at: str(keys[at])) == case.order
    assert len(set(keys.values())) == len(changes), "no two changes are at one place"


def outcomes(batches: list[pa.RecordBatch]) -> dict[int, dict[str, Any]]:
    """Results by offset, in the form of `expected.jsonl`, plus `sort_key`."""
    by_offset = {}
    for batch in batches:
        for row in batch.to_pylist():
            is_change = row["disposition"] == "change"
            names = ("disposition", *MEMBERS, "sort_key") if is_change else ("disposition", "reason")
            said = {name: _plain(row[name], name) for name in names if row[name] is not None}
            by_offset[row["source_position"]["offset"]] = said
    return by_offset


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, bytes):
        return value.hex().upper() if name in _IN_HEX else "0x" + value.hex().upper()
    if isinstance(value, dict):
        return {member: _plain(cell, "") for member, cell in value.items()}
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        # As Spark prints a timestamp.
        return text.rstrip("0").rstrip(".") if name == "committed_at" and "." in text else text
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, list) and name.endswith("unknown_columns"):
        return dict(value)
    return value.isoformat() if hasattr(value, "isoformat") else value
