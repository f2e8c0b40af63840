"""What a dialect is: a frozen record of functions from foreign shapes to decoded records.

`decode` takes the raw records of one table and gives one row per record, with `DECODED` columns. What
it cannot read it marks as quarantined, with a reason code and a detail; it never drops a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.config import Feed
from changeledger.contract import Contract

# Which part of a change a decoded record holds, where a dialect tells an update as two records.
WHOLE = "whole"
BEFORE = "before"
AFTER = "after"

# The columns of a decoded record. `pair_key` joins the halves of one update (NULL for whole records).
DECODED: tuple[str, ...] = (
    "operation", "key", "previous_key", "before", "after", "before_gaps", "after_gaps", "changed", "mask",
    "commit_lsn", "change_lsn", "ordinal", "sort_key", "committed_at", "transaction_id", "flags", "record",
    "disposition", "reason", "detail", "part", "pair_key", "raw_key", "raw_value", "raw_headers",
)  # fmt: skip


class Sample(NamedTuple):
    """A raw message looked at on the driver, to learn what a topic tells of its tables."""

    topic: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Discovery:
    """What samples tell: the table of each data topic, and the tables' contracts where they say them."""

    tables: Mapping[str, str]
    contracts: Mapping[str, Contract]


@dataclass(frozen=True)
class MessageDialect:
    """A dialect on Kafka topics."""

    name: str
    discover: Callable[[Sequence[Sample], Feed], Discovery]
    decode: Callable[[DataFrame, Contract, Feed], DataFrame]
    # Records of topics that hold no table of the feed: control messages, or quarantined.
    decode_other: Callable[[DataFrame], DataFrame]
    # Does it tell the two images of an update as two records?
    images_apart: bool = False


@dataclass(frozen=True)
class TableDialect:
    """A dialect in change tables, read over JDBC."""

    name: str
    decode: Callable[[DataFrame, Contract, Feed], DataFrame]
    images_apart: bool = False


Dialect = MessageDialect | TableDialect


class Problems:
    """The first reason why a record cannot be read, with its detail, in the order they are added."""

    def __init__(self) -> None:
        self._found: list[tuple[Column, str, Column]] = []

    def add(self, condition: Column, reason: str, detail: Column | str) -> None:
        text = F.lit(detail) if isinstance(detail, str) else detail
        # A condition on what is missing is NULL, and NULL must not hide a later problem.
        self._found.append((F.coalesce(condition, F.lit(False)), reason, text))

    def reason(self) -> Column:
        return self._first({r: F.lit(r) for _, r, _ in self._found})

    def detail(self) -> Column:
        return F.substring(self._first({r: d for _, r, d in self._found}), 1, 500)

    def _first(self, result: Mapping[str, Column]) -> Column:
        condition, reason, _ = self._found[0]
        chosen = F.when(condition, result[reason])
        for condition, reason, _ in self._found[1:]:
            chosen = chosen.when(condition, result[reason])
        return chosen


def flags(conditions: Mapping[str, Column]) -> Column:
    """array<string> of the flags whose condition holds; NULL where none does."""
    held = [F.coalesce(condition, F.lit(False)) for condition in conditions.values()]
    anywhere = held[0]
    for one in held[1:]:
        anywhere = anywhere | one
    names = [F.when(h, F.lit(name)) for h, name in zip(held, conditions, strict=True)]
    return F.when(anywhere, F.array_compact(F.array(*names)))


def without_change(raw: DataFrame, disposition: Column, reason: Column, detail: Column) -> DataFrame:
    """Decoded records that are no changes, from raw messages: only what dispositions need."""
    return raw.select(
        message_record().alias("record"),
        disposition.alias("disposition"),
        reason.alias("reason"),
        detail.alias("detail"),
        F.col("key").alias("raw_key"),
        F.col("value").alias("raw_value"),
        F.col("headers").alias("raw_headers"),
    )


def message_record() -> Column:
    """Where a raw Kafka message stands."""
    return F.struct(
        F.col("topic").alias("source"),
        F.col("partition").alias("partition"),
        F.col("offset").alias("offset"),
        F.lit(None).cast("binary").alias("row"),
    )


def quarantined_if(reason: Column, otherwise: Column) -> Column:
    return F.when(reason.isNotNull(), F.lit(change.QUARANTINED)).otherwise(otherwise)
