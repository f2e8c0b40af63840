"""The SELECTs on SQL Server's CDC tables, built with SQLAlchemy Core, and what their metadata says.

They compile for mssql, and for postgresql and sqlite where a copy of the tables lies there; identifiers
are quoted by the dialect. No sys.fn_* function is needed, so a login that may read the `cdc` schema and
the catalog views is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
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
    literal,
    or_,
    select,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from changeledger.config.tables import TableConfig
from changeledger.dialects.tables.sql import as_read, key_positions, literal_time
from changeledger.model import contract as contracts
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError

START_LSN = "__$start_lsn"
SEQVAL = "__$seqval"
OPERATION = "__$operation"
UPDATE_MASK = "__$update_mask"
COMMAND_ID = "__$command_id"
# Not of SQL Server: the commit time that cdc.lsn_time_mapping has for the row's LSN.
COMMIT_TIME = "__$commit_time"


class LsnLiteral(ColumnElement[bytes]):
    """A log sequence number as a literal: the SELECT is handed to Spark as text, without parameters."""

    inherit_cache = False
    type = LargeBinary()

    def __init__(self, lsn: bytes) -> None:
        self.lsn = lsn


@compiles(LsnLiteral)
def _standard(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"x'{element.lsn.hex()}'"


@compiles(LsnLiteral, "mssql")
def _mssql(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"0x{element.lsn.hex().upper()}"


@compiles(LsnLiteral, "postgresql")
def _postgresql(element: LsnLiteral, _compiler: SQLCompiler, **_: Any) -> str:
    return f"decode('{element.lsn.hex()}', 'hex')"


@dataclass(frozen=True)
class CaptureInstance:
    """One `_CT` table: which source table it captures, and the lowest LSN that it still has."""

    name: str
    object_id: int
    table: str
    start_lsn: bytes
    created: datetime | None = None


class CdcCatalog:
    """SELECTs on the metadata tables below `cdc_schema`."""

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
            Column("object_id", Integer), Column("column_name", String), Column("column_type", String),
            Column("column_ordinal", Integer), Column("is_computed", Integer), schema=cdc_schema,
        )  # fmt: skip
        self._index = Table(
            "index_columns", meta,
            Column("object_id", Integer), Column("column_name", String), Column("index_ordinal", Integer),
            schema=cdc_schema,
        )  # fmt: skip
        self._mapping = Table(
            "lsn_time_mapping", meta,
            Column("start_lsn", LargeBinary), Column("tran_end_time", DateTime),
            Column("tran_id", LargeBinary), schema=cdc_schema,
        )  # fmt: skip
        self._tables = Table(
            "tables", meta,
            Column("object_id", Integer), Column("name", String), Column("schema_id", Integer), schema="sys",
        )  # fmt: skip
        self._schemas = Table(
            "schemas", meta, Column("schema_id", Integer), Column("name", String), schema="sys"
        )
        self._columns = Table(
            "columns", meta,
            Column("object_id", Integer), Column("name", String), Column("max_length", Integer),
            Column("precision", Integer), Column("scale", Integer), Column("is_nullable", Integer),
            schema="sys",
        )  # fmt: skip

    def capture_instances(self) -> Select[Any]:
        ct, tables, schemas = self._change_tables.c, self._tables.c, self._schemas.c
        return (
            select(
                ct.capture_instance, ct.object_id, ct.start_lsn, ct.create_date,
                schemas.name.label("schema_name"), tables.name.label("table_name"),
            )
            .select_from(self._change_tables)
            .join(self._tables, tables.object_id == ct.source_object_id)
            .join(self._schemas, schemas.schema_id == tables.schema_id)
        )  # fmt: skip

    def captured_columns(self) -> Select[Any]:
        """Every captured column, with the size of its type (`max_length` is in bytes, -1 for max)."""
        captured, size, index = self._captured.c, self._columns.c, self._index.c
        return (
            select(
                captured.object_id, captured.column_name, captured.column_type, captured.column_ordinal,
                captured.is_computed, size.max_length, size.precision, size.scale, size.is_nullable,
                index.index_ordinal,
            )
            .select_from(self._captured)
            .outerjoin(
                self._columns, and_(size.object_id == captured.object_id, size.name == captured.column_name)
            )
            .outerjoin(
                self._index,
                and_(index.object_id == captured.object_id, index.column_name == captured.column_name),
            )
        )  # fmt: skip

    def highest_lsn(self, before: datetime | None = None) -> Select[Any]:
        """The last LSN captured, or the last one committed before a time (in the server's zone).

        The rule of sys.fn_cdc_map_time_to_lsn, with `largest less than`: a window ends before its end.
        """
        mapping = self._mapping.c
        query = select(func.max(mapping.start_lsn).label("lsn"))
        return query if before is None else query.where(mapping.tran_end_time < literal_time(before))

    @property
    def mapping(self) -> str:
        return f"{self._schema}.lsn_time_mapping"

    def newest_transaction(self) -> Select[Any]:
        """The last LSN captured, with its time (in the server's zone); no row if there is none."""
        mapping = self._mapping.c
        last = select(func.max(mapping.start_lsn)).scalar_subquery()
        return select(mapping.start_lsn.label("lsn"), mapping.tran_end_time.label("time")).where(
            mapping.start_lsn == last
        )

    def commit_times(self, lsns: Iterable[bytes]) -> Select[Any]:
        """The commit times of these LSNs, and the lowest LSN that the source still knows the time of."""
        mapping = self._mapping.c
        wanted = or_(*(mapping.start_lsn == LsnLiteral(lsn) for lsn in lsns))
        lowest = select(func.min(mapping.start_lsn)).scalar_subquery()
        return select(mapping.start_lsn.label("lsn"), mapping.tran_end_time.label("time")).where(
            or_(wanted, mapping.start_lsn == lowest)
        )

    def transactions(self, after: bytes | None, to: bytes) -> Select[Any]:
        """LSNs of the window's transactions, to cut a large read into ranges."""
        return select(self._mapping.c.start_lsn.label("lsn")).where(
            *_range(self._mapping.c.start_lsn, after, to)
        )

    def row_count(self, instance: CaptureInstance, after: bytes | None, to: bytes) -> Select[Any]:
        lsn: ColumnElement[bytes] = column(START_LSN, LargeBinary())
        source = table(f"{instance.name}_CT", column(START_LSN), schema=self._schema)
        return select(func.count().label("rows")).select_from(source).where(*_range(lsn, after, to))

    def changes(
        self,
        instance: CaptureInstance,
        writer_schema: Contract,
        names: Iterable[str],
        after: bytes | None,
        to: bytes,
    ) -> Select[Any]:
        """The rows of one LSN range `(after, to]`, each with its commit time.

        `names` are the header columns that the change table has: old versions lack the command id.
        """
        source = table(
            f"{instance.name}_CT", *(column(n) for n in (*names, *writer_schema.names)), schema=self._schema
        )
        mapping = self._mapping.alias("commit_times")
        # The marks of an idle log are of no transaction, whatever LSN they have.
        committed = and_(mapping.c.start_lsn == source.c[START_LSN], mapping.c.tran_id != LsnLiteral(b"\0"))
        captured = [as_read(source.c[c.name], c.sql_type).label(c.name) for c in writer_schema.columns]
        return (
            select(*(source.c[n] for n in names), *captured, mapping.c.tran_end_time.label(COMMIT_TIME))
            .select_from(source)
            .outerjoin(mapping, committed)
            .where(*_range(source.c[START_LSN], after, to))
        )

    def header(self, instance: CaptureInstance) -> Select[Any]:
        """No rows of the change table, all of its columns: shows which header columns there are."""
        everything = table(f"{instance.name}_CT", schema=self._schema)
        return select(literal_star()).select_from(everything).where(literal(1) == literal(0))


def literal_star() -> ColumnElement[Any]:
    return column("*", is_literal=True)


def _range(lsn: ColumnElement[Any], after: bytes | None, to: bytes) -> list[ColumnElement[bool]]:
    upper = lsn <= LsnLiteral(to)
    return [upper] if after is None else [lsn > LsnLiteral(after), upper]


def capture_instances(rows: Iterable[Mapping[str, Any]]) -> list[CaptureInstance]:
    return [
        CaptureInstance(
            name=row["capture_instance"],
            object_id=row["object_id"],
            table=f"{row['schema_name']}.{row['table_name']}",
            start_lsn=bytes(row["start_lsn"]),
            created=row["create_date"],
        )
        for row in rows
    ]


def contract_of(
    config: TableConfig, instance: CaptureInstance, rows: Iterable[Mapping[str, Any]]
) -> Contract:
    """The contract that `captured_columns` has for one capture instance, under what the YAML states."""
    captured = sorted(
        (row for row in rows if row["object_id"] == instance.object_id), key=lambda row: row["column_ordinal"]
    )
    if not captured:
        raise ContractError(
            f"the capture instance {instance.name} has no captured columns",
            "grant SELECT on cdc.captured_columns to the feed's login, or enable the capture again",
        )
    stated = {c.name.lower(): c for c in config.stated}
    keys = key_positions(config, [row["column_name"] for row in captured])
    columns = []
    for row in captured:
        name = row["column_name"]
        override = stated.get(name.lower())
        position = keys.get(name.lower(), 0) if keys else int(row["index_ordinal"] or 0)
        columns.append(
            contracts.Column(
                name=name,
                type=override.type if override else _type_text(row),
                ordinal=row["column_ordinal"],
                nullable=override.nullable if override else row["is_nullable"] in (None, True, 1),
                key_position=position,
                computed=bool(row["is_computed"]),
            )
        )
    return Contract(table=config.table, columns=tuple(columns))


def _type_text(row: Mapping[str, Any]) -> str:
    """`nvarchar` of 100 bytes is `nvarchar(50)`; lengths, precision and scale as T-SQL writes them."""
    base = str(row["column_type"]).lower()
    length = row["max_length"]
    if base in {"decimal", "numeric"}:
        return f"{base}({row['precision']},{row['scale']})"
    if base in {"datetime2", "time", "datetimeoffset"}:
        return base if row["scale"] is None else f"{base}({row['scale']})"
    if base in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"} and length is not None:
        characters = length if length < 0 else length // 2 if base.startswith("n") else length
        return f"{base}({'max' if characters < 0 else characters})"
    return base
