"""Planned repairs as changes: what the plan's texts say is what is published, or it is quarantined."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.contract import Column, Contract
from changeledger.dialects.base import DECODED
from changeledger.reconcile.drift import IMAGE
from changeledger.reconcile.findings import text_of
from changeledger.stages.repairing import decoded

# Of each type of the lake, values at its ends and ones that a careless text would lose, as Spark SQL.
VALUES = {
    "bit": ["true", "false"],
    "tinyint": ["255S", "0S"],
    "bigint": ["9007199254740993L", "-9223372036854775807L - 1L"],
    "real": ["float('0.1')", "float('-3.4028235e38')"],
    "float": ["double('0.1')", "double('5e-324')"],
    "decimal(38,10)": ["CAST('-1234567890123456789012345678.0123456789' AS DECIMAL(38,10))"],
    "money": ["CAST('-922337203685477.5808' AS DECIMAL(19,4))"],
    "date": ["DATE '0001-01-01'", "DATE '9999-12-31'"],
    "datetime2(6)": [
        "TIMESTAMP_NTZ '0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'",
    ],
    "nvarchar(max)": ["''", "'  with blanks  '", "'Zoë 😀'", "'null'"],
    "char(10)": ["'a         '"],
    "varbinary(max)": ["X''", "X'00FF'", "X'3078'"],
}
CONTRACT = Contract(
    table="dbo.all_types",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        *(Column(name=kind, type=kind, ordinal=at) for at, kind in enumerate(VALUES, 2)),
    ),
)


def repairs(spark: SparkSession, *plans: tuple[str, str, str]) -> list[Row]:
    """Decoded, from `(operation, before, after)`: SQL of a map of texts by column, in the order given."""
    rows = " UNION ALL ".join(
        f"SELECT {at} AS n, '{operation}' AS operation, CAST({before} AS {IMAGE}) AS before,"
        f" CAST({after} AS {IMAGE}) AS after"
        for at, (operation, before, after) in enumerate(plans)
    )
    planned = spark.sql(rows).withColumns(
        {
            "table": F.lit(CONTRACT.table),
            "proof_id": F.lit("a proof"),
            "follows": F.when(F.col("n") % 2 == 0, F.lit(b"\x01\x02")),
            "since": F.timestamp_micros(F.lit(1_000_000)),
            "record": F.struct(
                F.lit("a proof").alias("source"),
                F.lit(None).cast("int").alias("partition"),
                F.col("n").cast("bigint").alias("offset"),
                F.lit(None).cast("binary").alias("row"),
            ),
        }
    )
    found = decoded(planned, CONTRACT)
    assert tuple(found.columns) == DECODED
    return sorted(found.collect(), key=lambda row: row["record"]["offset"])


def texts(spark: SparkSession, values: dict[str, str]) -> tuple[Row, str]:
    """A row of these values (SQL), and the image that a plan has of it (SQL)."""
    cells = [f"CAST({values.get(c.name, 'NULL')} AS {c.spark_type}) AS `{c.name}`" for c in CONTRACT.columns]
    row = spark.sql(f"SELECT struct({', '.join(cells)}) AS image")
    entries = [f"'{c.name}', {text_of('image', c)}" for c in CONTRACT.columns]
    told = row.select("image", F.expr(f"map({', '.join(entries)})").alias("told")).collect()[0]
    plan = ", ".join(
        f"'{name}', {'NULL' if text is None else change.literal(text)}" for name, text in told["told"].items()
    )
    return told["image"], f"map({plan})"


def test_every_type_comes_back_from_the_text_of_the_plan(spark: SparkSession) -> None:
    wanted, plans = [], []
    for at in range(max(map(len, VALUES.values())) + 1):
        values = {kind: held[at] for kind, held in VALUES.items() if at < len(held)}
        row, plan = texts(spark, {"id": str(at), **values})
        wanted.append(row)
        plans.append(("insert", "NULL", plan))
    found = repairs(spark, *plans)
    assert [row["disposition"] for row in found] == ["change"] * len(plans)
    assert [row["after"] for row in found] == wanted
    assert [row["key"]["id"] for row in found] == list(range(len(plans)))
    assert {row["after_gaps"] is None for row in found} == {True}
    # The last one has NULL in every column but its key.
    assert set(wanted[-1].asDict().values()) == {len(plans) - 1, None}


def test_a_repair_is_flagged_and_stands_behind_the_change_it_follows(spark: SparkSession) -> None:
    update, insert = repairs(
        spark,
        (
            "update",
            "map('id', '1', 'bit', 'true', 'date', NULL)",
            "map('id', '1', 'bit', 'false', 'date', NULL)",
        ),
        ("insert", "NULL", "map('id', '2')"),
    )
    for row in (update, insert):
        said: tuple[Any, ...] = (row["flags"], row["transaction_id"], row["commit_lsn"], row["mask"])
        assert said == ([change.REPAIRED], "a proof", None, None)
    # Behind `follows`, and before all that comes later; a key of which nothing was told begins with it.
    assert b"\x01\x02" < bytes(update["sort_key"]) < b"\x01\x03"
    assert bytes(insert["sort_key"]) < b"\x00\x00"
    assert update["changed"] == ["bit"]
    # What the plan does not have is not known, on either side.
    untold = {c.name for c in CONTRACT.columns} - {"id", "bit", "date"}
    assert set(update["before_gaps"]) == set(update["after_gaps"]) == untold
    assert set(update["after_gaps"].values()) == {change.NOT_CAPTURED}


def test_a_plan_that_does_not_fit_the_table_is_quarantined(spark: SparkSession) -> None:
    bad = {
        "value_does_not_fit": ("insert", "NULL", "map('id', '3', 'date', 'soon')"),
        "unknown_column": ("delete", "map('id', '3', 'gone', '1')", "NULL"),
        "null_key": ("insert", "NULL", "map('bit', 'true')"),
    }
    good = ("delete", "map('id', '3')", "NULL")
    *refused, kept = repairs(spark, *bad.values(), good)
    assert [row["reason"] for row in refused] == list(bad)
    assert {row["disposition"] for row in refused} == {"quarantined"}
    assert "date" in refused[0]["detail"]
    assert '"gone":"1"' in bytes(refused[1]["raw_value"]).decode()
    assert (kept["disposition"], kept["key"]["id"], kept["after"]) == ("change", 3, None)
