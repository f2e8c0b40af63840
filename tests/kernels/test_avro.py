"""Avro records become JSON with all their fields, and consume exactly their bytes."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema
from changeledger.kernels.avro_types import UnusableSchema

ROW = {"type": "record", "name": "Row", "namespace": "s.dbo.t", "fields": [
    {"name": "id", "type": "long"},
    {"name": "Größe 1", "type": ["null", "double"], "default": None},
    {"name": "data", "type": ["null", {
        "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2,
    }]},
    {"name": "list", "type": {"type": "array", "items": ["null", "float"]}},
]}  # fmt: skip
SCHEMA = {"type": "record", "name": "Envelope", "fields": [
    {"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "s.dbo.t.Row"]},
    {"name": "note", "type": ["null", "string"]},
]}  # fmt: skip


FIXED = {"type": "fixed", "name": "x"}


def written(**members: Any) -> bytes:
    body = BytesIO()
    plain = json.loads(json.dumps(SCHEMA).replace('"logicalType": "decimal", ', ""))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), {"before": None, "note": None, **members})
    return body.getvalue()


def row(**cells: Any) -> dict[str, Any]:
    return {"id": 1, "Größe 1": None, "data": None, "list": [], **cells}


def test_a_record_is_the_json_of_its_values() -> None:
    """Bytes become base64; logical types keep their stored value."""
    text = Schema(json.dumps(SCHEMA)).json(written(after=row(data=b"\x04\x63", list=[1.5, None])))
    assert json.loads(text) == {"before": None, "after": row(data="BGM=", list=[1.5, None]), "note": None}


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_what_is_no_number_of_json_is_not_null(number: str) -> None:
    cells = row(**{"Größe 1": float(number)}, list=[float(number)])
    decoded = json.loads(Schema(json.dumps(SCHEMA)).json(written(after=cells)))
    assert decoded["after"]["Größe 1"] == number
    assert decoded["after"]["list"] == [number]


def test_a_record_uses_up_its_bytes() -> None:
    schema, whole = Schema(json.dumps(SCHEMA)), written(after=row())
    for broken in (whole + b"\0", whole[:-1], b"", b"\x02\x02\x01"):
        with pytest.raises(BrokenRecord):
            schema.json(broken)


def test_text_that_is_not_utf8_names_its_member() -> None:
    broken = written(after=row(), note="abc").replace(b"abc", b"a\xffc")
    with pytest.raises(NotUtf8, match="note"):
        Schema(json.dumps(SCHEMA)).json(broken)


def record(name: str = "r", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def doubling(types: int) -> dict[str, Any]:
    """Each of these types contains the one before it twice."""
    inner = record("t0", x="int")
    return record(
        **{f"f{n}": record(f"t{n}", a=f"t{n - 1}", b=f"t{n - 1}") if n else inner for n in range(types)}
    )


def chained(types: int) -> dict[str, Any]:
    inner = record("t0", x="int")
    return record(**{f"f{n}": record(f"t{n}", a=f"t{n - 1}") if n else inner for n in range(types)})


def nested(depth: int) -> Any:
    return "int" if depth == 0 else {"type": "array", "items": nested(depth - 1)}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("", "not an Avro schema"),
        ("{", "not an Avro schema"),
        ("{}", "not an Avro schema"),
        ('"string"', "not of a record"),
        ('{"type": "object"}', "'object' that it does not define"),
        ('{"type": "record", "name": "a"}', "not an Avro schema"),
        ('syntax = "proto3";', "not an Avro schema"),
        (json.dumps(record(a="other.Type")), "'other.Type' that it does not define"),
        (json.dumps(record(next=["null", "r"])), "r contains itself"),
        (json.dumps(record(a={"type": "fixed", "name": "x"})), "not an Avro schema"),
        (json.dumps(record(a=record("x"), b=record("x"))), "x is defined twice"),
        (json.dumps(record(a=nested(60))), "more than 50 deep"),
        (json.dumps(record(a={"type": "enum", "name": "e", "symbols": ["a b"]})), "not names"),
        (json.dumps({**record(), "fields": 1}), "not an Avro schema"),
        ("[" * 100_000, "not an Avro schema"),
        (json.dumps(chained(60)), "more than 50 deep"),
        (json.dumps(chained(400)), "more than 50 deep"),
        (json.dumps(doubling(20)), "more than 200,000 types"),
        (json.dumps(record(a={"type": "array", "items": "null"})), "array elements that take no byte"),
        (json.dumps(record(a={"type": "map", "values": record("e")})), "map elements that take no byte"),
        (json.dumps(record(a={"type": "array", "items": record("e", b=["null"], c="int")})), "take no byte"),
        (json.dumps(record(a={"type": "array", "items": {**FIXED, "size": 0}})), "take no byte"),
        (json.dumps(record(a={**FIXED, "size": float("inf")})), "not an Avro schema"),
        (json.dumps(record(a={"type": "enum", "name": "e", "symbols": ["A", "A"]})), "not an Avro schema"),
    ],
)
def test_what_is_no_schema_of_a_record_says_why(schema: str, why: str) -> None:
    with pytest.raises(UnusableSchema, match=why):
        Schema(schema)


def test_columns_have_the_names_that_they_are_given() -> None:
    """Columns keep their names, although Avro names have no spaces."""
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    value = {**record("Value", **{"a b": "int", "A B": ["null", money]}), "namespace": "s.dbo.t"}
    schema = Schema(json.dumps(record("Envelope", before=["null", value], after=["null", "s.dbo.t.Value"])))
    after = schema.root.fields["after"]
    assert list(after.fields) == ["a b", "A B"]
    assert after.fields["A B"].properties["scale"] == 2
    # `before` is null. `after` has 1, and the bytes 04 63 in the second branch.
    decoded = json.loads(schema.json(b"\0\2\2\2\4\x04\x63"))
    assert decoded == {"before": None, "after": {"a b": 1, "A B": "BGM="}}


def test_a_name_without_namespace_is_of_the_one_around_it() -> None:
    inner = record("Inner", x="int")
    outer = {**record("Outer", a=inner, b="Inner", c="n.s.Inner"), "namespace": "n.s"}
    assert [node.name for node in Schema(json.dumps(outer)).root.fields.values()] == ["n.s.Inner"] * 3
