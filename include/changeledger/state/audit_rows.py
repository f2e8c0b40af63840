"""The rows that break a rule of a window's audit, which the audit writes beside its page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from changeledger.audit.page import NAME, ROWS
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings

# Columns and their text. The audit has already hidden values if the installation wants it.
Row = Mapping[str, str]


def offending_rows(settings: Settings, feed: str, window_id: str) -> dict[tuple[str, str], Sequence[Row]]:
    """Returns rows by table and rule; nothing if the audit has not run or its page was removed."""
    file = _folder(settings, feed, window_id) / ROWS
    try:
        rules = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {(rule["table"], rule["rule"]): rule["rows"] for rule in rules}


def has_data_docs(settings: Settings, feed: str, window_id: str) -> bool:
    """Returns whether the window has Data Docs. False while the store of the pages does not answer."""
    try:
        return (_folder(settings, feed, window_id) / NAME).is_file()
    except OSError:
        return False


def _folder(settings: Settings, feed: str, window_id: str) -> PagePath:
    return settings.data_docs / feed / window_id
