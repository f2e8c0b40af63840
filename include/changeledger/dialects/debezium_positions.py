"""Where a Debezium event stands in its source's order, and when its change was committed.

The commit time is `source.ts_ms`. Producers that do not know it write 0 (or count in another unit, and so
end up in 1970): the message's own time stands in, that of the connector, else that of the Kafka record.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import lsn
from changeledger.dialects import base

# In milliseconds: the years 1 to 9999, and the first one in which a time is a time.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_FIRST_KNOWN = 31_536_000_000
# SQL Server's own rank at one position (delete 1, insert 2, update 4); a snapshot row shows the state
# after everything at its position.
_RANKS = {"d": b"\1", "c": b"\2", "u": b"\4", "r": b"\5"}


def positions(parsed: DataFrame) -> DataFrame:
    """Adds commit_lsn, change_lsn, ordinal, is_snapshot, committed_at and what is doubtful of it."""
    source = F.col("source")
    wal = source["lsn"].try_cast("bigint")
    # A commit LSN is the rule; the 64-bit position of another connector takes its place.
    other = F.when((source["connector"] != "sqlserver") & (wal >= 0), lsn.big_endian(wal, lsn.WIDTH))
    told, sent = (_millis(text) for text in (source["ts_ms"], F.col("ts_ms")))
    is_known = told >= _FIRST_KNOWN
    of_message = F.coalesce(
        F.when(sent >= _FIRST_KNOWN, F.timestamp_millis(sent)),
        F.col("timestamp"),
        F.timestamp_seconds(F.lit(0)),
    )
    return parsed.withColumns(
        {
            "commit_lsn": F.coalesce(lsn.from_text(source["commit_lsn"]), other),
            "change_lsn": F.coalesce(lsn.from_text(source["change_lsn"]), other),
            "ordinal": base.whole_number(source["event_serial_no"]),
            "is_snapshot": (F.col("op") == "r") | ((F.col("op") == "c") & _says_snapshot(source["snapshot"])),
            # NULL where what is told is no time at all.
            "committed_at": F.when(is_known, F.timestamp_millis(told)).when(told.isNotNull(), of_message),
            "clock_suspect": ~is_known,
        }
    )


def _millis(text: Column) -> Column:
    time = text.try_cast("bigint")
    return F.when((time >= _FIRST) & (time <= _LAST), time)


def _says_snapshot(told: Column) -> Column:
    """Absent is false. Other producers tell a row of a snapshot as an insert."""
    return F.coalesce(F.lower(told) != "false", F.lit(False))


def sort_key() -> Column:
    rank = base.by_case(F.col("op"), _RANKS)
    # What a snapshot row does not tell of its position lies behind all that is there.
    is_snapshot = F.col("is_snapshot")
    unplaced = F.when(is_snapshot, lsn.constant(lsn.HIGHEST)).otherwise(lsn.constant(lsn.LOWEST))
    unnumbered = F.when(is_snapshot, lsn.constant("FF" * 8)).otherwise(lsn.constant("00" * 8))
    at_position = F.concat(
        F.col("commit_lsn"),
        F.coalesce(F.col("change_lsn"), unplaced),
        F.coalesce(lsn.big_endian(F.col("ordinal"), 8), unnumbered),
        rank,
    )
    # Without a position a snapshot row is older than every change, and ordered by its delivery.
    by_delivery = F.concat(
        lsn.constant(lsn.LOWEST),
        lsn.big_endian(F.col("partition"), lsn.WIDTH),
        lsn.big_endian(F.col("offset"), 8),
        rank,
    )
    return F.when(F.col("commit_lsn").isNotNull(), at_position).otherwise(by_delivery)
