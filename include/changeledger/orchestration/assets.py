"""Airflow's assets: source tables and what is published of them, so that its graph shows the way between."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset

from changeledger.config.feed import Feed

CURRENT, HISTORY, CHANGES = "current", "history", "changes"
_KINDS = CURRENT, HISTORY, CHANGES


def sources(feed: Feed) -> list[Asset]:
    """The tables that the feed tells of; feeds of one database have the same ones."""
    return [
        Asset(
            name=f"{feed.database}: {reported.table}",
            uri=f"sqlserver://{feed.database}/{quote(reported.table)}",
            group=feed.database,
        )
        for reported in feed.tables
    ]


def published(feed: Feed, *kinds: str) -> list[Asset]:
    """The lake's tables of these kinds, or of all, for DAGs that begin when these are new."""
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
