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
    found: Mapping[str, Any],
    *,
    read_again: bool = False,
    unlike: Collection[str] = (),
) -> list[str]:
    """What differs, by table. `read_again`: windows have overlapped, or records were asked for again."""
    reported = list(found["problems"])
    for name, wanted in expected.items():
        if name == "problems" or name in unlike:
            continue
        one, other = Counter(wanted), Counter(found[name])
        if name in BOOKS and read_again:
            one, other = Counter(set(_once(wanted))), Counter(set(_once(found[name])))
        lost, more = one - other, other - one
        if lost or more:
            reported.append(f"{name}: {lost.total()} rows missing, {more.total()} more{_example(lost, more)}")
    return reported


def _once(rows: Collection[str]) -> list[str]:
    return [row for row in rows if json.loads(row).get("disposition") != "duplicate"]


def _example(lost: Counter[str], more: Counter[str]) -> str:
    row = next(iter(lost or more), "")
    return f", for example {row[:200]}"
