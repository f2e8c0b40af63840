"""Cells of Qlik's Avro messages have the values of the same message in JSON, or are refused.

Qlik's page "Kafka target data types" lists the logical types that it writes. Avro's specification defines
their units, and that an invalid annotation leaves the plain type.
"""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from changeledger.kernels.arrow import MESSAGE
from changeledger.model.contract import Column, Contract
from tests.dialects.qlik_messages.test_schemas import feed
from tests.dialects.reading import decoded

TEXT = ["null", "string"]
HEADERS = {
    "operation": "INSERT",
    "changeSequence": "20260807162500880000000000000000001",
    "timestamp": "2026-08-07T16:25:00.883",
    "streamPosition": "0000002A:000003B0:0005",
}
ANNOTATIONS = ("logicalType", "precision", "scale")


def record(fields: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def written(kind: Any, value: Any) -> tuple[bytes, str]:
    """Returns a framed insert whose column `v` has an Avro type, and its schema.

    `value`: as Avro stores it.
    """

    def schema(of_value: Any) -> dict[str, Any]:
        row = record([{"name": "id", "type": "int"}, {"name": "v", "type": ["null", of_value]}], "Row")
        headers = record([{"name": name, "type": TEXT} for name in HEADERS], "Headers")
        parts = {"data": row, "headers": headers}
        return record([{"name": name, "type": part} for name, part in parts.items()], "Message")

    plain = {k: v for k, v in kind.items() if k not in ANNOTATIONS} if isinstance(kind, dict) else kind
    out = BytesIO()
    message = {"data": {"id": 1, "v": value}, "headers": HEADERS}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema(plain)), message)
    return b"\0\0\0\0\7" + out.getvalue(), json.dumps(schema(kind))


def read(sql_type: str, kind: Any, value: Any) -> Any:
    """Reads the value into a column of a SQL Server type. Returns it, or the quarantine reason."""
    message, schema = written(kind, value)
    columns = (
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="v", type=sql_type, ordinal=2),
    )
    contract = Contract(table="dbo.items", columns=columns)
    raw = {"topic": "dbo.items", "partition": 0, "offset": 0, "value": message, "headers": []}
    batch = pa.RecordBatch.from_pylist([raw], MESSAGE)
    batches = decoded(QLIK_MESSAGES.kernel, batch, feed(), contract, {"7": schema})
    (row,) = (row for batch in batches for row in batch.to_pylist())
    return row["reason"] if row["after"] is None else row["after"]["v"]


def annotated(kind: str, logical: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **members}


POINT = "datetime2(7)"
MICROS = annotated("long", "timestamp-micros")
NANOS = annotated("long", "timestamp-nanos")
FIXED = {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
MISFIT = "value_does_not_fit"


@pytest.mark.parametrize(
    ("sql_type", "kind", "value", "expected"),
    [
        # 0x123 is 291: hex digits are not decimal digits.
        ("decimal(18,2)", FIXED, b"\0\0\1\x23", Decimal("2.91")),
        ("decimal(18,2)", annotated("bytes", "decimal", precision=9, scale=2), b"\1\x23", Decimal("2.91")),
        ("decimal(38,2)", annotated("bytes", "decimal", precision=39, scale=2), b"\0\0\1\x23", MISFIT),
        ("decimal(18,2)", annotated("bytes", "decimal", precision=0), b"\0\0\1\x23", MISFIT),
        ("decimal(18,2)", annotated("bytes", "decimal", precision="9"), b"\0\0\1\x23", MISFIT),
        ("decimal(18,2)", annotated("bytes", "decimal", precision=3, scale=0), b"\x12\x34", MISFIT),
        # No byte is no number, not even zero.
        ("decimal(18,2)", annotated("bytes", "decimal", precision=9, scale=2), b"", MISFIT),
        *((number, "bytes", b"\0\0\1\x23", MISFIT) for number in ("decimal(18,2)", "int", "bigint", "float")),
        ("varbinary(8)", "bytes", b"\0\0\1\x23", b"\0\0\1\x23"),
        ("varbinary(8)", "bytes", b"", b""),
        # docs/feeds.md, "Avro": bytes do not fit a column that is not binary, nor a decimal one that is.
        *((text, "bytes", b"\0\0\1\x23", MISFIT) for text in ("nvarchar(50)", "char(10)", "xml")),
        *((kind, FIXED, b"\0\x12\xd6\x87", MISFIT) for kind in ("varbinary(8)", "binary(4)", "rowversion")),
        ("varbinary(8)", annotated("bytes", "decimal", precision=20, scale=0), b"\1\xe2\x40", MISFIT),
        ("nvarchar(50)", annotated("bytes", "decimal", precision=20, scale=0), b"\1\xe2\x40", "123456"),
        ("nvarchar(50)", annotated("bytes", "decimal", precision=0), b"\1\xe2\x40", MISFIT),
        # A double has 15 digits, a float 6.
        ("decimal(22,4)", "double", 1.2345678901234567e17, "inexact_number"),
        ("decimal(22,4)", "double", 1234567890.125, Decimal("1234567890.1250")),
        ("decimal(22,4)", "float", 1234.5678, "inexact_number"),
        ("decimal(22,4)", "float", 0.1, Decimal("0.1000")),
        ("float", "double", 1.2345678901234567e17, 1.2345678901234567e17),
        ("real", "float", 0.1, 0.10000000149011612),
        ("real", "float", 3.1415927, 3.1415927410125732),
        ("float", "double", float("nan"), MISFIT),
        # 16:00:00.123, and the last millisecond of a day.
        ("time(3)", annotated("int", "time-millis"), 57_600_123, "16:00:00.123"),
        ("time(7)", annotated("long", "time-micros"), 57_600_123_456, "16:00:00.1234560"),
        ("time(3)", annotated("int", "time-millis"), 86_399_999, "23:59:59.999"),
        ("time(3)", annotated("int", "time-millis"), 86_400_000, MISFIT),
        ("time(3)", annotated("int", "time-millis"), -1, MISFIT),
        # Counts outside their type are no digits of a text, a number or bytes; NaN is no text either.
        ("nvarchar(50)", annotated("int", "time-millis"), 86_400_000, MISFIT),
        ("varbinary(8)", annotated("int", "time-millis"), 86_400_000, MISFIT),
        ("bigint", annotated("int", "date"), 2_932_897, MISFIT),
        ("decimal(18,2)", annotated("int", "date"), -719_163, MISFIT),
        ("nvarchar(max)", MICROS, 253_402_300_800_000_000, MISFIT),
        ("nvarchar(50)", "double", float("nan"), MISFIT), ("varchar(50)", "float", float("inf"), MISFIT),
        (POINT, MICROS, -62_135_596_800_000_000, "0001-01-01 00:00:00.0000000"),
        (POINT, MICROS, 253_402_300_800_000_000, MISFIT),
        (POINT, annotated("long", "local-timestamp-millis"), -1, "1969-12-31 23:59:59.9990000"),
        (POINT, NANOS, 1_786_119_900_883_333_300, "2026-08-07 16:25:00.8833333"),
        (POINT, NANOS, 1_786_119_900_883_333_333, MISFIT),
        ("bigint", "long", 9_007_199_254_740_993, 9_007_199_254_740_993),
        ("bigint", annotated("long", "time-fortnights"), 5, 5),
        ("bigint", annotated("long", "fortnight-millis"), 5, 5),
    ],
)  # fmt: skip
def test_a_cell_in_avro(sql_type: str, kind: Any, value: Any, expected: Any) -> None:
    assert read(sql_type, kind, value) == expected
