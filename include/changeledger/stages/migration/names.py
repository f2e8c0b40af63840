"""The names of version 0.1, and what this version calls them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from changeledger.model.errors import ConfigError

TABLES: Final = {"replay": "replay_requests", "breaks": "image_chain_breaks", "repairs": "applied_repairs"}
_RECORDS: Final = {"run_id": "window_id", "record": "source_position"}
_LEDGER: Final = _RECORDS | {
    "before_gaps": "before_unknown_columns",
    "after_gaps": "after_unknown_columns",
    "ordinal": "event_serial_no",
    "paired_record": "paired_source_position",
}
_ROWS: Final = {"_run_id": "_window_id", "_gaps": "_unknown_columns"}
_RESULTS: Final = {"record": "source_position", "other_record": "other_source_position"}
_OF_RECORDS: Final = {"raw", "dispositions", "quarantine", *TABLES.values()}

_STATES: Final = {"not captured": "not_captured"}
_SHOWN_STATES: Final = {"(not captured)": "(not_captured)"}


@dataclass(frozen=True)
class Names:
    """Of one table: the names of columns by their old ones; by columns (of this version) the values that are
    rewritten, by their old ones. A column of `maps` is a map with them."""

    columns: Mapping[str, str]
    maps: Mapping[str, Mapping[str, str]]
    values: Mapping[str, Mapping[str, str]]


def of_feed(table: str, columns: Collection[str]) -> Names:
    """Of a table in a feed's namespace, by its own name and its columns, whichever version's they are."""
    if {"_change_id", "_sort_key"} <= set(columns):
        return Names(_ROWS, {"_unknown_columns": _STATES}, {})
    if "_instance" in columns or table in _OF_RECORDS:
        shown = {"known": _SHOWN_STATES, "before": _SHOWN_STATES} if table == TABLES["breaks"] else {}
        return Names(_RECORDS, shown, {})
    if {"change_id", "sort_key", "after"} <= set(columns):
        return Names(_LEDGER, dict.fromkeys(("before_unknown_columns", "after_unknown_columns"), _STATES), {})
    return Names({}, {}, {})


def of_results(table: str) -> Names:
    """Of a table of comparisons and proofs. Others there have rows of a source."""
    verdicts = {"findings": {"legitimate": "expected"}, "drift": {"surplus": "extra"}}
    if table not in verdicts:
        return Names({}, {}, {})
    return Names(_RESULTS, {}, {"verdict": verdicts[table]})


def taken(table: str, names: Names, columns: Collection[str]) -> list[str]:
    """Columns of the source in a raw table that have a name which is about to be one of ours.

    Raises ConfigError where a published table has such a column.
    """
    wanted = {new.lower() for old, new in names.columns.items() if old in columns}
    found = [name for name in columns if name.lower() in wanted]
    if found and "_instance" not in columns:
        raise ConfigError(
            f"{table} has a column {found[0]!r} of the source, which is now a name of changeledger's own",
            "nothing in the lake was changed: put the control store's backup back, and stay with version 0.1",
        )
    return found
