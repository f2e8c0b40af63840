"""Airflow assets for source tables and published tables, so that Airflow's graph connects them."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset

from changeledger.config.feed import Feed

CURRENT, HISTORY, CHANGES = "current", "history", "changes"
_KINDS = CURRENT, HISTORY, CHANGES


def sources(feed: Feed) -> list[Asset]:
    """Returns the assets of the feed's source tables. Feeds of one database share them."""
    return [
        Asset(
            name=f"{feed.database}: {reported.table}",
            uri=f"sqlserver://{feed.database}/{quote(reported.table)}",
            group=feed.database,
        )
        for reported in feed.tables
    ]


def published(feed: Feed, *kinds: str) -> list[Asset]:
    """Returns the assets of the lake's tables of these kinds, by default all, to schedule DAGs by."""
    return [
        Asset(
            name=getattr(names, kind),
            uri=f"iceberg://{getattr(names, kind).replace('.', '/')}",
            group=feed.feed,
            extra={"table": table, "kind": kind},
        )
        for kind in kinds or _KINDS
        for table, names in feed.names.items()
    ]
