"""What a dialect is: a frozen record of functions from foreign shapes to decoded records.

`decode` takes the raw records of one table and gives one row per record, with `DECODED` columns. What
it cannot read it marks as quarantined, with a reason code and a detail; it never drops a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images
from changeledger.calibration import MaskRules
from changeledger.change import literal
from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.looks import SourceLook
from changeledger.plans import Keep
from changeledger.window import Window

if TYPE_CHECKING:
    from sqlalchemy import Select

# Which part of a change a decoded record holds, where a dialect tells an update as two records.
WHOLE = "whole"
BEFORE = "before"
AFTER = "after"

# The columns of a decoded record. `pair_key` joins the records of one change (NULL where it has one only).
DECODED: tuple[str, ...] = (
    "operation", "key", "previous_key", "before", "after", "before_gaps", "after_gaps", "changed", "mask",
    "commit_lsn", "change_lsn", "ordinal", "sort_key", "committed_at", "transaction_id", "flags", "record",
    "disposition", "reason", "detail", "part", "pair_key", "raw_key", "raw_value", "raw_headers",
)  # fmt: skip


_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Of a decimal, what a double keeps whatever the digits are.
_EXACT_DIGITS = 15
# After an even number of backslashes, where it is an escape.
_HIGH_ALONE = rf"(?<!\\)(?:\\\\)*{_HIGH}(?!{_LOW})"
_LOW_ALONE = rf"(?<!\\)(?<!{_HIGH})(?:\\\\)*{_LOW}"
_WHOLE = r"^[0-9]{1,20}([.][0-9]{0,18})?([eE][+]?[0-9]{1,2})?\z"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


class Sample(NamedTuple):
    """A raw message looked at on the driver, to learn what a topic tells of its tables."""

    topic: str
    key: bytes | None
    value: bytes | None


class Ends(NamedTuple):
    """The first and the last messages of every partition of every topic, in order.

    `longer`: the topics that have others between them.
    """

    samples: list[Sample]
    longer: frozenset[str]


class Told(NamedTuple):
    """The records of one table that share one shape.

    `shape`: the table's columns as the writer of these records tells them, with the ordinals of its
    masks; None where it does not tell them. `table`: the feed's name for it.
    """

    table: str
    shape: Contract | None
    records: DataFrame


@dataclass(frozen=True)
class Survey:
    """What a window's messages are about. Every record is in one of `told`, or in `others`.

    `shapes`: shapes learnt from this window, by the id that later messages use for them.
    """

    told: Sequence[Told]
    others: DataFrame
    shapes: Mapping[str, Contract] = field(default_factory=dict)
    # Avro schemas learnt from this window, likewise.
    schemas: Mapping[str, str] = field(default_factory=dict)


class Known(NamedTuple):
    """What earlier windows have told: contracts by table, shapes by id; Avro schemas (JSON) by their id.

    `keep` keeps messages at hand that a survey has read, until they are decoded: planned again for every
    table, their parsing outgrows the memory. By default until the session ends.
    """

    contracts: Mapping[str, Contract]
    shapes: Mapping[str, Contract]
    schemas: Mapping[str, str] = MappingProxyType({})
    keep: Keep = lambda messages: messages.persist()


@dataclass(frozen=True)
class MessageDialect:
    """A dialect on Kafka topics."""

    name: str
    survey: Callable[[DataFrame, Feed, Known], Survey]
    decode: Callable[[DataFrame, Contract, Feed], DataFrame]
    # Records that belong to no table of the feed: control messages, pending or quarantined ones.
    decode_other: Callable[[DataFrame, Feed], DataFrame]
    # Does it tell the two images of an update as two records?
    images_apart: bool = False
    # What the masks of a table obey; None where the dialect has none.
    mask_rules: Callable[[Contract], MaskRules] | None = None
    # Does the source itself say which columns are computed?
    knows_computed: bool = False
    # A table's columns as text, from the names in messages that tell no types (None: there are no names);
    # None where messages always tell them.
    named_columns: Callable[[Sequence[Sample], str], Contract | None] | None = None


class ChangeTable(NamedTuple):
    """A change table: whose rows it tells, and its columns as it has them now."""

    table: str
    # Its own name (`dbo_orders`, `orders__ct`); two capture instances may tell one table.
    instance: str
    shape: Contract


# How far each table is read: its name to the position of the last row, as text that orders as it does.
TablePositions = Mapping[str, str]


class Database(Protocol):
    """What a reader of change tables asks of the database."""

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        """The rows of a small result."""
        ...

    def columns(self, query: Select[Any]) -> Sequence[str]:
        """The names of a result's columns."""
        ...


class TableReader(Protocol):
    """The change tables of one feed, as the database has them now."""

    @property
    def tables(self) -> Sequence[ChangeTable]:
        """Of one source table in the order in which they follow each other."""
        ...

    def check(self, released: TablePositions) -> None:
        """Raises GapError where changes behind `released` are gone from the source."""
        ...

    def landmarks(self, positions: TablePositions) -> Mapping[str, str]:
        """By what the source knows the positions again, by table; without those that it can't tell of.

        A source that was restored from a backup, and has grown since, has others. Raises GapError where a
        position is not in the source any more though older ones are.
        """
        ...

    def looks(self, read: TablePositions, at: datetime) -> Sequence[SourceLook]:
        """How far the source reaches now, beside how far its tables are read."""
        ...

    def bounds(self, window: Window, released: TablePositions) -> tuple[TablePositions, TablePositions]:
        """What the window reads of each table: `(from, to]`.

        A table without a `from` is read from its beginning; one without a `to` has nothing to read yet.
        """
        ...

    def queries(self, table: ChangeTable, after: str | None, to: str | None) -> Sequence[Select[Any]]:
        """SELECTs that together give the rows of `(after, to]` once; at least one."""
        ...


@dataclass(frozen=True)
class TableDialect:
    """A dialect in change tables, read over JDBC."""

    name: str
    # Raises ConfigError and ContractError where the feed's tables cannot be read as configured.
    reader: Callable[[Feed, Database], TableReader]
    # Where a raw row of a change table stands.
    record: Callable[[DataFrame, str, Feed], Column]
    decode: Callable[[DataFrame, Contract, Feed], DataFrame]
    # The source table of a change table, by the latter's name.
    source_table: Callable[[str], str]
    # Is a column one of the dialect's own, beside the source's?
    is_header: Callable[[str, Feed], bool]
    # Do masks count the header's columns, before the source's?
    masks_count_header: bool = False
    images_apart: bool = False
    mask_rules: Callable[[Contract], MaskRules] | None = None
    # Does the source itself say which columns are computed?
    knows_computed: bool = False


Dialect = MessageDialect | TableDialect


def ends(raw: DataFrame, each: int = 20) -> Ends:
    """`each`: of how many offsets at either end of a partition."""
    place = ["topic", "partition"]
    bounds = raw.groupBy(*place).agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
    near = [
        (F.col("topic") == bound["topic"])
        & (F.col("partition") == bound["partition"])
        & ((F.col("offset") < bound["first"] + each) | (F.col("offset") > bound["last"] - each))
        for bound in bounds
    ]
    if not near:
        return Ends([], frozenset())
    rows = raw.where(reduce(or_, near)).select(*place, "offset", "key", "value").collect()
    rows.sort(key=lambda row: (row["topic"], row["offset"], row["partition"]))
    longer = frozenset(bound["topic"] for bound in bounds if bound["last"] - bound["first"] >= 2 * each)
    return Ends([Sample(row["topic"], row["key"], row["value"]) for row in rows], longer)


class Problems:
    """The first reason why a record cannot be read, with its detail, in the order they are added."""

    def __init__(self) -> None:
        self._found: list[tuple[Column, str, Column]] = []

    def add(self, condition: Column, reason: str, detail: Column | str) -> None:
        text = F.lit(detail) if isinstance(detail, str) else detail
        # A condition on what is missing is NULL, and NULL must not hide a later problem.
        self._found.append((F.coalesce(condition, F.lit(False)), reason, text))

    def first(self) -> Column:
        """int: the number of the first problem so far; NULL where there is none."""
        first = F.lit(None).cast("int")
        for number, (condition, _, _) in reversed(list(enumerate(self._found, 1))):
            first = F.when(condition, F.lit(number)).otherwise(first)
        return first

    def found_as(self, name: str) -> Problems:
        """The same problems, of a frame whose column `name` holds `first()`.

        What the conditions look at need not be carried along then: each step of a plan copies its rows.
        """
        known = Problems()
        for number, (_, reason, detail) in enumerate(self._found, 1):
            known.add(F.col(name) == number, reason, detail)
        return known

    def told(self, frame: DataFrame) -> DataFrame:
        """`frame` with `problem`, and `reason` and `detail` (at most 500 characters) of the first one.

        The conditions are looked at once, for the number of the problem; the rest follows from it.
        """
        detail = F.lit(None).cast("string")
        for number, (_, _, said) in enumerate(self._found, 1):
            detail = F.when(F.col("problem") == number, said).otherwise(detail)
        reasons = ", ".join(literal(reason) for _, reason, _ in self._found)
        bad = F.col("problem").isNotNull()
        return frame.withColumn("problem", self.first()).withColumns(
            {
                "reason": F.when(bad, F.expr(f"element_at(array({reasons}), problem)")),
                "detail": F.when(bad, F.substring(detail, 1, 500)),
            }
        )


def read_json(text: Column, kind: str) -> Column:
    """`array<kind>`: the JSON values that a text holds; one, where it is as it should be.

    In brackets, because of a bare text Spark reads the first object and ignores what follows it.
    """
    return F.from_json(F.concat(F.lit("["), text, F.lit("]")), f"array<{kind}>")


class JsonForm(NamedTuple):
    """Conditions on a message that was read in brackets, into `messages`."""

    begins: Column
    # It is no JSON, or more than one value.
    is_broken: Column
    ends: Column


def json_form(text: Column) -> JsonForm:
    # Trimming looks at every character: only where the message does not begin and end as it should.
    trimmed = F.trim(text, F.lit(" \t\r\n"))
    begins = F.when(text.startswith("{"), F.lit(True)).otherwise(trimmed.startswith("{"))
    ends = F.when(text.endswith("}"), F.lit(True)).otherwise(trimmed.endswith("}"))
    alone = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    return JsonForm(begins, alone.isNull() | (F.size("messages") > 1) | ~ends, ends)


def add_image_problems(
    found: Problems, contract: Contract, null_key: str = "a column of the key is NULL"
) -> None:
    """What can be wrong with cells: `unknown` and `misfits` name columns, `key` is the message's key."""
    found.add(
        F.col("unknown").isNotNull(),
        "unknown_column",
        F.concat(F.lit(f"{contract.table} has no column "), F.concat_ws(", ", F.col("unknown"))),
    )
    types = ", ".join(literal(x) for c in contract.columns for x in (c.name, f"{c.name} {c.type}"))
    named = f"transform(misfits, name -> element_at(map({types}), name))"
    misfits = F.expr(f"concat('no value of ', concat_ws(', ', {named}))")
    found.add(F.col("misfits").isNotNull(), "value_does_not_fit", misfits)
    found.add(images.key_is_null("key", contract), "null_key", null_key)


def whole_message(raw_key: str, control: Column | None = None) -> list[Column]:
    """The columns of `DECODED` from `disposition` on, of a message that is one change or a tombstone.

    `control`: which control message it is; NULL for none.
    """
    # Not from the reason and the value: the ledger needs neither, and then nothing carries them along.
    is_tombstone, is_bad = F.col("is_tombstone"), F.col("problem").isNotNull()
    kind = F.lit(None).cast("string") if control is None else control
    return [
        F.when(is_tombstone, F.lit(change.TOMBSTONE))
        .when(kind.isNotNull(), F.lit(change.CONTROL))
        .when(is_bad, F.lit(change.QUARANTINED))
        .otherwise(F.lit(change.CHANGE))
        .alias("disposition"),
        F.when(~is_tombstone, F.coalesce(kind, F.col("reason"))).alias("reason"),
        F.when(~is_tombstone & kind.isNull(), F.col("detail")).alias("detail"),
        F.lit(WHOLE).alias("part"),
        F.lit(None).cast("binary").alias("pair_key"),
        F.col(raw_key).alias("raw_key"),
        F.col("value").alias("raw_value"),
        F.col("headers").alias("raw_headers"),
    ]


def add_lone_surrogate(found: Problems, text: Column) -> None:
    """JSON can escape half a surrogate pair, and SQL Server hold it; UTF-8 cannot: it would become a `?`."""
    # One search decides for nearly every message.
    escapes = text.contains("\\u") & (text.contains("\\ud") | text.contains("\\uD"))
    found.add(
        escapes & text.rlike(f"{_HIGH_ALONE}|{_LOW_ALONE}"),
        "lone_surrogate",
        "an escape \\ud8.. to \\udf.. is half of a surrogate pair",
    )


def add_inexact_numbers(found: Problems, text: Column, contract: Contract) -> None:
    """Spark reads a fraction in JSON as a double: a decimal of more digits must come as text."""
    names = "|".join(re.escape(c.name) for c in contract.columns if c.spark_type.startswith("decimal"))
    if not names:
        return
    # Quotes are escaped in JSON within JSON. Zeros before the first other digit do not count.
    member, many = rf'"(?:{names})\\*"\s*:\s*-?', rf"(?:0[.]0*+)?+(?:[.]?[0-9]){{{_EXACT_DIGITS + 1},}}"
    found.add(
        text.rlike(rf"{member}(?=[0-9.]*[.eE]){many}"),
        "inexact_number",
        f"a decimal of more than {_EXACT_DIGITS} digits as a JSON number; have it written as text",
    )


def in_calendar(instant: Column) -> Column:
    """NULL outside the years 1 to 9999, which are all that SQL Server and Python know."""
    first, last = (F.lit(t).cast("timestamp") for t in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"))
    return F.when(instant.between(first, last), instant)


def whole_number(told: Column) -> Column:
    """bigint from digits, or from a float that is integral (`2.0`, `1E1`); NULL for any other text."""
    # Nearly always: digits that are written as Spark writes them.
    plain = told.try_cast("bigint")
    # The pattern keeps fractions within the scale, where a longer one would be rounded.
    number = F.when(told.rlike(_WHOLE), told.try_cast("decimal(38,18)"))
    integral = F.when(number == F.floor(number), number.try_cast("bigint"))
    return F.when((plain >= 0) & (plain.cast("string") == told), plain).otherwise(integral)


def beginning() -> Column:
    """The first bytes of a message that is no text, to show."""
    return F.concat(F.lit("begins with 0x"), F.hex(F.substring("value", 1, 40)))


def by_case(told: Column, outcomes: Mapping[str, str] | Mapping[str, bytes]) -> Column:
    """What stands for a code; NULL for another code."""
    result = F.lit(None)
    for code, outcome in outcomes.items():
        result = F.when(told == code, F.lit(outcome)).otherwise(result)
    return result


def flags(conditions: Mapping[str, Column]) -> Column:
    """array<string> of the flags whose condition holds; NULL where none does."""
    held = [F.coalesce(condition, F.lit(False)) for condition in conditions.values()]
    anywhere = held[0]
    for one in held[1:]:
        anywhere = anywhere | one
    names = [F.when(h, F.lit(name)) for h, name in zip(held, conditions, strict=True)]
    return F.when(anywhere, F.array_compact(F.array(*names)))


def without_change(raw: DataFrame, disposition: Column, reason: Column, detail: Column) -> DataFrame:
    """Decoded records that are no changes, from raw ones: only what dispositions need."""
    record = F.col("record") if "record" in raw.columns else message_record()
    return raw.select(
        record.alias("record"),
        disposition.alias("disposition"),
        reason.alias("reason"),
        detail.alias("detail"),
        F.col("key").alias("raw_key"),
        F.col("value").alias("raw_value"),
        F.col("headers").alias("raw_headers"),
    )


def message_record(message: Callable[[str], Column] = F.col) -> Column:
    """Where a raw Kafka message stands; `message` gives its columns, by their names in a raw table."""
    return F.struct(
        message("topic").alias("source"),
        message("partition").alias("partition"),
        message("offset").alias("offset"),
        F.lit(None).cast("binary").alias("row"),
    )


def row_record(source: Column, row: Column) -> Column:
    """Where a raw row of a table stands; `row` are the bytes that tell it from the others of `source`."""
    return F.struct(
        source.alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        row.alias("row"),
    )


def quarantined_if(reason: Column, otherwise: Column) -> Column:
    return F.when(reason.isNotNull(), F.lit(change.QUARANTINED)).otherwise(otherwise)
