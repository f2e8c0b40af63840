"""The SELECTs on SQL Server's CDC tables, built with SQLAlchemy Core, and contracts from their metadata.

They compile for mssql, and for postgresql and sqlite, which may have a copy of the tables. SQLAlchemy's
dialect quotes identifiers. No sys.fn_* function is needed, so a login that may read the `cdc` schema and the
catalog views is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    and_,
    column,
    func,
    select,
    table,
)

from changeledger.config.tables import TableConfig
from changeledger.dialects.sqlserver_cdc.clock import FallBack
from changeledger.dialects.sqlserver_cdc.column_types import type_text
from changeledger.dialects.sqlserver_cdc.header import COMMIT_TIME, START_LSN
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance
from changeledger.dialects.sqlserver_cdc.literals import LsnLiteral
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping, fold, in_range
from changeledger.dialects.tables.sql import as_read, header, key_positions
from changeledger.model import contract as contracts
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError

# Columns of `sys.columns` that may be missing: in copies of it, and in SQL Server before 2016.
_LATER = ("system_type_id", "is_masked")
_IDENTITY = "is_identity"


class CdcCatalog:
    """SELECTs on the change tables in `cdc_schema` and on their metadata."""

    def __init__(self, cdc_schema: str) -> None:
        meta = MetaData()
        self._schema = cdc_schema
        self._change_tables = Table(
            "change_tables", meta,
            Column("object_id", Integer), Column("source_object_id", Integer),
            Column("capture_instance", String), Column("start_lsn", LargeBinary),
            Column("create_date", DateTime), schema=cdc_schema,
        )  # fmt: skip
        self._captured = Table(
            "captured_columns", meta,
            Column("object_id", Integer), Column("column_name", String), Column("column_id", Integer),
            Column("column_type", String), Column("column_ordinal", Integer), Column("is_computed", Integer),
            schema=cdc_schema,
        )  # fmt: skip
        self._index = Table(
            "index_columns", meta,
            Column("object_id", Integer), Column("column_name", String), Column("index_ordinal", Integer),
            schema=cdc_schema,
        )  # fmt: skip
        self._commit_times = TimeMapping(cdc_schema).table.alias("commit_times")
        self._tables = Table(
            "tables", meta,
            Column("object_id", Integer), Column("name", String), Column("schema_id", Integer), schema="sys",
        )  # fmt: skip
        self._schemas = Table(
            "schemas", meta, Column("schema_id", Integer), Column("name", String), schema="sys"
        )
        self._columns = Table(
            "columns", meta,
            Column("object_id", Integer), Column("name", String), Column("column_id", Integer),
            Column("max_length", Integer), Column("precision", Integer), Column("scale", Integer),
            Column("is_nullable", Integer), *(Column(n, Integer) for n in (*_LATER, _IDENTITY)),
            schema="sys",
        )  # fmt: skip

    def capture_instances(self) -> Select[Any]:
        """Selects every capture instance, without its table's name if the login may not see the table."""
        ct, tables, schemas = self._change_tables.c, self._tables.c, self._schemas.c
        return (
            select(
                ct.capture_instance, ct.object_id, ct.source_object_id, ct.start_lsn, ct.create_date,
                schemas.name.label("schema_name"), tables.name.label("table_name"),
            )
            .select_from(self._change_tables)
            .outerjoin(self._tables, tables.object_id == ct.source_object_id)
            .outerjoin(self._schemas, schemas.schema_id == tables.schema_id)
        )  # fmt: skip

    def columns_header(self) -> Select[Any]:
        """Selects all columns of `sys.columns` and no rows.

        A copy of the catalog may lack some of them, and so may an older version.
        """
        return header(self._columns)

    def captured_columns(self, known: Collection[str]) -> Select[Any]:
        """Selects every captured column, with the size of its type (`max_length` is in bytes, -1 for max).

        `known` are the columns that `sys.columns` has.

        `source_name` is the column's name in the source table: NULL if the table no longer has the column, or
        may not be seen. Columns are matched by id: one that was dropped and added again is another column,
        which is not captured. Without ids they are matched by name.
        """
        captured, size, index = self._captured.c, self._columns.c, self._index.c
        tables, source = self._change_tables.c, self._columns.alias("source")
        by_id = "column_id" in known
        is_it = source.c.column_id == captured.column_id if by_id else source.c.name == captured.column_name
        later = [size[name] for name in _LATER if name in known]
        later += [source.c[_IDENTITY]] if _IDENTITY in known else []
        return (
            select(
                captured.object_id, captured.column_name, captured.column_type, captured.column_ordinal,
                captured.is_computed, size.max_length, size.precision, size.scale, size.is_nullable,
                index.index_ordinal, source.c.name.label("source_name"), *later,
            )
            .select_from(self._captured)
            .outerjoin(
                self._columns, and_(size.object_id == captured.object_id, size.name == captured.column_name)
            )
            .outerjoin(
                self._index,
                and_(index.object_id == captured.object_id, index.column_name == captured.column_name),
            )
            .outerjoin(self._change_tables, tables.object_id == captured.object_id)
            .outerjoin(source, and_(source.c.object_id == tables.source_object_id, is_it))
        )  # fmt: skip

    def row_count(self, instance: CaptureInstance, after: bytes | None, to: bytes) -> Select[Any]:
        lsn: ColumnElement[bytes] = column(START_LSN, LargeBinary())
        source = table(f"{instance.name}_CT", column(START_LSN), schema=self._schema)
        return select(func.count().label("rows")).select_from(source).where(*in_range(lsn, after, to))

    def changes(
        self,
        instance: CaptureInstance,
        writer_schema: Contract,
        names: Iterable[str],
        after: bytes | None,
        to: bytes,
    ) -> Select[Any]:
        """Selects the rows of one LSN range `(after, to]`, each with its commit time.

        `names` are the header columns that the change table has: old versions lack the command id.
        """
        source = table(
            f"{instance.name}_CT", *(column(n) for n in (*names, *writer_schema.names)), schema=self._schema
        )
        mapping = self._commit_times
        # The marks of an idle log belong to no transaction, whatever LSN they have.
        committed = and_(mapping.c.start_lsn == source.c[START_LSN], mapping.c.tran_id != LsnLiteral(b"\0"))
        captured = [as_read(source.c[c.name], c.sql_type).label(c.name) for c in writer_schema.columns]
        return (
            select(*(source.c[n] for n in names), *captured, mapping.c.tran_end_time.label(COMMIT_TIME))
            .select_from(source)
            .outerjoin(mapping, committed)
            .where(*in_range(source.c[START_LSN], after, to))
        )

    def with_fold(self, changes: Select[Any], falls_back: Sequence[FallBack]) -> Select[Any]:
        """Adds to the rows of `changes` the pass of a repeated hour in which they were committed."""
        times = self._commit_times.c
        return changes.add_columns(fold(times.start_lsn, times.tran_end_time, falls_back))

    def header(self, instance: CaptureInstance) -> Select[Any]:
        """Selects all columns of the change table and no rows, to find out which header columns it has."""
        return header(table(f"{instance.name}_CT", schema=self._schema))


def contract_of(
    config: TableConfig, instance: CaptureInstance, rows: Iterable[Mapping[str, Any]]
) -> Contract:
    """Builds a capture instance's contract from rows of `captured_columns`. What the YAML states wins."""
    captured = sorted(
        (row for row in rows if row["object_id"] == instance.object_id), key=lambda row: row["column_ordinal"]
    )
    if not captured:
        raise ContractError(
            f"the capture instance {instance.name} has no captured columns",
            "grant SELECT on cdc.captured_columns to the feed's login, or enable the capture again",
        )
    if all(row.get("system_type_id", 0) is None for row in captured):
        raise ContractError(
            f"the login cannot see the columns of the change table {instance.name}_CT",
            "grant SELECT on it to the feed's login: each capture instance needs a grant of its own "
            "(docs/connections.md, 'Grants')",
        )
    stated = {c.name.lower(): c for c in config.stated}
    sees_source = any(row["source_name"] is not None for row in captured)
    keys = key_positions(config, [row["column_name"] for row in captured])
    columns = []
    for row in captured:
        name = row["column_name"]
        override = stated.get(name.lower())
        position = keys.get(name.lower(), 0) if keys else int(row["index_ordinal"] or 0)
        as_captured = contracts.Column(
            name=name,
            type=type_text(row),
            ordinal=row["column_ordinal"],
            nullable=row["is_nullable"] in (None, True, 1),
            key_position=position,
            computed=bool(row["is_computed"]),
            dropped=sees_source and row["source_name"] is None,
        )
        columns.append(as_captured.stated_as(override.type, override.nullable) if override else as_captured)
    _require_key_values(config.table, columns)
    return Contract(table=config.table, columns=tuple(columns))


def _require_key_values(name: str, columns: Sequence[contracts.Column]) -> None:
    computed = [c.name for c in columns if c.computed and c.key_position]
    if computed:
        raise ContractError(
            f"the key of {name} has {shown(computed)}, which is computed: change tables have NULL for it",
            f"state a `key:` of other columns for {name} in the feed's YAML",
        )


def masked_columns(
    config: TableConfig, instance: CaptureInstance, rows: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Returns the columns of the instance's change table that SQL Server masks and the feed does not drop."""
    dropped = {name.lower() for name, rule in config.publish.columns.items() if rule.drop}
    return [
        row["column_name"]
        for row in rows
        if row["object_id"] == instance.object_id
        and row.get("is_masked") in (True, 1)
        and row["column_name"].lower() not in dropped
    ]
