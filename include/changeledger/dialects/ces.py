"""Change event streaming of SQL Server 2025 (CES): CloudEvents in JSON or Avro, all tables in one topic.

Key differences from the other dialects:

* A message says itself of which table it is, and which columns that table has.
* The position is the commit LSN and a number inside the transaction; there is no change LSN, no mask.
* Every value is text. What was not sent is not there: unchanged columns, old values, old large values,
  by the settings of the stream group.
* An event too large for one message comes in several. There is no snapshot.

Source: the page on the JSON message format, and the wire notes on the three generations of the envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from changeledger import change, images, lsn
from changeledger.config import CesSource, Feed
from changeledger.contract import Contract
from changeledger.dialects import base, ces_avro
from changeledger.dialects.ces_fields import cells, members, positions, times
from changeledger.dialects.ces_messages import RAW, parsed, variant_mark, variants
from changeledger.dialects.ces_segments import PARTS, joined, spread, with_no_parts
from changeledger.dialects.ces_shapes import Shape, Variant, shapes

TRUNCATED = "truncated"
UNKNOWN_VERSION = "unknown_version"
UNEXPECTED_IMAGE = "unexpected_image"
POSITION_DISAGREES = "position_disagrees"

_OPERATIONS = {"INS": change.INSERT, "UPD": change.UPDATE, "DEL": change.DELETE}
_KIND = r"^com\.microsoft\.sql\.ces\.dml\.v[0-9]+\z"
# SQL Server's own rank at one position.
_RANKS = {"DEL": b"\1", "INS": b"\2", "UPD": b"\4"}


def survey(raw: DataFrame, feed: Feed, known: base.Known) -> base.Survey:
    """Tables and shapes as the messages tell them; split events joined."""
    with_avro = ces_avro.is_there(raw)
    messages = known.keep(parsed(raw, with_avro))
    told = _variants(messages)
    events = messages.where("NOT is_segment")
    left = None
    if any(row["segments"] for row in told):
        segments, left = joined(messages, with_avro)
        whole = known.keep(segments)
        told += _variants(whole)
        events = with_no_parts(events).unionByName(whole.select(*events.columns, PARTS))
    of_table: dict[str, set[Variant]] = {}
    known_tables = {contract.table.lower(): contract for contract in known.contracts.values()}
    # As the source writes them; where it writes one in two ways, as a contract has it, or as it was first.
    spelled = {name: contract.table for name, contract in known_tables.items()}
    for row in sorted(told, key=lambda row: row["first"] or ""):
        if row["table_name"] is not None and feed.table(row["table_name"]) is not None:
            variant = Variant(row["mark"], row["cols"], tuple(row["key_names"]), row["first"] or "")
            of_table.setdefault(row["table_name"].lower(), set()).add(variant)
            spelled.setdefault(row["table_name"].lower(), row["table_name"])
    readable = events.where(F.col("fault").isNull())
    found: list[base.Told] = []
    unread: list[_Unread] = []
    for name, its_variants in of_table.items():
        table = feed.table(spelled[name])
        assert table is not None, "looked up above"
        its_shapes = shapes(table, its_variants, known_tables.get(name))
        for shape in its_shapes:
            of_shape = F.lower("table_name") == name
            if len(its_shapes) > 1:
                of_shape = of_shape & _is_told_by(shape)
            missing = _missing(shape)
            if missing is None:
                found.append(base.Told(table.table, shape.contract, readable.where(of_shape)))
            else:
                unread.append(_Unread(of_shape, missing))
    others = _others(events, list(of_table), unread)
    return base.Survey(found, others if left is None else others.unionByName(left))


def _variants(messages: DataFrame) -> list[Row]:
    return variants(messages).collect()


def _missing(shape: Shape) -> str | None:
    """Why no record of the shape can be published; None where nothing is missing."""
    if not shape.contract.columns:
        return "no_columns"
    if shape.contract.names_alike:
        return "columns_alike"
    return None if shape.contract.key else "no_key"


def _is_told_by(shape: Shape) -> Column:
    return variant_mark().isin([variant.mark for variant in shape.variants])


class _Unread(NamedTuple):
    """Messages of which no change can be made, and why."""

    which: Column
    reason: str


def _others(events: DataFrame, tables: list[str], unread: Sequence[_Unread]) -> DataFrame:
    """What is no change of a table that can be published, with disposition, reason and detail."""
    name = F.lower("table_name")
    fault = F.col("fault")
    missing = F.lit(None).cast("string")
    for which, reason in unread:
        missing = F.when(which, F.lit(reason)).otherwise(missing)
    is_bad = (fault.isNotNull() & (fault != "tombstone")) | missing.isNotNull()
    disposition = (
        F.when(fault == "tombstone", F.lit(change.TOMBSTONE))
        .when(is_bad, F.lit(change.QUARANTINED))
        .otherwise(F.lit(change.CONTROL))
    )
    rows = events.where(fault.isNotNull() | ~name.isin(tables) | missing.isNotNull()).withColumns(
        {
            "disposition": disposition,
            "reason": F.coalesce(fault, missing, F.lit("table_not_in_feed")),
            "detail": F.coalesce(F.col("fault_detail"), F.col("table_name")),
        }
    )
    if PARTS in events.columns:
        # An event that cannot be read takes all its segments with it.
        part = F.col("segment_record")
        rows = spread(rows).withColumns({n: F.when(part.isNull(), F.col(n)).otherwise(part[n]) for n in RAW})
    return rows.select(*RAW, "disposition", "reason", "detail")


def decode_other(raw: DataFrame, feed: Feed) -> DataFrame:  # noqa: ARG001 - of every dialect's shape
    """Records that `survey` has set apart, with what it says of them."""
    return base.without_change(raw, F.col("disposition"), F.col("reason"), F.col("detail"))


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """One row of `base.DECODED` per message; the segments of a split event follow its first one."""
    source = feed.source
    assert isinstance(source, CesSource), "config binds a dialect to its source"
    renamed = raw.withColumnsRenamed({"key": "raw_key", "value": "raw_value", "headers": "raw_headers"})
    placed = times(positions(renamed.withColumn("op", F.upper("operation"))))
    staged = cells(members(placed, contract), contract, source.binaries)
    carried = [PARTS] if PARTS in raw.columns else []
    decoded = _problems(contract).told(staged)
    decoded = decoded.select(*_change_columns(contract), *_outcome_columns(), *carried)
    return _with_segments(decoded) if carried else decoded


def _problems(contract: Contract) -> base.Problems:
    op, kind = F.col("op"), F.col("type")
    found = base.Problems()

    def told(name: str) -> Column:
        return F.concat(F.lit(f"{name} is "), F.coalesce(F.col(name), F.lit("missing")))

    known_kind = F.lower(kind).rlike(_KIND)
    found.add(~F.coalesce(known_kind, F.lit(False)), "unknown_type", told("type"))
    found.add(op.isNull(), "no_operation", "the message has no `operation`")
    found.add(~op.isin(*_OPERATIONS), "unknown_operation", told("operation"))
    found.add(
        F.col("image_fault").isNotNull(),
        "malformed_image",
        F.concat(F.lit("`eventrow` has no object in "), F.col("image_fault")),
    )
    for side in ("old", "current"):
        base.add_lone_surrogate(found, F.col(f"{side}_text"))
    found.add((op != "DEL") & ~F.col("has_current"), "no_after_image", told("operation"))
    position = F.concat_ws(", ", told("logicalid"), told("commitlsn"), told("sequencenumber"))
    no_place = F.col("commit_lsn").isNull() | F.col("ordinal").isNull()
    says_some = F.coalesce("logicalid", "commitlsn", "sequencenumber").isNotNull()
    found.add(no_place & says_some, "malformed_position", position)
    found.add(no_place, "no_position", position)
    times_told = F.concat_ws(", ", told("time"), told("committime"))
    found.add(F.col("committed_at").isNull(), "malformed_time", times_told)
    base.add_image_problems(found, contract, null_key="a column of the key is NULL or not told")
    return found


def _change_columns(contract: Contract) -> list[Column]:
    op = F.col("op")
    before, after = images.image("before", contract), images.image("after", contract)
    has_before = F.col("before_texts").isNotNull()
    has_both = (op == "UPD") & has_before
    keys = ", ".join(change.literal(c.name) for c in contract.key)
    old_key_told = F.expr(f"before_gaps IS NULL OR NOT arrays_overlap(map_keys(before_gaps), array({keys}))")
    moved = has_both & old_key_told & ~F.col("old_key").eqNullSafe(F.col("key"))
    different = images.differing(
        images.cells("before", contract), images.cells("after", contract), contract.names
    )
    seen = images.without_gaps(different, F.col("before_gaps"), F.col("after_gaps"))
    # An update changes something: where nothing is seen, it is behind a gap.
    is_hidden = (F.size(seen) == 0) & F.coalesce("before_gaps", "after_gaps").isNotNull()
    changed = F.when(~F.coalesce(is_hidden, F.lit(False)), seen)
    rank = base.by_case(op, _RANKS)
    return [
        base.by_case(op, _OPERATIONS).alias("operation"),
        F.col("key"),
        F.when(moved, F.col("old_key")).alias("previous_key"),
        before.alias("before"),
        after.alias("after"),
        F.col("before_gaps"),
        F.col("after_gaps"),
        F.when(has_both, changed).alias("changed"),
        F.lit(None).cast("string").alias("mask"),
        F.col("commit_lsn"),
        F.lit(None).cast("binary").alias("change_lsn"),
        F.col("ordinal"),
        F.concat(F.col("commit_lsn"), lsn.big_endian(F.col("ordinal"), 8), rank).alias("sort_key"),
        F.col("committed_at"),
        lsn.to_text(F.col("commit_lsn")).alias("transaction_id"),
        _flags(moved).alias("flags"),
        base.message_record().alias("record"),
    ]


def _flags(moved: Column) -> Column:
    op = F.col("op")
    # `has_old` and not the image: the image of a delete may hold no more than its key.
    unexpected = ((op == "INS") & F.col("has_old")) | ((op == "DEL") & F.col("has_current"))
    return base.flags(
        {
            change.BEFORE_UNKNOWN: op.isin("UPD", "DEL") & ~F.col("has_old"),
            change.KEY_CHANGED: moved,
            TRUNCATED: F.col("is_cut"),
            change.CLOCK_SUSPECT: F.col("clock_differs"),
            UNKNOWN_VERSION: ~F.lower("type").endswith(".v1"),
            UNEXPECTED_IMAGE: unexpected,
            POSITION_DISAGREES: F.col("position_differs"),
        }
    )


def _outcome_columns() -> list[Column]:
    return [
        base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)).alias("disposition"),
        F.col("reason"),
        F.col("detail"),
        F.lit(base.WHOLE).alias("part"),
        F.lit(None).cast("binary").alias("pair_key"),
        F.col("raw_key"),
        F.col("raw_value"),
        F.col("raw_headers"),
    ]


def _with_segments(decoded: DataFrame) -> DataFrame:
    """The other segments of each change as rows of their own: paired, or quarantined with the first."""
    is_split = F.size(PARTS) > 0
    first = F.encode(F.to_json("record"), "UTF-8")
    rows = spread(decoded.withColumn("pair_key", F.when(is_split, first)))
    part = F.col("segment_record")
    bad = F.col("disposition") == change.QUARANTINED
    of_part = {
        "record": base.message_record(lambda name: part[name]),
        "disposition": F.when(bad, F.lit(change.QUARANTINED)).otherwise(F.lit(change.PAIRED)),
        "reason": F.col("reason"),
        "detail": F.col("detail"),
        "part": F.lit(base.WHOLE),
        "pair_key": F.col("pair_key"),
        "raw_key": part["key"],
        "raw_value": part["value"],
        "raw_headers": part["headers"],
    }
    return rows.select(
        *(
            F.when(part.isNull(), F.col(n)).otherwise(of_part.get(n, F.lit(None))).alias(n)
            for n in base.DECODED
        )
    )


CES = base.MessageDialect("ces", survey, decode, decode_other)
