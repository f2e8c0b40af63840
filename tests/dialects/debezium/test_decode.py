"""Properties of every batch of Debezium messages."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.debezium.decode import decode
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.debezium.discovery import discover
from changeledger.dialects.debezium.facts import facts
from changeledger.dialects.debezium.plan import TablePlan, table_plan
from changeledger.dialects.kernel import EarlierWindows, ResolvedSchema
from changeledger.dialects.messages import samples
from changeledger.dialects.messages.message_rows import decoded_schema
from tests.dialects.debezium.decoding import only_one_by_one
from tests.dialects.debezium.test_cases import ALL, decoded
from tests.dialects.golden import Case
from tests.dialects.reading import records_of

CASES = pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])


def rows(batches: list[pa.RecordBatch]) -> dict[Any, Any]:
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


@CASES
def test_what_is_read_by_types_is_what_is_read_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    by_types = rows(decoded(case))

    only_one_by_one(monkeypatch)
    assert rows(decoded(case)) == by_types


@CASES
def test_a_batch_cut_anywhere_gives_the_same_rows(case: Case) -> None:
    whole, size = rows(decoded(case)), case.messages.num_rows
    cut = Random(case.folder.name).randrange(size + 1)
    parts = [case.messages.slice(0, cut), case.messages.slice(cut)]
    assert {k: v for part in parts for k, v in rows(decoded(case, part)).items()} == whole


@CASES
def test_facts_of_parts_are_the_facts_of_the_whole(case: Case) -> None:
    size = case.messages.num_rows
    cut = Random(case.folder.name).randrange(size + 1)
    parts = [facts(part, case.schemas) for part in (case.messages.slice(0, cut), case.messages.slice(cut))]
    assert samples.merged(parts).equals(facts(case.messages, case.schemas))


def only_table(name: str) -> tuple[pa.RecordBatch, TablePlan]:
    """Returns the messages and the plan of the only table of a case."""
    case = next(case for case in ALL if case.folder.name == name)
    assert case.stated is not None
    known = {case.stated.table: case.stated}
    discovery = discover(
        facts(case.messages, case.schemas), case.feed, EarlierWindows(known, {}, case.schemas)
    )
    plan = table_plan(
        discovery,
        0,
        case.feed,
        ResolvedSchema(discovery.tables[0].writer_schema or case.stated),
        case.stated,
        "window",
    )
    return records_of(DEBEZIUM.kernel, 0, case.messages, discovery), plan


@pytest.mark.parametrize("name", ["operations", "avro_two_schemas"])
def test_a_plan_can_be_pickled(name: str) -> None:
    records, plan = only_table(name)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert decode(records, copy).equals(decode(records, plan))


def test_the_types_are_the_ledgers() -> None:
    records, plan = only_table("temporal_types")
    decoded = decode(records, plan)
    assert decoded.schema.equals(decoded_schema(plan.contract))
    assert decoded.schema.field("after").type.field("dt").type == pa.timestamp("us")
    assert decoded.schema.field("after").type.field("d").type == pa.date32()
    decoded.validate(full=True)


def test_a_batch_of_spark_names_the_parts_of_its_lists_otherwise() -> None:
    records, plan = only_table("operations")
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    fields = {
        "headers": pa.field("headers", pa.list_(pa.field("element", header))),
        "topic": pa.field("topic", pa.string(), nullable=False),
    }
    of_spark = pa.schema([fields.get(field.name, field) for field in records.schema])
    columns = [column.cast(field.type) for column, field in zip(records.columns, of_spark, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=of_spark)
    assert decode(batch, plan).equals(decode(records, plan))


def test_an_empty_batch_has_no_rows() -> None:
    records, plan = only_table("operations")
    assert decode(records.slice(0, 0), plan).num_rows == 0
