"""Warns of columns whose values a connector alters, as its schemas state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.config.tables import TableConfig
from changeledger.dialects.debezium import warnings
from changeledger.dialects.debezium.avro import AvroSchema, described
from changeledger.dialects.debezium.schema_block import described_in_json, of_tables
from changeledger.dialects.messages.samples import Sample
from changeledger.model.contract import Column, Contract
from tests.dialects.debezium.decoding import feed

FEED = feed()
BEGINS = "dbo.t: values differ from the source because the connector is set to alter them: "


def source(kind: str, **members: str) -> dict[str, str]:
    """The parameters that `column.propagate.source.type` adds."""
    return {f"__debezium.source.column.{name}": text for name, text in {"type": kind, **members}.items()}


def sample(fields: list[dict[str, Any]], table: str = "t") -> Sample:
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    payload = {"op": "c", "source": {"schema": "dbo", "table": table}, "after": {}}
    return Sample("s.dbo.t", None, json.dumps({"schema": block, "payload": payload}).encode())


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"type": "string", "parameters": {"masked": "true"}}, "is masked (column.mask.*)"),
        (
            {"type": "string", "parameters": {"truncateLength": "5"}},
            "is cut to 5 characters (column.truncate.to.*.chars)",
        ),
        (
            {"type": "double", "parameters": source("MONEY", length="19", scale="4")},
            "keeps 15 digits of a decimal (decimal.handling.mode)",
        ),
        (
            {
                "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp",
                "parameters": source("DATETIME2", scale="7"),
            },
            "is counted in milliseconds (time.precision.mode)",
        ),
        (
            {
                "type": "int64", "name": "io.debezium.time.MicroTime",
                "parameters": source("TIME", scale="7"),
            },
            "is counted in microseconds (time.precision.mode)",
        ),
        (
            {
                "type": "int64", "name": "io.debezium.time.MicroTimestamp",
                "parameters": source("DATETIME2", scale="6"),
            },
            None,
        ),
        (
            {"type": "string", "parameters": source("DATE", length="10")},
            "is a date in the format of a custom converter (converters)",
        ),
        (
            {"type": "int64", "parameters": source("DATETIME2", scale="7")},
            "is a datetime2 in the format of a custom converter (converters)",
        ),
        (
            {"type": "string", "parameters": source("DATETIMEOFFSET", scale="7")},
            "is a datetimeoffset in the format of a custom converter (converters)",
        ),
        (
            {
                "type": "string", "name": "io.debezium.time.ZonedTimestamp",
                "parameters": source("DATETIMEOFFSET", scale="7"),
            },
            None,
        ),
        (
            {
                "type": "string", "name": "io.debezium.time.IsoDate",
                "parameters": source("DATE", length="10"),
            },
            None,
        ),
        ({"type": "string", "parameters": source("NVARCHAR", length="50")}, None),
        ({"type": "double", "parameters": source("FLOAT")}, None),
        ({"type": "double"}, None),
        ({"type": "string", "parameters": {"masked": "false"}}, None),
    ],
)  # fmt: skip
def test_a_block_says_what_becomes_of_values(field: dict[str, Any], said: str | None) -> None:
    samples = [sample([{"field": "c", **field}]), sample([{"field": "c", **field}], "other")]
    assert warnings.of_altered(described_in_json(of_tables(samples, FEED))) == (
        [] if said is None else [f"{BEGINS}c {said}"]
    )


def test_a_writers_schema_says_it_too() -> None:
    masked = {"type": "string", "connect.parameters": {"masked": "true"}}
    row = {"type": "record", "name": "Value", "fields": [{"name": "c", "type": masked}]}
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": "after", "type": ["null", row]}]}
    read = {("s", "1"): AvroSchema("dbo.t", "dbo.t"), ("s", "2"): AvroSchema()}
    schemas = {"1": json.dumps(schema), "2": json.dumps(schema)}
    samples = {place: [Sample("s", None, b"broken")] for place in read}
    assert warnings.of_altered(described(samples, read, schemas)) == [f"{BEGINS}c is masked (column.mask.*)"]


def unnamed(envelope: dict[str, Any], *stated: str) -> list[str]:
    """Returns the warnings for a table whose Avro rows have these fields.

    `stated`: columns that the feed states.
    """
    fields = [
        {"name": "id", "type": "int"},
        {"name": "at", "type": ["null", "long"]},
        {"name": "day", "type": "int"},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": "string"},
    ]
    row = {"type": "record", "name": "Value", "fields": fields}
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": "after", "type": ["null", row]}]}
    table = {"table": "dbo.t", "columns": [{"name": name, "type": "datetime2(3)"} for name in stated]}
    feed = FEED.model_copy(update={"tables": [TableConfig.model_validate(table)]})
    key = Column(name="id", type="int", ordinal=1, key_position=1, nullable=False)
    read = {
        ("s", "1", ""): AvroSchema("dbo.t", "dbo.t", Contract(table="dbo.t", columns=(key,))),
        ("s", "2", ""): AvroSchema(),
    }
    return warnings.of_unnamed(read, dict.fromkeys(("1", "2"), json.dumps({**schema, **envelope})), feed)


def test_without_the_names_of_connect_a_time_looks_like_a_number() -> None:
    """Without Connect's names, a time looks like a number.

    With `connect.meta.data=false`, Confluent's Avro converter (confluentinc/schema-registry, `AvroData`)
    leaves out `connect.name`, which Debezium's events always have, and keeps Avro's own logical types.
    """
    (said,) = unnamed({})
    assert said.startswith("dbo.t: its Avro schema lacks Connect's names, so times look like numbers: ")
    assert "the types of at, day in `columns:`" in said
    assert said.endswith("value.converter.connect.meta.data=true")
    (said,) = unnamed({}, "AT")
    assert "the types of day in" in said, "the others are stated"
    assert unnamed({}, "at", "day") == []
    assert unnamed({"connect.name": "server1.dbo.t.Envelope"}) == []
