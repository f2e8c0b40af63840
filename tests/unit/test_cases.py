"""Golden cases: each folder below tests/cases/<dialect>/ is one. Adding a case needs no code.

* `input.jsonl`: raw records. Of a message: topic, key, value (text, or `key_hex`, `value_hex`), headers,
  timestamp. Of a change table: its row; `0x...` in a binary column is hex.
* `expected.jsonl`: for each of them, in their order, what the specification says that it becomes: the
  members of MEMBERS that are not NULL. Of a record that is no change only disposition and reason.
  Decimals are text without trailing zeros, binary is `0x...`.
* `contract.json`: the table's contract, where the messages do not tell it.
* `shape.json`: the columns of the change table, where the contract has others.
* `feed.yaml`: members of the feed that differ from the default ones.
* `schemas.json`: the Avro schemas that a registry has, by their ids.
* `types.json`: Spark types of raw columns that differ from the contract's.
* `order.json`: where the case is about order: the numbers of its changes, from 1, as the source has them.
* `fault.txt`: why the case does not pass yet.

`<<x*1000>>` in a text stands for a thousand x.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.conftest import MESSAGE, compiled

from changeledger.change import quoted
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects.base import Known, MessageDialect, TableDialect
from changeledger.dialects.registry import DIALECTS
from changeledger.dialects.table_rows import stored_names
from changeledger.images import fitted
from changeledger.reconcile.pairs import join_images

CASES = Path(__file__).parents[1] / "cases"
MEMBERS = (
    "operation", "key", "previous_key", "before", "after", "before_gaps", "after_gaps", "changed",
    "commit_lsn", "change_lsn", "ordinal", "committed_at", "transaction_id", "flags",
)  # fmt: skip
SORT_KEY = "sort_key"
SOURCES: dict[str, dict[str, Any]] = {
    "debezium": {"source": {"topics": ["server1.*"]}},
    "qlik_tables": {"source": {}},
    "qlik_messages": {"source": {"topics": ["qlik.*"]}, "tables": [{"table": "dbo.items"}]},
    "ces": {"source": {"topics": ["shop.changes"]}},
    "sqlserver_cdc": {"source": {}},
}
HEADER_TYPES = {
    "__$start_lsn": "binary",
    "__$end_lsn": "binary",
    "__$seqval": "binary",
    "__$operation": "int",
    "__$update_mask": "binary",
    "__$command_id": "int",
    "__$commit_time": "timestamp_ntz",
    "header__timestamp": "timestamp_ntz",
}


def lines(path: Path) -> list[dict[str, Any]]:
    def full(text: str) -> str:
        return re.sub(r"<<(.)\*(\d+)>>", lambda found: found[1] * int(found[2]), text)

    return [json.loads(full(line)) for line in path.read_text("utf-8").split("\n") if line.strip()]


@dataclass(frozen=True)
class Case:
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.dialect}/{self.folder.name}"

    @property
    def dialect(self) -> str:
        return self.folder.parent.name

    @property
    def fault(self) -> str | None:
        note = self.folder / "fault.txt"
        return note.read_text("utf-8").strip() if note.exists() else None

    @cached_property
    def stated(self) -> Contract | None:
        path = self.folder / "contract.json"
        return Contract.model_validate_json(path.read_text("utf-8")) if path.exists() else None

    @cached_property
    def schemas(self) -> dict[str, str]:
        path = self.folder / "schemas.json"
        told = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return {number: json.dumps(schema) for number, schema in told.items()}

    @cached_property
    def feed(self) -> Feed:
        path = self.folder / "feed.yaml"
        return Feed.model_validate(
            {
                "feed": "golden", "dialect": self.dialect, "database": "shop", "connection": "shop",
                **SOURCES[self.dialect],
                **({"tables": [{"table": self.stated.table}]} if self.stated else {}),
                **(yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}),
            }
        )  # fmt: skip

    @cached_property
    def order(self) -> list[int]:
        path = self.folder / "order.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else []

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        return lines(self.folder / "input.jsonl")

    @cached_property
    def expected(self) -> list[dict[str, Any]]:
        return lines(self.folder / "expected.jsonl")


ALL = [Case(folder) for folder in sorted(CASES.glob("*/*")) if folder.is_dir()]


def data(record: dict[str, Any], member: str) -> bytes | None:
    if f"{member}_hex" in record:
        return bytes.fromhex(record[f"{member}_hex"])
    text = record.get(member)
    # A lone surrogate stays one, for the reader to meet.
    return None if text is None else text.encode("utf-8", "surrogatepass")


def plain(value: Any) -> Any:
    """A Spark value as the JSON of a case says it."""
    if isinstance(value, Row):
        return {name: plain(value[name]) for name in value.__fields__}
    if isinstance(value, bytes | bytearray):
        return "0x" + value.hex().upper()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, Decimal):
        # Its scale is the contract's; only the number is compared.
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, date):
        return value.isoformat()
    return value


def outcome(row: Row) -> dict[str, Any]:
    if row["disposition"] == "change":
        names: tuple[str, ...] = ("disposition", *MEMBERS)
    else:
        names = ("disposition", "reason")
    return {n: plain(row[n]) for n in (*names, SORT_KEY) if n in row and row[n] is not None}


def decoded(frame: DataFrame, apart: bool = False) -> dict[int, dict[str, Any]]:
    """Outcomes by the record's offset, as the normalize stage would have them."""
    told = join_images(frame) if apart else frame
    shown = {"committed_at": F.col("committed_at").cast("string")} if "committed_at" in told.columns else {}
    for name in ("commit_lsn", "change_lsn", SORT_KEY):
        if name in told.columns:
            shown[name] = F.hex(name)
    kept = [n for n in ("record", "disposition", "reason", *MEMBERS, SORT_KEY) if n in told.columns]
    return {row["record"]["offset"]: outcome(row) for row in told.withColumns(shown).select(*kept).collect()}


class Outcomes:
    """What the records of the cases became; message cases of one contract are decoded in one job."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[str, list[dict[str, Any] | None]] = {}
        self._broken: set[Case] = set()

    def of(self, case: Case) -> list[dict[str, Any] | None]:
        if case.name not in self._known:
            if isinstance(DIALECTS[case.dialect], MessageDialect):
                self._decode_together(case)
            else:
                self._decode_rows(case)
        return self._known[case.name]

    def _decode_together(self, case: Case) -> None:
        alike = self._alike(case)
        try:
            # Compiling is worth its time where a plan reads many cases.
            with compiled(self._spark) if len(alike) > 1 else nullcontext():
                self._decode_messages([case] if self._broken & set(alike) else alike)
        except PySparkException:
            # One message that stops the job is the fault of its own case alone.
            self._broken.update(alike)
            self._decode_messages([case])

    def _alike(self, case: Case) -> list[Case]:
        if case.fault or case.schemas:
            return [case]
        mine = (case.dialect, case.feed, case.stated)
        return [
            c
            for c in ALL
            if not (c.fault or c.schemas) and c.stated and (c.dialect, c.feed, c.stated) == mine
        ] or [case]

    def _decode_messages(self, cases: list[Case]) -> None:
        dialect, feed = DIALECTS[cases[0].dialect], cases[0].feed
        assert isinstance(dialect, MessageDialect)
        stated = cases[0].stated
        place: dict[int, tuple[str, int]] = {}
        rows: list[tuple[Any, ...]] = []
        for case in cases:
            for at, record in enumerate(case.records):
                offset = len(place)
                place[offset] = (case.name, at)
                headers = [(k, v.encode()) for k, v in record.get("headers", {}).items()]
                key, value = data(record, "key"), data(record, "value")
                sent = record.get("timestamp") and datetime.fromisoformat(record["timestamp"])
                rows.append((record["topic"], 0, offset, sent, key, value, headers))
        raw = self._spark.createDataFrame(rows, MESSAGE)
        known = Known({stated.table: stated} if stated else {}, {}, cases[0].schemas)
        survey = dialect.survey(raw, feed, known)
        found = decoded(dialect.decode_other(survey.others, feed))
        for table, shape, records in survey.told:
            contract = stated if stated and stated.table == table else shape
            assert contract is not None, "neither the messages nor contract.json tell the columns"
            found |= decoded(
                fitted(dialect.decode(records, shape or contract, feed), shape or contract, contract)
            )
        for case in cases:
            self._known[case.name] = [None] * len(case.records)
        for offset, result in found.items():
            name, at = place[offset]
            self._known[name][at] = result

    def _decode_rows(self, case: Case) -> None:
        contract = case.stated
        assert contract is not None, "change tables do not tell their contract in a row"
        shape_file, types_file = case.folder / "shape.json", case.folder / "types.json"
        shape = (
            Contract.model_validate_json(shape_file.read_text("utf-8")) if shape_file.exists() else contract
        )
        types = HEADER_TYPES | {c.name: c.spark_type for c in (*contract.columns, *shape.columns)}
        types |= json.loads(types_file.read_text("utf-8")) if types_file.exists() else {}
        names = list(dict.fromkeys(name for record in case.records for name in record["row"]))
        texts = [(at, {n: text(v) for n, v in r["row"].items()}) for at, r in enumerate(case.records)]
        frame = self._spark.createDataFrame(texts, "at bigint, cells map<string,string>")
        raw = frame.select("at", *(column(n, types.get(n, "string")).alias(n) for n in names))
        read = raw.drop("at")
        dialect = DIALECTS[case.dialect]
        assert isinstance(dialect, TableDialect)
        placed = dialect.record(read, case.records[0]["table"].removesuffix("_CT"), case.feed)
        rows = raw.select(
            placed.withField("offset", F.col("at")).alias("record"),
            *(F.col(quoted(n)).alias(s) for n, s in zip(names, stored_names(read.dtypes, {}), strict=True)),
        )
        found = decoded(fitted(dialect.decode(rows, shape, case.feed), shape, contract), dialect.images_apart)
        self._known[case.name] = [found.get(at) for at in range(len(case.records))]


def text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def column(name: str, kind: str) -> Any:
    cell = F.element_at("cells", F.lit(name))
    if kind == "binary":
        return F.to_binary(F.substring(cell, 3, 1_000_000), F.lit("hex"))
    return cell.cast(kind)


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession) -> Outcomes:
    return Outcomes(spark)


def parameters() -> list[Any]:
    return [
        pytest.param(
            case, id=case.name, marks=pytest.mark.xfail(reason=case.fault, strict=True) if case.fault else ()
        )
        for case in ALL
    ]


@pytest.mark.parametrize("case", parameters())
def test_a_case_becomes_what_the_specification_says(outcomes: Outcomes, case: Case) -> None:
    found = outcomes.of(case)
    said = [one and {name: value for name, value in one.items() if name != SORT_KEY} for one in found]
    assert said == case.expected


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ALL if case.order])
def test_the_order_is_the_sources(outcomes: Outcomes, case: Case) -> None:
    changes = [at for at, one in enumerate(outcomes.of(case), 1) if one and one["disposition"] == "change"]
    assert sorted(case.order) == changes
    found = {at: outcomes.of(case)[at - 1] for at in changes}
    assert sorted(changes, key=lambda at: (found[at] or {})[SORT_KEY]) == case.order


def test_there_are_cases_of_every_dialect() -> None:
    assert {case.dialect for case in ALL} == set(DIALECTS)
