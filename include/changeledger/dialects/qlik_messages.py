"""Qlik Replicate's change messages on Kafka, JSON, with or without its envelope.

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

from changeledger import change, images, masks
from changeledger.change import literal
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects import base
from changeledger.dialects import qlik_messages_json as messages
from changeledger.dialects.qlik_messages_metadata import is_lob
from changeledger.dialects.qlik_messages_positions import positions, sort_key
from changeledger.dialects.qlik_messages_shapes import METADATA, NOT_IN_FEED, UNKNOWN
from changeledger.dialects.qlik_messages_survey import FATE, FATE_DETAIL, survey
from changeledger.dialects.qlik_messages_values import WIRE

_OPERATIONS = {
    "INSERT": change.INSERT,
    "UPDATE": change.UPDATE,
    "DELETE": change.DELETE,
    "REFRESH": change.SNAPSHOT,
}
# A mask of changes names a column of the key, but the message has no old key.
OLD_KEY_UNKNOWN = "old_key_unknown"
# The source does not tell the commit time: another clock stands in.
CLOCK_SUSPECT = "clock_suspect"
_NO_PLACEHOLDERS = ()


def decode(records: DataFrame, shape: Contract, feed: Feed) -> DataFrame:  # noqa: ARG001 - as every dialect's
    """One row of `base.DECODED` per message that `survey` found to be of `shape`."""
    staged = positions(messages.parsed(records).transform(_sides))
    staged = _masks(staged, shape).transform(lambda frame: _images(frame, shape))
    return _problems(shape).told(staged).select(*_change_columns(shape), *_outcome_columns())


def _sides(parsed: DataFrame) -> DataFrame:
    """`op`, and the members of both images; of a delete the row that is there, in whichever member."""
    data, before = F.col("told_data"), F.col("told_beforeData")
    filled = F.when(F.exists(F.map_values(before), lambda value: value.isNotNull()), before)
    op = F.upper(F.col("told_headers")["operation"])
    return parsed.withColumn("op", op).withColumns(
        {
            "before": F.when(op == "DELETE", F.coalesce(filled, data)).when(op == "UPDATE", before),
            "after": F.when(op != "DELETE", data),
        }
    )


def _masks(staged: DataFrame, shape: Contract) -> DataFrame:
    """`in_mask`: the columns that changed, as the mask says; `absent`: those that are not in the message."""
    headers = F.col("told_headers")
    ordinals = {c.name: c.ordinal for c in shape.columns}
    highest = max(ordinals.values())
    order = shape.mask_order or "big"
    names = F.expr(_names(shape))
    streamed = F.col("op") != "REFRESH"
    return (
        staged.withColumns(
            {
                # An empty text tells nothing; no column at all is 00.
                "change_mask": F.when(streamed, F.nullif(headers["changeMask"], F.lit(""))),
                "column_mask": F.when(streamed, F.nullif(headers["columnMask"], F.lit(""))),
            }
        )
        .withColumns(
            {
                "change_bits": masks.from_text(F.col("change_mask")),
                "column_bits": masks.from_text(F.col("column_mask")),
            }
        )
        .withColumns(
            {
                "change_words": masks.words(F.col("change_bits"), highest, order),
                "column_words": masks.words(F.col("column_bits"), highest, order),
            }
        )
        .withColumns(
            {
                "in_mask": F.when(
                    F.col("change_bits").isNotNull(), masks.columns(F.col("change_words"), ordinals)
                ),
                "absent": F.when(
                    F.col("column_bits").isNotNull(),
                    F.array_except(names, masks.columns(F.col("column_words"), ordinals)),
                ),
            }
        )
    )


def _images(staged: DataFrame, shape: Contract) -> DataFrame:
    keys = ", ".join(literal(c.name) for c in shape.key)
    told = {
        # Of a delete only the key counts, and it counts whatever the mask says.
        "before": f"CASE WHEN op = 'DELETE' THEN name IN ({keys}) ELSE {_PRESENT} END",
        "after": _PRESENT,
    }
    for side in ("before", "after"):
        staged = staged.withColumn(f"{side}_texts", images.texts(F.col(side), shape))
        known = f"transform({_names(shape)}, (name, at) -> IF({told[side]}, get({side}_texts, at), NULL))"
        only_some = "op = 'DELETE' OR size(absent) > 0"
        staged = staged.withColumn(
            f"{side}_texts",
            F.expr(
                f"CASE WHEN {side}_texts IS NOT NULL AND ({only_some}) THEN {known} ELSE {side}_texts END"
            ),
        )
        staged = images.read_cells(staged, side, shape, WIRE, _NO_PLACEHOLDERS)
    before, after = (images.cells(side, shape) for side in ("before", "after"))
    own = [f"CASE WHEN op = 'DELETE' THEN {b} ELSE {a} END" for b, a in zip(before, after, strict=True)]
    sides = ("before", "after")
    return staged.withColumns(
        {
            **{f"{side}_gaps": _gaps(side, shape) for side in sides},
            "key": images.key_of(own, shape),
            "old_key": images.key_of(before, shape),
            "misfits": F.coalesce(*(images.misfits(side, shape, _NO_PLACEHOLDERS) for side in sides)),
            "unknown": F.coalesce(*(images.unknown_members(F.col(side), shape) for side in sides)),
        }
    ).withColumn("old_key_known", ~images.key_is_null("old_key", shape))


_PRESENT = "coalesce(NOT array_contains(absent, name), true)"


def _names(shape: Contract) -> str:
    return f"array({', '.join(map(literal, shape.names))})"


def _gaps(side: str, shape: Contract) -> Column:
    """map<column, state>: not in the message, or filler of a delete, or an old large object.

    SQL Server's log has no old value of a large object: its null in `beforeData` is no NULL. [not documented]
    """
    keys = ", ".join(literal(c.name) for c in shape.key)
    lobs = [literal(c.name) for c in shape.columns if is_lob(c)]
    missing = f"NOT {_PRESENT} OR NOT array_contains(map_keys({side}), name)"
    states = [f"WHEN {missing} THEN {literal(change.NOT_CAPTURED)}"]
    if side == "before":
        states.insert(
            0, f"WHEN op = 'DELETE' THEN IF(name IN ({keys}), NULL, {literal(change.NOT_CAPTURED)})"
        )
    if side == "before" and lobs:
        old_lob = f"name IN ({', '.join(lobs)}) AND get(before_texts, at) IS NULL"
        states.append(f"WHEN {old_lob} THEN {literal(change.UNAVAILABLE)}")
    each = f"transform({_names(shape)}, (name, at) -> struct(name, CASE {' '.join(states)} END AS state))"
    found = f"filter({each}, entry -> entry.state IS NOT NULL)"
    some = f"CASE WHEN size({found}) > 0 THEN map_from_entries({found}) END"
    return F.expr(f"CASE WHEN {side} IS NOT NULL THEN {some} END")


def _problems(shape: Contract) -> base.Problems:
    headers, op = F.col("told_headers"), F.col("op")
    streamed = op != "REFRESH"
    found = messages.problems_of_form()
    found.add(~op.isin(*_OPERATIONS), "unknown_operation", F.concat(F.lit("operation is "), op))
    # Either name may be missing, and then says nothing.
    schema_name, table_name = shape.table.lower().split(".", 1)
    told = [(F.col("told_schema"), schema_name), (F.col("told_table"), table_name)]
    other = F.lit(False)
    for name, expected in told:
        other = other | F.coalesce(F.lower(name) != expected, F.lit(False))
    named = F.concat_ws(".", *(name for name, _ in told))
    found.add(other, "table_mismatch", F.concat(named, F.lit(f" with the columns of {shape.table}")))
    found.add(
        (op != "DELETE") & F.col("after").isNull(), "no_after_image", F.concat(op, F.lit(" without `data`"))
    )
    found.add((op == "DELETE") & F.col("before").isNull(), "no_before_image", "a delete without a row")
    for name in ("changeMask", "columnMask"):
        bits = F.col("change_bits" if name == "changeMask" else "column_bits")
        bad = streamed & (headers[name] != "") & bits.isNull()
        found.add(bad, "malformed_mask", F.concat(F.lit(f"{name} is "), headers[name]))
    for column, name, reason in (
        ("sequence", "changeSequence", "malformed_sequence"),
        ("ordinal", "transactionEventCounter", "malformed_counter"),
        ("readable_time", "timestamp", "malformed_time"),
    ):
        bad = streamed & headers[name].isNotNull() & F.col(column).isNull()
        found.add(bad, reason, F.concat(F.lit(f"{name} is "), headers[name]))
    no_position = streamed & F.col("commit_lsn").isNull() & F.col("sequence").isNull()
    found.add(no_position, "no_position", "neither streamPosition nor changeSequence tells one")
    extra = F.concat(F.lit(f"{shape.table} has no column "), F.concat_ws(", ", F.col("unknown")))
    found.add(F.col("unknown").isNotNull(), "unknown_column", extra)
    types = F.create_map(*(F.lit(x) for c in shape.columns for x in (c.name, f"{c.name} {c.type}")))
    named = F.concat_ws(", ", F.transform(F.col("misfits"), lambda name: F.element_at(types, name)))
    found.add(F.col("misfits").isNotNull(), "value_does_not_fit", F.concat(F.lit("no value of "), named))
    found.add(images.key_is_null("key", shape), "null_key", "a column of the key is NULL")
    return found


def _changed(shape: Contract) -> Column:
    """The mask's columns, and the large objects that are seen to differ; without a mask all that differ."""
    before, after = (images.cells(side, shape) for side in ("before", "after"))
    different = images.without_gaps(
        images.differing(before, after, shape.names), F.col("before_gaps"), F.col("after_gaps")
    )
    without_mask = F.when(F.col("before").isNotNull(), different)
    by_mask = F.col("in_mask")
    lobs = [literal(c.name) for c in shape.columns if is_lob(c)]
    if lobs:
        seen = F.array_intersect(F.expr(f"array({', '.join(lobs)})"), without_mask)
        either = F.array_union(by_mask, F.coalesce(seen, F.expr("CAST(array() AS array<string>)")))
        by_mask = F.array_intersect(F.expr(_names(shape)), either)
    return F.when(F.col("op") == "UPDATE", F.when(F.col("in_mask").isNull(), without_mask).otherwise(by_mask))


def _mask_disagrees(shape: Contract) -> Column:
    """An insert sets the bits of all columns, a delete those of the key; no mask has bits of no column."""
    op, words = F.col("op"), F.col("change_words")
    small = {c.name: c.ordinal for c in shape.columns if not is_lob(c)}
    keys = F.expr(f"array({', '.join(literal(c.name) for c in shape.key)})")
    whole = F.coalesce(F.size("absent") == 0, F.lit(True))
    others = F.array_except(F.col("in_mask"), keys)
    highest = max(c.ordinal for c in shape.columns)
    beyond = masks.highest_set(F.col("change_bits"), shape.mask_order or "big") > highest
    insert = (op == "INSERT") & whole & ~masks.is_full(words, small)
    delete = (op == "DELETE") & ((F.size(others) > 0) | (F.size(F.array_except(keys, F.col("in_mask"))) > 0))
    return F.col("change_bits").isNotNull() & (beyond | insert | delete)


def _change_columns(shape: Contract) -> list[Column]:
    op, keys = F.col("op"), F.expr(f"array({', '.join(literal(c.name) for c in shape.key)})")
    operation = F.lit(None).cast("string")
    for told, name in _OPERATIONS.items():
        operation = F.when(op == told, F.lit(name)).otherwise(operation)
    has_before = F.col("before").isNotNull()
    knows_old_key = (op == "UPDATE") & has_before & F.col("old_key_known")
    moved = knows_old_key & (F.col("old_key") != F.col("key"))
    key_in_mask = F.arrays_overlap(F.col("in_mask"), keys)
    return [
        operation.alias("operation"),
        F.col("key"),
        F.when(moved, F.col("old_key")).alias("previous_key"),
        images.image("before", shape).alias("before"),
        images.image("after", shape).alias("after"),
        F.col("before_gaps"),
        F.col("after_gaps"),
        _changed(shape).alias("changed"),
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
                change.MASK_DISAGREES: _mask_disagrees(shape),
                CLOCK_SUSPECT: F.col("clock_suspect"),
            }
        ).alias("flags"),
        base.message_record().alias("record"),
    ]


def _outcome_columns() -> list[Column]:
    is_tombstone = F.col("value").isNull()
    reason = F.when(~is_tombstone, F.col("reason"))
    outcome = F.when(is_tombstone, F.lit(change.TOMBSTONE)).otherwise(F.lit(change.CHANGE))
    return [
        base.quarantined_if(reason, outcome).alias("disposition"),
        reason.alias("reason"),
        F.when(~is_tombstone, F.col("detail")).alias("detail"),
        F.lit(base.WHOLE).alias("part"),
        F.lit(None).cast("binary").alias("pair_key"),
        F.col("raw_key"),
        F.col("value").alias("raw_value"),
        F.col("headers").alias("raw_headers"),
    ]


def decode_other(raw: DataFrame, feed: Feed) -> DataFrame:  # noqa: ARG001 - as every dialect's
    """Metadata, messages of tables that the feed does not list, and data that waits for its metadata."""
    staged = messages.problems_of_form().told(messages.parsed(raw))
    fate, problem = F.col(FATE), F.when(F.col(FATE) != METADATA, F.col("reason"))
    disposition = (
        F.when(F.col("value").isNull(), F.lit(change.TOMBSTONE))
        .when(problem.isNotNull(), F.lit(change.QUARANTINED))
        .when(fate.isin(METADATA, NOT_IN_FEED), F.lit(change.CONTROL))
        .when(fate == UNKNOWN, F.lit(change.PENDING))
        .otherwise(F.lit(change.QUARANTINED))
    )
    waits_for = F.when(fate == UNKNOWN, F.concat_ws(" ", F.lit("no metadata yet:"), F.col("schema_id")))
    return base.without_change(
        staged,
        disposition,
        F.when(F.col("value").isNotNull(), F.coalesce(problem, fate)),
        F.coalesce(F.col(FATE_DETAIL), F.when(problem.isNotNull(), F.col("detail")), waits_for),
    )


QLIK_MESSAGES = base.MessageDialect("qlik_messages", survey, decode, decode_other)
