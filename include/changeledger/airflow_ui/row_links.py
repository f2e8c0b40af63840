"""Addresses of rows on the view Rows.

The address names a row by its key. If the installation hides values, it names one of the row's changes
instead, because addresses are kept in logs and histories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from changeledger.model.contract import Contract
from changeledger.state.cells import key_texts_of_json
from changeledger.state.row_changes import RowChange

# The prefix of a key column's name in an address or in the form.
KEY = "key."
BEFORE, AFTER = "before", "after"


class RowPage(NamedTuple):
    """The view Rows of a feed's table. `root`: the address of the app."""

    root: str
    feed: str
    table: str

    def address(self, asked: Mapping[str, str]) -> str:
        # An empty text may be a key's value.
        given = {name: text for name, text in asked.items() if text or name.startswith(KEY)}
        query = urlencode({"table": self.table, **given}, quote_via=quote)
        return f"{self.root}/feeds/{quote(self.feed, safe='')}/rows?{query}"


def by_key(page: RowPage, key: Mapping[str, str], as_of: str = "") -> str:
    return page.address({**{f"{KEY}{column}": text for column, text in key.items()}, "as_of": as_of})


def by_change(page: RowPage, change: str, lsn: str | None, side: str = AFTER, as_of: str = "") -> str:
    """Returns the address of a row by a change. `side`: for a key update, the key before or after it."""
    side = "" if side == AFTER else side
    return page.address({"change": change, "lsn": lsn or "", "side": side, "as_of": as_of})


def moved(page: RowPage, change: RowChange, side: str, *, redact: bool) -> str:
    """Returns the address of the row under its key before the change, or under the one since."""
    key = change.moved_from if side == BEFORE else change.moved_to
    if redact:
        return by_change(page, change.change_id, change.position.commit_lsn, side)
    return by_key(page, key or {})


def of_finding(
    root: str, finding: Mapping[str, Any], contract: Contract | None, *, redact: bool
) -> str | None:
    """Returns the address of the row of a comparison's finding, or None if no change of the row is known.

    It is the reference's row, or the feed's if only the feed has it. `contract`: the reference's.
    """
    is_of_reference = finding["change_id"] is not None
    page = RowPage(root, finding["reference" if is_of_reference else "feed"], finding["table"])
    # The row as of the finding, because its next change may be right again.
    as_of = "" if finding["committed_at"] is None else finding["committed_at"].isoformat()
    key = None if redact or contract is None else key_texts_of_json(finding["key"], contract)
    if key is not None:
        return by_key(page, key, as_of)
    change = finding["change_id"] or finding["other_change_id"]
    lsn = finding["commit_lsn"] if is_of_reference else finding["other_lsn"] or finding["commit_lsn"]
    if change is None:
        return None
    return by_change(page, change, lsn.hex().upper() if lsn else None, as_of=as_of)
