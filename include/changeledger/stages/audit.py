"""Audit: judge what the run has built on its branch, before anything is published."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from changeledger.audit import conservation, gate, rules, suites
from changeledger.audit.rules import Rule
from changeledger.plans import at_hand
from changeledger.stages.carried import Carrier
from changeledger.stages.judged_rows import JudgedRows
from changeledger.stages.judging import Books, Judging, feed_rules, read_left
from changeledger.stages.run import Run, log, stage
from changeledger.storage import lake, summaries
from changeledger.storage.control import Verdict

# By the feed's `image_chain`.
_SEVERITY: dict[str, rules.Severity] = {"report": "warning", "stop": "error"}


@stage
def run(this: Run) -> None:
    """Raises AuditFailed when a rule is violated: the published tables stay, the branch is kept."""
    built = this.require_done("reconcile")
    this = this.at(built)
    feed, window = this.feed, this.window
    with ThreadPoolExecutor(1) as pool, at_hand() as keep:
        # Seconds of importing, while Spark reads.
        loading = pool.submit(suites.load)
        tables = summaries.built(built.tables)
        subjects = _subjects(this, Carrier.for_rows(_size(this, tables), keep), tables)
        loading.result()
    verdicts = gate.judge(
        feed.feed, window, subjects, this.settings.data_docs, redact=this.settings.redact_values
    )
    stored = [_stored(verdict, window.request.reason) for verdict in verdicts]
    this.control.save_audit(feed.feed, window, stored, built)
    docs = this.settings.address(gate.docs_index(this.settings.data_docs, feed.feed, window))
    log.info("%s: Data Docs: %s", feed.feed, docs)
    gate.gate(feed.feed, window, this.branch, subjects, verdicts, docs)
    log.info("%s: %d rules hold", feed.feed, sum(v.success for v in verdicts))
    for verdict in verdicts:
        if verdict.tolerated:
            told = feed.feed, verdict.table, verdict.rule, verdict.violations, window.request.reason
            log.warning("%s: %s: %s is violated (%d rows) and let pass: %s", *told)
    if window.request.dry_run:
        this.control.release_lease(feed.feed, window.holder)
        log.info("%s: a dry run ends here; what it built is on the branch %s", feed.feed, this.branch)


def _size(this: Run, tables: Mapping[str, summaries.Built]) -> int:
    """How many rows the run has, about: of raw records, which have a disposition each, or of intervals."""
    added = {name: one.added for name, one in tables.items()}
    ledgers, histories = (
        sum(added.get(getattr(names, kind), 0) for names in this.names.values())
        for kind in ("changes", "history")
    )
    return max(ledgers + added.get(this.dispositions, 0), histories)


def _subjects(this: Run, carrier: Carrier, tables: Mapping[str, summaries.Built]) -> list[gate.Subject]:
    """The feed, and each of its tables."""
    judged = JudgedRows(this, tables, carrier)
    judging = Judging(judged, read_left(judged), _SEVERITY[this.feed.image_chain])
    contracts = list(this.contracts().values())
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(judged.read)
        found = lake.each(judging.of_table, contracts)
        books = judging.books(reading.result(), found)
    for book in books.balances:
        log.info("%s: %s", this.feed.feed, book)
    of_tables = zip(contracts, found, strict=True)
    return [
        gate.Subject(
            f"feed {this.feed.feed}", (this.dispositions, this.quarantine), _feed_rules(this, judging, books)
        ),
        *(gate.Subject(c.table, tuple(this.names[c.table]), tuple(one.rules)) for c, one in of_tables),
    ]


def _feed_rules(this: Run, judging: Judging, books: Books) -> tuple[Rule, ...]:
    feed = this.feed
    late = [one for one in this.control.looks(feed.feed).values() if one.is_late(one.at, feed.late_after)]
    reads = this.control.reads(feed.feed, this.window)
    return (
        *conservation.source_rules(reads, books.received, late),
        *feed_rules(feed, judging, books),
    )


def _stored(verdict: gate.Verdict, reason: str) -> Verdict:
    detail = {
        "says": verdict.says,
        "severity": verdict.severity,
        "stops": verdict.stops,
        "tolerated": reason if verdict.tolerated else None,
        "error": verdict.error,
    }
    return Verdict(verdict.table, verdict.rule, verdict.success, verdict.violations or 0, detail)
