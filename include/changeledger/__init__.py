"""Five change-data-capture dialects of SQL Server, one audited ledger of changes.

`read` and `releases` give Python programs the published tables (docs/reading.md, "From Python").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa

    from changeledger.reader import Kind

__all__ = ["read", "releases"]


def read(  # noqa: PLR0913 - all but feed and table by name
    feed: str,
    table: str,
    *,
    kind: Kind = "current",
    columns: Sequence[str] | None = None,
    release: int | None = None,
    as_of: datetime | None = None,
) -> pa.Table:
    """Reads a published table into one pyarrow Table in memory.

    table: its name in the source (`dbo.customers`) or in the lake (`dbo_customers`).
    kind: `current` (the rows), `history` (their intervals) or `changes` (the ledger).
    columns: the columns to read, in this order; None: all.
    release: the id of the release to read; None: the newest.
    as_of: a time with its zone. The result has the rows as they were at that time, in the columns of
        `current`. A time after the release's window gives its newest rows.

    Raises ConfigError, with a remedy, for an unknown feed, table, column or release, and for a time
    without a zone or before the first interval of the history. Raises SourceUnavailable if the catalog
    or the storage does not answer.
    """
    # Imported here because it takes seconds: `import changeledger` stays cheap.
    from changeledger import reader  # noqa: PLC0415

    return reader.read(feed, table, kind=kind, columns=columns, release=release, as_of=as_of)


def releases(feed: str) -> list[int]:
    """Returns the ids of the feed's completed releases that `read` can read, the newest last.

    Raises ConfigError for an unknown feed; SourceUnavailable if the catalog or the storage does not answer.
    """
    from changeledger import reader  # noqa: PLC0415

    return reader.releases(feed)
