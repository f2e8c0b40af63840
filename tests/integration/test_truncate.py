"""Truncated tables, in windows of any order: all stages on real change tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from pyspark.sql import Row, SparkSession

from changeledger.config.feed import Feed
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from tests.integration.line import OF_THE_RUN, lake_name, qlik_tables_feed, run, window

pytestmark = [pytest.mark.integration, pytest.mark.long]

# Letter, key and cell by number. The number is the place in the source's order.
TABLE_QUERY: dict[int, tuple[str, int | None, str | None]] = {
    1: ("I", 1, "stays until the first truncate"),
    2: ("I", 2, "is deleted before it"),
    3: ("I", 3, "is deleted before it, and comes back"),
    4: ("D", 2, None),
    5: ("D", 3, None),
    6: ("T", None, None),
    7: ("I", 3, "came back"),
    8: ("I", 4, "stays until the second truncate"),
    9: ("U", 4, "and changes before it"),
    10: ("T", None, None),
    11: ("I", 1, "lives"),
    12: ("U", 1, "lives on"),
}
WORDS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE"}
# What each of three windows has, by table.
PARTS = {
    "dbo.whole": [list(TABLE_QUERY), [], []],
    # A truncate comes before the rows that it ends, and an insert and a delete after a published truncate.
    "dbo.late": [[6, 7, 10, 11], [1, 2, 3, 8, 9], [4, 5, 12]],
    "dbo.backwards": [[9, 10, 11, 12], [5, 6, 7, 8], [1, 2, 3, 4]],
}


def write(session: psycopg.Connection[Any], table: str, numbers: Sequence[int]) -> None:
    rows = []
    for number in numbers:
        letter, key, note = TABLE_QUERY[number]
        seq = f"20260807162500{number:02}{number:019}"
        rows.append((seq, letter if letter != "T" else None, WORDS[letter], key, note))
    with session.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table}__ct VALUES (%s, %s, %s, %s, %s)", rows)


def published(spark: SparkSession, feed: Feed, table: str) -> dict[str, list[Any]]:
    """Returns rows by kind of table. Numbers replace the ids of changes, which depend on the table."""
    kinds = {
        kind: spark.table(lake_name(feed, table, kind)).collect() for kind in ("", "_history", "_changes")
    }
    numbers = {row["change_id"]: row["event_serial_no"] for row in kinds["_changes"]}

    def plain(row: Row) -> dict[str, Any]:
        kept = {k: v for k, v in row.asDict(recursive=True).items() if k not in OF_THE_RUN}
        cells = {k: numbers[v] if v and k.endswith("change_id") else v for k, v in kept.items()}
        return {k: bytes(v) if isinstance(v, bytearray) else v for k, v in cells.items()}

    return {kind: sorted(map(plain, rows), key=repr) for kind, rows in kinds.items()}


def test_whatever_the_order_of_the_windows(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same change rows come in three tables, each in another order."""
    tables = [{"table": table, "key": ["id"]} for table in PARTS]
    feed = qlik_tables_feed("truncated", postgres, monkeypatch, tables=tables)
    with psycopg.connect(plain_url(postgres.url), autocommit=True) as session:
        session.execute("CREATE SCHEMA dbo")
        for table in PARTS:
            session.execute(
                f"CREATE TABLE {table}_changes (header__change_seq varchar(35), "
                "header__change_oper varchar(1), header__operation varchar(12), id int, note varchar(50))"
            )
            # The task names its change tables otherwise, for which docs/feeds.md recommends views.
            session.execute(f"CREATE VIEW {table}__ct AS SELECT * FROM {table}_changes")
        for parts in zip(*PARTS.values(), strict=True):
            for table, numbers in zip(PARTS, parts, strict=True):
                write(session, table, numbers)
            run(spark, feed, window())
    whole, *others = (published(spark, feed, table) for table in PARTS)
    of_all = [row["operation"] for row in whole["_changes"] if row["key"] is None]
    assert of_all == ["truncate", "truncate"]
    (row,) = whole[""]
    assert (row["id"], row["note"], row["_operation"]) == (1, "lives on", "update")
    assert sorted(
        (r["id"], r["_change_id"], r["note"], r["_is_deleted"], r["_valid_to"] is None)
        for r in whole["_history"]
    ) == [
        (1, 1, "stays until the first truncate", False, False),
        (1, 6, "stays until the first truncate", True, False),
        (1, 11, "lives", False, False),
        (1, 12, "lives on", False, True),
        (2, 2, "is deleted before it", False, False),
        (2, 4, "is deleted before it", True, True),
        (3, 3, "is deleted before it, and comes back", False, False),
        (3, 5, "is deleted before it, and comes back", True, False),
        (3, 7, "came back", False, False),
        (3, 10, "came back", True, True),
        (4, 8, "stays until the second truncate", False, False),
        (4, 9, "and changes before it", False, False),
        (4, 10, "and changes before it", True, True),
    ]
    for other in others:
        for kind, rows in other.items():
            assert rows == whole[kind], kind
