"""Writers' schemas: which of them can be read, and what of them Spark gets to see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.dialects.avro import Schema, UnusableSchema


def record(name: str = "r", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def nested(depth: int) -> Any:
    return "int" if depth == 0 else {"type": "array", "items": nested(depth - 1)}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "no Avro schema"),
        ('"string"', "not of a record"),
        ('{"type": "object"}', "'object' that it does not define"),
        ('syntax = "proto3";', "no Avro schema"),
        (json.dumps(record(a="other.Type")), "'other.Type' that it does not define"),
        (json.dumps(record(next=["null", "r"])), "r holds itself"),
        (json.dumps(record(a={"type": "fixed", "name": "x"})), "no Avro schema"),
        (json.dumps(record(a=record("x"), b=record("x"))), "x is defined twice"),
        (json.dumps(record(a=nested(60))), "more than 50 deep"),
        (json.dumps(record(a={"type": "enum", "name": "e", "symbols": ["a b"]})), "no names"),
        (json.dumps({**record(), "fields": 1}), "no Avro schema"),
        ("[" * 100_000, "no Avro schema"),
    ],
)
def test_what_is_no_schema_of_a_record_says_why(schema: str, why: str) -> None:
    with pytest.raises(UnusableSchema, match=why):
        Schema(schema)


def test_spark_sees_places_instead_of_names_and_no_logical_types() -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    row = {**record("Value", **{"a b": "int", "A B": ["null", money]}), "namespace": "s.dbo.t"}
    schema = Schema(json.dumps(record("Envelope", before=["null", row], after=["null", "s.dbo.t.Value"])))
    plain = {"type": "record", "name": "t2", "fields": [{"name": "f0", "type": "int"}]}
    plain["fields"].append({"name": "f1", "type": ["null", "bytes"]})  # type: ignore[attr-defined]
    assert schema.plain == {
        "type": "record",
        "name": "t1",
        "fields": [{"name": "f0", "type": ["null", plain]}, {"name": "f1", "type": ["null", "t2"]}],
    }
    assert list(schema.root.fields["after"].fields) == ["a b", "A B"]
    assert schema.root.fields["after"].fields["A B"].properties["scale"] == 2


def test_a_name_without_namespace_is_of_the_one_around_it() -> None:
    inner = record("Inner", x="int")
    outer = {**record("Outer", a=inner, b="Inner", c="n.s.Inner"), "namespace": "n.s"}
    assert [node.name for node in Schema(json.dumps(outer)).root.fields.values()] == ["n.s.Inner"] * 3
