"""SQL Server's own CDC tables, `cdc.<capture_instance>_CT`.

Key differences from the other dialects:

* An update is two rows (3 before, 4 after) that share (start_lsn, command_id, seqval).
* Order is (start_lsn, command_id, seqval, operation): seqval alone is not to be ordered by.
* `__$update_mask` tells what changed; its last byte holds capture ordinals 1 to 8.
* Large values are NULL in before images, and in new values where their bit is clear: unavailable, not NULL.
* Any subset of the columns is read: old versions have no command id, sys.fn_cdc_get_net_changes_* has no
  seqval, and one row (operation 5) for an insert or update, whichever it was.

Source: the page on `cdc.<capture_instance>_CT` and its remarks on large object data types.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, lsn, masks
from changeledger.calibration import MaskRules
from changeledger.change import quoted
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects import base, table_rows
from changeledger.dialects.sqlserver_cdc_sql import (
    COMMAND_ID,
    COMMIT_TIME,
    OPERATION,
    SEQVAL,
    START_LSN,
    UPDATE_MASK,
)
from changeledger.dialects.sqlserver_cdc_tables import CaptureTables
from changeledger.dialects.table_rows import Rows

# A net change (5) may have been an insert: as an update without a before image it is true of both.
_OPERATIONS = {
    1: change.DELETE,
    2: change.INSERT,
    3: change.UPDATE,
    4: change.UPDATE,
    5: change.UPDATE,
}
# The width of `__$update_mask` as SQL Server has it.
_MASK_BYTES = 128
# 10 bytes in base64, as exports write binary columns.
_BASE64_LENGTH = 16


def record(raw: DataFrame, instance: str, _feed: Feed) -> Column:
    """Where a row stands: its change table, and (start_lsn, command_id, seqval, operation) as bytes."""
    rows = Rows.of(raw)
    nothing = F.lit(b"")
    row = F.concat(
        F.coalesce(_lsn(rows, START_LSN), nothing),
        lsn.big_endian(_number(rows, COMMAND_ID), 4),
        F.coalesce(_lsn(rows, SEQVAL), nothing),
        lsn.big_endian(_number(rows, OPERATION), 1),
    )
    return base.row_record(F.lit(f"{instance}_CT"), row)


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """One row of `base.DECODED` per raw row of the change table of `contract.table`."""
    rows = Rows.packed(raw)
    ordinals = {c.name: c.ordinal for c in contract.columns}
    highest = max(ordinals.values())
    staged = rows.frame.withColumns(
        {
            "start_lsn": _lsn(rows, START_LSN),
            "seqval": _lsn(rows, SEQVAL),
            "command_id": _number(rows, COMMAND_ID),
            "code": _number(rows, OPERATION),
            "mask_bytes": _mask(rows),
            "committed_at": base.in_calendar(
                F.convert_timezone(
                    F.lit(feed.time_zone), F.lit("UTC"), rows.text(COMMIT_TIME).try_cast("timestamp_ntz")
                ).cast("timestamp")
            ),
            "image": table_rows.image(table_rows.cells(rows, contract), contract),
        }
    ).withColumns(
        {
            "mask_words": masks.words(F.col("mask_bytes"), highest, contract.mask_order or "big"),
            "order_prefix": F.concat(
                F.col("start_lsn"),
                lsn.big_endian(F.col("command_id"), 4),
                F.coalesce(F.col("seqval"), lsn.constant(lsn.LOWEST)),
            ),
            "key": images.key_of(images.fields("image", contract), contract),
        }
    )
    staged = staged.withColumn("changed", masks.columns(F.col("mask_words"), ordinals))
    judged = _problems(rows, contract, masks.width(highest)).told(staged)
    before_gaps, after_gaps = _gaps(rows, contract)
    with_gaps = judged.withColumns(
        {"before_gaps": before_gaps, "after_gaps": after_gaps, "pair_key": _pair_key(rows, contract)}
    )
    return with_gaps.select(*_columns(contract, ordinals))


def _lsn(rows: Rows, name: str) -> Column:
    """10 bytes, from bytes or from an export's text: 0x and hex, bare hex, 8:8:4, base64."""

    def read(told: Column, kind: str) -> Column:
        if kind == "binary":
            return told
        encoded = F.when(F.length(told) == _BASE64_LENGTH, F.try_to_binary(told, F.lit("base64")))
        return F.coalesce(lsn.from_text(told), encoded)

    return rows.first(name, read, "binary")


def _number(rows: Rows, name: str) -> Column:
    """An int; 0 where it is not there, as the command id in old versions of SQL Server."""
    return F.coalesce(rows.text(name).try_cast("int"), F.lit(0))


def _mask(rows: Rows) -> Column:
    """The mask as bytes; exports write it as hex text of whole bytes, with or without 0x."""

    def read(told: Column, kind: str) -> Column:
        hexadecimal = F.regexp_replace(told, "^0[xX]", "")
        return told if kind == "binary" else F.try_to_binary(hexadecimal, F.lit("hex"))

    return rows.first(UPDATE_MASK, read, "binary")


def _pair_key(rows: Rows, contract: Contract) -> Column:
    """What 3 and 4 of one update share; without seqval only their key tells a statement's rows apart."""
    by_key = [] if rows.has(SEQVAL) or not contract.key else [lsn.big_endian(F.xxhash64("key"), 8)]
    return F.when(F.col("code").isin(3, 4), F.concat(F.col("order_prefix"), *by_key))


def _gaps(rows: Rows, contract: Contract) -> tuple[Column, Column]:
    """Cells of before and after images that are NULL without being known to be.

    Of large columns: on operation 3 always, of text, ntext and image on operation 1, too; on 4 where the mask
    does not set their bit.
    """
    missing = [(name, change.NOT_CAPTURED, "true") for name in table_rows.not_captured(rows, contract)]
    unread = {name for name, _, _ in missing}
    before, after = list(missing), list(missing)
    for column in contract.columns:
        if column.sql_type.is_large and not column.computed and column.name not in unread:
            empty = f"image.{quoted(column.name)} IS NULL"
            codes = "1, 3" if column.sql_type.is_lob else "3"
            before.append((column.name, change.UNAVAILABLE, f"{empty} AND code IN ({codes})"))
            unset = table_rows.is_unset("changed", column)
            after.append((column.name, change.UNAVAILABLE, f"{empty} AND code = 4 AND {unset}"))
    return table_rows.gap_map(before), table_rows.gap_map(after)


def _problems(rows: Rows, contract: Contract, mask_width: int) -> base.Problems:
    found = base.Problems()
    for name, read in ((START_LSN, "start_lsn"), (SEQVAL, "seqval")):
        if name == SEQVAL and not rows.has(SEQVAL):
            continue
        found.add(
            F.coalesce(F.length(read), F.lit(0)) != lsn.WIDTH,
            "malformed_lsn",
            F.concat(F.lit(f"{name} is not {lsn.WIDTH} bytes: "), F.coalesce(rows.text(name), F.lit("NULL"))),
        )
    command = rows.text(COMMAND_ID)
    found.add(
        command.isNotNull() & ~F.coalesce(command.try_cast("int") >= 0, F.lit(False)),
        "malformed_command_id",
        F.concat(F.lit(f"{COMMAND_ID} is "), command),
    )
    found.add(
        ~F.col("code").isin(*_OPERATIONS),
        "unknown_operation",
        F.concat(F.lit(f"{OPERATION} is "), F.coalesce(rows.text(OPERATION), F.lit("NULL"))),
    )
    _add_mask_problems(found, rows, contract, mask_width)
    unfit = table_rows.misfits(rows, contract)
    if unfit is not None:
        found.add(
            F.size(unfit) > 0,
            "value_does_not_fit",
            F.concat(F.lit("no value of "), F.concat_ws(", ", unfit)),
        )
    if rows.has(COMMIT_TIME):
        found.add(F.col("committed_at").isNull(), "no_commit_time", "cdc.lsn_time_mapping has no such LSN")
    found.add(images.key_is_null("key", contract), "null_key", "a column of the key is NULL")
    return found


def _add_mask_problems(found: base.Problems, rows: Rows, contract: Contract, mask_width: int) -> None:
    if not rows.has(UPDATE_MASK):
        return
    told = rows.text(UPDATE_MASK)
    # Net changes have no mask; they are known by operation 5, and by the seqval that they do not have.
    wanted = F.col("code") != 5 if rows.has(SEQVAL) else told.isNotNull()
    received = F.coalesce(told, F.lit("NULL"))
    found.add(
        F.col("mask_bytes").isNull() & wanted,
        "malformed_mask",
        F.concat(F.lit("the mask is "), received),
    )
    width = F.length("mask_bytes")
    # The rows may lack the table's last columns, whose bits the mask has. But none has more bytes than SQL
    # Server's type, and an insert or delete sets all bits: a wider mask of it is ones from its first bit on.
    is_full = F.hex("mask_bytes").rlike("^(01|03|07|0F|1F|3F|7F|FF)(FF)*$")
    unexplained = F.when(width > mask_width, (width > _MASK_BYTES) | (F.col("code").isin(1, 2) & ~is_full))
    found.add(
        (width < mask_width) | unexplained,
        "mask_width",
        F.concat(
            F.lit(f"the mask of {contract.table} has {mask_width} bytes, this one is 0x"), F.hex("mask_bytes")
        ),
    )


def _columns(contract: Contract, ordinals: dict[str, int]) -> list[Column]:
    code, image = F.col("code"), F.col("image")
    operation = F.create_map(*(F.lit(x) for pair in _OPERATIONS.items() for x in pair))[code]
    is_before, is_after = code.isin(1, 3), code.isin(2, 4, 5)
    no_gaps = F.lit(None).cast("map<string,string>")
    part = F.when(code == 3, base.BEFORE).when(code == 4, base.AFTER).otherwise(base.WHOLE)
    # Inserts and deletes have the bits of all columns set.
    disagrees = code.isin(1, 2) & ~masks.is_full(F.col("mask_words"), ordinals)
    flags = {change.MASK_DISAGREES: disagrees, change.BEFORE_UNKNOWN: code == 5}
    return [
        operation.alias("operation"),
        F.col("key"),
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        F.when(is_before, image).alias("before"),
        F.when(is_after, image).alias("after"),
        F.when(is_before, F.col("before_gaps")).otherwise(no_gaps).alias("before_gaps"),
        F.when(is_after, F.col("after_gaps")).otherwise(no_gaps).alias("after_gaps"),
        F.when(code.isin(3, 4), F.col("changed")).alias("changed"),
        F.hex("mask_bytes").alias("mask"),
        F.col("start_lsn").alias("commit_lsn"),
        F.col("seqval").alias("change_lsn"),
        F.col("command_id").cast("bigint").alias("ordinal"),
        F.concat(F.col("order_prefix"), lsn.big_endian(code, 1)).alias("sort_key"),
        F.col("committed_at"),
        lsn.to_text(F.col("start_lsn")).alias("transaction_id"),
        base.flags(flags).alias("flags"),
        F.col("record"),
        base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)).alias("disposition"),
        F.col("reason"),
        F.col("detail"),
        part.alias("part"),
        F.col("pair_key"),
        F.lit(None).cast("binary").alias("raw_key"),
        table_rows.as_it_came().alias("raw_value"),
        F.lit(None).cast(base.HEADERS_TYPE).alias("raw_headers"),
    ]


def mask_rules(shape: Contract) -> MaskRules:  # noqa: ARG001 - the same for all
    return MaskRules("all")


def source_table(name: str) -> str:
    """`cdc.dbo_orders_CT` is `dbo.orders`: by default a capture instance is named after its table.

    So are the functions that read it, `cdc.fn_cdc_get_all_changes_dbo_orders`; names may stand in brackets.
    """
    of_cdc = r"(?i)^(cdc\.)?(fn_cdc_get_(all|net)_changes_)?|_ct$"
    instance = re.sub(of_cdc, "", re.sub(r"[\[\]]", "", name))
    return instance if "." in instance else instance.replace("_", ".", 1)


def is_header(name: str, _feed: Feed) -> bool:
    return name.startswith("__$")


SQLSERVER_CDC = base.TableDialect(
    "sqlserver_cdc",
    CaptureTables,
    record,
    decode,
    source_table,
    is_header,
    images_apart=True,
    mask_rules=mask_rules,
    knows_computed=True,
)
