"""The cutover page as JSON, for programs. Times are ISO 8601 in UTC, and spans are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from changeledger.control.tables.feeds import FailureRow
from changeledger.state.compared import TableCompared
from changeledger.state.cutover import CutoverFacts, FeedFacts
from changeledger.state.verdict import Verdict

_TOTALS: Final = ("events", "in_period", "equal")
_OF_TABLE: Final = (
    *_TOTALS, "lost", "surplus", "differs", "order", "is_covered", "is_current", "expected", "accepted",
    "columns", "since", "until",
)  # fmt: skip


def as_json(facts: CutoverFacts, verdict: Verdict) -> dict[str, Any]:
    compared, period = facts.compared, facts.period
    said: dict[str, Any] = _plain(
        {
            "database": facts.database,
            "from": facts.old.feed,
            "to": facts.new.feed,
            **period._asdict(),
            "verdict": verdict.verdict,
            "not_before": verdict.until,
            "reasons": verdict.reasons,
            "compared": {
                "begun": compared.begun,
                "last_run": compared.last_run,
                "until": compared.until,
                **{name: compared.total(name) for name in _TOTALS},
                "expected": compared.expected,
                "unexplained": compared.total("unexplained"),
            },
            "tables": {table.table: _table(facts, table) for table in compared.tables.values()},
            "feeds": {feed.feed: _feed(feed) for feed in (facts.old, facts.new)},
            "failures": {
                "compare": _failure(facts.compare_failure),
                "verify": _failure(facts.verify_failure),
            },
        }
    )
    return said


def _table(facts: CutoverFacts, table: TableCompared) -> dict[str, Any]:
    proof = facts.proofs.get(table.table.lower())
    return {
        **{name: getattr(table, name) for name in _OF_TABLE},
        "proof": None if proof is None else {"outcome": proof.outcome, "at": proof.until},
    }


def _feed(feed: FeedFacts) -> dict[str, Any]:
    members = {name: value for name, value in vars(feed).items() if name != "feed"}
    return {**members, "failure": _failure(feed.failure)}


def _failure(row: FailureRow | None) -> Mapping[str, Any] | None:
    return None if row is None else {"stage": row.stage, "error": row.error, "at": row.at}


def _plain(value: Any) -> Any:
    """Converts to JSON types. A NamedTuple becomes an object."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value
