"""Hides values of a source's rows in logs and pages, if the installation wants it.

What remains tells which row it is and where the lake has it: positions, ids, reasons. Of errors that are not
ours only the type remains, because other systems quote values in their messages.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

from changeledger.config.settings import Settings
from changeledger.model.errors import ChangeledgerError

REDACTED: Final = "***"

# Columns of offending rows (`audit.rules.Rule.shown`) that contain no value of a source's row. All others are
# redacted, including those that somebody may add.
_KEPT: Final = frozenset(
    {
        "change_id", "change_ids", "_change_id", "source_position", "records", "operation", "flags", "kind",
        "columns", "sort_key", "_sort_key", "_next_sort_key", "_valid_from", "_valid_to",
        "_window_id", "window_id", "table", "reason", "position", "why", "source",
    }
)  # fmt: skip


def redacted_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Hides the values of an offending row. The cells of its changes, in `images`, keep their names."""
    kept = {name: value if name in _KEPT or value is None else REDACTED for name, value in row.items()}
    if "images" in row:
        hidden = {"before": REDACTED, "after": REDACTED}
        kept["images"] = [
            {**image, "cells": [{**cell, **hidden} for cell in image["cells"]]} for image in row["images"]
        ]
    return kept


def redacted(_value: Any) -> str:
    """Hides a value, even NULL, which tells something about its row, too."""
    return REDACTED


# The name of an error in Spark's messages.
_ERROR_CLASS: Final = re.compile(r"\[[A-Z_.]+\]")


def error_text(error: BaseException) -> str:
    """Returns an error with its type, for logs, pages and the control store."""
    is_ours = isinstance(error, ChangeledgerError)
    said = str(error) if is_ours or not Settings().redact_values else redacted_message(str(error))
    return f"{type(error).__name__}: {said}"


def redacted_message(message: str) -> str:
    named = _ERROR_CLASS.search(message)
    return f"{named[0] if named else 'an error'}; its message may hold values"


def redacted_traceback(error: BaseException) -> str:
    """Returns the traceback of an error and of those that led to it, without their messages."""
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
