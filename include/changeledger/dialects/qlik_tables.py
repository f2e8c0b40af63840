"""Qlik change tables, `<table>__ct`: the source's columns behind header columns of Qlik's own.

Key differences from the other dialects:

* The header's columns are bound by prefix and name; a task may store any subset of them.
* An update is two rows, B and U, that share transaction and change_seq. A key update is one such pair.
* A mask counts all columns of the table: the header's come first, and their bits are 0.
* A DELETE holds its key; what else is NULL in it is not known. Nor is a large value that is NULL before an
  update, or behind it while the mask does not set its bit.
* TRUNCATE comes as a row of its own, in the word of `operation` alone or with the letter T.
* Order is change_seq: monotone for all tables of a task, whatever the clocks do. stream_position tells
  the commit LSN where the source is SQL Server, but not every row needs to have one: no order to rely on.

Source: the page on change tables. Where it contradicts its own rules (mask 11000, a BEFORE-IMAGE numbered
1000 before an UPDATE numbered 1001), the rules hold.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, masks
from changeledger.calibration import MaskRules
from changeledger.change import literal, quoted
from changeledger.config import Feed, QlikTablesSource
from changeledger.contract import Contract
from changeledger.dialects import base, table_rows
from changeledger.dialects.qlik_tables_header import Header, is_known
from changeledger.dialects.qlik_tables_sql import (
    CHANGE_MASK,
    CHANGE_OPER,
    CHANGE_SEQ,
    OPERATION,
    SEQ_DIGITS,
    TIMESTAMP,
    ChangeTables,
    is_header,
)
from changeledger.dialects.table_rows import Rows

_OPERATIONS = {
    "I": change.INSERT,
    "U": change.UPDATE,
    "B": change.UPDATE,
    "D": change.DELETE,
    "T": change.TRUNCATE,
    # A row of the full load has no header values.
    "": change.SNAPSHOT,
}
# At one change_seq a delete comes before an insert, and a truncate before both.
_RANKS = {"": "0", "T": "0", "D": "1", "I": "2", "B": "3", "U": "4"}


def record(raw: DataFrame, instance: str, feed: Feed) -> Column:
    """Where a row stands: its change table, and change_seq and operation as text.

    A row without a change_seq is known by its content.
    """
    header = Header(Rows.of(raw), _source(feed))
    names = ", ".join(quoted(name) for name in raw.columns if name not in table_rows.OWN)
    content = F.expr(f"sha2(to_json(struct({names})), 256)")
    at = F.coalesce(F.concat(header.text(CHANGE_SEQ), F.coalesce(header.letter(), F.lit("?"))), content)
    return base.row_record(F.lit(instance), F.encode(at, "UTF-8"))


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """One row of `base.DECODED` per raw row of the change table of `contract.table`.

    Where the byte order of the contract's masks is not settled, `changed` is not known.
    """
    empty_is_null = _source(feed).empty_is_null
    rows = Rows.packed(raw)
    header = Header(rows, _source(feed))
    staged = rows.frame.withColumns(
        {
            "letter": header.letter(),
            "seq": header.text(CHANGE_SEQ),
            "mask_bytes": header.mask(),
            "commit_lsn": header.commit_lsn(),
            "transaction_id": header.transaction_id(),
            "stamp": header.stamp(),
            "image": table_rows.image(table_rows.cells(rows, contract, empty_is_null), contract),
        }
    ).withColumns(
        {
            "committed_at": header.committed_at(F.col("stamp")),
            "key": images.key_of(images.fields("image", contract), contract),
            **_masked(contract),
        }
    )
    judged = _problems(header, contract, empty_is_null).told(staged)
    missing = [(name, change.NOT_CAPTURED, "true") for name in table_rows.not_captured(rows, contract)]
    return judged.withColumns(
        {
            "delete_gaps": table_rows.gap_map([*missing, *_beside_the_key(rows, contract)]),
            "gaps": table_rows.gap_map([*missing, *_large(rows, contract)]),
        }
    ).select(*_columns(contract))


def _source(feed: Feed) -> QlikTablesSource:
    assert isinstance(feed.source, QlikTablesSource), "config binds a dialect to its source"
    return feed.source


def _masked(contract: Contract) -> dict[str, Column]:
    """What the mask says: `set_columns`, whether it sets a header's bit, and its `highest` ordinal.

    It says nothing where its byte order is not settled, or where no column of the source is known.
    """
    if contract.mask_order is None or not contract.columns:
        nothing = {"set_columns": "array<string>", "sets_header": "boolean", "highest": "int"}
        return {name: F.lit(None).cast(kind) for name, kind in nothing.items()}
    ordinals = {c.name: c.ordinal for c in contract.columns}
    highest = max(ordinals.values())
    words = masks.words(F.col("mask_bytes"), highest, contract.mask_order)
    others = {str(at): at for at in range(1, highest) if at not in set(ordinals.values())}
    return {
        "set_columns": masks.columns(words, ordinals),
        "sets_header": F.size(masks.columns(words, others)) > 0 if others else F.lit(False),
        "highest": masks.highest_set(F.col("mask_bytes"), contract.mask_order),
    }


def _beside_the_key(rows: Rows, contract: Contract) -> list[tuple[str, str, str]]:
    """The cells of a DELETE that are filled up with NULL."""
    return [
        (c.name, change.UNAVAILABLE, f"image.{quoted(c.name)} IS NULL")
        for c in contract.columns
        if not c.key_position and rows.has(c.name)
    ]


def _large(rows: Rows, contract: Contract) -> list[tuple[str, str, str]]:
    """Large cells whose NULL is not known to be one: before an update, and behind it where no bit is set."""
    return [
        (
            c.name,
            change.UNAVAILABLE,
            f"image.{quoted(c.name)} IS NULL"
            f" AND (letter = 'B' OR letter = 'U' AND {table_rows.is_unset('set_columns', c)})",
        )
        for c in contract.columns
        if c.sql_type.is_large and rows.has(c.name)
    ]


def _problems(header: Header, contract: Contract, empty_is_null: bool) -> base.Problems:
    found = base.Problems()
    missing = header.missing()
    if missing is not None:
        found.add(F.lit(True), "no_header", missing)
    told = F.concat_ws(" ", header.text(CHANGE_OPER), header.text(OPERATION))
    found.add(
        F.coalesce(~F.col("letter").isin(*_OPERATIONS), F.lit(True)),
        "unknown_operation",
        F.concat(F.lit("the operation is "), told),
    )
    found.add(header.disagrees(), "operation_disagrees", F.concat(F.lit("the operation is "), told))
    found.add(
        (F.col("letter") != "") & ~F.coalesce(F.col("seq").rlike(rf"^[0-9]{{{SEQ_DIGITS}}}$"), F.lit(False)),
        "malformed_change_seq",
        F.concat(F.lit(f"change_seq is not {SEQ_DIGITS} digits: "), F.coalesce(F.col("seq"), F.lit("NULL"))),
    )
    _add_mask_problems(found, header, contract)
    unfit = table_rows.misfits(header.rows, contract, empty_is_null)
    if unfit is not None:
        found.add(
            F.size(unfit) > 0,
            "value_does_not_fit",
            F.concat(F.lit("no value of "), F.concat_ws(", ", unfit)),
        )
    stamp = header.text(TIMESTAMP)
    bad_time = stamp.isNotNull() & F.col("stamp").isNull()
    found.add(bad_time, "malformed_time", F.concat(F.lit("the timestamp is "), stamp))
    found.add(F.col("committed_at").isNull(), "no_commit_time", "neither timestamp nor change_seq tells it")
    of_a_row = F.col("letter") != "T"
    found.add(of_a_row & images.key_is_null("key", contract), "null_key", "a column of the key is NULL")
    return found


def _add_mask_problems(found: base.Problems, header: Header, contract: Contract) -> None:
    # Only what the rows and the contract tell: Spark 4.0 cannot push `a AND NULL` down to a table.
    if not header.has(CHANGE_MASK):
        return
    masked = F.col("letter").isin("I", "U", "D")
    received = header.text(CHANGE_MASK)
    found.add(
        masked & received.isNotNull() & F.col("mask_bytes").isNull(),
        "malformed_mask",
        F.concat(F.lit("the mask is "), received),
    )
    if contract.mask_order is None:
        return
    last = max((c.ordinal for c in contract.columns), default=0)
    found.add(
        masked & (F.col("highest") > last),
        "mask_width",
        F.concat(
            F.lit(f"the change table of {contract.table} has {last} columns, the mask sets bit "),
            (F.col("highest") - 1).cast("string"),
        ),
    )


def _flags(contract: Contract) -> Column:
    letter, told = F.col("letter"), F.col("set_columns")
    key = [literal(c.name) for c in sorted(contract.key, key=lambda c: c.ordinal)]
    # Where no key is known, nothing contradicts the mask.
    key_only = f"set_columns <=> array({', '.join(key)})" if key else "true"
    filled = ", ".join(
        f"CASE WHEN image.{quoted(n)} IS NOT NULL THEN {literal(n)} END" for n in contract.names
    )
    unset = F.expr(f"size(array_except(array_compact(array({filled})), set_columns)) > 0")
    disagrees = (
        ((letter == "I") & unset)
        | ((letter == "D") & ~F.expr(key_only))
        | (letter.isin("I", "U", "D") & F.col("sets_header"))
    )
    return base.flags(
        {
            change.MASK_DISAGREES: told.isNotNull() & disagrees,
            change.POSITION_UNKNOWN: letter == "",
            change.CLOCK_SUSPECT: (letter != "") & ~is_known(F.col("stamp")),
        }
    )


def _columns(contract: Contract) -> list[Column]:
    letter, image = F.col("letter"), F.col("image")
    by_letter = F.create_map(*(F.lit(x) for pair in _OPERATIONS.items() for x in pair))
    rank = F.create_map(*(F.lit(x) for pair in _RANKS.items() for x in pair))
    is_before, is_half = letter.isin("B", "D"), letter.isin("B", "U")
    # A truncate is of the table: its row tells no row of the source.
    is_after, of_a_row = letter.isin("", "I", "U"), letter != "T"
    gaps = F.when(letter == "D", F.col("delete_gaps")).otherwise(F.col("gaps"))
    # A row without a position is older than every change.
    seq = F.coalesce(F.col("seq"), F.lit("0" * SEQ_DIGITS))
    part = F.when(letter == "B", base.BEFORE).when(letter == "U", base.AFTER).otherwise(base.WHOLE)
    pair = F.concat_ws(" ", "seq", F.upper("transaction_id"))
    return [
        by_letter[letter].alias("operation"),
        F.when(of_a_row, F.col("key")).alias("key"),
        F.lit(None).cast(change.key_type(contract)).alias("previous_key"),
        F.when(is_before, image).alias("before"),
        F.when(is_after, image).alias("after"),
        F.when(is_before, gaps).alias("before_gaps"),
        F.when(is_after, gaps).alias("after_gaps"),
        F.when(letter == "U", F.col("set_columns")).alias("changed"),
        F.when(of_a_row, masks.to_hex(F.col("mask_bytes"))).alias("mask"),
        F.col("commit_lsn"),
        F.lit(None).cast("binary").alias("change_lsn"),
        F.expr("try_cast(substring(seq, 17, 19) AS BIGINT)").alias("ordinal"),
        F.encode(F.concat(seq, rank[letter]), "UTF-8").alias("sort_key"),
        F.col("committed_at"),
        F.col("transaction_id"),
        _flags(contract).alias("flags"),
        F.col("record"),
        base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)).alias("disposition"),
        F.col("reason"),
        F.col("detail"),
        part.alias("part"),
        F.when(is_half, F.encode(pair, "UTF-8")).alias("pair_key"),
        F.lit(None).cast("binary").alias("raw_key"),
        table_rows.as_it_came().alias("raw_value"),
        F.lit(None).cast(base.HEADERS_TYPE).alias("raw_headers"),
    ]


def mask_rules(shape: Contract) -> MaskRules:
    """The header's columns are those before the first one of the shape."""
    first = min((c.ordinal for c in shape.columns), default=1)
    return MaskRules("key", tuple(range(1, first)))


def source_table(name: str) -> str:
    """`dbo.orders__ct` is `dbo.orders`."""
    return re.sub(r"(?i)__ct$", "", name)


QLIK_TABLES = base.TableDialect(
    "qlik_tables",
    ChangeTables,
    record,
    decode,
    source_table,
    lambda name, feed: is_header(name, _source(feed).header_prefix),
    masks_count_header=True,
    images_apart=True,
    mask_rules=mask_rules,
)
