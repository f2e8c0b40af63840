"""Compares the tables with those of the undisturbed run, row by row, and raw with the source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

# Tables that show that a window read the past again; the others must not.
BOOKS = ("dispositions", "quarantine")


def differences(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    *,
    read_again: bool = False,
    unlike: Collection[str] = (),
) -> list[str]:
    """Returns the differences by table. `read_again`: windows overlapped, or records were requested again."""
    reported = list(actual["problems"])
    for name, wanted in expected.items():
        if name == "problems" or name in unlike:
            continue
        wanted_rows, actual_rows = Counter(wanted), Counter(actual[name])
        if name in BOOKS and read_again:
            wanted_rows, actual_rows = Counter(set(_once(wanted))), Counter(set(_once(actual[name])))
        lost, surplus = wanted_rows - actual_rows, actual_rows - wanted_rows
        if lost or surplus:
            reported.append(
                f"{name}: {lost.total()} rows missing, {surplus.total()} more{_example(lost, surplus)}"
            )
    return reported


def _once(rows: Collection[str]) -> list[str]:
    return [row for row in rows if json.loads(row).get("disposition") != "duplicate"]


def _example(lost: Counter[str], surplus: Counter[str]) -> str:
    row = next(iter(lost or surplus), "")
    return f", for example {row[:200]}"
