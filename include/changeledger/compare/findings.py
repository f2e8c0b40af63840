"""The faults that a comparison found, in words and values that people can look up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.rematch import MISMATCH_COLUMNS, MISMATCHES
from changeledger.compare.verdicts import OPERATION
from changeledger.kernels import display, images
from changeledger.kernels.arrow import (
    NAMES,
    RECORD,
    arrow_type,
    batch_of,
    by_name,
    column,
    members,
    taken,
    valid,
)
from changeledger.kernels.hashed import Hashes, hash_of
from changeledger.model.change import RECORD_TYPE
from changeledger.model.contract import Column

_CELL_NAMES: Final = ("name", "before", "before_other", "after", "after_other")
_CELLS: Final = f"array<struct<{','.join(f'{name}:string' for name in _CELL_NAMES)}>>"

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
    # The feed's position of the change, if it is not the reference's.
    ("other_lsn", "binary"),
    ("committed_at", "timestamp"),
    # The operation in each of the two; NULL if it lacks the change.
    ("operation", "string"),
    ("other_operation", "string"),
    # The cells that differ, as text, in the reference and in the feed (`_other`).
    ("cells", _CELLS),
    ("change_id", "string"),
    ("other_change_id", "string"),
    ("source_position", RECORD_TYPE),
    ("other_source_position", RECORD_TYPE),
)
CELLS: Final = pa.list_(pa.struct([(name, pa.string()) for name in _CELL_NAMES]))
FINDINGS: Final = pa.schema(
    [(name, CELLS if kind == _CELLS else arrow_type(kind)) for name, kind in FINDING_COLUMNS]
)

# The ledger columns that are needed to show a change.
NEEDED: Final = (
    "change_id",
    "key",
    "operation",
    "source_position",
    "before",
    "after",
    "before_unknown_columns",
    "after_unknown_columns",
)
# Inputs of `LookUp`: `rematch.MISMATCHES`, and SHOWN, the changes to look up. Only MISMATCHES is an output.
SHOWN: Final = "shown"
SHOWN_COLUMNS: Final = pa.schema(
    [
        ("change_id", pa.string()),
        ("key", pa.string()),
        ("operation", pa.string()),
        ("source_position", RECORD),
        ("before", NAMES),
        ("after", NAMES),
    ]
)
_OTHER: Final = "other_"


def joined_columns(prefix: str, schema: pa.Schema) -> pa.Schema:
    """Returns the schema of rows joined with `SHOWN_COLUMNS` of one side."""
    shown = [pa.field(f"{prefix}{f.name}", f.type) for f in SHOWN_COLUMNS if f.name != "change_id"]
    return pa.schema([*schema, *shown])


OF_REFERENCE: Final = joined_columns("", MISMATCH_COLUMNS)
OF_BOTH: Final = joined_columns(_OTHER, OF_REFERENCE)


@dataclass(frozen=True)
class Show:
    """Kernel that converts ledger rows (`NEEDED`) to `SHOWN_COLUMNS`.

    `columns`: the compared columns, as the feed has them.
    """

    columns: Sequence[Column]

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        texts = {name: self._texts(rows, name) for name in ("before", "after")}
        return batch_of({**by_name(rows), **texts, "key": _keys(rows.column("key"))}, SHOWN_COLUMNS)

    def _texts(self, rows: pa.RecordBatch, side: str) -> pa.ListArray:
        struct, names = rows.column(side), [c.name for c in self.columns]
        fields = members(struct)
        states = images.states(rows.column(f"{side}_unknown_columns"), names)
        return display.lists_of_texts([fields[name] for name in names], states, valid(struct))


def _keys(keys: pa.StructArray) -> pa.StringArray:
    cells = members(keys)
    texts = pa.array(display.keys_as_json(cells) if cells else ["{}"] * len(keys), pa.string())
    return pc.if_else(keys.is_valid(), texts, None)


@dataclass(frozen=True)
class LookUp:
    """Kernel that adds to MISMATCHES the change of the reference (`prefix` "") or of the other feed."""

    prefix: str
    schema: pa.Schema

    @property
    def id_column(self) -> str:
        return f"{self.prefix}change_id"

    def key(self, rows: pa.RecordBatch) -> Hashes:
        """The bucket key of MISMATCHES; that of SHOWN rows is their id."""
        alternative = "other_change_id" if not self.prefix else "change_id"
        return hash_of([pc.coalesce(rows.column(self.id_column), rows.column(alternative))])

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        findings, shown = tables[MISMATCHES], tables[SHOWN]
        at = pc.index_in(
            column(findings, self.id_column), value_set=column(shown, "change_id"), skip_nulls=True
        )
        rows = at.fill_null(-1).to_numpy().astype(np.int64)
        for name in SHOWN_COLUMNS.names[1:]:
            cells = column(shown, name)
            values = taken(cells, rows) if len(shown) else pa.nulls(len(findings), cells.type)
            findings = findings.append_column(f"{self.prefix}{name}", values)
        return {MISMATCHES: findings.cast(self.schema)}


LOOK_UPS: Final = (LookUp("", OF_REFERENCE), LookUp(_OTHER, OF_BOTH))


@dataclass(frozen=True)
class Explain:
    """Kernel that converts rows of `OF_BOTH` to `FINDINGS`. `named`: values that are the same in all rows."""

    names: Sequence[str]
    named: Mapping[str, str]

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        key = pc.coalesce(rows.column("key"), rows.column("other_key"))
        return batch_of({**self.named, **by_name(rows), "key": key, "cells": self._cells(rows)}, FINDINGS)

    def _cells(self, rows: pa.RecordBatch) -> pa.ListArray:
        images_of = [rows.column(n).to_pylist() for n in ("before", "other_before", "after", "other_after")]
        cells: list[list[dict[str, Any]] | None] = []
        for row, numbers in enumerate(rows.column("numbers").to_pylist()):
            shown = [image[row] for image in images_of]
            cells.append(None if numbers is None else [self._cell(at, shown) for at in numbers])
        return pa.array(cells, CELLS)

    def _cell(self, at: int, shown: Sequence[list[str] | None]) -> dict[str, str | None]:
        name = OPERATION if at < 0 else self.names[at]
        texts = [None if at < 0 or image is None else image[at] for image in shown]
        return dict(zip(_CELL_NAMES, (name, *texts), strict=True))
