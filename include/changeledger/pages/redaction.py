"""Rows of a source in logs and pages without their values, where the installation wants it so.

What stays says which row it is, and where the lake has it whole: positions, ids, reasons. Of errors that are
not ours their types stay: other systems quote values in their messages.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

from changeledger.config.settings import Settings
from changeledger.model.errors import ChangeledgerError

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


# Spark's name for an error.
_ERROR_CLASS: Final = re.compile(r"\[[A-Z_.]+\]")


def error_text(error: BaseException) -> str:
    """An error with its type, as logs, pages and the control store have it."""
    is_ours = isinstance(error, ChangeledgerError)
    said = str(error) if is_ours or not Settings().redact_values else redacted_message(str(error))
    return f"{type(error).__name__}: {said}"


def redacted_message(message: str) -> str:
    named = _ERROR_CLASS.search(message)
    return f"{named[0] if named else 'an error'}; its message may hold values"


def redacted_traceback(error: BaseException) -> str:
    """Where an error comes from, and those that have led to it, without their messages."""
    parts = (
        "".join(["Traceback (most recent call last):\n", *traceback.format_tb(at.__traceback__)])
        + f"{type(at).__name__}: {redacted_message(str(at))}\n"
        for at in _led_to(error)
    )
    return "\n".join(reversed([*parts]))


def _led_to(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
