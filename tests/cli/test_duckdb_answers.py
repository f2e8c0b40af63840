"""`changeledger query` on DuckDB gives the same values as Spark, and reads no more than it needs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.io.pyarrow import ArrowScan
from pyspark.sql import SparkSession

from changeledger.cli import spark_sql
from changeledger.cli.commands import query as command
from changeledger.cli.duckdb_sql import engine
from changeledger.cli.duckdb_sql.addresses import METADATA
from changeledger.lake import refs
from changeledger.model.errors import ConfigError
from changeledger.read_only_sql.check import checked
from tests.cli.test_cli import ran

TABLE = "lake.duckdb.rows"

# Statements that both engines read alike. Without ORDER BY, rows come in any order.
QUERIES = [
    "SELECT * FROM {t}",
    "SELECT * FROM {t} VERSION AS OF 'early'",
    "SELECT * FROM {t} FOR VERSION AS OF 'early' e WHERE e.id = 1",
    "SELECT * FROM {t}.tag_early",
    "SELECT * FROM {t}.branch_late",
    "SELECT * FROM {t} VERSION AS OF 'late'",
    "SELECT id FROM {t} VERSION AS OF {snapshot}",
    "SELECT id FROM {t} TIMESTAMP AS OF '2999-01-01'",
    "SELECT name, type, snapshot_id FROM {t}.refs",
    "SELECT a.id, b.early_only FROM {t} a JOIN {t} VERSION AS OF 'early' b ON a.id = b.id",
    "SELECT id, NAME, `two words` FROM {t} WHERE Id >= 2 AND name IS NOT NULL",
    "select name from {t} order by name",
    "select name from {t} order by name desc",
    "SELECT id, name, price FROM {t} ORDER BY flag DESC, price, id DESC LIMIT 4",
    "SELECT id FROM {t} ORDER BY name DESC NULLS FIRST, id",
    "SELECT id AS number, name other FROM {t} WHERE name = 'b' OR name = '' OR id IN (5, -1)",
    "SELECT id FROM {t} WHERE name <> 'b'",
    "SELECT id FROM {t} WHERE ratio > 1",
    "SELECT id FROM {t} WHERE isnan(ratio) AND price = 1.5 AND raw = X'00FF' AND day < '2027-01-01'",
    "SELECT id FROM {t} WHERE instant >= TIMESTAMP '2026-03-29 01:30:00.000001'",
    "SELECT id FROM {t} WHERE name LIKE 'ä%' OR (flag AND NOT id = 1)",
    "SELECT count(*) AS n FROM {t} WHERE name > 'a' -- a comment",
    "SELECT name, count(DISTINCT id) AS n, sum(price) AS s FROM {t} GROUP BY name HAVING count(*) > 1",
    "SELECT key.id, key.instant, tags[1], attributes['a'] AS a FROM {t} WHERE id = 1",
    "WITH x AS (SELECT max(id) AS id FROM {t}) SELECT name FROM x JOIN {t} USING (id)",
    "SELECT id FROM {t} WHERE name IN (SELECT name FROM {t} WHERE id = 1) UNION ALL SELECT 3 AS id",
    "SELECT id FROM {t} WHERE early_only IS NULL;",
    "SELECT DISTINCT name FROM {t}",
    "VALUES (1, 'a')",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.duckdb")
    columns = (
        "id INT, name STRING, `two words` BIGINT, flag BOOLEAN, instant TIMESTAMP, wall TIMESTAMP_NTZ, "
        "day DATE, price DECIMAL(38,2), ratio DOUBLE, single FLOAT, raw BINARY, early_only INT, "
        "key STRUCT<id: INT, instant: TIMESTAMP>, tags ARRAY<STRING>, attributes MAP<STRING, INT>, "
        "moments MAP<DATE, ARRAY<TIMESTAMP>>"
    )
    merge_on_read = "TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    spark.sql(f"CREATE OR REPLACE TABLE {TABLE} ({columns}) USING iceberg {merge_on_read}")
    some = (
        "TIMESTAMP '2026-03-29 01:30:00.000001', TIMESTAMP_NTZ '2026-03-29 02:30:00', DATE '2026-03-29', "
        "1.50, double('NaN'), float(0.1), X'00FF', 7, named_struct('id', 1, 'instant', TIMESTAMP "
        "'2026-10-25 01:00:00'), array('x', NULL), map('a', 1), "
        "map(DATE '2026-01-01', array(TIMESTAMP '2026-10-25 00:30:00', TIMESTAMP '2026-10-25 01:30:00'))"
    )
    none = ", ".join(["NULL"] * 12)
    spark.sql(
        f"INSERT INTO {TABLE} VALUES (1, 'b', 10, true, {some}), (2, NULL, NULL, NULL, {none}), "
        f"(3, '', 30, false, {some}), (4, 'ä', 40, true, {none}), (5, 'b', 50, NULL, {some}), "
        f"(6, 'x', 1, true, {none})"
    )
    spark.sql(f"ALTER TABLE {TABLE} CREATE TAG early")
    spark.sql(f"ALTER TABLE {TABLE} ADD COLUMN later STRING")
    spark.sql(f"ALTER TABLE {TABLE} ALTER COLUMN early_only TYPE BIGINT")
    spark.sql(f"ALTER TABLE {TABLE} CREATE BRANCH late")
    spark.sql(f"DELETE FROM {TABLE} WHERE id = 6")
    yield spark
    spark.sql(f"DROP TABLE {TABLE}")


def rows(sql: str) -> list[tuple[object, ...]]:
    return list(engine.answer(sql.format(t=TABLE)).rows)


@pytest.mark.parametrize("sql", QUERIES)
def test_the_answer_is_sparks(lake: SparkSession, sql: str) -> None:
    asked = sql.format(t=TABLE, snapshot=refs.snapshot_of(TABLE, "early"))
    expected = spark_sql.answer(lake, checked(asked))
    answer = engine.answer(asked)
    if not asked.startswith("VALUES") and "[1]" not in asked:
        assert [name.lower() for name in answer.columns] == [name.lower() for name in expected.columns]
    cells, others = ([repr(row) for row in some.rows] for some in (answer, expected))
    others = [row.replace("bytearray(b'\\x00\\xff')", "b'\\x00\\xff'") for row in others]
    if "[1]" in asked:
        # Spark counts array elements from 0.
        others = [row.replace("None, 1)", "'x', 1)") for row in others]
    if "order by" in asked.lower():
        assert cells == others
    else:
        assert sorted(cells) == sorted(others)
    assert cells


@pytest.mark.parametrize("name", sorted(METADATA))
@pytest.mark.usefixtures("lake")
def test_a_table_tells_of_itself(name: str) -> None:
    told = rows(f"FROM {{t}}.{name}")
    assert told
    assert all(cell.tzinfo is UTC for row in told for cell in row if isinstance(cell, datetime))


@pytest.mark.usefixtures("lake")
def test_values_are_exact() -> None:
    ((*row,),) = rows("SELECT * EXCLUDE (later) FROM {t} WHERE id = 1")
    assert row == [
        1, "b", 10, True, datetime(2026, 3, 29, 1, 30, 0, 1, UTC), datetime(2026, 3, 29, 2, 30),
        date(2026, 3, 29), Decimal("1.50"), "NaN", 0.10000000149011612,
        b"\x00\xff", 7,
        {"id": 1, "instant": datetime(2026, 10, 25, 1, tzinfo=UTC)}, ["x", None], {"a": 1},
        {"2026-01-01": [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]},
    ]  # fmt: skip
    large = "12345678901234567890123456789012345.67"
    ((exact, total, months, nanoseconds, named),) = rows(
        f"SELECT {large}::DECIMAL(38, 2), sum(9223372036854775807) + 1, INTERVAL 1 MONTH, "
        "TIMESTAMP_NS '2026-01-01 00:00:00.123456789', struct_pack(\"INTERVAL\" := '\\x00'::BLOB)"
    )
    assert (exact, total, months, named) == (Decimal(large), 2**63, "1 month", {"INTERVAL": b"\x00"})
    assert nanoseconds == "2026-01-01 00:00:00.123456789"


COLUMNS = "instant, wall, day, raw, key, moments, price, name"


@pytest.mark.parametrize("way", [[], ["--spark"]])
@pytest.mark.usefixtures("lake")
def test_instants_are_printed_in_utc(monkeypatch: pytest.MonkeyPatch, way: list[str]) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    home = Path(os.environ["CHANGELEDGER_HOME"])
    ended = ran(home, "query", f"SELECT {COLUMNS} FROM {TABLE} WHERE id IN (2, 3)", *way)
    printed = ended.stdout
    for cell in (
        "│ 2026-03-29 01:30:00.000001+00:00 │ 2026-03-29 02:30:00 │ 2026-03-29 │ 0x00FF │",
        '│ {"id": 1, "instant": "2026-10-25 01:00:00+00:00"} │',
        '│ {"2026-01-01": ["2026-10-25 00:30:00+00:00", "2026-10-25 01:30:00+00:00"]} │ 1.50 ',
    ):
        assert cell in printed
    assert printed.count("NULL") == 8
    if way:
        # Only the answer is printed: the lines of Spark's launcher and JVM are in a file.
        assert ended.stderr == ""
        assert "WARN" in (home / "logs" / "changeledger-query.log").read_text("utf-8")


def test_no_column_is_left_out_of_json(
    lake: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A JSON object has each name once, so one of a join's two `id` would be lost.

    Runs on the tests' session. test_instants_are_printed_in_utc uses the command's own.
    """
    asked = f"SELECT a.id, b.id, a.name FROM {TABLE} a JOIN {TABLE} b ON a.id = b.id WHERE a.id = 1"
    # The zone of the whole process would be another one.
    monkeypatch.setattr(spark_sql, "use_utc", lambda: None)
    monkeypatch.setattr(command, "opened", lambda _: nullcontext(lake))
    for on_spark in (False, True):
        with pytest.raises(ConfigError, match="JSON would keep only one of them: id"):
            command.query(asked, as_json=True, on_spark=on_spark)
        assert capsys.readouterr().out == ""
        command.query(asked, on_spark=on_spark)
        assert capsys.readouterr().out.count(" id ") == 2


@pytest.mark.usefixtures("lake")
def test_only_the_columns_of_the_query_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []

    def spied(self: ArrowScan, tasks: Any) -> Any:
        read.append([field.name for field in self._projected_schema.fields])
        return usual(self, tasks)

    usual = ArrowScan.to_record_batches
    monkeypatch.setattr(ArrowScan, "to_record_batches", spied)
    assert rows("SELECT name FROM {t} WHERE price > 1 AND id = 3") == [("",)]
    assert [sorted(names) for names in read] == [["id", "name", "price"]]
    read.clear()
    assert rows("SELECT count(*) FROM {t}") == [(5,)]
    assert [len(names) for names in read] == [1]
    read.clear()
    assert len(rows("DESCRIBE {t}")) == 17
    assert read == []


@pytest.mark.usefixtures("lake")
def test_the_lake_is_shown() -> None:
    shown = engine._shown("show tables in lake.DUCKDB ;")
    assert shown is not None
    assert (shown.columns, [*shown.rows]) == (
        ["namespace", "tableName", "isTemporary"], [("duckdb", "rows", False)]
    )  # fmt: skip
    shown = engine._shown("SHOW NAMESPACES IN lake")
    assert shown is not None
    assert ("duckdb",) in [*shown.rows]
    assert engine._shown("SHOW CREATE TABLE lake.duckdb.rows") is None
    with pytest.raises(ConfigError, match=r"nothing of lake.duckd is published yet\n.* mean `lake.duckdb`"):
        engine._shown("SHOW TABLES IN lake.duckd")


@pytest.mark.parametrize(
    ("sql", "error", "remedy"),
    [
        (
            "SELECT 1 FROM {t}, lake.duckdb.row",
            "no table lake.duckdb.row",
            "did you mean `lake.duckdb.rows`?",
        ),
        ("SELECT 1 FROM lake.duckdb.xyz", "no table lake.duckdb.xyz", "SHOW TABLES IN lake.duckdb"),
        ("DESCRIBE lake.duck_db.rows", "nothing of lake.duck_db is published yet", "`lake.duckdb.rows`?"),
        (
            "FROM lake.no_feed.rows.files",
            "nothing of lake.no_feed is published yet",
            "changeledger status no_feed",
        ),
        ("FROM {t}.tag_earl", "has no tag earl", "did you mean `early`?"),
        ("FROM {t}.branch_early", "has no branch early", "FROM lake.duckdb.rows.refs"),
        ("FROM {t} VERSION AS OF 7", "has no version 7", "rows.refs"),
        ("FROM {t} TIMESTAMP AS OF 'yesterday'", "'yesterday' is not a time", "write it as '2026-01-31"),
        ("FROM {t} TIMESTAMP AS OF '2001-01-01'", "or they are no longer kept", "rows.history' lists"),
        ("SELECT missing FROM {t}", 'Referenced column "missing" not found', "run it with --spark if"),
        ("SELECT CAST(name AS INT) FROM {t} WHERE id = 1", "Could not convert", "correct the statement"),
    ],
)
@pytest.mark.usefixtures("lake")
def test_what_cannot_be_answered_says_what_to_do(sql: str, error: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        rows(sql)
    assert error in raised.value.message
    assert remedy in raised.value.remedy


@pytest.mark.usefixtures("lake")
def test_a_lack_of_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        engine.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 20_000_000})
    )
    with pytest.raises(ConfigError, match=r"needs more memory than is available(.|\n)*run it with --spark"):
        rows("SELECT array_agg(range) FROM {t}, range(3000000)")
    monkeypatch.undo()

    def full(self: ArrowScan, tasks: Any) -> Any:
        raise MemoryError("malloc of size 1 failed")

    monkeypatch.setattr(ArrowScan, "to_record_batches", full)
    with pytest.raises(ConfigError, match=r"is available: malloc of size 1 failed\n.*run it with --spark"):
        rows("SELECT id FROM {t}")


@pytest.mark.usefixtures("lake")
def test_an_error_of_storage_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(self: ArrowScan, tasks: Any) -> Any:
        raise FileNotFoundError("rows.parquet")

    monkeypatch.setattr(ArrowScan, "to_record_batches", gone)
    with pytest.raises(FileNotFoundError, match=r"rows\.parquet"):
        rows("SELECT id FROM {t}")


@pytest.mark.usefixtures("lake")
def test_no_variable_of_ours_is_a_table() -> None:
    with pytest.raises(duckdb.Error):
        engine.connected().execute("FROM TABLE_OF_TEST")


@pytest.mark.usefixtures("lake")
def test_no_engine_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants are UTC in JSON, too: one function prints the answers of both engines."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    home = Path(os.environ["CHANGELEDGER_HOME"])
    began = time.monotonic()
    asked = f"SELECT id, {COLUMNS} FROM {TABLE} WHERE id IN (2, 3) ORDER BY id"
    ended = ran(home, "query", "--json", asked)
    assert ended.returncode == 0
    nulls, values = map(json.loads, ended.stdout.splitlines())
    assert nulls == {"id": 2, **dict.fromkeys(COLUMNS.split(", "))}
    assert values == {
        "id": 3, "name": "", "price": "1.50", "raw": "0x00FF", "day": "2026-03-29",
        "instant": "2026-03-29 01:30:00.000001+00:00", "wall": "2026-03-29 02:30:00",
        "key": {"id": 1, "instant": "2026-10-25 01:00:00+00:00"},
        "moments": {"2026-01-01": ["2026-10-25 00:30:00+00:00", "2026-10-25 01:30:00+00:00"]},
    }  # fmt: skip
    # It takes two seconds on an idle machine.
    assert time.monotonic() - began < 20
