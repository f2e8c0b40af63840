"""Every table of the lake, by name: those of a source table, of a feed, and of all feeds together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from changeledger.model.errors import ConfigError

# What Spark and pyiceberg call the catalog of the lake.
CATALOG = "lake"
# Columns that the ledger adds to published rows.
RESERVED = frozenset(
    {
        "_change_id", "_operation", "_sort_key", "_commit_lsn", "_committed_at", "_unknown_columns",
        "_window_id", "_valid_from", "_valid_to", "_next_sort_key", "_is_deleted", "_previous_key", "_break",
        # Iceberg's metadata columns.
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number",
        "_commit_snapshot_id", "_change_type", "_change_ordinal",
    }
)  # fmt: skip
# The namespace of what belongs to no feed, and its tables. Snapshots of a source are there, too.
NAMESPACE = "changeledger"
FINDINGS = f"lake.{NAMESPACE}.findings"
DRIFT = f"lake.{NAMESPACE}.drift"
REPAIRS = f"lake.{NAMESPACE}.repairs"
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_PLAIN = re.compile(r"[a-z0-9]+\.[a-z0-9]+")
# Of a table's folder and of its name in a catalog; what is put before a name, or behind it, comes to it.
_LONGEST = 255 - len("raw_") - len("_history")


class TableNames(NamedTuple):
    """The lake's tables for one source table of one feed, as Spark SQL identifiers."""

    current: str
    history: str
    changes: str

    @classmethod
    def of(cls, namespace: str, table: str) -> TableNames:
        """`dbo.Order Lines` in feed `shop_cdc` is `lake.shop_cdc.dbo_order_lines` and its siblings.

        A name in other letters than English ones ends in a hash, without which `dbo.注文` and `dbo.顧客` were
        one table, and so does one that is too long: schema and table may have 128 characters each.
        """
        base = _UNSAFE.sub("_", table.lower())
        if len(base) > _LONGEST or not table.isascii():
            digest = sha256(table.lower().encode()).hexdigest()[:16]
            base = f"{base[: _LONGEST - len(digest) - 1].rstrip('_')}_{digest}"
        return cls(*(f"lake.{namespace}.{base}{suffix}" for suffix in ("", "_history", "_changes")))

    @property
    def raw(self) -> str:
        """The rows of its change table as received; messages have one raw table for the feed."""
        lake, namespace, base = self.current.split(".")
        return f"{lake}.{namespace}.raw_{base}"


class FeedTables(NamedTuple):
    """The lake's tables of one feed that belong to no source table. Their columns are in `model.change`."""

    # Messages as received. A feed of change tables has a raw table for each (`TableNames.raw`).
    raw: str
    dispositions: str
    quarantine: str
    # Messages that wait for others; created with the first one.
    pending: str
    # Records to read again; created with the first request.
    replay_requests: str
    # Changes that broke the image chain; created with the first one.
    image_chain_breaks: str
    # Repairs as planned, by the run that applies them; created with the first one.
    applied_repairs: str
    # One row for each release, to read all tables by one tag.
    releases: str

    @classmethod
    def of(cls, namespace: str) -> FeedTables:
        return cls(*(f"lake.{namespace}.{name}" for name in cls._fields))


def snapshot_table(database: str, table: str) -> str:
    """The rows of a source table as `verify` has read them.

    Tables that two feeds keep apart (`dbo.a b`, `dbo.a_b`) are apart here, too: a name that others can become
    has a hash behind it.
    """
    name = f"snapshot_{database}__{table}"
    if not _PLAIN.fullmatch(table.lower()):
        name += f"_{sha256(f'{database} {table}'.encode()).hexdigest()[:16]}"
    return TableNames.of(NAMESPACE, name).current


def distinct_names(namespace: str, tables: Iterable[str]) -> Mapping[str, TableNames]:
    """Lake names by table. Raises ConfigError when two tables would share one."""
    return _distinct(namespace, tuple(tables))


@lru_cache(maxsize=64)
def _distinct(namespace: str, tables: tuple[str, ...]) -> Mapping[str, TableNames]:
    names = {table: TableNames.of(namespace, table) for table in tables}
    counts = Counter(name for group in names.values() for name in (group.raw, *group))
    twice = sorted(name for name, number in counts.items() if number > 1)
    if twice:
        raise ConfigError(
            f"two source tables would both be {twice[0]}", "put one of them into a feed of its own"
        )
    own = sorted(counts.keys() & set(FeedTables.of(namespace)))
    if own:
        raise ConfigError(
            f"a source table would be {own[0]}, which is the feed's own",
            "leave that table out: it cannot be published",
        )
    return names
