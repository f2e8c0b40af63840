"""Every reason for quarantine has a remedy."""

from __future__ import annotations

import json
from collections.abc import Iterator

from changeledger.config.settings import PROJECT
from changeledger.model import change
from changeledger.state.reasons import REASONS


def reasons() -> Iterator[str]:
    """Yields the reasons in all golden cases, which have a record of every reason."""
    for file in (PROJECT / "tests" / "cases").rglob("expected.jsonl"):
        for line in file.read_bytes().splitlines():
            row = json.loads(line)
            # A pending record is finally quarantined with its reason.
            if row.get("disposition") in {change.QUARANTINED, change.PENDING}:
                yield row["reason"]


def test_each_reason_has_its_remedy() -> None:
    known = set(reasons())
    assert len(known) > 70
    assert known - REASONS.keys() == set()
