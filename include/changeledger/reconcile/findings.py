"""What a comparison found wrong, in words and values that people can look up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.change import RECORD_TYPE, literal, quoted
from changeledger.contract import Column as ContractColumn
from changeledger.reconcile.compare import OPERATION, Columns, Side

_CELLS: Final = "array<struct<name:string,before:string,before_other:string,after:string,after_other:string>>"

FINDING_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("comparison_id", "string"),
    ("database", "string"),
    ("table", "string"),
    ("reference", "string"),
    ("feed", "string"),
    ("verdict", "string"),
    # The key as JSON.
    ("key", "string"),
    ("commit_lsn", "binary"),
    # Where the feed has it, if that is another place than the reference's.
    ("other_lsn", "binary"),
    ("committed_at", "timestamp"),
    # As each of the two tells it; NULL where it does not.
    ("operation", "string"),
    ("other_operation", "string"),
    # The cells that differ, as text: of the reference, and of the feed (`_other`).
    ("cells", _CELLS),
    ("change_id", "string"),
    ("other_change_id", "string"),
    ("record", RECORD_TYPE),
    ("other_record", RECORD_TYPE),
)


def detailed(faults: DataFrame, reference: Side, other: Side, columns: Columns) -> DataFrame:
    """The findings' own columns of `FINDING_COLUMNS`, from rows of `second_look`."""
    told = faults.select(
        "verdict",
        F.col("place").alias("commit_lsn"),
        F.col("other_place").alias("other_lsn"),
        F.coalesce(F.col("reference")["committed_at"], F.col("other")["committed_at"]).alias("committed_at"),
        F.col("columns").alias("numbers"),
        F.col("reference")["change_id"].alias("change_id"),
        F.col("other")["change_id"].alias("other_change_id"),
    )
    one, two = _looked_up(reference, columns.names, ""), _looked_up(other, columns.other, "other_")
    # The findings are few: they travel to the ledgers, not the ledgers to them.
    joined = told.join(_of(one, told, "change_id"), "change_id", "left").join(
        _of(two, told, "other_change_id"), "other_change_id", "left"
    )
    return joined.withColumns({"key": F.coalesce("key", "other_key"), "cells": F.expr(_cells(columns.names))})


def _of(ledger: DataFrame, told: DataFrame, name: str) -> DataFrame:
    wanted = told.where(F.col(name).isNotNull()).select(name).distinct()
    return ledger.join(F.broadcast(wanted), name, "left_semi")


def _looked_up(side: Side, names: Sequence[str], prefix: str) -> DataFrame:
    by_name = {c.name: c for c in side.contract.columns}
    kinds = [by_name[name] for name in names]
    return side.changes.select(
        F.col("change_id").alias(f"{prefix}change_id"),
        F.to_json("key").alias(f"{prefix}key"),
        F.col("operation").alias(f"{prefix}operation"),
        F.col("record").alias(f"{prefix}record"),
        *(texts(image, kinds).alias(f"{prefix}{image}") for image in ("before", "after")),
    )


def texts(image: str, columns: Sequence[ContractColumn]) -> Column:
    """array<string>: the cells for people to read; binaries as 0x and hex, gaps as the word in brackets."""
    cells = []
    for column in columns:
        gap = f"concat('(', {image}_gaps[{literal(column.name)}], ')')"
        cells.append(f"coalesce({text_of(image, column)}, {gap}, 'NULL')")
    return F.expr(f"CASE WHEN {image} IS NOT NULL THEN array({', '.join(cells)}) END")


def text_of(image: str, column: ContractColumn) -> str:
    """SQL text of a cell as text, from which its value can be read again; NULL for none."""
    value = f"{image}.{quoted(column.name)}"
    return f"concat('0x', hex({value}))" if column.spark_type == "binary" else f"CAST({value} AS STRING)"


def _cells(names: Sequence[str]) -> str:
    """SQL text of `cells`, from `numbers` and the arrays of texts."""
    name = f"IF(n < 0, {literal(OPERATION)}, get(array({', '.join(map(literal, names))}), n))"
    sides = {
        "before": "before",
        "before_other": "other_before",
        "after": "after",
        "after_other": "other_after",
    }
    values = ", ".join(f"'{field}', IF(n < 0, NULL, get({side}, n))" for field, side in sides.items())
    return f"CAST(transform(numbers, n -> named_struct('name', {name}, {values})) AS {_CELLS})"
