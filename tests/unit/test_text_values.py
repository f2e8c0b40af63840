"""The canonical form of each type that is published as text, by hand from docs/types.md."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.change import literal
from changeledger.contract import Column
from changeledger.dialects import text_values

GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"

# By type: what is written, and what is published; None where it is no value of the type.
GOLDEN: dict[str, list[tuple[str, str | None]]] = {
    "datetimeoffset(7)": [
        ("2026-08-07T16:25:06.863899+01:00", "2026-08-07T16:25:06.8638990+01:00"),
        ("2026-08-07 16:25:06.8638990 +01:00", "2026-08-07T16:25:06.8638990+01:00"),
        # As PostgreSQL prints whole hours.
        ("2026-08-07 16:25:06.863899+01", "2026-08-07T16:25:06.8638990+01:00"),
        # Four ways to write UTC.
        ("2026-08-07T00:00:00Z", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00.0000000+00:00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00-00:00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07 00:00:00+00", "2026-08-07T00:00:00.0000000+00:00"),
        ("2026-08-07T00:00:00-00:30", "2026-08-07T00:00:00.0000000-00:30"),
        ("2026-08-07T00:00:00", None),
    ],
    "datetimeoffset(0)": [
        ("2026-08-07T16:25:06Z", "2026-08-07T16:25:06+00:00"),
        ("2026-08-07T16:25:06.000Z", "2026-08-07T16:25:06+00:00"),
        ("2026-08-07T16:25:06.1Z", None),
    ],
    "time(7)": [("16:25:00.88", "16:25:00.8800000"), ("16:25:00", "16:25:00.0000000")],
    "time(3)": [("16:25:00.8800000", "16:25:00.880"), ("16:25:00.8801", None)],
    "datetime2(7)": [
        ("2026-08-07T16:25:00.88", "2026-08-07 16:25:00.8800000"),
        ("2026-08-07 16:25:00", "2026-08-07 16:25:00.0000000"),
    ],
    "uniqueidentifier": [(GUID.lower(), GUID), (GUID, GUID), (f"{{{GUID}}}", None)],
    # Of nchar the length counts UTF-16's units, of char the bytes of a code page: known of ASCII alone.
    "nchar(5)": [("ab", "ab   "), ("ab   ", "ab   "), ("", "     "), ("é", "é    "), ("😀", "😀   ")],
    "char(5)": [("ab", "ab   "), ("", "     "), ("a b c", "a b c"), ("é   ", "é   ")],
    "char": [("", " "), ("a", "a")],
}


def test_each_type_has_one_text(spark: SparkSession) -> None:
    asked, golden = [], []
    for kind, texts in GOLDEN.items():
        column = Column(name="c", type=kind, ordinal=1)
        for written, published in texts:
            golden.append((kind, written, published))
            asked.append(text_values.value(text_values.form(literal(written), column), column.sql_type))
    answers = spark.range(1).select(F.array(*map(F.expr, asked)).alias("a")).collect()[0]["a"]
    assert [(*one[:2], answer) for one, answer in zip(golden, answers, strict=True)] == golden
