"""With `redact_values`, logs, errors and pages contain no key and no value of a source's row."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.audit import page as first_page
from changeledger.control.outcomes import DRIFTED
from changeledger.pages.redaction import redacted_row
from changeledger.reports.proof import FeedProofs, Wrong
from tests.reports.test_proof_page import CHANGED, NEW, REPAIRS, pages, row


def test_an_offending_row_keeps_what_says_where_it_is() -> None:
    record = {"source": "topic", "partition": 0, "offset": 12, "row": None}
    shown = {
        "key": {"id": "Ann"}, "change_id": "c1", "operation": "update", "flags": None,
        "source_position": record, "before": '{"name": "Ann"}', "known": "Ann",
        "detail": '{"Ann": 1', "of a later version": 1,
    }  # fmt: skip
    redacted = redacted_row(shown)
    assert redacted["source_position"] == record
    assert (redacted["change_id"], redacted["operation"], redacted["flags"]) == ("c1", "update", None)
    assert {redacted[name] for name in ("key", "before", "known", "detail", "of a later version")} == {"***"}
    assert "Ann" not in first_page.shown(redacted)


@pytest.mark.parametrize("hidden", [False, True])
def test_the_page_of_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool) -> None:
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", str(hidden).lower())
    wrong = row("one", "dbo.t", DRIFTED, differs=1, missing=1)
    feed = FeedProofs("one", DRIFTED, [wrong], [Wrong(wrong, [CHANGED, NEW], REPAIRS)])
    for page in pages(tmp_path, feed):
        assert ("Ann" in page) is not hidden
        assert ('"id":7' in page or "&#34;id&#34;:7" in page) is not hidden
        # The page still names the column that differs, and the place of its record.
        assert "name" in page
        assert "topic[0] 12" in page
