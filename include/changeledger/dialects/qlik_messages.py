"""Qlik Replicate's change messages on Kafka, JSON or Avro, with or without its envelope.

Key differences from the other dialects:

* The columns are told by metadata messages, once for each version of a table; data names its version by a
  schema id, or not at all.
* Two masks as hex text: what changed, and which columns are in the message. A member that is not in the
  message is there as JSON null, which is no NULL. Large objects are never in the mask of changes.
* A delete tells the key alone: what the other members hold is filler.
* A key update is one UPDATE whose `beforeData` has the old key.
* Rows of the full load (REFRESH) have neither order nor time.
* The stream position is the source's own; SQL Server's begins with the commit LSN.

Source: the page on metadata and data messages, and the wire notes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.calibration import MaskRules
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects import base
from changeledger.dialects import qlik_messages_json as messages
from changeledger.dialects.qlik_messages_avro import FAULT, JSON, is_enveloped
from changeledger.dialects.qlik_messages_images import (
    array_of,
    changed,
    mask_disagrees,
    read_images,
    read_masks,
    sides,
)
from changeledger.dialects.qlik_messages_positions import positions, sort_key
from changeledger.dialects.qlik_messages_shapes import METADATA, NOT_IN_FEED, UNKNOWN
from changeledger.dialects.qlik_messages_survey import FATE, FATE_DETAIL, survey

_OPERATIONS = {
    "INSERT": change.INSERT,
    "UPDATE": change.UPDATE,
    "DELETE": change.DELETE,
    "REFRESH": change.SNAPSHOT,
}
# A mask of changes names a column of the key, but the message has no old key.
OLD_KEY_UNKNOWN = "old_key_unknown"


def decode(records: DataFrame, shape: Contract, feed: Feed) -> DataFrame:  # noqa: ARG001 - as every dialect's
    """One row of `base.DECODED` per message that `survey` found to be of `shape`."""
    staged = read_masks(positions(sides(messages.parsed(records))), shape)
    staged = read_images(staged, shape)
    return (
        _problems(shape, JSON in records.columns)
        .told(staged)
        .select(*_change_columns(shape), *base.whole_message("raw_key"))
    )


def _problems(shape: Contract, with_avro: bool) -> base.Problems:
    headers, op = F.col("told_headers"), F.col("op")
    streamed = op != "REFRESH"
    found = messages.problems_of_form(with_avro).found_as("malformed")
    found.add(~op.isin(*_OPERATIONS), "unknown_operation", F.concat(F.lit("operation is "), op))
    # Either name may be missing, and then says nothing.
    schema_name, table_name = shape.table.lower().split(".", 1)
    told = [(F.col("told_schema"), schema_name), (F.col("told_table"), table_name)]
    other = F.lit(False)
    for said, expected in told:
        other = other | F.coalesce(F.lower(said) != expected, F.lit(False))
    named = F.concat_ws(".", *(said for said, _ in told))
    found.add(other, "table_mismatch", F.concat(named, F.lit(f" with the columns of {shape.table}")))
    no_after = (op != "DELETE") & F.col("after").isNull()
    found.add(no_after, "no_after_image", F.concat(op, F.lit(" without `data`")))
    found.add((op == "DELETE") & F.col("before").isNull(), "no_before_image", "a delete without a row")
    for name in ("changeMask", "columnMask"):
        bits = F.col("change_bits" if name == "changeMask" else "column_bits")
        bad = streamed & (headers[name] != "") & bits.isNull()
        found.add(bad, "malformed_mask", F.concat(F.lit(f"{name} is "), headers[name]))
    for read, name, reason in (
        ("sequence", "changeSequence", "malformed_sequence"),
        ("ordinal", "transactionEventCounter", "malformed_counter"),
        ("readable_time", "timestamp", "malformed_time"),
    ):
        bad = streamed & headers[name].isNotNull() & F.col(read).isNull()
        found.add(bad, reason, F.concat(F.lit(f"{name} is "), headers[name]))
    no_position = streamed & F.col("commit_lsn").isNull() & F.col("sequence").isNull()
    found.add(no_position, "no_position", "neither streamPosition nor changeSequence tells one")
    base.add_inexact_numbers(found, F.col(JSON if with_avro else "value").cast("string"), shape)
    base.add_image_problems(found, shape)
    return found


def _change_columns(shape: Contract) -> list[Column]:
    op = F.col("op")
    has_before = F.col("before").isNotNull()
    knows_old_key = (op == "UPDATE") & has_before & F.col("old_key_known")
    moved = knows_old_key & (F.col("old_key") != F.col("key"))
    key_in_mask = F.arrays_overlap(F.col("in_mask"), array_of([c.name for c in shape.key]))
    return [
        base.by_case(op, _OPERATIONS).alias("operation"),
        F.col("key"),
        F.when(moved, F.col("old_key")).alias("previous_key"),
        images.image("before", shape).alias("before"),
        images.image("after", shape).alias("after"),
        F.col("before_gaps"),
        F.col("after_gaps"),
        changed(shape).alias("changed"),
        F.col("change_mask").alias("mask"),
        F.col("commit_lsn"),
        F.lit(None).cast("binary").alias("change_lsn"),
        F.col("ordinal"),
        sort_key().alias("sort_key"),
        F.col("committed_at"),
        F.col("transaction_id"),
        base.flags(
            {
                change.POSITION_UNKNOWN: op == "REFRESH",
                change.BEFORE_UNKNOWN: (op == "UPDATE") & ~has_before,
                OLD_KEY_UNKNOWN: (op == "UPDATE") & key_in_mask & ~knows_old_key,
                change.KEY_CHANGED: moved,
                change.ORDER_AMBIGUOUS: F.col("order_ambiguous"),
                change.MASK_DISAGREES: mask_disagrees(shape),
                change.CLOCK_SUSPECT: F.col("clock_suspect"),
            }
        ).alias("flags"),
        base.message_record().alias("record"),
    ]


def decode_other(raw: DataFrame, feed: Feed) -> DataFrame:  # noqa: ARG001 - as every dialect's
    """Metadata, messages of tables that the feed does not list, and data that waits for its metadata."""
    form = messages.problems_of_form(JSON in raw.columns).found_as("malformed")
    staged = form.told(messages.parsed(raw))
    fate, problem = F.col(FATE), F.when(F.col(FATE) != METADATA, F.col("reason"))
    if JSON in raw.columns:
        # Its metadata may still come, and tell how to read it.
        waits = (fate == UNKNOWN) & is_enveloped() & (F.col(FAULT) == "unknown_schema")
        problem = F.when(~F.coalesce(waits, F.lit(False)), problem)
    disposition = (
        F.when(F.col("is_tombstone"), F.lit(change.TOMBSTONE))
        .when(problem.isNotNull(), F.lit(change.QUARANTINED))
        .when(fate.isin(METADATA, NOT_IN_FEED), F.lit(change.CONTROL))
        .when(fate == UNKNOWN, F.lit(change.PENDING))
        .otherwise(F.lit(change.QUARANTINED))
    )
    waits_for = F.when(fate == UNKNOWN, F.concat_ws(" ", F.lit("no metadata yet:"), F.col("schema_id")))
    detail = F.coalesce(F.col(FATE_DETAIL), F.when(problem.isNotNull(), F.col("detail")), waits_for)
    is_message = F.col("value").isNotNull()
    return base.without_change(
        staged,
        disposition,
        F.when(is_message, F.coalesce(problem, fate)),
        F.when(is_message, detail),
    )


def mask_rules(shape: Contract) -> MaskRules:
    """Large objects are never in a mask, whatever the lake holds them as."""
    return MaskRules("key", excluded=frozenset(c.name for c in shape.columns if c.sql_type.is_large))


QLIK_MESSAGES = base.MessageDialect("qlik_messages", survey, decode, decode_other, mask_rules=mask_rules)
