"""Warns that a converter may have replaced NULL with the column's DEFAULT, which messages do not show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.kernel import EarlierWindows
from changeledger.kernels.arrow import with_column
from sourcelab.avro_converter import AvroConverter
from sourcelab.messages import Message
from sourcelab.schema_registry import SchemaRegistry
from tests.dialects.debezium.decoding import KEY, batch, block, event, feed
from tests.dialects.debezium.written import field
from tests.dialects.reading import read

FEED = feed()
WITH_DEFAULT = {**field("int32"), "default": 1234, "field": "qty"}


def message(row: Mapping[str, Any], *fields: Mapping[str, Any], op: str = "c") -> Message:
    """An event whose image is `row`: the before image of a delete, else the after image."""
    before, after = (row, None) if op == "d" else (None, row)
    value = {"schema": block(*fields), "payload": event(op, before, after)}
    key = {"schema": {"type": "struct", "name": "s.Key", "fields": [KEY]}, "payload": {"id": row["id"]}}
    return Message("s.dbo.t", json.dumps(key).encode(), json.dumps(value).encode(), (), 0)


def warnings(*messages: Message, in_avro: bool) -> list[str]:
    registry = SchemaRegistry()
    written = list(AvroConverter(registry.register).encoded(messages) if in_avro else messages)
    raw = with_column(batch((m.value for m in written), "s.dbo.t"), "key", pa.array([m.key for m in written]))
    # All messages are decoded, with or without a warning.
    rows = [
        row for batch in read(DEBEZIUM.kernel, raw, FEED, {}, registry.schemas) for row in batch.to_pylist()
    ]
    assert {row["disposition"] for row in rows} == {"change"}
    facts = DEBEZIUM.kernel.facts(raw, registry.schemas)
    discovery = DEBEZIUM.kernel.discover(facts, FEED, EarlierWindows({}, {}, registry.schemas))
    return list(DEBEZIUM.kernel.warnings(discovery))


both = pytest.mark.parametrize("in_avro", [False, True])


@both
def test_a_column_whose_null_may_be_its_default_is_said_with_the_converters_setting(in_avro: bool) -> None:
    note = {**field("string"), "default": "", "field": "note"}
    (said,) = warnings(message({"id": 1, "qty": 1234, "note": ""}, WITH_DEFAULT, note), in_avro=in_avro)
    assert said.startswith('dbo.t: a NULL in qty (1234), note ("") may arrive as the column\'s DEFAULT')
    setting = "ignore.default.for.nullables=true" if in_avro else "replace.null.with.default=false"
    assert said.endswith(f"value.converter.{setting}")


@both
@pytest.mark.parametrize(
    "column",
    [
        {**field("int32"), "field": "qty"},
        {**field("int32"), "field": "qty", "default": None},
        {"type": "int32", "optional": False, "field": "qty", "default": 1234},
    ],
)
def test_without_a_default_or_without_null_there_is_nothing_to_say(
    column: dict[str, Any], in_avro: bool
) -> None:
    assert warnings(message({"id": 1, "qty": 5}, column), in_avro=in_avro) == []


@both
@pytest.mark.parametrize("op", ["c", "d"])
def test_a_null_that_stands_shows_that_the_converter_writes_it(op: str, in_avro: bool) -> None:
    kept = message({"id": 2, "qty": None}, WITH_DEFAULT, op=op)
    assert warnings(message({"id": 1, "qty": 5}, WITH_DEFAULT), kept, in_avro=in_avro) == []


@both
def test_a_null_of_another_column_shows_nothing(in_avro: bool) -> None:
    note = {**field("string"), "field": "note"}
    row = {"id": 1, "qty": 1234, "note": None}
    assert len(warnings(message(row, WITH_DEFAULT, note), in_avro=in_avro)) == 1


def test_of_many_columns_and_long_defaults_some_are_shown() -> None:
    fields = [{**field("string"), "default": "x" * 100, "field": f"c{at}"} for at in range(8)]
    (said,) = warnings(message({"id": 1, **{f"c{at}": "" for at in range(8)}}, *fields), in_avro=False)
    assert "c4" in said
    assert "c5" not in said
    assert "and 3 more columns" in said
    assert "x" * 50 not in said
