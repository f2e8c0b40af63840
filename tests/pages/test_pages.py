"""A page says that the run that should have written it failed. Its content stays."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from changeledger.model.errors import FeedsDisagree, SourceUnavailable
from changeledger.pages.html import failure_noted
from changeledger.reports.proof import Report, write

AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


def failed(page: Path, error: Exception) -> None:
    with pytest.raises(type(error)), failure_noted(page):
        raise error


def test_a_failure_stands_on_the_page_until_it_is_written_again(tmp_path: Path) -> None:
    page, text = tmp_path / "verify_shop" / "index.html", tmp_path / "verify_shop" / "proof.md"
    write(Report("shop", AT, [], ["two"]), page.parent)
    failed(page, SourceUnavailable("no <route>\nto the source", "wait"))
    failed(page, ValueError("another fault"))
    for shown in (page.read_text("utf-8"), text.read_text("utf-8")):
        assert shown.count("The last run failed at ") == 1
        assert "ValueError: another fault" in shown
        assert "two" in shown
    write(Report("shop", AT, []), page.parent)
    assert "The last run failed" not in page.read_text("utf-8") + text.read_text("utf-8")


def test_the_first_run_fails(tmp_path: Path) -> None:
    page = tmp_path / "compare_shop" / "index.html"
    failed(page, SourceUnavailable("no <route>\nto the source", "wait"))
    shown = page.read_text("utf-8")
    assert "compare_shop" in shown
    assert "SourceUnavailable: no &lt;route&gt; to the source Remedy: wait" in shown


def test_a_difference_is_no_failure(tmp_path: Path) -> None:
    page = tmp_path / "compare_shop" / "index.html"
    write(Report("shop", AT, []), page.parent)
    failed(page, FeedsDisagree("1 missing", "look"))
    assert "failed" not in page.read_text("utf-8").split("</style>")[1]
