"""Measures comparing two feeds of a database, in seconds, beside Spark's plain join of the two ledgers.

Both ledgers have the same changes of ten columns (one insert, then updates of each key). The plain join is a
full outer join on key and position, and counts. Both are measured in one run; quote the ratio.

    python -m benchmarks.compare [CHANGES]
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as Printed

PROJECT = Path(__file__).resolve().parents[1]
HOME = PROJECT / ".changeledger" / "bench_compare"
ROUNDS = 3
TABLE = "dbo.t"
COLUMNS = {
    "id": "int", "name": "nvarchar(50)", "n1": "int", "n2": "int", "amount": "decimal(18,2)", "d": "date",
    "ts": "datetime2(6)", "flag": "bit", "city": "nvarchar(50)", "x": "float",
}  # fmt: skip


def main() -> None:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    os.environ["CHANGELEDGER_HOME"] = str(HOME)
    # Imported here, because they read the settings.
    from pyspark.sql import functions as F  # noqa: PLC0415

    from changeledger.config.database import Database  # noqa: PLC0415
    from changeledger.model.table_names import TableNames  # noqa: PLC0415
    from changeledger.spark.session import spark_session  # noqa: PLC0415
    from changeledger.stages import compare  # noqa: PLC0415

    spark = spark_session("changeledger-bench-compare")
    spark.sparkContext.setLogLevel("ERROR")
    feeds = {name: _feed(name) for name in ("one", "other")}
    for feed in feeds.values():
        _publish(spark, feed, changes)
    ledgers = [spark.table(TableNames.of(name, TABLE).changes) for name in feeds]

    def plain() -> None:
        first, other = (
            ledger.where("operation <> 'snapshot'").select("commit_lsn", "key.id", "before", "after")
            for ledger in ledgers
        )
        joined = first.join(other, ["commit_lsn", "id"], "full_outer")
        same = (first["before"].eqNullSafe(other["before"])) & (first["after"].eqNullSafe(other["after"]))
        joined.agg(F.count_if(same), F.count("*")).collect()

    def compared() -> None:
        rows = compare.run(spark, Database(database="bench"), feeds, full=True)
        assert [row.outcome for row in rows] == ["agree"]
        # The transaction of the last change is the fence, and is not compared.
        assert rows[0].counts["equal"] == changes - 1

    rounds = [(_timed(plain), _timed(compared)) for _ in range(ROUNDS)]
    show(changes, *(statistics.median(seconds) for seconds in zip(*rounds, strict=True)))


def _feed(name: str):  # type: ignore[no-untyped-def]
    from changeledger.config.feed import Feed  # noqa: PLC0415

    return Feed.model_validate(
        {
            "feed": name, "dialect": "ces", "database": "bench", "connection": "none",
            "source": {"topics": ["t"]}, "tables": [{"table": TABLE}],
        }
    )  # fmt: skip


def _publish(spark, feed, changes: int) -> None:  # type: ignore[no-untyped-def]
    from changeledger.config.settings import Settings  # noqa: PLC0415
    from changeledger.control import BuiltSnapshots, ControlStore  # noqa: PLC0415
    from changeledger.kernels.arrow import table_schema  # noqa: PLC0415
    from changeledger.lake import catalog, iceberg, new_tables, refs  # noqa: PLC0415
    from changeledger.model import change  # noqa: PLC0415
    from changeledger.model.contract import Column, Contract  # noqa: PLC0415
    from changeledger.model.table_names import TableNames  # noqa: PLC0415
    from changeledger.model.window import Window  # noqa: PLC0415

    columns = [
        Column(name=name, type=kind, ordinal=at, key_position=int(name == "id"))
        for at, (name, kind) in enumerate(COLUMNS.items(), 1)
    ]
    contract = Contract(table=TABLE, columns=tuple(columns))
    control, at = ControlStore(Settings().control_url), datetime(2026, 1, 1, tzinfo=UTC)
    catalog.create_namespace(feed.namespace)
    cells, kinds = _cells(feed, max(changes // 5, 1)), change.ledger_columns(contract)
    rows = spark.range(changes).withColumnRenamed("id", "i")
    rows = rows.selectExpr(*(f"cast({cells.get(name, 'null')} as {kind}) as {name}" for name, kind in kinds))
    name = TableNames.of(feed.namespace, TABLE).changes
    new_tables.create(name, table_schema(kinds))
    iceberg.append(rows, name)
    window, tables = Window(start=at, end=at + timedelta(days=1)), refs.heads([name], refs.MAIN)
    built = BuiltSnapshots("bench", tables)
    control.windows.open(feed.feed, window, None, {})
    control.windows.begin_stage(feed.feed, window, "normalize")
    control.windows.finish_stage(feed.feed, window, "normalize", built, [contract])
    control.audits.save(feed.feed, window, [], built)
    control.releases.complete(feed.feed, control.releases.commit(feed.feed, window, tables, {}, {}))


def _cells(feed, keys: int) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """Returns the ledger's columns of change `i`, as SQL."""
    image = partial(_image, keys=keys)
    return {
        "change_id": "md5(cast(i as string))",
        "operation": f"if(i < {keys}, 'insert', 'update')",
        "key": f"named_struct('id', cast(i % {keys} as int))",
        "before": f"if(i < {keys}, null, {image(f'(i - {keys})')})",
        "after": image("i"),
        "changed": f"if(i < {keys}, null, array('name', 'n1', 'n2', 'amount', 'd', 'ts', 'city'))",
        "commit_lsn": "unhex(lpad(hex(i + 1), 20, '0'))",
        "sort_key": "unhex(lpad(hex(i + 1), 40, '0'))",
        "committed_at": "timestamp_millis(1700000000000 + i)",
        "feed": f"'{feed.feed}'",
        "window_id": "'bench'",
    }


def _image(number: str, keys: int) -> str:
    return (
        f"named_struct('id', cast({number} % {keys} as int), 'name', concat('customer ', {number}), "
        f"'n1', cast({number} % 1000003 as int), 'n2', cast({number} * 7 % 1000003 as int), "
        f"'amount', cast({number} / 4 as decimal(18,2)), 'd', date_from_unix_date(cast({number} % 20000 as int)), "
        f"'ts', cast(timestamp_micros(1700000000000000 + {number}) as timestamp_ntz), 'flag', true, "
        f"'city', concat('city ', {number} % 100), 'x', cast(1.5 as double))"
    )


def _timed(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def show(changes: int, plain: float, compared: float) -> None:
    printed = Printed(
        title=f"{changes:,} changes in each of two feeds, {os.cpu_count()} cores, "
        f"medians of {ROUNDS}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )
    for name in ("what", "seconds", "times the plain join"):
        printed.add_column(name, justify="left" if name == "what" else "right")
    printed.add_row("plain full outer join on key and position", f"{plain:.1f}", "1.00")
    printed.add_row("compare", f"{compared:.1f}", f"{compared / plain:.2f}")
    Console(width=110).print(printed)


if __name__ == "__main__":
    main()
