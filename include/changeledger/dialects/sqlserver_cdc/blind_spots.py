"""Finds what a change table does not show, or shows wrongly, from SQL Server's metadata.

Source: Microsoft's pages "cdc.change_tables" (`partition_switch`), "Known limitations, issues, and errors
with CDC" (collation differences) and "sys.columns" (`encryption_type`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Select, Unicode, cast, func, select

from changeledger.dialects.interface import Caution, SourceDatabase
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance
from changeledger.dialects.tables.sql import named_table
from changeledger.model.column_names import shown

# `system_type_id` of text, varchar and char.
_IN_CODE_PAGES: Final = (35, 167, 175)
# A column of `sys.columns` since SQL Server 2016.
_ENCRYPTION: Final = "encryption_type"


def cautions(
    database: SourceDatabase,
    cdc_schema: str,
    instances: Collection[CaptureInstance],
    known: Collection[str],
) -> Sequence[Caution]:
    """Returns the cautions about capture instances. `known` are the columns that `sys.columns` has."""
    ids = sorted(instance.object_id for instance in instances)
    switched = {row["object_id"] for row in database.rows(partitioned(cdc_schema, ids))}
    results = [_switches(instance) for instance in instances if instance.object_id in switched]
    others = (row for row in database.rows(collations(ids)) if row["collation_name"] != row["of_database"])
    ciphers = database.rows(encrypted(ids)) if _ENCRYPTION in known else ()
    for rows, caution in ((others, _wrong_text), (ciphers, _ciphertext)):
        names = _by_table(rows)
        results += [caution(i, names[i.object_id]) for i in instances if i.object_id in names]
    return results


def _by_table(rows: Iterable[Mapping[str, Any]]) -> Mapping[int, list[str]]:
    names: dict[int, list[str]] = {}
    for row in rows:
        names.setdefault(row["object_id"], []).append(row["name"])
    return names


def _switches(instance: CaptureInstance) -> Caution:
    return Caution(
        f"{instance.name}: partitions of {instance.table} may be switched in and out without a captured "
        "change",
        "enable the capture with @allow_partition_switch = 0; or verify after each switch, and repair",
    )


def _wrong_text(instance: CaptureInstance, names: Sequence[str]) -> Caution:
    return Caution(
        f"{instance.name}: text that is not ASCII may be wrong in the change table, because the "
        f"collation of these columns differs from the database's: {shown(names)}",
        "make the column nvarchar, or give it the database's collation; verify finds such text",
    )


def _ciphertext(instance: CaptureInstance, names: Sequence[str]) -> Caution:
    return Caution(
        f"{instance.name}: these columns are read as ciphertext (Always Encrypted): {shown(names)}",
        "state their type in `columns:` as varbinary(max), the type of the ciphertext, or do not "
        "capture them",
    )


def partitioned(cdc_schema: str, ids: Sequence[int]) -> Select[Any]:
    """Selects the change tables of partitioned tables whose partitions may be switched.

    `partition_switch` is also 1 for every table that is not partitioned.
    """
    change_tables = named_table(
        cdc_schema, "change_tables", "object_id", "source_object_id", "partition_switch"
    ).c
    partitions = named_table("sys", "partitions", "object_id", "partition_number").c
    is_partitioned = (
        select(partitions.object_id)
        .where(partitions.object_id == change_tables.source_object_id, partitions.partition_number > 1)
        .exists()
    )
    return select(change_tables.object_id).where(
        change_tables.object_id.in_(ids), change_tables.partition_switch == 1, is_partitioned
    )


def collations(ids: Sequence[int]) -> Select[Any]:
    columns = named_table("sys", "columns", "object_id", "name", "system_type_id", "collation_name").c
    of_database = cast(func.databasepropertyex(func.db_name(), "Collation"), Unicode(128))
    return select(
        columns.object_id, columns.name, columns.collation_name, of_database.label("of_database")
    ).where(columns.object_id.in_(ids), columns.system_type_id.in_(_IN_CODE_PAGES))


def encrypted(ids: Sequence[int]) -> Select[Any]:
    columns = named_table("sys", "columns", "object_id", "name", _ENCRYPTION).c
    return select(columns.object_id, columns.name).where(
        columns.object_id.in_(ids), columns[_ENCRYPTION].is_not(None)
    )
