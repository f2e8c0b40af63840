"""Which releases stand, and which were taken back by a rollback."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

from changeledger.control.tables.releases import ReleaseRow


class ReleaseHead(NamedTuple):
    """A release without its tables, counts and positions."""

    id: int
    window_id: str
    status: str
    created_at: datetime
    rolled_back_to: int | None
    reason: str | None
    by: str | None


_Numbered = TypeVar("_Numbered", ReleaseHead, ReleaseRow)


def standing(releases: Iterable[ReleaseHead | ReleaseRow], as_of: int | None = None) -> set[int]:
    """Returns the ids of the releases that the tables are built from, as of a release (default: the newest).

    A run builds on the release before its own; a rollback has what its target has.
    """
    before = {row.id: row.rolled_back_to or row.id - 1 for row in releases}
    ids, number = set(), max(before, default=0) if as_of is None else as_of
    while number in before:
        ids.add(number)
        number = before[number]
    return ids


def taken_back(releases: Iterable[_Numbered]) -> dict[int, _Numbered]:
    """Returns, for each release that does not stand, the rollback that took it back, by release id."""
    rows = list(releases)
    stand: set[int] = set()
    takers: dict[int, _Numbered] = {}
    for row in rows:
        if row.rolled_back_to is None:
            stand.add(row.id)
            continue
        after = standing(rows, row.id)
        takers.update(dict.fromkeys(stand - after, row))
        for number in after - stand:
            takers.pop(number, None)
        stand = after
    return takers
