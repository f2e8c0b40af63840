"""Extends two days of hourly windows and releases to a year, by statements of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_COPIES: Final = """
    WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < :copies),
    shifts AS (SELECT n, printf('-%d hours', n * :hours) AS shift FROM copies)
"""


def _moment(column: str) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%S.000000', {column}, shift)"


def _window_id(window: str) -> str:
    """Returns the window's id in SQL, as `model.window.Window` forms it."""
    start, end = (f"strftime('%Y%m%dT%H%M%S', {window}.\"{side}\", shift)" for side in ("start", "end"))
    return f"{start} || '000000Z_' || {end} || '000000Z'"


_RELEASES: Final = f"""
    INSERT INTO releases (feed, id, window_id, status, created_at, completed_at, changes, committed, tables, counts,
        positions)
    {_COPIES}
    SELECT r.feed, r.id - n * :releases, {_window_id("w")}, r.status, {_moment("r.created_at")},
        {_moment("r.completed_at")}, r.changes, r.committed, r.tables, r.counts, r.positions
    FROM shifts, releases r JOIN windows w ON w.feed = r.feed AND w.window_id = r.window_id
    WHERE r.feed = :feed AND r.rolled_back_to IS NULL
"""
_WINDOWS: Final = f"""
    INSERT INTO windows (feed, window_id, start, "end", from_position, to_position, status, opened_at, asked, built_on)
    {_COPIES}
    SELECT feed, {_window_id("w")}, {_moment("start")}, {_moment('"end"')}, from_position, to_position, status,
        {_moment("opened_at")}, asked, built_on
    FROM shifts, windows w WHERE feed = :feed AND status <> 'open'
"""


def lengthen(store: Path, feeds: Iterable[str], hours: int, copies: int) -> None:
    """Repeats the last `hours` of each feed `copies` times before them."""
    connection = sqlite3.connect(store)
    with connection:
        for feed in feeds:
            asked: dict[str, str | int] = {"feed": feed, "hours": hours, "copies": copies}
            (count,) = connection.execute("SELECT max(id) FROM releases WHERE feed = :feed", asked).fetchone()
            asked["releases"] = count
            connection.execute("UPDATE releases SET id = id + :copies * :releases WHERE feed = :feed", asked)
            connection.execute(_RELEASES, asked)
            connection.execute(_WINDOWS, asked)
    connection.close()
