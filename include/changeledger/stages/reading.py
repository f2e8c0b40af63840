"""How the records of a window are read: by the shape that their writer tells, into their table's contract.

It touches no lake and no control store: normalize and the `decode` command read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.change import quoted
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects.base import (
    HEADERS_TYPE,
    Dialect,
    TableDialect,
    Told,
    message_record,
    without_change,
)
from changeledger.errors import ContractError
from changeledger.reconcile import pairs


class Known(NamedTuple):
    """What is known of tables beside their records."""

    # What each table has so far.
    contracts: Mapping[str, Contract]
    # A shape with the byte order of its masks, and why the masks must not be read, where they must not.
    settled: Callable[[Contract, DataFrame], tuple[Contract, str | None]]
    # What others know of a table of which nothing is told, and nothing known.
    borrowed: Callable[[str], Contract | None] = lambda _: None
    # Columns of a table, in lower case, that others know to be computed.
    computed: Callable[[str], frozenset[str]] = lambda _: frozenset()


@dataclass(frozen=True)
class Input:
    """The decoded records of one table; without a contract, records that became no change."""

    table: str | None
    contract: Contract | None
    decoded: DataFrame


def inputs(dialect: Dialect, feed: Feed, told: Sequence[Told], known: Known) -> list[Input]:
    """One input for each table, its records of all shapes decoded and fitted to its contract.

    Records of a shape that the contract rules out are an input of their own, as are those of a table whose
    columns nothing tells: they became no change, and the audit fails for them.
    """
    by_table: dict[str, list[Told]] = {}
    for one in told:
        by_table.setdefault(one.table, []).append(one)
    found = []
    for table, parts in by_table.items():
        contract = known.contracts.get(table)
        computed = known.computed(table) | _stated_computed(feed, table)
        frames, refused = [], []
        for part in parts:
            try:
                if contract is None and part.shape is None:
                    contract = known.borrowed(table)
                told_shape = part.shape and part.shape.with_computed(computed)
                contract = _agreed(table, contract, told_shape).with_computed(computed)
            except ContractError as error:
                refused.append(_refused(dialect, part.records, error))
                continue
            shape, why_not = known.settled(told_shape or contract, part.records)
            decoded = dialect.decode(part.records, shape, feed)
            frames.append((shape, decoded if why_not is None else _closed(decoded, why_not)))
        if contract is not None and frames:
            decoded_parts = [images.fitted(decoded, shape, contract) for shape, decoded in frames]
            found.append(Input(table, contract, union(decoded_parts)))
        if refused:
            found.append(Input(table, None, union(refused)))
    return found


def _stated_computed(feed: Feed, table: str) -> frozenset[str]:
    config = feed.table(table)
    return frozenset(c.name.lower() for c in config.columns if c.computed) if config else frozenset()


def settled_pairs(decoded: DataFrame, dialect: Dialect) -> DataFrame:
    """The records with `paired_record`: the two images of an update joined, where the dialect parts them."""
    if dialect.images_apart:
        return pairs.join_images(decoded)
    return decoded.withColumn("paired_record", F.lit(None).cast(change.RECORD_TYPE))


def ledger_columns(changes: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """Changes with what the ledger says of them beside: their id, and whether their mask agrees."""
    position = [F.col(c) for c in ("operation", "sort_key")]
    # Where no source tells a position, the same words elsewhere are another change; so are the rows of a
    # snapshot, which share theirs, where no key tells them apart.
    no_position = F.array(F.lit(change.POSITION_UNKNOWN), F.lit(change.REPAIRED))
    is_unplaced = F.arrays_overlap(F.col("flags"), no_position)
    if not contract.key:
        is_unplaced |= F.col("operation") == change.SNAPSHOT
    # A number among equal rows of a table is no place.
    row = F.col("record")["row"]
    place = F.col("record").withField("offset", F.when(row.isNull(), F.col("record")["offset"]))
    unplaced = F.when(is_unplaced, place)
    change_id = images.fingerprint(
        [F.lit(contract.table), *position, unplaced], ["before", "after"], contract
    )
    before, after = (images.fields(side, contract) for side in ("before", "after"))
    gaps = F.col("before_gaps"), F.col("after_gaps")
    shown = images.without_gaps(images.differing(before, after, contract.names), *gaps)
    masked = F.col("mask").isNotNull() & F.col("changed").isNotNull() & F.col("before").isNotNull()
    disagrees = masked & ((shown != images.without_gaps(F.col("changed"), *gaps)) | _lost_alone(contract))
    flags = F.when(disagrees, pairs.with_flag(F.col("flags"), change.MASK_DISAGREES)).otherwise(
        F.col("flags")
    )
    return changes.withColumns(
        {
            "change_id": change_id,
            "flags": flags,
            "feed": F.lit(feed.feed),
            "dialect": F.lit(feed.dialect),
            "paired_change_id": F.lit(None).cast("string"),
        }
    )


def _lost_alone(contract: Contract) -> Column:
    """Has an update's row of old values a large value that its row of new values, by its mask, did not change
    and does not have? Change tables leave a large value that did not change out of both rows."""
    kept = [
        F.col("before")[c.name].isNotNull() & (F.col("after_gaps")[c.name] == change.UNAVAILABLE)
        for c in contract.columns
        if c.sql_type.is_large
    ]
    lost = reduce(or_, (F.coalesce(one, F.lit(False)) for one in kept), F.lit(False))
    return F.col("paired_record").isNotNull() & lost


def union(frames: Sequence[DataFrame]) -> DataFrame:
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def _agreed(table: str, known: Contract | None, told: Contract | None) -> Contract:
    """The table's contract with what a writer tells of its columns."""
    if told is None and known is None:
        raise ContractError(
            f"the messages of {table} do not tell its columns: they have no schema block that can be read",
            f"state `columns:` and `key:` of {table} in the feed's YAML, let the connector send them, or run "
            "another feed of the same `database:` first, whose columns are then taken",
        )
    agreed = told if known is None else known if told is None else known.evolved_to(told)
    assert agreed is not None, "one of both is there"
    return agreed


def _refused(dialect: Dialect, records: DataFrame, error: ContractError) -> DataFrame:
    """Records of a shape that the table's contract rules out. The audit fails for them."""
    if isinstance(dialect, TableDialect):
        row = F.struct(*(F.col(quoted(n)) for n in records.columns if n not in {"run_id", "record"}))
        records = records.select("record", F.encode(F.to_json(row), "UTF-8").alias("value")).withColumns(
            {"key": F.lit(None).cast("binary"), "headers": F.lit(None).cast(HEADERS_TYPE)}
        )
    else:
        records = records.withColumn("record", message_record())
    said = F.lit(f"{error.message}; {error.remedy}"[:500])
    told = F.lit(change.QUARANTINED), F.lit(change.INCOMPATIBLE_SHAPE), said
    return without_change(records, *told)


def _closed(decoded: DataFrame, why: str) -> DataFrame:
    """Changes whose masks cannot be read are quarantined: what they changed is not known."""
    unread = (F.col("disposition") == change.CHANGE) & F.col("mask").isNotNull()
    return decoded.withColumns(
        {
            "disposition": F.when(unread, F.lit(change.QUARANTINED)).otherwise(F.col("disposition")),
            "reason": F.when(unread, F.lit("mask_order_contradicted")).otherwise(F.col("reason")),
            "detail": F.when(unread, F.lit(why[:500])).otherwise(F.col("detail")),
        }
    )
