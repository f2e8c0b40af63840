"""The SELECTs on SQL Server's CDC tables, built with SQLAlchemy Core, and contracts from their metadata.

They compile for mssql, and for postgresql and sqlite, which may have a copy of the tables. SQLAlchemy's
dialect quotes identifiers. No sys.fn_* function is needed, so a login that may read the `cdc` schema and the
catalog views is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, TableClause, and_, column, func, select

from changeledger.config.tables import TableConfig
from changeledger.dialects.sqlserver_cdc.clock import FallBack
from changeledger.dialects.sqlserver_cdc.column_types import type_text
from changeledger.dialects.sqlserver_cdc.header import COMMIT_TIME, START_LSN
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance
from changeledger.dialects.sqlserver_cdc.literals import LsnLiteral
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping, fold, in_range
from changeledger.dialects.tables.sql import as_read, key_positions, named_table
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
        self._schema = cdc_schema
        self._change_tables = named_table(
            cdc_schema, "change_tables",
            "object_id", "source_object_id", "capture_instance", "start_lsn", "create_date",
        )  # fmt: skip
        self._captured = named_table(
            cdc_schema, "captured_columns",
            "object_id", "column_name", "column_id", "column_type", "column_ordinal", "is_computed",
        )  # fmt: skip
        self._index = named_table(cdc_schema, "index_columns", "object_id", "column_name", "index_ordinal")
        self._commit_times = TimeMapping(cdc_schema).table.alias("commit_times")
        self._tables = named_table("sys", "tables", "object_id", "name", "schema_id")
        self._schemas = named_table("sys", "schemas", "schema_id", "name")
        # A copy of the catalog may lack some of them, and so may an older version.
        self.columns = named_table(
            "sys", "columns", "object_id", "name", "column_id", "max_length", "precision", "scale",
            "is_nullable", *_LATER, _IDENTITY,
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

    def captured_columns(self, known: Collection[str]) -> Select[Any]:
        """Selects every captured column, with the size of its type (`max_length` is in bytes, -1 for max).

        `known` are the columns that `sys.columns` has.

        `source_name` is the column's name in the source table: NULL if the table no longer has the column, or
        may not be seen. Columns are matched by id: one that was dropped and added again is another column,
        which is not captured. Without ids they are matched by name.
        """
        captured, size, index = self._captured.c, self.columns.c, self._index.c
        tables, source = self._change_tables.c, self.columns.alias("source")
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
                self.columns, and_(size.object_id == captured.object_id, size.name == captured.column_name)
            )
            .outerjoin(
                self._index,
                and_(index.object_id == captured.object_id, index.column_name == captured.column_name),
            )
            .outerjoin(self._change_tables, tables.object_id == captured.object_id)
            .outerjoin(source, and_(source.c.object_id == tables.source_object_id, is_it))
        )  # fmt: skip

    def change_table(self, instance: CaptureInstance, *columns: str) -> TableClause:
        return named_table(self._schema, f"{instance.name}_CT", *columns)

    def row_count(self, instance: CaptureInstance, after: bytes | None, to: bytes) -> Select[Any]:
        source = self.change_table(instance, START_LSN)
        lsns = in_range(column(START_LSN), after, to)
        return select(func.count().label("rows")).select_from(source).where(*lsns)

    def changes(  # noqa: PLR0913, PLR0917 - the rows, and the clock by which they are dated
        self,
        instance: CaptureInstance,
        writer_schema: Contract,
        names: Sequence[str],
        after: bytes | None,
        to: bytes,
        falls_back: Sequence[FallBack] = (),
    ) -> Select[Any]:
        """Selects the rows of one LSN range `(after, to]`, each with its commit time.

        `names` are the header columns that the change table has: old versions lack the command id. With
        `falls_back` each row has the pass of a repeated hour in which it was committed, too.
        """
        source, times = self.change_table(instance, *names, *writer_schema.names), self._commit_times
        # The marks of an idle log belong to no transaction, whatever LSN they have.
        committed = and_(times.c.start_lsn == source.c[START_LSN], times.c.tran_id != LsnLiteral(b"\0"))
        captured = [as_read(source.c[c.name], c.sql_type).label(c.name) for c in writer_schema.columns]
        folds = [fold(times.c.start_lsn, times.c.tran_end_time, falls_back)] if falls_back else []
        return (
            select(*(source.c[n] for n in names), *captured, times.c.tran_end_time.label(COMMIT_TIME), *folds)
            .select_from(source)
            .outerjoin(times, committed)
            .where(*in_range(source.c[START_LSN], after, to))
        )


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
