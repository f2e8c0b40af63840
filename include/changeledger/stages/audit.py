"""Audit: judge what the run has built on its branch, before anything is published."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger import change
from changeledger.audit import conservation, gate, rules
from changeledger.contract import Contract
from changeledger.reconcile import pairs
from changeledger.stages.run import Run, log, stage
from changeledger.storage import lake
from changeledger.storage.control import Verdict

# By the feed's `image_chain`.
_SEVERITY: dict[str, rules.Severity] = {"report": "warning", "stop": "error"}


@stage
def run(this: Run) -> None:
    """Raises AuditFailed when a rule is violated: the published tables stay, the branch is kept."""
    built = this.require_done("reconcile")
    this = this.at(built)
    feed, window = this.feed, this.window
    contracts = this.contracts()
    subjects = [_feed_subject(this, contracts), *(_table_subject(this, c) for c in contracts.values())]
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


def _table_subject(this: Run, contract: Contract) -> gate.Subject:
    names = this.names[contract.table]
    published = lake.read(this.spark, names.changes)
    new = this.new_changes(contract.table)
    previous = None if published.isEmpty() else pairs.without_retold(published, new)
    ledger = this.built(names.changes)
    told = _dispositions(this).where(F.col("table") == contract.table)
    history, current = this.built(names.history), this.built(names.current)
    return gate.Subject(
        contract.table,
        tuple(names),
        (
            *rules.ledger_rules(contract, new, ledger.where(F.col("run_id") != this.id), previous),
            conservation.duplicates_leave_one(told, ledger),
            *rules.published_rules(contract, this.id, history, current),
            rules.image_chain(_breaks(this, contract), _SEVERITY[this.feed.image_chain]),
        ),
    )


def _breaks(this: Run, contract: Contract) -> DataFrame:
    """The breaks of a table's image chain that this run is the first to find."""
    if this.breaks not in (this.snapshots or {}):
        return lake.no_rows(this.spark, change.BREAK_COLUMNS)
    found = this.built(this.breaks)
    return found.where((F.col("run_id") == this.id) & (F.col("table") == contract.table))


def _dispositions(this: Run) -> DataFrame:
    """Of the run's records that became no change, or are no change of their own."""
    return this.built(this.dispositions).where(F.col("run_id") == this.id)


def _feed_subject(this: Run, contracts: dict[str, Contract]) -> gate.Subject:
    dispositions = _dispositions(this)
    raw = this.raw_records()
    accounted = _accounted(this, contracts, dispositions)
    books = conservation.balance(raw, accounted)
    for book in books:
        log.info("%s: %s", this.feed.feed, book)
    feed = this.feed
    late = [one for one in this.control.looks(feed.feed).values() if one.is_late(one.at, feed.late_after)]
    found = [
        *conservation.source_rules(
            this.control.reads(feed.feed, this.window), this.received(), late, this.spark
        ),
        *conservation.feed_rules(this.feed, books, raw, accounted, dispositions),
    ]
    return gate.Subject(f"feed {this.feed.feed}", (this.dispositions, this.quarantine), tuple(found))


def _accounted(this: Run, contracts: dict[str, Contract], dispositions: DataFrame) -> DataFrame:
    """`(record, disposition)` of all that the run accounts for: in the ledger, and beside it."""
    frames = [dispositions.select("record", "disposition")]
    for table in contracts:
        frames += _told_by_ledger(this, table)
    return lake.union(frames)


def _told_by_ledger(this: Run, table: str) -> list[DataFrame]:
    new = this.new_changes(table)
    changes = new.select("record", F.lit(change.CHANGE).alias("disposition"))
    paired = new.where(F.col("paired_record").isNotNull()).select(
        F.col("paired_record").alias("record"), F.lit(change.PAIRED).alias("disposition")
    )
    published = lake.read(this.spark, this.names[table].changes)
    retold = pairs.retold(published, new)
    if published.isEmpty() or retold.isEmpty():
        return [changes, paired]
    # Of a key update whose halves came in two windows, the first half was that window's record.
    earlier = retold.select("record")
    return [frame.join(earlier, "record", "left_anti") for frame in (changes, paired)]


def _stored(verdict: gate.Verdict, reason: str) -> Verdict:
    detail = {
        "says": verdict.says,
        "severity": verdict.severity,
        "stops": verdict.stops,
        "tolerated": reason if verdict.tolerated else None,
        "error": verdict.error,
    }
    return Verdict(verdict.table, verdict.rule, verdict.success, verdict.violations or 0, detail)
