"""Where a Qlik message stands in its source's order, and when its change was committed.

Order: the commit LSN that SQL Server's stream position begins with, then the change sequence (one counter
over all tables of a task), then the counter inside the transaction. A source without LSNs is ordered by the
change sequence alone.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import lsn
from changeledger.dialects import base

_LSN = "^([0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4})(?![0-9a-fA-F])"
_ISO = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"
_DATE_OF_1970 = r"^1970-\d{2}-\d{2}\z"
# The whole change sequence: year to second, hundredths, and a counter of 19 digits.
_SEQUENCE_DIGITS = 35
# Below every LSN that SQL Server writes, above the rows of a full load.
_NO_LSN = "00" * (lsn.WIDTH - 1) + "01"
# The end of the year 9999, in microseconds.
_LAST_MICROS = 253_402_300_799_999_999
# SQL Server's own rank at one position; a row of a full load shows the state after everything.
_RANKS = {"DELETE": b"\1", "INSERT": b"\2", "UPDATE": b"\4", "REFRESH": b"\5"}


def positions(staged: DataFrame) -> DataFrame:
    """Adds commit_lsn, sequence, ordinal, committed_at, transaction_id and what is doubtful of them."""
    headers = F.col("told_headers")
    streamed = F.col("op") != "REFRESH"
    sequence = headers["changeSequence"]
    digits = sequence.rlike(rf"^[0-9]{{{_SEQUENCE_DIGITS}}}\z")
    return (
        staged.withColumns(
            {
                "commit_lsn": F.when(
                    streamed, lsn.from_text(F.regexp_extract(headers["streamPosition"], _LSN, 1))
                ),
                "sequence": F.when(streamed & digits, sequence),
                "ordinal": F.when(streamed, base.whole_number(headers["transactionEventCounter"])),
                "transaction_id": F.when(streamed, headers["transactionId"]),
                "readable_time": F.when(streamed, _instant(headers["timestamp"])),
            }
        )
        .withColumn("told_time", _known(F.col("readable_time")))
        .withColumns(
            {
                # Of a row of the full load the time of its message is as near as one gets.
                "committed_at": F.coalesce(
                    F.col("told_time"),
                    F.when(streamed, _known(_sequence_time())),
                    F.col("timestamp"),
                    F.timestamp_seconds(F.lit(0)),
                ),
                "clock_suspect": streamed & F.col("told_time").isNull(),
                "order_ambiguous": streamed & F.col("sequence").isNull() & F.col("ordinal").isNull(),
            }
        )
    )


def sort_key() -> Column:
    """Bytes: LSN (10), change sequence (18), counter (8), rank (1); a full load is ordered by delivery."""
    rank = base.by_case(F.col("op"), _RANKS)
    streamed = F.concat(
        F.coalesce(F.col("commit_lsn"), lsn.constant(_NO_LSN)),
        # Two decimal digits a byte: their order is that of the numbers.
        F.unhex(F.lpad(F.coalesce(F.col("sequence"), F.lit("")), 36, "0")),
        lsn.big_endian(F.coalesce(F.col("ordinal"), F.lit(0)), 8),
    )
    by_delivery = F.concat(
        lsn.constant(lsn.LOWEST),
        lsn.big_endian(F.col("partition"), lsn.WIDTH),
        lsn.big_endian(F.col("offset"), 8),
    )
    return F.concat(F.when(F.col("op") == "REFRESH", by_delivery).otherwise(streamed), rank)


def _instant(text: Column) -> Column:
    """ISO text, in UTC where it has no zone; a number is in the unit that its size tells.

    A number below 10^9, an empty text and a date of 1970 are no time: they become the beginning of 1970.
    """
    number = text.try_cast("bigint")
    micros = (
        F.when(number >= 10**18, F.floor(number / F.lit(1000).cast("decimal(4,0)")))
        .when(number >= 10**15, number)
        .when(number >= 10**12, number * 1000)
        .when(number >= 10**9, number * 10**6)
        .cast("bigint")
    )
    counted = F.when(micros <= _LAST_MICROS, F.timestamp_micros(micros))
    is_none = (text == "") | text.rlike(_DATE_OF_1970) | (text.try_cast("decimal(38,6)") < 10**9)
    unknown = F.when(is_none, F.timestamp_seconds(F.lit(0)))
    return F.coalesce(F.when(text.rlike(_ISO), text.try_cast("timestamp")), counted, unknown)


def _known(instant: Column) -> Column:
    """Sources that do not know the time tell one at the beginning of 1970."""
    return F.when(instant >= F.lit("1971-01-01").cast("timestamp"), instant)


def _sequence_time() -> Column:
    """UTC; it can be a few seconds off the commit."""
    return F.expr(
        "try_to_timestamp(concat(left(sequence, 14), '.', substring(sequence, 15, 2)), 'yyyyMMddHHmmss.SS')"
    )
