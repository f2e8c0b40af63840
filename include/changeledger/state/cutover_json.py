"""May we switch? As JSON: what the page says, for programs. Times are ISO 8601 in UTC, spans are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from changeledger.control.tables.feeds import FailureRow
from changeledger.state.compared import TableCompared
from changeledger.state.cutover import CutoverFacts, FeedFacts
from changeledger.state.verdict import Verdict


def as_json(facts: CutoverFacts, verdict: Verdict) -> dict[str, Any]:
    compared = facts.compared
    return {
        "database": facts.database,
        "from": facts.old.feed,
        "to": facts.new.feed,
        "since": _time(facts.period.since),
        "until": _time(facts.period.until),
        "verdict": verdict.verdict,
        "not_before": _time(verdict.until),
        "reasons": [reason._asdict() for reason in verdict.reasons],
        "compared": {
            "begun": _time(compared.begun),
            "last_run": _time(compared.last_run),
            "until": _time(compared.until),
            "events": compared.total("events"),
            "in_period": compared.total("in_period"),
            "equal": compared.total("equal"),
            "expected": dict(compared.expected),
            "unexplained": compared.total("unexplained"),
        },
        "tables": {table.table: _table(facts, table) for table in compared.tables.values()},
        "feeds": {feed.feed: _feed(feed) for feed in (facts.old, facts.new)},
        "failures": {
            "compare": _failure(facts.compare_failure),
            "verify": _failure(facts.verify_failure),
        },
    }


def _table(facts: CutoverFacts, table: TableCompared) -> dict[str, Any]:
    proof = facts.proofs.get(table.table.lower())
    names = (
        "events",
        "in_period",
        "equal",
        "lost",
        "surplus",
        "differs",
        "order",
        "is_covered",
        "is_current",
    )
    return {
        **{name: getattr(table, name) for name in names},
        "expected": dict(table.expected),
        "accepted": [acceptance._asdict() for acceptance in table.accepted],
        "columns": dict(table.columns),
        "since": _time(table.since),
        "until": _time(table.until),
        "proof": None if proof is None else {"outcome": proof.outcome, "at": _time(proof.until)},
    }


def _feed(feed: FeedFacts) -> dict[str, Any]:
    late = feed.lateness
    return {
        "dialect": feed.dialect,
        "tables": list(feed.tables),
        "releases": feed.releases,
        "lateness": None
        if late is None
        else {
            "changes": late.changes,
            "p50": _span(late.p50),
            "p95": _span(late.p95),
            "worst": _span(late.worst),
        },
        "records": feed.records,
        "quarantined": [group._asdict() for group in feed.quarantined],
        "quarantined_before": feed.quarantined_before,
        "quarantine_limit": feed.quarantine_limit,
        "masks": {"proved": list(feed.masks.proved), "unproved": list(feed.masks.unproved)},
        "gaps": list(feed.gaps),
        "lacking": dict(feed.lacking),
        "uncompared": feed.uncompared,
        "failure": _failure(feed.failure),
    }


def _failure(row: FailureRow | None) -> Mapping[str, Any] | None:
    return None if row is None else {"stage": row.stage, "error": row.error, "at": _time(row.at)}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _span(span: timedelta) -> float:
    return round(span.total_seconds(), 3)
