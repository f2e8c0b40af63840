"""`changeledger.read` returns the same published rows as Spark, and docs/reading.md's snippets run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import changeledger
from changeledger.config.settings import PROJECT, Settings
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from tests.feeds import feed_of
from tests.lake_states import session_of
from tests.ledger_windows import LedgerRow, carry

FEED, TABLE = "shop_cdc", "dbo.customers"
CUSTOMERS = Contract(
    table=TABLE,
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="name", type="nvarchar(9)", ordinal=2),
        Column(name="credit", type="decimal(9,2)", ordinal=3),
    ),
)
ORDERS = CUSTOMERS.model_copy(update={"table": "sales.Order Lines"})
JANUARY = datetime(2026, 1, 31, 12, tzinfo=UTC)
BLOCK = re.compile(r"```(python|sql)\n(.*?)```", re.DOTALL)


def change(at: str, operation: str, key: int, name: str | None = None) -> LedgerRow:
    side = "before" if operation == "delete" else "after"
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    position = int(moment.timestamp()).to_bytes(8) + key.to_bytes(2)
    return {
        "change_id": f"{key} {at}", "operation": operation, "key": (key,), "feed": FEED,
        side: (key, name, Decimal("1.50")), "sort_key": position, "commit_lsn": position,
        "source_position": ("t", 0, 0, None), "committed_at": moment,
    }  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Three releases: order lines; customers 1 to 3; then 1 has a new name, 2 is deleted, 4 is new."""
    home = tmp_path_factory.mktemp("read")
    members = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"{home}/warehouse"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHANGELEDGER_HOME", str(home))
        patch.setenv("CHANGELEDGER_CATALOG", json.dumps(members))
        session = session_of(spark, Settings())
        carry(session, feed_of(FEED, ORDERS.table), ORDERS, [change("2026-01-01", "insert", 7, "z")], 0)
        first = [change(f"2026-01-0{key}", "insert", key, "abc"[key - 1]) for key in (1, 2, 3)]
        carry(session, feed_of(FEED, CUSTOMERS.table), CUSTOMERS, first, 1)
        second = [
            change("2026-02-01", "update", 1, "A"),
            change("2026-02-02", "delete", 2, "b"),
            change("2026-02-03", "insert", 4, "d"),
        ]
        carry(session, feed_of(FEED, CUSTOMERS.table), CUSTOMERS, second, 2)
        yield session


def named(table: pa.Table) -> dict[int, str]:
    return {row["id"]: row["name"] for row in table.to_pylist()}


def test_each_kind_is_what_spark_reads(lake: SparkSession) -> None:
    for kind, suffix in {"current": "", "history": "_history", "changes": "_changes"}.items():
        read = changeledger.read(FEED, TABLE, kind=kind)  # type: ignore[arg-type]
        frame = lake.table(f"lake.{FEED}.dbo_customers{suffix}")
        assert read.column_names == frame.columns
        assert len(read) == frame.count() > 0
    columns = "id, name, credit, _committed_at"
    chosen = changeledger.read(FEED, "dbo_customers", columns=["credit", "id"])
    expected = lake.sql(f"SELECT {columns} FROM lake.{FEED}.dbo_customers ORDER BY id").toArrow()
    assert chosen.sort_by("id").to_pylist() == expected.select(["credit", "id"]).to_pylist()
    assert chosen.schema == pa.schema([("credit", pa.decimal128(9, 2)), ("id", pa.int32())])


def test_a_release_is_read_by_its_tag() -> None:
    assert changeledger.releases(FEED) == [1, 2, 3]
    assert named(changeledger.read(FEED, TABLE)) == {1: "A", 3: "c", 4: "d"}
    assert named(changeledger.read(FEED, TABLE, release=2)) == {1: "a", 2: "b", 3: "c"}
    assert len(changeledger.read(FEED, TABLE, kind="changes", release=2)) == 3
    assert named(changeledger.read(FEED, "sales.Order Lines", release=1)) == {7: "z"}


@pytest.mark.parametrize(
    ("at", "rows"),
    [
        # An interval includes its begin, but not its end.
        ("2026-01-01T00:00:00+00:00", {1: "a"}),
        ("2026-01-31T12:00:00+00:00", {1: "a", 2: "b", 3: "c"}),
        ("2026-01-31T23:59:59.999999+00:00", {1: "a", 2: "b", 3: "c"}),
        ("2026-02-01T02:00:00+02:00", {1: "A", 2: "b", 3: "c"}),
        ("2026-02-02T00:00:00+00:00", {1: "A", 3: "c"}),
        ("2030-01-01T00:00:00+00:00", {1: "A", 3: "c", 4: "d"}),
    ],
)
def test_as_of_a_time(lake: SparkSession, at: str, rows: dict[int, str]) -> None:
    read = changeledger.read(FEED, TABLE, as_of=datetime.fromisoformat(at))
    assert named(read) == rows
    assert read.schema == changeledger.read(FEED, TABLE).schema
    moment = f"TIMESTAMP '{at.replace('T', ' ')}'"
    of_spark = lake.sql(
        f"SELECT id, name FROM lake.{FEED}.dbo_customers_history WHERE _valid_from <= {moment} "
        f"AND (_valid_to > {moment} OR _valid_to IS NULL) AND NOT _is_deleted"
    )
    assert {row["id"]: row["name"] for row in of_spark.collect()} == rows


def test_as_of_in_a_release() -> None:
    february = datetime(2026, 2, 28, tzinfo=UTC)
    read = changeledger.read(FEED, TABLE, columns=["name", "id"], release=2, as_of=february)
    assert (read.column_names, named(read)) == (["name", "id"], {1: "a", 2: "b", 3: "c"})


@pytest.mark.parametrize(
    ("asked", "error", "remedy"),
    [
        ({"feed": "shop-cdc"}, "no release of a feed 'shop-cdc'", "did you mean 'shop_cdc'?"),
        ({"feed": "xyz"}, "no release of a feed 'xyz'", "choose from shop_cdc"),
        ({"table": "dbo.custmers"}, "no table 'dbo.custmers'", "did you mean 'dbo_customers'?"),
        ({"table": "xyz"}, "no table 'xyz'", "choose from dbo_customers, sales_order_lines"),
        ({"release": 9}, "no release 9", "choose from 1, 2, 3"),
        ({"release": 9}, "no release 9", "`erase` removes all but the newest"),
        ({"release": 1}, "release_1 of shop_cdc does not contain dbo.customers", "release=2, the next"),
        ({"table": "sales.Order Lines"}, "release_3 of shop_cdc does not contain", "release=1, the last"),
        ({"columns": ["nam"]}, "no column 'nam'", "did you mean 'name'?"),
        ({"columns": []}, "names no column", "name one"),
        ({"kind": "currrent"}, "'currrent' is not a kind of table", "choose from current, history, changes"),
        ({"as_of": datetime(2026, 1, 31)}, "is not a time with a zone", "tzinfo=UTC"),
        ({"as_of": "2026-01-31"}, "is not a time with a zone", "tzinfo=UTC"),
        ({"as_of": datetime(2025, 1, 1, tzinfo=UTC)}, "history begins at 2026-01-01", "later time"),
        ({"as_of": JANUARY, "kind": "changes"}, "at a time, not changes", "leave out kind"),
    ],
)
def test_errors_say_what_to_do(asked: dict[str, Any], error: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as raised:
        changeledger.read(**{"feed": FEED, "table": TABLE, **asked})
    assert error in raised.value.message
    assert remedy in raised.value.remedy


def test_no_catalog_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CHANGELEDGER_CATALOG")
    with pytest.raises(ConfigError, match=r"there is no lake: (.|\n)*set CHANGELEDGER_HOME"):
        changeledger.releases(FEED)
    assert not (tmp_path / "home").exists()


def test_neither_spark_nor_airflow_is_imported() -> None:
    heavy = '{"pyspark", "airflow", "great_expectations"} & sys.modules.keys()'
    code = (
        "import sys, changeledger; assert 'pyarrow' not in sys.modules, 'a cheap import'; "
        f"print(len(changeledger.read({FEED!r}, {TABLE!r})), {heavy})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("3 set()\n", "")


def test_the_snippets_of_the_docs_run(lake: SparkSession) -> None:
    """The snippets run in order, in one namespace. Trino's is not run."""
    page = (PROJECT / "docs" / "reading.md").read_text("utf-8")
    begin, end = (page.index(title) for title in ("## From Python", "## From the command line"))
    blocks = BLOCK.findall(page[begin:end])
    code = [text for language, text in blocks if language == "python"]
    assert [
        sum(library in text for text in code) for library in ("duckdb", "pandas", "polars", "pyiceberg")
    ] == [1] * 4
    variables: dict[str, Any] = {}
    for text in code:
        exec(compile(text, "docs/reading.md", "exec"), variables)
    assert variables["release"] == 3
    assert variables["names"] == ["A", "c", "d"]
    # pandas' own types turn whole numbers into doubles if one of them is NULL.
    assert variables["frame"].dtypes["id"].pyarrow_dtype == pa.int32()
    assert variables["operations"] == [("delete", 1), ("insert", 4), ("update", 1)]
    assert variables["renamed"] == [("A", "a"), ("c", "c")]
    assert named(variables["tagged"]) == {1: "A", 3: "c", 4: "d"}
    assert variables["lines"]["name"].to_list() == ["A", "c", "d"]
    (sql,) = [text for language, text in blocks if language == "sql" and "FOR VERSION" not in text]
    assert {row["id"] for row in lake.sql(sql).collect()} == {1, 3, 4}
