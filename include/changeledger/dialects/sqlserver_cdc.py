"""SQL Server's own CDC tables, `cdc.<capture_instance>_CT`.

Key differences from the other dialects:

* An update is two rows (3 before, 4 after) that share (start_lsn, command_id, seqval).
* Order is (start_lsn, command_id, seqval, operation): seqval alone is not to be ordered by.
* `__$update_mask` tells what changed; its last byte holds capture ordinals 1 to 8.
* Large values that did not change are NULL in before images: unavailable, not NULL.

Source: the page on `cdc.<capture_instance>_CT` and its remarks on large object data types.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, lsn, masks
from changeledger.config import Feed
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract
from changeledger.dialects import base
from changeledger.dialects.sqlserver_cdc_sql import (
    COMMAND_ID,
    COMMIT_TIME,
    OPERATION,
    SEQVAL,
    START_LSN,
    UPDATE_MASK,
)

_OPERATIONS = {1: change.DELETE, 2: change.INSERT, 3: change.UPDATE, 4: change.UPDATE}


def record(raw: DataFrame, instance: str) -> Column:
    """Where a row stands: its change table, and (start_lsn, command_id, seqval, operation) as bytes."""
    row = F.concat(
        F.coalesce(_col(START_LSN), F.lit(b"")),
        lsn.big_endian(_command_id(raw), 4),
        F.coalesce(_col(SEQVAL), F.lit(b"")),
        lsn.big_endian(F.coalesce(_col(OPERATION), F.lit(0)), 1),
    )
    return F.struct(
        F.lit(f"{instance}_CT").alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        row.alias("row"),
    )


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """One row of `base.DECODED` per raw row of the change table of `contract.table`."""
    ordinals = {c.name: c.ordinal for c in contract.columns}
    highest = max(ordinals.values())
    mask = _mask(raw)
    staged = raw.withColumns({"mask_bytes": mask}).withColumns(
        {
            "mask_words": masks.words(F.col("mask_bytes"), highest),
            "image": F.struct(*(_cell(raw, c).alias(c.name) for c in contract.columns)),
            "order_prefix": F.concat(_col(START_LSN), lsn.big_endian(_command_id(raw), 4), _col(SEQVAL)),
            "committed_at": F.convert_timezone(
                F.lit(feed.time_zone), F.lit("UTC"), _col(COMMIT_TIME).cast("timestamp_ntz")
            ).cast("timestamp"),
        }
    )
    staged = staged.withColumn("key", images.key_of(images.fields("image", contract), contract))
    staged = _problems(raw, contract, masks.width(highest)).told(staged)
    staged = staged.withColumns(
        {
            "before_gaps": _before_gaps(contract),
            "after_gaps": _computed_gaps(contract),
        }
    )
    return staged.select(*_columns(raw, contract, ordinals))


def _col(name: str) -> Column:
    return F.col(change.quoted(name))


def _command_id(raw: DataFrame) -> Column:
    """0 where an old version of SQL Server has no such column."""
    return F.coalesce(_col(COMMAND_ID), F.lit(0)) if COMMAND_ID in raw.columns else F.lit(0)


def _mask(raw: DataFrame) -> Column:
    """The mask as bytes; exports write it as hex text, with or without 0x."""
    if dict(raw.dtypes)[UPDATE_MASK] == "binary":
        return _col(UPDATE_MASK)
    return F.try_to_binary(F.regexp_replace(_col(UPDATE_MASK), "^0[xX]", ""), F.lit("hex"))


def _cell(raw: DataFrame, column: ContractColumn) -> Column:
    """The column in its contract's type; NULL where the value does not fit."""
    value = _col(column.name)
    if column.sql_type.base == "uniqueidentifier":
        return F.upper(value.cast("string"))
    return value if dict(raw.dtypes)[column.name] == column.spark_type else value.try_cast(column.spark_type)


def _before_gaps(contract: Contract) -> Column:
    """Cells of a before image that SQL Server leaves NULL without knowing them to be NULL.

    text, ntext and image on operations 1 and 3; max types on 3 when their bit is not set.
    """
    unset = F.col("mask_words")
    always, update_only = [], []
    for column in contract.columns:
        empty = F.col("image")[column.name].isNull()
        if column.computed or column.sql_type.is_lob:
            always.append((column.name, empty))
        elif column.sql_type.is_max:
            update_only.append(
                (column.name, empty & (_col(OPERATION) == 3) & ~masks.has(unset, column.ordinal))
            )
    return _gap_map([*always, *update_only])


def _computed_gaps(contract: Contract) -> Column:
    """Computed columns are always NULL in a change table."""
    return _gap_map([(c.name, F.lit(True)) for c in contract.columns if c.computed])


def _gap_map(cells: list[tuple[str, Column]]) -> Column:
    nothing = F.lit(None).cast("map<string,string>")
    if not cells:
        return nothing
    entries = F.array_compact(
        F.array(
            *(F.when(unknown, F.struct(F.lit(name), F.lit(change.UNAVAILABLE))) for name, unknown in cells)
        )
    )
    return F.when(F.size(entries) > 0, F.map_from_entries(entries)).otherwise(nothing)


def _problems(raw: DataFrame, contract: Contract, mask_width: int) -> base.Problems:
    found = base.Problems()
    for name in (START_LSN, SEQVAL):
        found.add(
            F.coalesce(F.length(_col(name)), F.lit(0)) != lsn.WIDTH,
            "malformed_lsn",
            F.concat(
                F.lit(f"{name} is not {lsn.WIDTH} bytes: "), F.coalesce(F.hex(_col(name)), F.lit("NULL"))
            ),
        )
    found.add(
        F.coalesce(~_col(OPERATION).isin(*_OPERATIONS), F.lit(True)),
        "unknown_operation",
        F.concat(F.lit(f"{OPERATION} is "), F.coalesce(_col(OPERATION).cast("string"), F.lit("NULL"))),
    )
    received = F.coalesce(_col(UPDATE_MASK).cast("string"), F.lit("NULL"))
    found.add(F.col("mask_bytes").isNull(), "malformed_mask", F.concat(F.lit("the mask is "), received))
    found.add(
        F.length(F.col("mask_bytes")) != mask_width,
        "mask_width",
        F.concat(
            F.lit(f"the mask of {contract.table} has {mask_width} bytes, this one "),
            F.length(F.col("mask_bytes")).cast("string"),
        ),
    )
    misfit = [
        (c, _col(c.name).isNotNull() & F.col("image")[c.name].isNull())
        for c in contract.columns
        if dict(raw.dtypes)[c.name] != c.spark_type
    ]
    if misfit:
        names = F.array_compact(F.array(*(F.when(bad, F.lit(f"{c.name} {c.type}")) for c, bad in misfit)))
        found.add(
            F.size(names) > 0,
            "value_does_not_fit",
            F.concat(F.lit("no value of "), F.concat_ws(", ", names)),
        )
    found.add(F.col("committed_at").isNull(), "no_commit_time", "cdc.lsn_time_mapping has no such LSN")
    found.add(
        images.key_is_null("key", contract),
        "null_key",
        "a column of the key is NULL",
    )
    return found


def _columns(raw: DataFrame, contract: Contract, ordinals: dict[str, int]) -> list[Column]:
    code, image = _col(OPERATION), F.col("image")
    operation = F.create_map(*(F.lit(x) for pair in _OPERATIONS.items() for x in pair))[code]
    is_before, is_after = code.isin(1, 3), code.isin(2, 4)
    no_gaps = F.lit(None).cast("map<string,string>")
    part = F.when(code == 3, base.BEFORE).when(code == 4, base.AFTER).otherwise(base.WHOLE)
    raw_row = F.encode(F.to_json(F.struct(*(_col(n) for n in raw.columns if n != "run_id"))), "UTF-8")
    return [
        operation.alias("operation"),
        F.col("key"),
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        F.when(is_before, image).alias("before"),
        F.when(is_after, image).alias("after"),
        F.when(is_before, F.col("before_gaps")).otherwise(no_gaps).alias("before_gaps"),
        F.when(is_after, F.col("after_gaps")).otherwise(no_gaps).alias("after_gaps"),
        F.when(code.isin(3, 4), masks.columns(F.col("mask_words"), ordinals)).alias("changed"),
        F.hex(F.col("mask_bytes")).alias("mask"),
        _col(START_LSN).alias("commit_lsn"),
        _col(SEQVAL).alias("change_lsn"),
        _command_id(raw).cast("bigint").alias("ordinal"),
        F.concat(F.col("order_prefix"), lsn.big_endian(code, 1)).alias("sort_key"),
        F.col("committed_at"),
        lsn.to_text(_col(START_LSN)).alias("transaction_id"),
        base.flags(
            {
                # Inserts and deletes have the bits of all columns set.
                change.MASK_DISAGREES: code.isin(1, 2) & ~masks.is_full(F.col("mask_words"), ordinals)
            }
        ).alias("flags"),
        F.col("record"),
        base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)).alias("disposition"),
        F.col("reason"),
        F.col("detail"),
        part.alias("part"),
        F.when(code.isin(3, 4), F.col("order_prefix")).alias("pair_key"),
        F.lit(None).cast("binary").alias("raw_key"),
        raw_row.alias("raw_value"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("raw_headers"),
    ]


SQLSERVER_CDC = base.TableDialect("sqlserver_cdc", decode, images_apart=True)
