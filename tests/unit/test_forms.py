"""When cells of two feeds are the same value, and when they look alike: by hand, for each kind of column."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.contract import Column
from changeledger.reconcile.forms import Form, form_of

GUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"

SAME, LOOKS_OTHER, DIFFERS = "same", "same value, other text", "differs"
# By the types that two feeds have: a cell of each as SQL text, and what they are.
GOLDEN = {
    ("uniqueidentifier", "uniqueidentifier"): [
        (f"'{GUID}'", f"'{GUID}'", SAME),
        (f"'{GUID}'", f"'{GUID.lower()}'", LOOKS_OTHER),
        (f"'{GUID}'", f"'{GUID.replace('6F', '6E')}'", DIFFERS),
    ],
    # As a target of another kind keeps it.
    ("uniqueidentifier", "varchar(36)"): [(f"'{GUID}'", f"'{GUID.lower()}'", LOOKS_OTHER)],
    ("nchar(5)", "nvarchar(5)"): [("'x    '", "'x'", LOOKS_OTHER)],
    ("datetimeoffset", "varchar(40)"): [
        ("'2026-08-07 16:25:00 +02:00'", "'2026-08-07 14:25:00.000 +00:00'", LOOKS_OTHER)
    ],
    # As many digits as the column has.
    ("time(3)", "time(7)"): [
        ("'16:25:00.120'", "'16:25:00.1200000'", LOOKS_OTHER),
        ("'16:25:00.000'", "'16:25:00.0000000'", LOOKS_OTHER),
        ("'16:25:00.120'", "'16:25:00.1200001'", DIFFERS),
    ],
    ("char(5)", "char(5)"): [
        ("'x    '", "'x'", LOOKS_OTHER),
        ("'x'", "' x'", DIFFERS),
        ("'x'", "'X'", DIFFERS),
        ("'x'", "NULL", DIFFERS),
        ("NULL", "NULL", SAME),
    ],
    ("varchar(5)", "varchar(5)"): [("'x '", "'x'", DIFFERS), ("'x'", "'X'", DIFFERS)],
    ("datetimeoffset(3)", "datetimeoffset(3)"): [
        ("'2026-08-07 16:25:00.120 +02:00'", "'2026-08-07T14:25:00.12Z'", LOOKS_OTHER),
        ("'2026-08-07 23:30:00 -02:00'", "'2026-08-08 01:30:00.000 +00:00'", LOOKS_OTHER),
        # The same clock, another instant.
        ("'2026-08-07 16:25:00 +02:00'", "'2026-08-07 16:25:00 +03:00'", DIFFERS),
        # What is no time is compared as it is.
        ("'soon'", "'soon'", SAME),
        ("'soon'", "'later'", DIFFERS),
    ],
    # The seventh digit of a second, which Spark's timestamps do not have.
    ("datetimeoffset(7)", "datetimeoffset(7)"): [
        ("'2026-08-07 16:25:00.1234567 +02:00'", "'2026-08-07 14:25:00.1234567 +00:00'", LOOKS_OTHER),
        ("'2026-08-07 16:25:00.1234567 +02:00'", "'2026-08-07 16:25:00.1234568 +02:00'", DIFFERS),
    ],
    ("int", "int"): [("5", "5", SAME), ("5", "6", DIFFERS)],
    ("bit", "bit"): [("false", "NULL", DIFFERS)],
    ("smallint", "bigint"): [("5S", "5L", SAME)],
    # Beyond what a double can tell apart.
    ("bigint", "decimal(38,0)"): [
        ("9007199254740993L", "CAST('9007199254740993' AS DECIMAL(38,0))", SAME),
        ("9007199254740993L", "CAST('9007199254740992' AS DECIMAL(38,0))", DIFFERS),
    ],
    ("decimal(18,2)", "decimal(18,4)"): [("1.10BD", "1.1000BD", SAME), ("1.10BD", "1.1001BD", DIFFERS)],
    ("money", "int"): [("CAST(5 AS DECIMAL(19,4))", "5", SAME)],
    ("varbinary(2)", "binary(2)"): [("X'0A'", "X'0A'", SAME), ("X'0A'", "X'0A00'", DIFFERS)],
    # Seven digits are text in the lake, fewer a timestamp.
    ("datetime2(7)", "datetime2(3)"): [
        ("'2026-08-07 16:25:00.1230000'", "TIMESTAMP_NTZ '2026-08-07 16:25:00.123'", LOOKS_OTHER),
        ("'2026-08-07 16:25:00.0000000'", "TIMESTAMP_NTZ '2026-08-07 16:25:00'", LOOKS_OTHER),
        ("'2026-08-07 16:25:00.1230001'", "TIMESTAMP_NTZ '2026-08-07 16:25:00.123'", DIFFERS),
    ],
    ("real", "float"): [("0.1F", "0.1D", SAME)],
    ("float", "int"): [("5D", "5", LOOKS_OTHER)],
    ("int", "varchar(9)"): [("100", "'100'", SAME), ("100", "'1'", DIFFERS)],
    ("date", "varchar(10)"): [("DATE '2026-08-07'", "'2026-08-07'", SAME)],
}


def column(kind: str) -> Column:
    return Column(name="c", type=kind, ordinal=1)


def hashes_equal(form: str, one: str, other: str) -> str:
    """As a comparison does: a value of another type has another hash, whatever it says."""
    return f"xxhash64({form.format(one)}) = xxhash64({form.format(other)})"


def test_the_same_value_and_the_same_text(spark: SparkSession) -> None:
    asked, golden = [], []
    for (one_type, other_type), cells in GOLDEN.items():
        one_form = form_of(column(one_type), column(other_type))
        # Whichever of the feeds is the reference.
        assert form_of(column(other_type), column(one_type)) == one_form, (one_type, other_type)
        for one, other, wanted in cells:
            golden.append((one, other, wanted))
            asked += [hashes_equal(form or one_form.value, one, other) for form in one_form]
    answers = iter(spark.range(1).select(F.array(*map(F.expr, asked)).alias("a")).collect()[0]["a"])
    said = {(True, True): SAME, (True, False): LOOKS_OTHER, (False, False): DIFFERS}
    assert [(one, other, said[next(answers), next(answers)]) for one, other, _ in golden] == golden


def test_nothing_is_done_to_cells_that_equal_only_themselves() -> None:
    for kind in (
        "int",
        "bit",
        "decimal(18,4)",
        "nvarchar(50)",
        "datetime2(6)",
        "varbinary(9)",
        "xml",
        "float",
    ):
        assert form_of(column(kind), column(kind)) == Form("{}")
