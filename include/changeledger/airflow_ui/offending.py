"""The rows that break a rule, as a table whose rows lead to the view Rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from changeledger.airflow_ui.row_links import RowPage, by_key
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model.contract import Contract
from changeledger.state.audit_rows import Row, offending_rows
from changeledger.state.cells import key_texts_of_json
from changeledger.state.reasons import REASONS

# What the audit's own rules call the key of a change, as JSON.
_KEY = "key"


@dataclass(frozen=True)
class Offending:
    """Rows of a rule. `columns`: of all of them; `rows`: each with the address of its row, if it has a key;
    `reasons`: why records of it are quarantined, with what to do."""

    columns: Sequence[str]
    rows: Sequence[tuple[Row, str | None]]
    reasons: Mapping[str, str]


def offending(
    control: ControlStore, root: str, feed: str, window_id: str
) -> dict[tuple[str, str], Offending]:
    """By table and rule. Where values are hidden no row has an address."""
    settings = Settings()
    rows_of_rules = offending_rows(settings, feed, window_id)
    tables = {table for table, _ in rows_of_rules}
    contracts = {} if settings.redact_values else control.contracts.of_feed(feed, tables)
    return {
        (table, rule): _linked(rows, contracts.get(table), RowPage(root, feed, table))
        for (table, rule), rows in rows_of_rules.items()
    }


def _linked(rows: Sequence[Row], contract: Contract | None, page: RowPage) -> Offending:
    linked = []
    for row in rows:
        key = None if contract is None else _key(row, contract)
        linked.append((row, None if key is None else by_key(page, key)))
    columns = dict.fromkeys(name for row in rows for name in row)
    return Offending(tuple(columns), linked, _reasons(rows))


def _key(row: Row, contract: Contract) -> Mapping[str, str] | None:
    """Of a change, or of a row that an expectation of a user has found."""
    if _KEY in row:
        try:
            return key_texts_of_json(row[_KEY], contract)
        except ValueError:
            # Cut off, or hidden when the audit ran.
            return None
    key = {column.name: row.get(column.name, "") for column in contract.key}
    return key if key and all(key.values()) else None


def _reasons(rows: Iterable[Row]) -> dict[str, str]:
    words = dict.fromkeys(word for row in rows for word in re.findall(r"[a-z0-9_]+", row.get("why", "")))
    return {word: REASONS[word] for word in words if word in REASONS}
