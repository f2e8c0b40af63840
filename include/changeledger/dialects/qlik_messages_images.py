"""The images of a Qlik change, and what its two masks say of them: what changed, what is in the message."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, masks
from changeledger.change import literal
from changeledger.contract import Contract
from changeledger.dialects.qlik_messages_values import WIRE

_NO_PLACEHOLDERS = ()


def sides(parsed: DataFrame) -> DataFrame:
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


def read_masks(staged: DataFrame, shape: Contract) -> DataFrame:
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


def read_images(staged: DataFrame, shape: Contract) -> DataFrame:
    """The typed cells of both images, their gaps, and the keys that they tell."""
    both = ("before", "after")
    staged = staged.withColumns({f"{side}_texts": images.texts(F.col(side), shape) for side in both})
    texts = F.when(F.col("op") == "DELETE", _key_texts(shape)).otherwise(F.col("before_texts"))
    staged = staged.withColumn("before_texts", texts)
    staged = images.read_cells(staged, both, shape, WIRE, _NO_PLACEHOLDERS)
    before, after = (images.cells(side, shape) for side in both)
    own = [f"CASE WHEN op = 'DELETE' THEN {b} ELSE {a} END" for b, a in zip(before, after, strict=True)]
    return staged.withColumns(
        {
            **{f"{side}_gaps": _gaps(side, shape) for side in both},
            "key": images.key_of(own, shape),
            "old_key": images.key_of(before, shape),
            "misfits": F.coalesce(*(images.misfits(side, shape, _NO_PLACEHOLDERS) for side in both)),
            "unknown": F.coalesce(*(images.unknown_members(F.col(side), shape) for side in both)),
        }
    ).withColumn("old_key_known", ~images.key_is_null("old_key", shape))


def _key_texts(shape: Contract) -> Column:
    """array<string>: the texts of a deleted row, NULL for whatever fills the columns outside the key."""
    key_only = f"IF({_is_filler(shape)}, NULL, get(before_texts, at))"
    return F.expr(f"transform({_names(shape)}, (name, at) -> {key_only})")


def array_of(names: Sequence[str]) -> Column:
    return F.expr(f"CAST(array({', '.join(map(literal, names))}) AS ARRAY<STRING>)")


def _names(shape: Contract) -> str:
    return f"array({', '.join(map(literal, shape.names))})"


def _is_filler(shape: Contract) -> str:
    """Of a deleted row: what is outside the key; where no key is known, what is NULL."""
    key = ", ".join(literal(c.name) for c in shape.key)
    return f"name NOT IN ({key})" if key else "get(before_texts, at) IS NULL"


def _gaps(side: str, shape: Contract) -> Column:
    """map<column, state>: not in the message, or filler of a delete, or an old large object.

    SQL Server's log has no old value of a large object, so its null in `beforeData` is taken for none.
    """
    lobs = [literal(c.name) for c in shape.columns if c.sql_type.is_large]
    is_null, not_captured = f"get({side}_texts, at) IS NULL", literal(change.NOT_CAPTURED)
    states = [
        f"WHEN NOT array_contains(map_keys({side}), name) THEN {not_captured}",
        f"WHEN array_contains(absent, name) AND {is_null} THEN {not_captured}",
    ]
    if side == "before":
        states.insert(0, f"WHEN op = 'DELETE' THEN IF({_is_filler(shape)}, {not_captured}, NULL)")
    if side == "before" and lobs:
        states.append(f"WHEN name IN ({', '.join(lobs)}) AND {is_null} THEN {literal(change.UNAVAILABLE)}")
    each = f"transform({_names(shape)}, (name, at) -> struct(name, CASE {' '.join(states)} END AS state))"
    found = f"filter({each}, entry -> entry.state IS NOT NULL)"
    some = f"CASE WHEN size({found}) > 0 THEN map_from_entries({found}) END"
    return F.expr(f"CASE WHEN {side} IS NOT NULL THEN {some} END")


def changed(shape: Contract) -> Column:
    """The mask's columns, and the large objects that are seen to differ; without a mask all that differ."""
    before, after = (images.cells(side, shape) for side in ("before", "after"))
    different = images.without_gaps(
        images.differing(before, after, shape.names), F.col("before_gaps"), F.col("after_gaps")
    )
    without_mask = F.when(F.col("before").isNotNull(), different)
    either = F.col("in_mask")
    lobs = [c.name for c in shape.columns if c.sql_type.is_large]
    if lobs:
        seen = F.array_intersect(array_of(lobs), without_mask)
        either = F.array_union(either, F.coalesce(seen, array_of([])))
    by_mask = F.array_intersect(F.expr(_names(shape)), either)
    return F.when(F.col("op") == "UPDATE", F.when(F.col("in_mask").isNull(), without_mask).otherwise(by_mask))


def mask_disagrees(shape: Contract) -> Column:
    """An insert sets the bits of its values, a delete those of the key; no mask has bits of no column.

    A value whose bit says that it is not in the message is believed, but the masks are not.
    """
    op, in_mask = F.col("op"), F.col("in_mask")
    small = {c.name: at for at, c in enumerate(shape.columns) if not c.sql_type.is_large}
    some_unset = ~masks.is_full(
        F.col("change_words"), {n: shape.columns[at].ordinal for n, at in small.items()}
    )
    told = images.names_where([f"get(after_texts, {at}) IS NOT NULL" for at in small.values()], [*small])
    insert = (op == "INSERT") & some_unset & (F.size(F.array_except(F.expr(told), in_mask)) > 0)
    key = [c.name for c in sorted(shape.key, key=lambda column: column.ordinal)]
    # Where no key is known, nothing contradicts the mask.
    delete = (op == "DELETE") & (in_mask != array_of(key)) if key else F.lit(False)
    highest = max(c.ordinal for c in shape.columns)
    beyond = masks.highest_set(F.col("change_bits"), shape.mask_order or "big") > highest
    value = "coalesce(element_at(after, name), element_at(before, name))"
    there = (op != "DELETE") & F.expr(f"exists(absent, name -> {value} IS NOT NULL)")
    by_changes = F.col("change_bits").isNotNull() & (beyond | insert | delete)
    return F.coalesce(by_changes, F.lit(False)) | there
