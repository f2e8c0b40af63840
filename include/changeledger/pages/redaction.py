"""Rows of a source in logs and pages without their values, where the installation wants it so.

What stays says which row it is, and where the lake has it whole: positions, ids, reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

REDACTED: Final = "***"

# Columns of offending rows (`audit.rules.Rule.shown`) that hold no value of a source's row. Others, and those
# that somebody adds, are redacted.
_KEPT: Final = frozenset(
    {
        "change_id", "change_ids", "_change_id", "source_position", "records", "operation", "flags", "kind",
        "columns", "sort_key", "_sort_key", "_next_sort_key", "_valid_from", "_valid_to",
        "_window_id", "window_id", "table", "reason", "position", "why", "source",
    }
)  # fmt: skip


def redacted_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """`images`: of the changes of the row, whose cells keep their names."""
    kept = {name: value if name in _KEPT or value is None else REDACTED for name, value in row.items()}
    if "images" in row:
        hidden = {"before": REDACTED, "after": REDACTED}
        kept["images"] = [
            {**image, "cells": [{**cell, **hidden} for cell in image["cells"]]} for image in row["images"]
        ]
    return kept


def redacted(_value: Any) -> str:
    """Whatever it is: also NULL says something of its row."""
    return REDACTED
