"""The releases of a feed, as rows to print: one for each, the newest first."""

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
# More tables than these are for `--json`.
_MOST_TABLES = 10
_ROWS = ("current", "history")


def listed(releases: Sequence[ReleaseRow], resets: Sequence[ResetRow] = ()) -> list[dict[str, Any]]:
    """By `COLUMNS`, of releases that are given oldest first. `resets`: of the same feed.

    `tables`: by table the changes by operation, the rows of `current` and `history`, and with `_more` by how
    much these are more than in the release before.
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
        # A table that came after the release that a rollback goes back to has no rows.
        before = counts if release.is_rollback else {**before, **counts}
    return rows[::-1]


def in_words(row: Mapping[str, Any]) -> list[object]:
    """The cells of a row of `listed` for a terminal."""
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
    """By table. A rollback has the counts of the release that it goes back to: it changed nothing itself."""
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
