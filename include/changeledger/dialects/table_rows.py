"""Raw rows of change tables, as DataFrames: bound by name, read into the types of the contract.

What is done to every column of a table is SQL text, given to Spark in one piece: each call on a Column
costs a message to the JVM, and a wide table has a thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger import images
from changeledger.change import literal, quoted
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract
from changeledger.dialects import text_values

# The columns of a raw table that are its own.
OWN = ("run_id", "record", "_instance")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def stored_names(read: Sequence[tuple[str, str]], there: Mapping[str, str]) -> list[str]:
    """Names in the raw table for the columns that were read, given as `(name, Spark type)`.

    A source column whose name is taken there, by a column of the raw table itself or by one that had
    another type before, is stored as `<name>::<type>`: raw rows stay as they were read. `there` are the
    types of the raw table's columns by lower-case name.
    """
    kinds = {**there, **dict.fromkeys(OWN, "")}
    return [
        name if kinds.get(name.lower(), kind) in {kind, _in_lake(kind)} else f"{name}::{kind}"
        for name, kind in read
    ]


def _in_lake(kind: str) -> str:
    """Iceberg has no whole number narrower than int."""
    return "int" if kind in {"tinyint", "smallint"} else kind


def are_crowded(raw: DataFrame) -> bool:
    """Do several of the rows stand at one place?"""
    return not raw.groupBy("record").agg(F.count(F.lit(1)).alias("n")).where(F.col("n") > 1).isEmpty()


def numbered(raw: DataFrame) -> DataFrame:
    """Raw rows, each with a `record` of its own: those at one place are numbered by their contents.

    The first has no number: a row that stands alone is known by its place.
    """
    content = F.to_json(F.struct(*(F.col(quoted(name)) for name in raw.columns if name not in OWN)))
    before = F.row_number().over(Window.partitionBy("record").orderBy(content)) - 1
    number = F.when(before > 0, before.cast("bigint"))
    return raw.withColumn("record", F.col("record").withField("offset", number))


class Read(NamedTuple):
    """A column as it was read: SQL text of its value, and its Spark type."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Rows:
    """Raw rows, whose columns are bound by name.

    `found` has by lower-case name the columns in which its values stand: one, or several where its type
    changed; of those each row has a value in one at most.
    """

    frame: DataFrame
    found: Mapping[str, Sequence[Read]]

    @classmethod
    def of(cls, raw: DataFrame) -> Rows:
        """The rows as they were read."""
        return cls(raw, _by_name(raw, ""))

    @classmethod
    def packed(cls, raw: DataFrame) -> Rows:
        """All that was read of a row in one struct `told`, beside its `record`.

        No name of the source then meets one of ours.
        """
        told = F.struct(*(F.col(quoted(name)) for name in raw.columns if name not in OWN))
        return cls(raw.select("record", told.alias("told")), _by_name(raw, "told."))

    def has(self, name: str) -> bool:
        return name.lower() in self.found

    def read(self, name: str) -> Sequence[Read]:
        return self.found.get(name.lower(), ())

    def first(self, name: str, form: Callable[[Column, str], Column], missing: str) -> Column:
        """`form` of the column and its type; NULL of the type `missing` where there is no such column."""
        forms = [form(F.expr(sql), kind) for sql, kind in self.read(name)]
        return F.coalesce(*forms) if forms else F.lit(None).cast(missing)

    def text(self, name: str) -> Column:
        """The value as text; bytes as 0x and hex."""
        return self.first(
            name,
            lambda told, kind: (
                F.concat(F.lit("0x"), F.hex(told)) if kind == "binary" else told.cast("string")
            ),
            "string",
        )


def _by_name(raw: DataFrame, prefix: str) -> Mapping[str, Sequence[Read]]:
    found: dict[str, list[Read]] = {}
    for stored, kind in raw.dtypes:
        if stored not in OWN:
            name = stored.removesuffix(f"::{kind}")
            found.setdefault(name.lower(), []).append(Read(f"{prefix}{quoted(stored)}", kind))
    return found


def cells(rows: Rows, contract: Contract, empty_is_null: bool = False) -> list[str]:
    """SQL text of each cell in its contract's type; NULL where the value does not fit or is not there."""
    return [_cell(rows, column, empty_is_null) for column in contract.columns]


def image(typed: Sequence[str], contract: Contract) -> Column:
    """The row as a struct in the contract's types."""
    fields = (f"{literal(name)}, {cell}" for name, cell in zip(contract.names, typed, strict=True))
    return F.expr(f"named_struct({', '.join(fields)})")


def not_captured(rows: Rows, contract: Contract) -> list[str]:
    """Columns of the contract that the rows do not have."""
    return [c.name for c in contract.columns if not rows.has(c.name)]


def is_unset(changed: str, column: ContractColumn) -> str:
    """SQL text: is the column none of `changed`, the ones that the mask names? Without a mask it is none."""
    return f"NOT coalesce(array_contains({changed}, {literal(column.name)}), false)"


def gap_map(cells: Sequence[tuple[str, str, str]]) -> Column:
    """map<column, state> of `(name, state, SQL text of whether it is a gap)`; NULL where there is none."""
    if not cells:
        return F.lit(None).cast("map<string,string>")
    entries = (
        f"CASE WHEN {unknown} THEN struct({literal(name)} AS name, {literal(state)} AS state) END"
        for name, state, unknown in cells
    )
    some = f"array_compact(array({', '.join(entries)}))"
    return F.expr(f"CASE WHEN size({some}) > 0 THEN map_from_entries({some}) END")


def misfits(rows: Rows, contract: Contract, empty_is_null: bool = False) -> Column | None:
    """array<string> of columns (name and type) with a value that does not fit; None where all must fit.

    The cells are those of the struct `image`.
    """
    bad = [
        f"CASE WHEN {_value(read, empty_is_null)} IS NOT NULL AND image.{quoted(c.name)} IS NULL "
        f"THEN {literal(f'{c.name} {c.type}')} END"
        for c in contract.columns
        for read in rows.read(c.name)
        if not _is_as_read(read.kind, c)
    ]
    return F.expr(f"array_compact(array({', '.join(bad)}))") if bad else None


def as_it_came() -> Column:
    """The whole raw row as JSON, for the quarantine."""
    return F.encode(F.to_json("told"), "UTF-8")


def _value(read: Read, empty_is_null: bool) -> str:
    """The cell as it was read; an empty text is NULL where the feed says so."""
    return f"nullif({read.sql}, '')" if empty_is_null and read.kind == "string" else read.sql


def _cell(rows: Rows, column: ContractColumn, empty_is_null: bool) -> str:
    typed = [_typed(_value(read, empty_is_null), read.kind, column) for read in rows.read(column.name)]
    if not typed:
        return f"CAST(NULL AS {column.spark_type})"
    return typed[0] if len(typed) == 1 else f"coalesce({', '.join(typed)})"


def _is_as_read(kind: str, column: ContractColumn) -> bool:
    """Is every value that was read in this type one of the column's? Not of a time or a GUID that is text."""
    is_text = kind == "string" and text_values.is_read_here(column.sql_type)
    return kind == column.spark_type and not is_text


def _typed(told: str, kind: str, column: ContractColumn) -> str:
    wanted = column.spark_type
    if _is_as_read(kind, column):
        return told
    # Not every type can be cast to every other; text can.
    text = told if kind == "string" else f"CAST({told} AS STRING)"
    if text_values.is_read_here(column.sql_type):
        return text_values.value(text_values.form(text, column), column.sql_type)
    if wanted == "binary" and kind == "string":
        return f"try_to_binary(regexp_replace({told}, '^0[xX]', ''), 'hex')"
    if wanted.startswith("decimal") and kind == "string":
        return images.decimal(told, column.sql_type)
    is_number = kind.startswith(_NUMBERS) and wanted.startswith(_NUMBERS)
    return images.in_range(f"try_cast({told if is_number else text} AS {wanted})", column)
