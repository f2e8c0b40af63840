"""The same updates of a table of many rows as in `large_table`, written by hand.

    python -m benchmarks.subjects.large_table_by_hand BOOTSTRAP ROWS HOME

Marks: `made`, `warm`, `spread`, `recent`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.large import WINDOWS, enlarge, filled, judge, name_of
from benchmarks.marks import mark
from benchmarks.shapes import PLAIN
from benchmarks.subjects import by_hand
from benchmarks.subjects.plain import plain_session
from benchmarks.topics import windows
from changeledger.model.table_names import TableNames


def main() -> None:
    bootstrap, rows, home = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    topic = filled(bootstrap, rows, home, "by_hand")
    spark, tables = plain_session("by-hand"), TableNames.of("plain", topic)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    for at, (name, hours) in enumerate(zip(WINDOWS, windows(len(WINDOWS)), strict=True)):
        received = by_hand.messages(spark, bootstrap, topic, hours)
        by_hand.append(tables, by_hand.changes(received, PLAIN), at)
        new = by_hand.appended(spark, tables, at)
        by_hand.merge(tables, new)
        by_hand.version(tables, new)
        if name == "made":
            for table in tables:
                enlarge(spark, table, "id", rows, lambda at: {"id": at, "name": name_of(at)})
        mark(name)
    judge(spark, tables, rows)


if __name__ == "__main__":
    main()
