"""Nothing that a source has written reaches a terminal as a command."""

from __future__ import annotations

import io
import json
import logging
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from changeledger.audit import page
from changeledger.cli.decode import pretty
from changeledger.cli.status_tables import drawn
from changeledger.console.terminal import Lines, plain
from changeledger.model.source_state import SourceState
from changeledger.pages.escaping import escaped, escaped_line, json_line
from changeledger.pages.html import note_failure
from changeledger.state.status import FeedStatus

AT = datetime(2026, 1, 1, tzinfo=UTC)
# Sets a window's title, wipes the screen, rings; the same in 8 bits; reverses the text that follows; half a
# surrogate pair, which cannot be printed; and markup of rich.
HOSTILE = "a\x1b]0;mine\x07\x1b[2J\x9b2J\x7f\u202eb\u2066\ud800[red]c\r"


def obeyed(text: str) -> list[str]:
    """Returns control and format characters, and those that no encoding has, except for line ends."""
    return [c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs"} and c != "\n"]


def printed(renderable: RenderableType) -> str:
    out = Console(file=io.StringIO(), width=200, highlight=False)
    out.print(renderable)
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_characters_that_are_obeyed_are_shown() -> None:
    assert escaped("tab\tend\n\x1b[31m \x7f \x9b \u202e é 日 \u200f") == (
        "tab\tend\n\\x1b[31m \\x7f \\x9b \\u202e é 日 \u200f"
    )
    assert escaped_line("a\tb\nc\r\x00") == "a\\tb\\nc\\r\\x00"


def test_json_stays_the_same_for_whoever_parses_it() -> None:
    line = json_line({"v": HOSTILE + "\n", "é": b"\x01"}, default=repr)
    assert obeyed(line) == []
    assert "\n" not in line
    assert json.loads(line) == {"v": HOSTILE + "\n", "é": "b'\\x01'"}
    assert "é" in line


CHANGE: dict[str, Any] = {
    "record": 1, "disposition": "change", "operation": HOSTILE, "table": HOSTILE, "key": {"id": HOSTILE},
    "previous_key": {"id": HOSTILE}, "before": {"id": HOSTILE, HOSTILE: None},
    "after": {"id": HOSTILE, HOSTILE: "1"}, "before_unknown_columns": {HOSTILE: HOSTILE},
    "changed": [HOSTILE], "mask": HOSTILE, "commit_lsn": HOSTILE, "transaction_id": HOSTILE,
    "flags": [HOSTILE], "sort_key": HOSTILE,
}  # fmt: skip
QUARANTINED: dict[str, Any] = {
    "source_position": {"source": HOSTILE, "partition": 0, "offset": 1}, "detail": HOSTILE,
    "window_id": HOSTILE, "raw_key": HOSTILE, "raw_value": HOSTILE, "reason": HOSTILE, "table": HOSTILE,
}  # fmt: skip
LOOK = SourceState(HOSTILE, HOSTILE, HOSTILE, AT, behind=1, since=AT, newest=AT, why=HOSTILE)
STATUS = FeedStatus(
    HOSTILE, HOSTILE, HOSTILE, release=1, released_at=AT, released_to=AT, behind=AT - AT,
    position={HOSTILE: HOSTILE}, sources=(LOOK, replace(LOOK, since=None, behind=None)), late=(HOSTILE,),
    holder=HOSTILE, open_window=HOSTILE, failed_rules=(HOSTILE,), failed_audits=((HOSTILE, (HOSTILE,)),),
    tolerated=((HOSTILE, HOSTILE, 1, HOSTILE),), masks={HOSTILE: (HOSTILE, HOSTILE)},
    pending=((HOSTILE, 1, AT),), quarantine=((HOSTILE, HOSTILE, 1),), breaks=((HOSTILE, HOSTILE, 1),),
    warnings={HOSTILE: 1}, compared=((HOSTILE, HOSTILE, HOSTILE, AT),), verified=(HOSTILE, HOSTILE, AT),
)  # fmt: skip


@pytest.mark.parametrize(
    "renderable",
    [
        pretty.drawn(CHANGE),
        pretty.drawn({"record": 1, "disposition": "quarantined", "reason": HOSTILE, "detail": HOSTILE}),
        pretty.quarantined(QUARANTINED),
        drawn([STATUS, STATUS]),
        plain(HOSTILE),
    ],
    ids=["decode", "decode, quarantined", "quarantine show", "status", "query"],
)
def test_what_commands_draw(renderable: RenderableType) -> None:
    text = printed(renderable)
    assert obeyed(text) == []
    assert "\\x1b[2J" in text
    # Markup is not interpreted, either.
    assert "[red]c" in text


def test_log_lines_and_errors_of_an_audit() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "%s", (HOSTILE,), None)
    assert obeyed(Lines("%(message)s").format(record)) == []
    # A value cannot begin a line of its own.
    assert page.shown({"key": "1\n2026-01-01 INFO all rules passed\x1b[2J"}) == (
        "key=1\\n2026-01-01 INFO all rules passed\\x1b[2J"
    )


def test_pages_that_a_terminal_may_show(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    note_failure(page, "first")
    (tmp_path / "proof.md").write_text("<!-- failure -->\n", "utf-8")
    note_failure(page, HOSTILE)
    for file in (page, tmp_path / "proof.md"):
        assert obeyed(file.read_text("utf-8")) == []
