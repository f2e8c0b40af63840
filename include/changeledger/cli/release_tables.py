"""The releases of a feed as rows to print, the newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from changeledger.control import ReleaseRow, ResetRow, taken_back
from changeledger.lake.refs import release_tag
from changeledger.model.wording import counted

COLUMNS = (
    "release",
    "tag",
    "window",
    "released",
    "tables",
    "tolerated",
    "rolled_back_to",
    "taken_back",
    "reset",
)
# Only `--json` shows more tables than these.
_MOST_TABLES = 10
_ROWS = ("current", "history")


def listed(releases: Sequence[ReleaseRow], resets: Sequence[ResetRow] = ()) -> list[dict[str, Any]]:
    """Returns a row of `COLUMNS` for each release, newest first.

    `releases`: oldest first. `resets`: those of the same feed.

    `tables` in a row has for each table the changes by operation, and the number of rows of `current` and of
    `history`; with the suffix `_more`, how many more these are than in the previous release.
    """
    takers, rows = taken_back(releases), []
    by_release = {reset.release: reset for reset in resets}
    before: Mapping[str, Any] = {}
    for release in releases:
        counts = _counts(release)
        tolerated = release.counts.get("tolerated", ())
        taker, reset = takers.get(release.id), by_release.get(release.id)
        cells = (
            release.id,
            release_tag(release.id),
            release.window_id,
            release.created_at.isoformat(),
            {table: _compared(count, before.get(table, {})) for table, count in counts.items()},
            [dict(zip(("table", "rule", "rows", "why"), failure, strict=True)) for failure in tolerated],
            _rollback(release, release=release.rolled_back_to) if release.is_rollback else None,
            None if taker is None else _rollback(taker, rollback=taker.id),
            None if reset is None else _of_reset(reset),
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
        # After a rollback, a table that is newer than the restored release has no rows.
        before = counts if release.is_rollback else {**before, **counts}
    return rows[::-1]


def in_words(row: Mapping[str, Any]) -> list[object]:
    """Returns the cells of a row of `listed` for a terminal."""
    lines = [_table(table, counts) for table, counts in row["tables"].items()]
    left = len(lines) - _MOST_TABLES
    more = [f"and {counted(left, 'more table')}: --json"] if left > 0 else []
    cells = {
        **row,
        "tables": "\n".join(lines[:_MOST_TABLES] + more),
        "tolerated": "\n".join(
            f"{failure['table']}: {failure['rule']} ({failure['rows']}): {failure['why']}"
            for failure in row["tolerated"]
        ),
        "rolled_back_to": _in_words("release", row["rolled_back_to"]),
        "taken_back": _in_words("rollback", row["taken_back"]),
        "reset": _in_words("reset", row["reset"]),
    }
    return [cells[name] for name in COLUMNS]


def _table(table: str, counts: Mapping[str, Any]) -> str:
    changes = sum(counts.get("changes", {}).values())
    rows = (f"{name} {counts[name]:,} ({counts[f'{name}_more']:+,})" for name in _ROWS if name in counts)
    return f"{table}: {', '.join((counted(changes, 'change'), *rows))}"


def _in_words(what: str, done: Mapping[str, Any] | None) -> str:
    return "" if done is None else f"{done[what]}: {done['why']} ({done['by']}, {done['at']})"


def _counts(release: ReleaseRow) -> dict[str, Any]:
    """Returns the counts by table.

    A rollback has the row counts of the release that it goes back to, and no changes of its own.
    """
    counts = release.counts.get("tables", {})
    if not release.is_rollback:
        return dict(counts)
    return {table: {**of_table, "changes": {}} for table, of_table in counts.items()}


def _compared(count: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {**count, **{f"{name}_more": count[name] - before.get(name, 0) for name in _ROWS if name in count}}


def _rollback(row: ReleaseRow, **number: int | None) -> dict[str, Any]:
    return {**number, "at": row.created_at.isoformat(), "by": row.by, "why": row.reason}


def _of_reset(row: ResetRow) -> dict[str, Any]:
    return {
        "reset": row.id,
        "at": row.asked_at.isoformat(),
        "by": row.by,
        "why": row.reason,
        "accept_gap": row.accept_gap,
    }
