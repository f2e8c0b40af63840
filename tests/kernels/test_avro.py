"""Avro records as JSON: all of a record, and nothing but it."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from changeledger.kernels.avro import BrokenRecord, NotUtf8, Schema, UnusableSchema

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


def written(**members: Any) -> bytes:
    body = BytesIO()
    plain = json.loads(json.dumps(SCHEMA).replace('"logicalType": "decimal", ', ""))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), {"before": None, "note": None, **members})
    return body.getvalue()


def row(**cells: Any) -> dict[str, Any]:
    return {"id": 1, "Größe 1": None, "data": None, "list": [], **cells}


def test_a_record_is_the_json_of_its_values() -> None:
    """Bytes as base64, and logical types as they are stored."""
    found = Schema(json.dumps(SCHEMA)).json(written(after=row(data=b"\x04\x63", list=[1.5, None])))
    assert json.loads(found) == {"before": None, "after": row(data="BGM=", list=[1.5, None]), "note": None}


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_what_is_no_number_of_json_is_not_null(number: str) -> None:
    cells = row(**{"Größe 1": float(number)}, list=[float(number)])
    found = json.loads(Schema(json.dumps(SCHEMA)).json(written(after=cells)))
    assert found["after"]["Größe 1"] == number
    assert found["after"]["list"] == [number]


def test_a_record_uses_up_its_bytes() -> None:
    schema, whole = Schema(json.dumps(SCHEMA)), written(after=row())
    for broken in (whole + b"\0", whole[:-1], b"", b"\x02\x02\x01"):
        with pytest.raises(BrokenRecord):
            schema.json(broken)


def test_text_that_is_not_utf8_names_its_member() -> None:
    broken = written(after=row(), note="abc").replace(b"abc", b"a\xffc")
    with pytest.raises(NotUtf8, match="note"):
        Schema(json.dumps(SCHEMA)).json(broken)


@pytest.mark.parametrize("text", ["", "{}", '"int"', '{"type": "record", "name": "a"}', "[" * 100_000])
def test_what_is_no_schema_of_a_record_cannot_be_used(text: str) -> None:
    with pytest.raises(UnusableSchema):
        Schema(text)
