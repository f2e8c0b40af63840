"""Tables of the lake as datasets that DuckDB scans. Only the columns and rows that it asks for are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, Table
from pyiceberg.table.refs import SnapshotRefType

from changeledger.cli.duckdb_sql.addresses import Address
from changeledger.model import moments
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

# pyiceberg reads the files that it gets in parallel, each into memory.
_FILES_AT_ONCE = os.cpu_count() or 2


class LakeDataset(ds.Dataset):  # type: ignore[misc]
    """One state of a table, with the part of Arrow's dataset protocol that DuckDB uses.

    See https://arrow.apache.org/docs/python/integration/dataset.html
    """

    def __init__(self, scan: DataScan, columns: Schema, errors: list[Exception]) -> None:
        # Arrow's own constructor raises, and nothing of it is needed.
        self._scan = scan
        self._columns = columns
        self._errors = errors

    @property
    def schema(self) -> pa.Schema:
        return self._columns.as_arrow()

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,
        **_: Any,
    ) -> ds.Scanner:
        names = self.schema.names if columns is None else list(columns)
        read = {*names, *([] if filter is None else _columns(filter, self.schema))}
        projected = self._columns.select(*read)
        schema = projected.as_arrow()
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(projected)).cast(schema)
        return ds.Scanner.from_batches(reader, columns=names, filter=filter)

    def _batches(self, projected: Schema) -> Iterator[pa.RecordBatch]:
        scan = self._scan
        arrow = ArrowScan(scan.table_metadata, scan.io, projected, scan.row_filter)
        try:
            tasks = iter(scan.plan_files())
            while some := list(islice(tasks, _FILES_AT_ONCE)):
                yield from arrow.to_record_batches(some)
        except Exception as error:
            self._errors.append(error)
            raise


def dataset(table: Table, address: Address, errors: list[Exception]) -> LakeDataset | pa.Table:
    """Returns one state of a table for DuckDB. Raises ConfigError if the table has no such state.

    `errors` gets errors that occur while the dataset is read, because DuckDB passes on only their text.
    """
    if address.kind == "metadata":
        _require_told(table, address)
        return _in_utc(getattr(table.inspect, address.of)())
    scan = table.scan(snapshot_id=_snapshot(table, address))
    # A branch has the table's newest columns; a tag or a snapshot has those of its time.
    ref = table.metadata.refs.get(address.of)
    is_branch = ref is not None and ref.snapshot_ref_type == SnapshotRefType.BRANCH
    return LakeDataset(scan, table.schema() if is_branch else scan.projection(), errors)


def _require_told(table: Table, address: Address) -> None:
    """Raises ConfigError for a metadata table that pyiceberg cannot read without a snapshot or a file."""
    main = table.current_snapshot()
    if (main is None and address.of in {"entries", "partitions"}) or (
        main is not None and address.of == "files" and not main.manifests(table.io)
    ):
        raise ConfigError(
            f"{address.full_name} has published no rows yet, and so has no {address.of}",
            f"see its branches: changeledger query 'FROM {address.full_name}.refs'",
        )


def _in_utc(rows: pa.Table) -> pa.Table:
    """Returns a metadata table with the times' zone, UTC, which pyiceberg leaves out."""
    schema = rows.schema
    for at, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            schema = schema.set(at, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return rows.cast(schema)


def _columns(condition: ds.Expression, schema: pa.Schema) -> Iterator[str]:
    """Yields the columns that the condition names: those without which Arrow cannot resolve it."""
    for position, name in enumerate(schema.names):
        try:
            ds.Scanner.from_batches([], schema=schema.remove(position), filter=condition)
        except pa.ArrowInvalid:
            yield name


def _snapshot(table: Table, address: Address) -> int | None:
    """Returns the snapshot id of the state; None for main. Raises ConfigError if there is no such state."""
    if not address.kind:
        return None
    if address.kind == "timestamp":
        snapshot = table.snapshot_as_of_timestamp(_milliseconds(address.of))
        if snapshot is None:
            raise ConfigError(
                f"{address.full_name} had no rows yet at {address.of}, or they are no longer kept",
                f"ask for a later time: changeledger query 'FROM {address.full_name}.history' lists them",
            )
        return snapshot.snapshot_id
    refs = {
        name: ref.snapshot_id
        for name, ref in table.metadata.refs.items()
        if address.kind in {"version", ref.snapshot_ref_type}
    }
    if address.of in refs:
        return refs[address.of]
    if address.kind == "version" and address.of.isdecimal():
        snapshot = table.snapshot_by_id(int(address.of))
        if snapshot is not None:
            return snapshot.snapshot_id
    near = meant(address.of, refs)
    raise ConfigError(
        f"{address.full_name} has no {address.kind} {address.of}",
        f"did you mean `{near}`?"
        if near
        else f"see its branches and tags: changeledger query 'FROM {address.full_name}.refs'",
    )


def _milliseconds(written: str) -> int:
    try:
        return int(moments.in_utc(written).timestamp() * 1000)
    except ValueError:
        raise ConfigError(
            f"{written!r} is not a time", "write it as '2026-01-31 12:00:00', in UTC, or with its offset"
        ) from None
