"""`changeledger migrate`."""

from __future__ import annotations

from changeledger.cli.lake import opened, require_lake
from changeledger.config.settings import Settings


def migrate() -> None:
    """Give the lake of an earlier version the names of this one.

    Renames tables and columns and rewrites stored words that have changed (docs/maintenance.md, 'Upgrading').
    Stop the DAGs first. Broken off, it goes on where it was when it is run again.
    """
    from changeledger.control import ControlStore  # noqa: PLC0415 - as in `opened`

    settings = Settings()
    require_lake(settings)
    control = ControlStore(settings.control_url, any_lake=True)
    if control.has_current_lake():
        print("the lake is of this version: there is nothing to do")  # noqa: T201
        return
    with opened("migrate", progress=True) as spark:
        from changeledger.stages.migration.migrating import migrate as migrate_lake  # noqa: PLC0415 - as above

        migrate_lake(spark, control)
    print("the lake is of this version now")  # noqa: T201
