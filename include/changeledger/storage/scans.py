"""Rows of the lake's tables, read by this process: for few rows, and for counting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.expressions import BooleanExpression, EqualTo

from changeledger.storage import catalog

_RUN = "run_id"


def weight(tables: Iterable[str], run: str) -> tuple[int, int]:
    """How many rows the run's partitions of the tables have, and bytes in their files."""
    files = [
        task.file for table in tables for task in catalog.load(table).scan(row_filter=_of(run)).plan_files()
    ]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def of_run(snapshots: Mapping[str, int], run: str) -> dict[str, int]:
    """By table, how many rows the run has in that snapshot."""
    return {
        table: catalog.load(table)
        .scan(row_filter=_of(run), selected_fields=(_RUN,), snapshot_id=snapshot)
        .count()
        for table, snapshot in snapshots.items()
    }


def _of(run: str) -> BooleanExpression:
    # mypy takes it for a model, whose fields alone it sees.
    return EqualTo(_RUN, run)  # type: ignore[call-arg, arg-type]
