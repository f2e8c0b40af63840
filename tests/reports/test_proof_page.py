"""The page of proofs: the verdict first, then what is wrong, since when, and what would correct it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from changeledger.control import ProofRow
from changeledger.control.outcomes import DRIFTED, PROVEN, SOURCE, TOPIC, WAITING
from changeledger.reports.proof import FeedProofs, Report, Wrong, write
from changeledger.stages.verification.proofs import COUNTED

AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


def row(feed: str, table: str, outcome: str, against: str = SOURCE, **counts: int) -> ProofRow:
    return ProofRow(
        id=f"shop.{feed}.{table}", against=against, snapshot_id="shop", database="shop", table=table,
        feed=feed, release=7, outcome=outcome, since=AT, until=AT + timedelta(seconds=42),
        since_lsn="0A", until_lsn="0B", counts={**dict.fromkeys(COUNTED, 0), **counts}, at=AT,
    )  # fmt: skip


CHANGED: dict[str, Any] = {
    "verdict": "differs", "key": '{"id":7}', "change_id": "c1", "operation": "update",
    "cells": [{"name": "name", "source": "<b>Ann</b>", "published": "NULL"}],
    "commit_lsn": b"\x0a\x01", "committed_at": AT,
    "source_position": {"source": "topic", "partition": 0, "offset": 12, "row": None},
}  # fmt: skip
NEW: dict[str, Any] = {
    "verdict": "missing", "key": '{"id":8}', "change_id": None, "operation": None, "cells": None,
    "commit_lsn": None, "committed_at": None, "source_position": None,
}  # fmt: skip
REPAIRS: list[dict[str, Any]] = [
    {"operation": "update", "key": '{"id":7}', "before": {"id": "7", "name": None},
     "after": {"id": "7", "name": "<b>Ann</b>"}},
    {"operation": "insert", "key": '{"id":8}', "before": None, "after": {"id": "8", "name": None}},
    {"operation": "delete", "key": '{"id":9}', "before": {"id": "9"}, "after": None},
]  # fmt: skip


def pages(tmp_path: Path, *feeds: FeedProofs) -> tuple[str, str]:
    write(Report("shop", AT, feeds), tmp_path)
    html, text = ((tmp_path / name).read_text("utf-8") for name in ("index.html", "proof.md"))
    return html, text


def test_nothing_has_been_verified(tmp_path: Path) -> None:
    for page in pages(tmp_path):
        assert "Nothing has been verified yet" in page


def test_a_source_that_nobody_may_read(tmp_path: Path) -> None:
    """Feeds may have releases: only a connection is missing."""
    write(Report("shop", AT, [], has_source=False), tmp_path)
    for name in ("index.html", "proof.md"):
        page = (tmp_path / name).read_text("utf-8")
        assert "of the database names no connection to it" in page
        assert "a feed needs a release" not in page


def test_feeds_without_a_release_are_named(tmp_path: Path) -> None:
    proven = FeedProofs("one", PROVEN, [row("one", "dbo.t", PROVEN, rows=1200)], [])
    write(Report("shop", AT, [proven], ["two", "one (dbo.u)"]), tmp_path)
    for name in ("index.html", "proof.md"):
        page = (tmp_path / name).read_text("utf-8")
        assert "two" in page
        assert page.count("nothing of it has been released yet") == 2


def test_verdicts_as_sentences(tmp_path: Path) -> None:
    proven = FeedProofs(
        "one", PROVEN, [row("one", "dbo.t", PROVEN, rows=1200), row("one", "dbo.u", PROVEN)], []
    )
    waits = [row("two", "dbo.t", WAITING, rows=9, missing=2), row("two", "dbo.t", PROVEN, TOPIC, rows=4)]
    for page in pages(tmp_path, proven, FeedProofs("two", WAITING, waits, [])):
        assert "one is proven: 1,200 rows of 2 tables match the source at 2026-08-07 16:25:42 UTC." in page
        assert "two waits: dbo.t (2 missing) among the rows read at 2026-08-07 16:25:42 UTC" in page
        assert "its topic, delivered again" in page


def test_drift_row_by_row(tmp_path: Path) -> None:
    wrong = row("one", "dbo.t", DRIFTED, rows=98, equal=35, in_flight=4, differs=1, missing=60)
    corrupted = Wrong(wrong, [CHANGED, NEW], REPAIRS)
    assert corrupted.more == 59
    html, text = pages(tmp_path, FeedProofs("one", DRIFTED, [wrong], [corrupted]))
    for page in (html, text):
        assert "one has drifted: dbo.t (60 missing, 1 differs) of 100 keys of 1 table, read at " in page
        assert "59 more" in page
        assert "LSN" in page
        assert "0A01" in page
        assert "topic[0] 12" in page
        assert "there is no change of this key" in page
        assert "name = NULL" in page
        assert "the row goes" in page
    # Values are data, whatever they look like. A cell that is set to its present value is not shown.
    assert "<code>&lt;b&gt;Ann&lt;/b&gt;</code> | <code>NULL</code>" in html
    assert "name = &lt;b&gt;Ann&lt;/b&gt;" in html
    assert "id = 7" not in html


def test_what_sets_a_cell_to_the_text_null_does_not_read_as_null(tmp_path: Path) -> None:
    wrong = row("one", "dbo.t", DRIFTED, rows=1, differs=1)
    (repair, *_) = REPAIRS
    sets = {**repair, "before": {"name": "Ann", "note": "x"}, "after": {"name": "NULL", "note": None}}
    html, text = pages(tmp_path, FeedProofs("one", DRIFTED, [wrong], [Wrong(wrong, [], [sets])]))
    assert "name = &#39;NULL&#39;, note = NULL" in html
    assert "name = 'NULL', note = NULL" in text


def numbers(html: str) -> dict[str, list[tuple[str, str]]]:
    """Returns, by feed and table, the CSS classes and text of each number, in the order of the columns."""
    lines = re.findall(r"^<tr><td>(\w+)</td><td>(.*?)</td>(.*)$", html, re.MULTILINE)
    return {
        f"{feed} {table}": re.findall(r'<td class="n((?: [\w-]+)*)">(.*?)</td>', cells)
        for feed, table, cells in lines
    }


def test_the_numbers_add_up_and_only_what_is_wrong_is_red(tmp_path: Path) -> None:
    # Two keys in flight belong to rows that the source no longer had when it was read.
    wrong = row("one", "dbo.t", DRIFTED, rows=103, equal=95, in_flight=5, missing=1, extra=2, differs=4)
    waits = row("two", "dbo.t", WAITING, rows=9, equal=7, missing=2)
    html, _ = pages(
        tmp_path, FeedProofs("one", DRIFTED, [wrong], []), FeedProofs("two", WAITING, [waits], [])
    )
    heads = re.findall(r'<th class="n[^>]*>(.*?)</th>', html)
    assert heads[:6] == ["keys", "= equal", "+ in flight", "+ missing", "+ extra", "+ differs"]
    cells_of = numbers(html)
    for cells in cells_of.values():
        total, *parts = (int(text) for _, text in cells[:6])
        assert total == sum(parts)
    assert [classes.strip() for classes, _ in cells_of["one dbo.t"]] == [
        "", "", "", "wrong", "wrong", "wrong", "apart", ""
    ]  # fmt: skip
    assert [classes.strip() for classes, _ in cells_of["two dbo.t"]][3] == "t-warn"
    assert "wrong" not in str(cells_of["two dbo.t"])
