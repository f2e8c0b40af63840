"""Names of a source table's tables in the lake."""

from __future__ import annotations

import re
from typing import NamedTuple

from changeledger.model.errors import ConfigError

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
_UNSAFE = re.compile(r"[^a-z0-9_]+")


class TableNames(NamedTuple):
    """The lake's tables for one source table of one feed, as Spark SQL identifiers."""

    current: str
    history: str
    changes: str

    @classmethod
    def of(cls, namespace: str, table: str) -> TableNames:
        """`dbo.Order Lines` in feed `shop_cdc` is `lake.shop_cdc.dbo_order_lines` and its siblings."""
        base = _UNSAFE.sub("_", table.lower())
        return cls(*(f"lake.{namespace}.{base}{suffix}" for suffix in ("", "_history", "_changes")))


def distinct_names(namespace: str, tables: list[str]) -> dict[str, TableNames]:
    """Lake names by table. Raises ConfigError when two tables would share one."""
    names = {table: TableNames.of(namespace, table) for table in tables}
    # A feed of change tables has a raw table beside each.
    raw = [group.current.replace(f"lake.{namespace}.", f"lake.{namespace}.raw_") for group in names.values()]
    everything = [*raw, *(name for group in names.values() for name in group)]
    twice = sorted({n for n in everything if everything.count(n) > 1})
    if twice:
        raise ConfigError(
            f"two source tables would both be {twice[0]}", "put one of them into a feed of its own"
        )
    return names
