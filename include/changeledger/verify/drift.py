"""The drift that a proof found, in values that people can look up, and the changes that would repair it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import display
from changeledger.kernels.arrow import (
    GAPS,
    INSTANT,
    NAMES,
    arrow_type,
    batch_of,
    by_name,
    column,
    table_of,
    table_schema,
)
from changeledger.kernels.cells import KNOWN
from changeledger.kernels.hashed import Hashes, by, hash_of
from changeledger.model import change
from changeledger.model.change import RECORD_TYPE
from changeledger.verify.judging import JUDGED
from changeledger.verify.verdicts import DIFFERS, EXTRA, MISSING
from changeledger.verify.versions import CURRENT, HISTORY, SOURCE, VERSIONS, Read

CELLS: Final = "array<struct<name:string,source:string,published:string>>"
IMAGE: Final = "map<string,string>"

_WHAT: Final[tuple[tuple[str, str], ...]] = (
    ("proof_id", "string"),
    ("database", "string"),
    ("table", "string"),
    ("feed", "string"),
    # The key as JSON.
    ("key", "string"),
)

# One row for each key that is wrong.
DRIFT_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    *_WHAT,
    ("verdict", "string"),
    # The cells that differ, as text.
    ("cells", CELLS),
    # The feed's last change of the key up to the fence, NULL if it has none. The row has been wrong since
    # then at the earliest.
    ("change_id", "string"),
    ("operation", "string"),
    ("commit_lsn", "binary"),
    ("committed_at", "timestamp"),
    ("source_position", RECORD_TYPE),
)

# The changes that would make both equal, one per key. Images are texts by the feed's columns, binaries as 0x
# and hex. A column that an image lacks is unknown.
REPAIR_COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    *_WHAT,
    ("operation", "string"),
    ("before", IMAGE),
    ("after", IMAGE),
    # The sort key of the change that the repair follows, NULL if there is none; and the repair's time.
    ("follows", "binary"),
    ("since", "timestamp"),
)
_CELL: Final = pa.struct([(name, pa.string()) for name in ("name", "source", "published")])
DRIFTS: Final = pa.schema(
    [(name, pa.list_(_CELL) if kind == CELLS else arrow_type(kind)) for name, kind in DRIFT_COLUMNS]
)
REPAIRS: Final = table_schema(REPAIR_COLUMNS)

_OPERATIONS: Final = {MISSING: change.INSERT, EXTRA: change.DELETE, DIFFERS: change.UPDATE}

# Rows as people see them. `version`: the change that made the row what it is.
SHOWN: Final = pa.schema(
    [
        *(VERSIONS.field(name) for name in ("part", "key_1", "key_2")),
        ("version", pa.string()),
        ("sort_key", pa.binary()),
        ("is_begun", pa.bool_()),
        ("key", pa.string()),
        ("texts", NAMES),
        ("image", GAPS),
    ]
)


@dataclass(frozen=True)
class Show:
    """Kernel that converts rows of one part to `SHOWN`: only rows of `keys` (first hashes), if not None."""

    read: Read
    keys: Sequence[int] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = self.read.keys(batch)
        if self.keys is not None:
            among = np.isin(keys[0], list(self.keys))
            keys, batch = [key[among] for key in keys], batch.filter(pa.array(among))
        size, names = batch.num_rows, self.read.names
        cells, states = [batch.column(name) for name in names], self.read.states(batch)
        key_names = [self.read.own[at].name for at in self.read.columns.key]
        is_present = np.ones(size, np.bool_)
        is_source = self.read.part == SOURCE
        columns = {
            "part": self.read.part,
            "key_1": keys[0],
            "key_2": keys[1],
            "version": None if is_source else batch.column("_change_id"),
            "sort_key": None if is_source else batch.column("_sort_key"),
            "is_begun": self.read.is_begun(batch),
            "key": display.keys_as_json({n: batch.column(n) for n in key_names}),
            "texts": display.lists_of_texts(cells, states, is_present),
            # By the names of the published columns.
            "image": _images([c.name for c in self.read.columns.other], cells, states),
        }
        return batch_of(columns, SHOWN)


def _images(names: Sequence[str], cells: Sequence[pa.Array], states: Any) -> pa.MapArray:
    """Returns the known cells as texts, by name."""
    columns = [display.texts(cell).to_pylist() for cell in cells]
    rows = [
        [(name, text) for at, (name, text) in enumerate(zip(names, texts, strict=True))
         if states is None or states[row, at] == KNOWN]
        for row, texts in enumerate(zip(*columns, strict=True))
    ]  # fmt: skip
    return pa.array(rows, GAPS)


# Inputs of `Explain`, by key: rows that are wrong (`judging.JUDGED`), and SHOWN of all parts.
WRONG: Final = "wrong"
ROWS: Final = "rows"
KEY: Final = by("key_1")
# The output: everything except what the ledger says of the last change.
EXPLAINED_ROWS: Final = "explained"
EXPLAINED: Final = pa.schema(
    [
        ("verdict", pa.string()),
        ("key", pa.string()),
        ("cells", pa.list_(_CELL)),
        ("last_change_id", pa.string()),
        ("before", GAPS),
        ("after", GAPS),
    ]
)


@dataclass(frozen=True)
class Explain:
    """Kernel that explains wrong rows in `EXPLAINED`. `names`: those of the compared columns."""

    names: Sequence[str]

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        source, current, past, last = _by_key(tables[ROWS].to_pylist())
        explained_rows = []
        for wrong in tables[WRONG].select(JUDGED.names).to_pylist():
            key = wrong["key_1"], wrong["key_2"]
            version = (*key, wrong["change_id"])
            published = current.get(version) or past.get(version)
            source_row = _differing(source.get(key, []), published, wrong["numbers"] or ())
            shown = source_row or published
            explained_rows.append(
                {
                    "verdict": wrong["verdict"],
                    "key": shown and shown["key"],
                    "cells": self._cells(wrong["numbers"], source_row, published),
                    "last_change_id": last[key]["version"] if key in last else None,
                    "before": published and published["image"],
                    "after": source_row["image"] if source_row and wrong["verdict"] != EXTRA else None,
                }
            )
        return {EXPLAINED_ROWS: pa.Table.from_pylist(explained_rows, schema=EXPLAINED)}

    def _cells(
        self, numbers: list[int] | None, source: _Row | None, published: _Row | None
    ) -> list[_Row] | None:
        if numbers is None:
            return None
        sides = {"source": source, "published": published}
        return [
            {"name": self.names[at], **{side: row and row["texts"][at] for side, row in sides.items()}}
            for at in numbers
        ]


_Row = dict[str, Any]
_Shown = dict[tuple[Any, ...], _Row]


def _differing(rows: Sequence[_Row], published: _Row | None, numbers: Sequence[int]) -> _Row | None:
    """Returns the one of the source's rows of a key that was judged, or None if the source has none."""
    if published is not None:
        for row in rows:
            if all(row["texts"][at] != published["texts"][at] for at in numbers):
                return row
    return rows[0] if rows else None


def _by_key(rows: Sequence[_Row]) -> tuple[dict[tuple[Any, ...], list[_Row]], _Shown, _Shown, _Shown]:
    """Returns source rows by key, current rows and history by key and version, and the last version begun."""
    source: dict[tuple[Any, ...], list[_Row]] = {}
    versions: dict[int, _Shown] = {CURRENT: {}, HISTORY: {}}
    last: _Shown = {}
    for row in rows:
        key = row["key_1"], row["key_2"]
        if row["part"] == SOURCE:
            source.setdefault(key, []).append(row)
            continue
        versions[row["part"]][*key, row["version"]] = row
        is_last = key not in last or (row["sort_key"] or b"") > (last[key]["sort_key"] or b"")
        if row["part"] == HISTORY and row["is_begun"] and is_last:
            last[key] = row
    return source, versions[CURRENT], versions[HISTORY], last


# What the ledger says of the last change of a key.
LEDGER: Final = "ledger"
OF_LEDGER: Final = ("change_id", "operation", "sort_key", "commit_lsn", "committed_at", "source_position")
DRIFT_ROWS, REPAIR_ROWS = "drifts", "repairs"
OUTPUTS: Final = {DRIFT_ROWS: DRIFTS, REPAIR_ROWS: REPAIRS}
KEY_OF_LEDGER: Final = by("change_id")


def key_of_explained(rows: pa.RecordBatch) -> Hashes:
    """Hashes the last change; without one, the key, which differs for each row."""
    return hash_of([pc.coalesce(rows.column("last_change_id"), rows.column("key"))])


@dataclass(frozen=True)
class Conclude:
    """Kernel that joins EXPLAINED with its last changes to `DRIFTS` and `REPAIRS`.

    `named`: values that are the same in all rows.
    """

    named: Mapping[str, str]
    # When the read began: what was read was right then, except for what has changed since.
    since: datetime

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        explained, ledger = tables[EXPLAINED_ROWS], tables[LEDGER]
        at = pc.index_in(
            column(explained, "last_change_id"), value_set=column(ledger, "change_id"), skip_nulls=True
        )
        of_ledger = {name: column(ledger, name).take(at) for name in OF_LEDGER}
        verdicts = column(explained, "verdict")
        operations = pc.index_in(verdicts, value_set=pa.array(list(_OPERATIONS)))
        # Arrow finds the greater one of numbers, but not of timestamps.
        times = [pa.array([self.since] * len(explained), INSTANT), of_ledger["committed_at"].cast(INSTANT)]
        since = pc.max_element_wise(*(at.cast(pa.int64()) for at in times)).cast(INSTANT)
        columns = {**self.named, **by_name(explained)}
        repairs = {
            **columns,
            "operation": pa.array(list(_OPERATIONS.values())).take(operations),
            "follows": of_ledger["sort_key"],
            "since": since,
        }
        return {
            DRIFT_ROWS: table_of({**columns, **of_ledger}, DRIFTS),
            REPAIR_ROWS: table_of(repairs, REPAIRS),
        }
