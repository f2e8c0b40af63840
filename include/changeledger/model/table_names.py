"""Names of the lake's tables: those of a source table, of a feed, and those that belong to no feed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from changeledger.model.errors import ConfigError

# The name of the lake's catalog in Spark and pyiceberg.
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
# The namespace of tables that belong to no feed. Snapshots of sources are in it, too.
NAMESPACE = "changeledger"
FINDINGS = f"lake.{NAMESPACE}.findings"
DRIFT = f"lake.{NAMESPACE}.drift"
REPAIRS = f"lake.{NAMESPACE}.repairs"
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_PLAIN = re.compile(r"[a-z0-9]+\.[a-z0-9]+")
# The longest base name: folders and catalogs allow 255 characters, including prefix and suffix.
_LONGEST = 255 - len("raw_") - len("_history")


class TableNames(NamedTuple):
    """The lake's tables for one source table of one feed, as Spark SQL identifiers."""

    current: str
    history: str
    changes: str

    @classmethod
    def of(cls, namespace: str, table: str) -> TableNames:
        """Returns the names for a source table.

        `dbo.Order Lines` in feed `shop_cdc` is `lake.shop_cdc.dbo_order_lines` and its siblings.

        A name with non-ASCII letters ends in a hash, because `dbo.注文` and `dbo.顧客` would otherwise be the
        same table. So does a name that is too long: schema and table may have 128 characters each.
        """
        base = _UNSAFE.sub("_", table.lower())
        if len(base) > _LONGEST or not table.isascii():
            digest = sha256(table.lower().encode()).hexdigest()[:16]
            base = f"{base[: _LONGEST - len(digest) - 1].rstrip('_')}_{digest}"
        return cls(*(f"lake.{namespace}.{base}{suffix}" for suffix in ("", "_history", "_changes")))

    @property
    def raw(self) -> str:
        """The raw table of a change table. Messages have one raw table for the whole feed."""
        lake, namespace, base = self.current.split(".")
        return f"{lake}.{namespace}.raw_{base}"


class FeedTables(NamedTuple):
    """A feed's tables in the lake that belong to no source table. Their columns are in `model.change`."""

    # Messages as received. A feed of change tables has a raw table for each of them (`TableNames.raw`).
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
    """Returns the lake's table for the rows that `verify` reads of a source table.

    A name that other names could be mapped to ends in a hash: `dbo.a b` and `dbo.a_b`, which two feeds may
    have, need two tables.
    """
    name = f"snapshot_{database}__{table}"
    if not _PLAIN.fullmatch(table.lower()):
        name += f"_{sha256(f'{database} {table}'.encode()).hexdigest()[:16]}"
    return TableNames.of(NAMESPACE, name).current


def distinct_names(namespace: str, tables: Iterable[str]) -> Mapping[str, TableNames]:
    """Returns names in the lake by source table. Raises ConfigError if two tables would share a name."""
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
            f"a source table would be {own[0]}, a table of the feed itself",
            "leave that table out: it cannot be published",
        )
    return names
