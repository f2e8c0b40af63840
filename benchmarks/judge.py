"""Compares what a subject published with what the stream says must be published, and counts wrong rows."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.stream import VERSION, Stream


class Wrong(NamedTuple):
    """The numbers of wrong rows and versions; `versions` is None if the subject publishes none.

    Rows are wrong if they are missing, extra or different; versions if they are missing, extra or repeated.
    """

    rows: int
    versions: int | None


def judged(published: Path, truth: Stream) -> Wrong:
    """Compares. `published`: a folder with the Parquet file `rows` and, if the subject has it, `versions`."""
    row, versions = truth.shape.row, published / "versions.parquet"
    return Wrong(
        _different(_read(published / "rows.parquet", row), _read(truth.rows, row)),
        _different(_read(versions, VERSION), _read(truth.versions, VERSION)) if versions.exists() else None,
    )


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    return pq.read_table(path).select(schema.names).cast(schema)


def _different(published: pa.Table, truth: pa.Table) -> int:
    """Returns the number of keys (for a version, all its columns) whose rows differ."""
    keys = truth.column_names if truth.schema.equals(VERSION) else ["id"]
    counted = [_counted(published, "found"), _counted(truth, "truth")]
    both = counted[0].join(counted[1], [*truth.column_names], join_type="full outer")
    is_same = pc.equal(both.column("found"), both.column("truth")).fill_null(fill_value=False)
    return len(both.filter(pc.invert(is_same)).group_by(keys).aggregate([]))


def _counted(rows: pa.Table, name: str) -> pa.Table:
    """Counts how often each row occurs. A NULL becomes a value, since a join never matches two NULLs."""
    filled = [pc.coalesce(column.cast(pa.string()), pa.scalar("\0")) for column in rows.columns]
    texts = pa.table(filled, names=rows.column_names)
    counted = texts.group_by(rows.column_names).aggregate([([], "count_all")])
    return counted.rename_columns([name if label == "count_all" else label for label in counted.column_names])
