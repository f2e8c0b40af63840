"""Capture instances: which ones capture the tables of a feed, and from which LSN on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from changeledger.model.errors import ConfigError
from changeledger.model.source_names import meant, several_alike


@dataclass(frozen=True)
class CaptureInstance:
    """One `_CT` table: which source table it captures, and the lowest LSN that it still has.

    `table` is the source table's present name, empty if the login may not see it. `start_lsn` is None until
    the capture job has reached the instance: nothing is captured yet.
    """

    name: str
    object_id: int
    table: str
    start_lsn: bytes | None
    created: datetime | None = None
    # The source table's object id, which stays the same for as long as the table exists.
    source_id: int | None = None

    def begins_after(self, lsn: bytes) -> bool:
        return self.start_lsn is None or self.start_lsn > lsn


def capture_instances(rows: Iterable[Mapping[str, Any]]) -> list[CaptureInstance]:
    return [
        CaptureInstance(
            name=row["capture_instance"],
            object_id=row["object_id"],
            table=_name(row["schema_name"], row["table_name"]) if row["table_name"] else "",
            start_lsn=None if row["start_lsn"] is None else bytes(row["start_lsn"]),
            created=row["create_date"],
            source_id=row["source_object_id"],
        )
        for row in rows
    ]


def _name(schema: str, table: str) -> str:
    """Returns the table's name as a feed writes it, where the first dot ends the schema.

    A schema with a dot is put in brackets, so that its tables, which a feed cannot name, do not pass for
    others.
    """
    return f"[{schema}].{table}" if "." in schema else f"{schema}.{table}"


def of_table(table: str, instances: Sequence[CaptureInstance]) -> list[CaptureInstance]:
    """Returns the table's instances, oldest first. Those that are still empty count only if all are.

    Of tables whose names differ only in case, the one with the exact name is meant. Raises ConfigError if the
    table has no instance, or if several tables may be meant.
    """
    alike = [i for i in instances if i.table.lower() == table.lower()]
    if not alike:
        raise _not_captured(table, instances)
    meant_table = meant(table, None, {i.table for i in alike})
    own_instances = [i for i in alike if i.table == meant_table]
    if not own_instances:
        raise several_alike(table, {f"{i.table} ({i.name})" for i in alike})
    begun = [i for i in own_instances if i.start_lsn is not None]
    in_order = sorted(begun or own_instances, key=lambda i: (i.created or datetime.min, i.start_lsn or b""))
    # A clean-up of one instance only can move its start behind that of a newer one, which then has all of its
    # changes. A clean-up of all instances gives them the same start_lsn.
    return [
        instance
        for at, instance in enumerate(in_order)
        if all((instance.start_lsn or b"") <= (newer.start_lsn or b"") for newer in in_order[at + 1 :])
    ]


def _not_captured(table: str, instances: Iterable[CaptureInstance]) -> ConfigError:
    """Returns the error for a table without an instance.

    An instance keeps the name that its table first had, which shows that a table was renamed.
    """
    by_default = table.replace(".", "_").lower()
    of_name = next((i for i in instances if i.name.lower() == by_default), None)
    enable = "enable change data capture for it (sys.sp_cdc_enable_table)"
    if of_name is None:
        return ConfigError(
            f"{table} has no capture instance",
            f"{enable}, also if it was dropped and created again, and grant the feed's login SELECT on "
            "the cdc schema and VIEW DEFINITION on the table's",
        )
    if not of_name.table:
        return ConfigError(
            f"the login cannot see which table the capture instance {of_name.name} captures",
            f"grant the feed's login VIEW DEFINITION on the schema of {table}",
        )
    now = of_name.table
    return ConfigError(
        f"{table} has no capture instance, and {of_name.name} captures {now}: was the table renamed, or "
        "moved to another schema?",
        f"if so, rename it back, or name {now} in the feed, which makes it a table of its own in the lake; "
        f"if {table} is another table, {enable}",
    )
