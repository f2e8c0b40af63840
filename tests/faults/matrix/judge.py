"""Are the tables those of the undisturbed run, row by row, and is raw what the source had?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

# Where a window reads the past again, its books say so; the tables must not.
BOOKS = ("dispositions", "quarantine")


def differences(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    *,
    read_again: bool = False,
    unlike: Collection[str] = (),
) -> list[str]:
    """What differs, by table. `read_again`: windows have overlapped, or records were asked for again."""
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
