"""Qlik change tables, `<table>__ct`."""

from __future__ import annotations

import re

from changeledger.config.feed import Feed
from changeledger.dialects.interface import SourceDatabase, TableDialect, TableReader
from changeledger.dialects.qlik_tables import header, kernel


def reader(feed: Feed, database: SourceDatabase) -> TableReader:
    # With SQLAlchemy, which takes long to import: who decodes rows asks no database.
    from changeledger.dialects.qlik_tables.reader import ChangeTables  # noqa: PLC0415

    return ChangeTables(feed, database)


def source_table(name: str) -> str:
    """`dbo.orders__ct` is `dbo.orders`."""
    return re.sub(r"(?i)__ct$", "", name)


def is_header(name: str, feed: Feed) -> bool:
    return header.is_header(name, header.source_of(feed).header_prefix)


QLIK_TABLES = TableDialect(kernel.QLIK_TABLES, reader, source_table, is_header, masks_count_header=True)
