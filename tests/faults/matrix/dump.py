"""A job that writes all rows of a feed's published tables to a file, without the run's own columns."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog, refs
from changeledger.lake.refs import release_tag
from changeledger.spark import session

TABLES = ("dbo_customers", "dbo_customers_history", "dbo_customers_changes")
BOOKS = ("dispositions", "quarantine", "image_chain_breaks", "pending")
OF_RUN = ("window_id", "_window_id", "since")


def main(out: str, feed: str) -> None:
    spark = session.spark_session("dump")
    control = ControlStore(Settings().control_url)
    present = set(catalog.tables(feed))
    dumped: dict[str, Any] = {}
    for name in (*TABLES, *BOOKS):
        table = f"lake.{feed}.{name}"
        dumped[name] = rows(spark, table) if table in present else []
    done = [w for w in windows(control, feed) if w.done]
    dumped["raw"] = raw(spark, feed, present, [w.window_id for w in done])
    dumped["problems"] = [*problems(spark, control, feed), *twice(spark, feed, present)]
    Path(out).write_text(json.dumps(dumped))
    spark.stop()


def rows(spark: SparkSession, table: str) -> list[str]:
    frame = spark.table(table)
    columns = [c for c in frame.columns if c not in OF_RUN]
    # Text in one form whatever the type: binary as base64, structs and maps as JSON.
    return sorted(
        r[0] for r in frame.select(F.to_json(F.struct(*(F.col(f"`{c}`") for c in columns)))).collect()
    )


def raw_table(feed: str, present: set[str]) -> str | None:
    return next((t for t in (f"lake.{feed}.raw_dbo_customers", f"lake.{feed}.raw") if t in present), None)


def place_of(raw: str) -> tuple[str, ...]:
    return ("topic", "partition", "offset") if raw.endswith(".raw") else PLACE


def raw(spark: SparkSession, feed: str, present: set[str], windows: list[str]) -> list[str]:
    """Returns the positions of the raw records of completed windows, each once."""
    name = raw_table(feed, present)
    if name is None:
        return []
    frame = spark.table(name).where(F.col("window_id").isin(windows))
    place = place_of(name)
    texts = [F.hex(F.col(f"`{c}`")) if "lsn" in c or "seqval" in c else F.col(f"`{c}`") for c in place]
    return sorted({r[0] for r in frame.select(F.concat_ws("/", *texts)).collect()})


def twice(spark: SparkSession, feed: str, present: set[str]) -> list[str]:
    """Reports raw records that one window has twice, whatever becomes of the window."""
    name = raw_table(feed, present)
    if name is None:
        return []
    rows = spark.table(name).groupBy("window_id", *place_of(name)).count().where("count > 1")
    surplus = rows.select(F.sum(F.col("count") - 1)).collect()[0][0]
    return [f"raw has {surplus} records of a window twice"] if surplus else []


PLACE = ("__$start_lsn", "__$seqval", "__$operation", "__$command_id")


def windows(control: ControlStore, feed: str) -> list[Any]:
    return control.upkeep.windows_before(feed, datetime.max.replace(tzinfo=UTC))


def problems(spark: SparkSession, control: ControlStore, feed: str) -> list[str]:
    """Reports where main, tag, pointer and release row name different snapshots, and incomplete releases."""
    faults = [f"release {r.id} is incomplete" for r in control.releases.incomplete(feed)]
    release = control.releases.latest(feed)
    if release is None:
        return faults
    for ref in ("main", release_tag(release.id)):
        heads = refs.heads(release.tables, ref)
        faults += [
            f"{ref} of {t} is not the release's" for t, s in release.tables.items() if heads.get(t) != s
        ]
    pointer = [r["release"] for r in spark.table(f"lake.{feed}.releases").select("release").collect()]
    if max(pointer, default=0) != release.id or len(pointer) != len(set(pointer)):
        faults.append(f"the pointer names {sorted(pointer)}, the newest release is {release.id}")
    return faults


if __name__ == "__main__":
    main(*sys.argv[1:])
