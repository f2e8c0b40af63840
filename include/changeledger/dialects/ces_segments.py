"""Events of CES that were split over several messages, and are joined by `logicalid`.

Each segment is a message of its own, on any partition and in any order. Deliveries again that agree are
dropped; ones that disagree make the whole event doubtful.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.dialects import ces_avro
from changeledger.dialects.ces_messages import ATTRIBUTES, FAULT, RAW, SEGMENT, with_event

# The other segments of an event, on its first one's row.
PARTS = "parts"
_PARTS_TYPE = (
    "array<struct<topic:string,partition:int,offset:bigint,key:binary,value:binary,"
    "headers:array<struct<key:string,value:binary>>>>"
)


def joined(messages: DataFrame, with_avro: bool) -> tuple[DataFrame, DataFrame]:
    """Split events: `(whole, left)`.

    `whole` has the rows of `parsed` for the events whose segments are all there, each on its first
    segment, with the others in `parts`. `left` are the segments of no such event, with disposition, reason
    and detail: deliveries again, parts of an event that waits, or of one that contradicts itself.
    """
    # In the order in which segments are joined; of one index the first delivery counts.
    member = ("segment", *RAW, "segment_text", "total", "is_final", *ATTRIBUTES)
    groups = (
        messages.where("is_segment")
        .groupBy("source", "logicalid", F.upper("operation").alias("what"))
        .agg(F.sort_array(F.collect_list(F.struct(*member))).alias("segments"))
        .withColumn("kept", F.expr(f"filter(segments, (s, i) -> NOT {_IS_AGAIN})"))
        .withColumns({"first": F.expr("kept[0]"), "ends": F.expr("filter(kept, s -> s.is_final)")})
        .withColumn("in_base64", F.expr(_IN_BASE64))
        .withColumn("data", F.expr(_DATA))
        .withColumn("begins", (F.col("first")["segment"] == 0) | _begins_at_one(with_avro))
        .withColumn("last", F.expr(_LAST))
        .withColumn("state", F.expr(_STATE))
    )
    others = f"transform(slice(kept, 2, size(kept)), s -> struct({', '.join(f's.{n}' for n in RAW)}))"
    whole = groups.where(F.col("state") == "complete").select(
        *(F.col("first")[name].alias(name) for name in (*RAW, *ATTRIBUTES, *SEGMENT)),
        *(F.lit(None).cast("string").alias(name) for name in FAULT),
        F.lit(False).alias("is_segment"),
        # A number may be in two segments.
        F.lit(True).alias("may_be_inexact"),
        "data",
        F.expr(others).cast(_PARTS_TYPE).alias(PARTS),
    )
    if with_avro:
        whole = ces_avro.with_json(whole, "data")
    return with_event(whole, PARTS), _left(groups)


# Of a segment `s` at place `i`: has one with its index come before it?
_IS_AGAIN = "(i > 0 AND s.segment = segments[i - 1].segment)"
# Bytes may be written as base64 of each segment, with padding, or of the whole. A piece of JSON may look
# like it, but not all of them do.
_IN_BASE64 = """
    forall(kept, s -> length(s.segment_text) % 4 = 0 AND try_to_binary(s.segment_text, 'base64') IS NOT NULL)
"""
_DATA = """
    array_join(transform(kept, s -> CASE
        WHEN in_base64 THEN CAST(try_to_binary(s.segment_text, 'base64') AS STRING)
        ELSE s.segment_text END), '')
"""
_LAST = """
    CASE WHEN size(ends) > 0 THEN ends[0].segment
         WHEN begins THEN first.segment + first.total - 1
         ELSE first.total END
"""
# Contradictions: another text under one index, two totals or two ends, an index beyond the end.
_STATE = f"""
    CASE WHEN exists(transform(segments, (s, i) -> {_IS_AGAIN}
                   AND NOT (s.segment_text = segments[i - 1].segment_text
                            AND s.is_final <=> segments[i - 1].is_final)), differs -> differs)
              OR size(array_distinct(transform(segments, s -> s.total))) > 1
              OR size(ends) > 1
              OR element_at(kept, -1).segment > last THEN 'contradictory'
         WHEN begins AND size(kept) = last - first.segment + 1 THEN 'complete'
         ELSE 'incomplete' END
"""


def _begins_at_one(with_avro: bool) -> Column:
    """Are segments counted from 1? Then what is there of them is an event, once all are; a rest is none."""
    begins = F.expr("array_contains(transform(json_object_keys(data), name -> lower(name)), 'eventsource')")
    begins = F.coalesce(begins, F.lit(False))
    if with_avro:
        begins = begins | ces_avro.begins(F.col("data"))
    return (F.col("first")["segment"] == 1) & begins


def _left(groups: DataFrame) -> DataFrame:
    placed = groups.select(
        "state",
        F.concat(
            F.lit("segments "),
            F.expr("array_join(transform(kept, s -> s.segment), ', ')"),
            F.lit(" of "),
            F.col("logicalid"),
            F.coalesce(F.concat(F.lit(", the last is "), F.col("last")), F.lit(", the last is not there")),
        ).alias("detail"),
        F.explode(F.expr(f"transform(segments, (s, i) -> struct(s AS segment, {_IS_AGAIN} AS again))")).alias(
            "one"
        ),
    )
    contradicts = F.col("state") == "contradictory"
    disposition, reason = (
        F.when(contradicts, F.lit(bad)).when(F.col("one")["again"], F.lit(again)).otherwise(F.lit(waits))
        for bad, again, waits in (
            (change.QUARANTINED, change.DUPLICATE, change.PENDING),
            ("split_contradictory", "segment_again", "split_incomplete"),
        )
    )
    return placed.where((F.col("state") != "complete") | F.col("one")["again"]).select(
        *(F.col("one")["segment"][name].alias(name) for name in RAW),
        disposition.alias("disposition"),
        reason.alias("reason"),
        F.col("detail"),
    )


def with_no_parts(messages: DataFrame) -> DataFrame:
    """Events of one message, in the shape of joined ones."""
    return messages.withColumn(PARTS, F.lit(None).cast(_PARTS_TYPE))


def spread(rows: DataFrame) -> DataFrame:
    """A row more for each segment in `parts`: `segment_record` is its message, NULL on the first's row."""
    parts = F.coalesce(PARTS, F.array().cast(_PARTS_TYPE))
    own = F.array(F.lit(None)).cast(_PARTS_TYPE)
    return rows.withColumn("segment_record", F.explode(F.concat(own, parts))).drop(PARTS)
