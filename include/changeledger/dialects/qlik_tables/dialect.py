"""Qlik change tables, `<table>__ct`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from changeledger.config.feed import Feed
from changeledger.dialects.interface import DecisiveSetting, SourceDatabase, TableDialect, TableReader
from changeledger.dialects.qlik_tables import header
from changeledger.dialects.qlik_tables.decode import decode
from changeledger.dialects.tables.interface import TableKernel


def reader(feed: Feed, database: SourceDatabase) -> TableReader:
    # Imports SQLAlchemy, which takes long, and decoding rows needs no database.
    from changeledger.dialects.qlik_tables.reader import ChangeTables  # noqa: PLC0415

    return ChangeTables(feed, database)


def source_table(name: str) -> str:
    """Returns `dbo.orders` for `dbo.orders__ct`."""
    return re.sub(r"(?i)__ct$", "", name)


def header_names(names: Sequence[str], feed: Feed, stated: Collection[str]) -> frozenset[str]:
    return header.header_names(names, header.source_of(feed).header_prefix, stated)


QLIK_TABLES = TableDialect(
    TableKernel("qlik_tables", header.record, decode, header.mask_rules),
    reader,
    source_table,
    header_names,
    has_rows_without_position=True,
    masks_count_header=True,
    decisive=DecisiveSetting("empty_is_null", lambda feed: str(header.source_of(feed).empty_is_null).lower()),
)
