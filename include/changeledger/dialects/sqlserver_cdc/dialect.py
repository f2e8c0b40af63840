"""SQL Server's own CDC tables, `cdc.<capture_instance>_CT`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from changeledger.config.feed import Feed
from changeledger.dialects.interface import SourceDatabase, TableDialect, TableReader
from changeledger.dialects.sqlserver_cdc import exports, header
from changeledger.dialects.sqlserver_cdc.decode import decode
from changeledger.dialects.tables.interface import TableKernel


def reader(feed: Feed, database: SourceDatabase) -> TableReader:
    # With SQLAlchemy, which takes long to import: who decodes rows asks no database.
    from changeledger.dialects.sqlserver_cdc.reader import CaptureTables  # noqa: PLC0415

    return CaptureTables(feed, database)


def source_table(name: str) -> str:
    """`cdc.dbo_orders_CT` is `dbo.orders`: by default a capture instance is named after its table.

    So are the functions that read it, `cdc.fn_cdc_get_all_changes_dbo_orders`; names may stand in brackets.
    """
    of_cdc = r"(?i)^(cdc\.)?(fn_cdc_get_(all|net)_changes_)?|_ct$"
    instance = re.sub(of_cdc, "", re.sub(r"[\[\]]", "", name))
    return instance if "." in instance else instance.replace("_", ".", 1)


def header_names(names: Sequence[str], _feed: Feed, _stated: Collection[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names if name.startswith("__$"))


SQLSERVER_CDC = TableDialect(
    TableKernel("sqlserver_cdc", header.record, decode, header.mask_rules),
    reader,
    source_table,
    header_names,
    exports.with_folds,
    knows_computed=True,
)
