"""Windows on a published table of many rows: 10,000 updates each, spread over it or of its last rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from benchmarks.stream import event
from benchmarks.topics import fill
from changeledger.model.table_names import TableNames

CHANGES = 10_000
# The first window creates the tables, and the second warms the engine.
WINDOWS = ("made", "warm", "spread", "recent")
_CELLS = {"n1": 1, "n2": 2, "amount": "3.50", "d": 20_000, "ts": 1_786_119_900_000_000, "flag": True}


def filled(bootstrap: str, rows: int, home: Path, subject: str) -> str:
    """Fills a topic and returns its name.

    The messages are inserts of rows whose keys follow those of the table, and three windows of updates of the
    table's rows.
    """
    topic, messages = f"{subject}_{rows}.dbo.t", home / "messages.jsonl"
    with messages.open("wb") as out:
        out.writelines(_messages(rows))
    fill(bootstrap, topic, messages, len(WINDOWS))
    return topic


def enlarge(
    spark: SparkSession, table: str, key: str, rows: int, cells: Callable[[Column], Mapping[str, Column]]
) -> None:
    """Appends rows like that of the first key after the table's, in the order of their keys.

    `key` is the column that has the key. `cells` returns the columns that differ in the row of a key.
    """
    keys = spark.range(0, rows, numPartitions=max(1, rows // 1_000_000)).select(
        F.col("id").cast("int").alias("_at")
    )
    template = spark.table(table).where(f"{key} = {rows + 1}")
    of_keys = template.crossJoin(keys).withColumns(dict(cells(F.col("_at")))).select(*template.columns)
    of_keys.writeTo(table).append()


def name_of(at: Column) -> Column:
    return F.concat(F.lit("customer "), at)


def judge(spark: SparkSession, tables: TableNames, rows: int) -> None:
    """Asserts that the tables have the expected numbers of rows after all windows."""
    current, expected = spark.table(tables.current), F.concat(F.lit("changed "), F.col("id"))
    counts = (
        current.count(), spark.table(tables.history).count(), current.where(F.col("name") == expected).count()
    )  # fmt: skip
    wanted = rows + CHANGES, rows + 4 * CHANGES, 3 * CHANGES
    assert counts == wanted, f"rows, versions, changed rows: {counts}, not {wanted}"


def _row(key: int, name: str | None = None) -> dict[str, Any]:
    return {"id": key, "name": name or f"customer {key}", **_CELLS, "city": "Bern", "x": 0.25}


def _messages(rows: int) -> Iterator[bytes]:
    """Yields as many inserts as a window has updates, then three windows of updates of different keys."""
    for at in range(1, CHANGES + 1):
        yield event("t", at, "c", (None, _row(rows + at)))
    spread = Random(1).sample(range(rows - CHANGES), 2 * CHANGES)
    for at, key in enumerate([*spread, *range(rows - CHANGES, rows)], CHANGES + 1):
        yield event("t", at, "u", (_row(key), _row(key, f"changed {key}")))
