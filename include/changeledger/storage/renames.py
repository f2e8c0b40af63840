"""Names of the lake's tables and columns, and their partitions, changed in place.

A snapshot is read by the columns that the table had when it was written. So a snapshot is continued: by one
with the same rows, and the names of now.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from changeledger.storage import catalog, refs
from changeledger.storage.file_writes import OPEN_OR_CLOSED


def columns(table: str) -> pa.Schema:
    """As the table has them now."""
    return schema_to_pyarrow(catalog.load(table).schema(), include_field_ids=False)


def rename_columns(table: str, names: Mapping[str, str]) -> None:
    if names:
        with catalog.load(table).update_schema() as update:
            for old, new in names.items():
                update.rename_column(old, new)


def rename_partitions(table: str, names: Mapping[str, str]) -> None:
    """Partition fields; those that are not there are passed over."""
    there = catalog.load(table)
    old = [field.name for field in there.spec().fields if field.name in names]
    if old:
        with there.update_spec() as update:
            for name in old:
                update.rename_field(name, names[name])


def lie_apart(table: str, column: str) -> None:
    """Rows where the column is NULL go into files of their own from now on, in a table without partitions."""
    there = catalog.load(table)
    if there.spec().is_unpartitioned():
        with there.update_spec() as update:
            update.add_field(column, OPEN_OR_CLOSED, f"{column}_bucket")


def continued(table: str, branch: str, snapshot: int) -> int:
    """The head of the branch, with the names that the columns have now.

    `snapshot` is where the branch begins, if it does not stand behind it already.
    """
    head = refs.snapshot_of(table, branch)
    if head is None or snapshot not in refs.lineages({table: head})[table]:
        refs.set_branch(table, branch, snapshot)
        head = snapshot
    if _has_old_names(table, head):
        catalog.load(table).append(columns(table).empty_table(), branch=branch)
    found = refs.snapshot_of(table, branch)
    assert found is not None, "the branch was set above"
    return found


def _has_old_names(table: str, snapshot: int) -> bool:
    metadata = catalog.load(table).metadata
    written = metadata.snapshot_by_id(snapshot)
    assert written is not None, "refs name snapshots that are kept"
    assert written.schema_id is not None, "all writers of the lake state it"
    schema = metadata.schema_by_id(written.schema_id)
    assert schema is not None, "snapshots name schemas that are kept"
    then = {field.field_id: field.name for field in schema.fields}
    now = {field.field_id: field.name for field in metadata.schema().fields}
    return any(now.get(number, name) != name for number, name in then.items())
