"""Rows of the lake's tables, read by this process: for few rows, and for counting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo

from changeledger.storage import catalog, summaries

# Rows, and bytes in files, which are packed.
Weight = tuple[int, int]

_RUN = "run_id"


def weight(table: str, run: str | None = None) -> Weight:
    """How many rows the files of main have, and bytes; or those of a run's partition."""
    asked = AlwaysTrue() if run is None else _of(run)
    files = [task.file for task in catalog.load(table).scan(asked).plan_files()]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def of_run(snapshots: Mapping[str, int], run: str) -> dict[str, int]:
    """By table, how many rows the run has in that snapshot."""
    return {
        table: catalog.load(table).scan(_of(run), (_RUN,), snapshot_id=snapshot).count()
        for table, snapshot in snapshots.items()
    }


def grouped(table: str, snapshot: int, run: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """How many rows the run has in that snapshot by the values of these columns: each with their number."""
    rows = catalog.load(table).scan(_of(run), (*columns, _RUN), snapshot_id=snapshot).to_arrow()
    counted = rows.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
    return [(*(row[name] for name in columns), row["count_all"]) for row in counted]


def count(table: str, snapshot: int) -> int:
    """How many rows the snapshot has; from what it says of itself, where it says it."""
    said = summaries.built({table: snapshot})[table].now.live
    return catalog.load(table).scan(snapshot_id=snapshot).count() if said is None else said


def _of(run: str) -> BooleanExpression:
    # mypy takes it for a model, whose fields alone it sees.
    return EqualTo(_RUN, run)  # type: ignore[call-arg, arg-type]
