"""What became of the records that were looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from changeledger.cli.check.outcome import FAILED, OK, WARNING, Check
from changeledger.config.feed import Feed
from changeledger.model import change
from changeledger.model.wording import counted

_SHOWN = 3
_WAITS = "widen `topics:` if what they wait for is on another topic; in a run it may be in an earlier window"
_CORRECT = "see docs/feeds.md, 'Messages of another form'; `changeledger decode` shows how a record is read"


def judged(feed: Feed, results: Sequence[dict[str, Any]]) -> Iterator[Check]:
    """`results`: as `decode` gives them."""
    dispositions = Counter(result["disposition"] for result in results)
    changes = [result for result in results if result["disposition"] == change.CHANGE]
    said = ", ".join(f"{number} {disposition}" for disposition, number in dispositions.most_common())
    text = f"{counted(len(results), 'record')} looked at: {said or 'none'}"
    if changes:
        yield Check("records", OK, text, records=changes[-_SHOWN:])
    else:
        yield Check("records", WARNING, text, "change a row in the source, and check again")
    share = dispositions[change.QUARANTINED] / max(len(results), 1)
    stops = share > feed.quarantine_limit
    for reason, number, detail in _reasons(results, change.QUARANTINED):
        text = f"{number} of {len(results)} cannot be read, {reason}: {detail}"
        yield Check("records", FAILED if stops else WARNING, text, _CORRECT)
    for reason, number, detail in _reasons(results, change.PENDING):
        yield Check("records", WARNING, f"{number} of {len(results)} wait, {reason}: {detail}", _WAITS)


def _reasons(results: Sequence[dict[str, Any]], disposition: str) -> Iterator[tuple[str, int, str]]:
    """Each reason with how many records have it, and the detail of the first."""
    of_reason: dict[str, list[str]] = {}
    for result in results:
        if result["disposition"] == disposition:
            of_reason.setdefault(result.get("reason", "unknown"), []).append(result.get("detail", ""))
    for reason, details in of_reason.items():
        yield reason, len(details), details[0]
