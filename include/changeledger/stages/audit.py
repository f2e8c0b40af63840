"""Audit: judge what the run has built on its branch, before anything is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from changeledger.audit import conservation, gate, rules, suites
from changeledger.audit.conservation import WindowReads
from changeledger.audit.rules import Rule
from changeledger.control import AuditResult
from changeledger.lake import iceberg, summaries
from changeledger.model.contract import Contract
from changeledger.model.window import promised
from changeledger.model.wording import counted
from changeledger.spark.caching import cached
from changeledger.stages.auditing.evidence import with_images
from changeledger.stages.auditing.judged_rows import JudgedRows
from changeledger.stages.auditing.judging import Accounting, Judging, feed_rules, read_dispositions
from changeledger.stages.common.carrier import Carrier
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage

# By the feed's `image_chain`.
_SEVERITY: dict[str, rules.Severity] = {"report": "warning", "stop": "error"}


@stage
def run(ctx: StageContext) -> None:
    """Raises AuditFailed when a rule has failed: the published tables stay, the branch is kept."""
    built = ctx.require_done("reconcile")
    ctx = ctx.at(built)
    feed, window = ctx.feed, ctx.window
    with ThreadPoolExecutor(1) as pool, cached() as cache:
        # Seconds of importing, while Spark reads.
        loading = pool.submit(suites.load)
        tables = summaries.built(built.tables)
        subjects = _subjects(ctx, Carrier.for_rows(_size(ctx, tables), cache), tables)
        loading.result()
    docs_root, redact = ctx.settings.data_docs, ctx.settings.redact_values
    verdicts = gate.judge(feed.feed, window, ctx.branch, subjects, docs_root, redact=redact)
    stored = [_stored(verdict, window.request.reason) for verdict in verdicts]
    ctx.control.save_audit(feed.feed, window, stored, built)
    docs = ctx.settings.address(gate.docs_index(ctx.settings.data_docs, feed.feed, window))
    log.info("%s: Data Docs: %s", feed.feed, docs)
    gate.gate(feed.feed, window, ctx.branch, subjects, verdicts, docs)
    log.info("%s: %s passed", feed.feed, counted(sum(v.success for v in verdicts), "rule"))
    for verdict in verdicts:
        if not verdict.success:
            why = f"is tolerated: {window.request.reason}" if verdict.tolerated else "does not stop the run"
            values = feed.feed, verdict.table, verdict.rule, verdict.violations, why, verdict.says
            log.warning("%s: %s: %s has failed (%s rows) and %s. %s", *values)
    if window.request.dry_run:
        ctx.control.release_lease(feed.feed, window.holder)
        log.info("%s: a dry run ends here; what it built is on the branch %s", feed.feed, ctx.branch)


def _size(ctx: StageContext, tables: Mapping[str, summaries.BuiltTable]) -> int:
    """How many rows the run has, about: of raw records, which have a disposition each, or of intervals."""
    added = {name: one.added for name, one in tables.items()}
    ledgers, histories = (
        sum(added.get(getattr(names, kind), 0) for names in ctx.names.values())
        for kind in ("changes", "history")
    )
    return max(ledgers + added.get(ctx.lake.dispositions, 0), histories)


def _subjects(
    ctx: StageContext, carrier: Carrier, tables: Mapping[str, summaries.BuiltTable]
) -> list[gate.Subject]:
    """The feed, and each of its tables."""
    judged = JudgedRows(ctx, tables, carrier)
    judging = Judging(judged, read_dispositions(judged), _SEVERITY[ctx.feed.image_chain])
    contracts = list(ctx.contracts().values())
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(judged.read)
        found = iceberg.parallel_map(judging.of_table, contracts)
        accounting = judging.accounting(reading.result(), found)
    for balance in accounting.balances:
        log.info("%s: %s", ctx.feed.feed, balance)
    of_feed = ctx.lake.dispositions, ctx.lake.quarantine
    return [
        gate.Subject(f"feed {ctx.feed.feed}", of_feed, _feed_rules(ctx, judging, accounting)),
        *(_subject(ctx, contract, judged.rules) for contract, judged in zip(contracts, found, strict=True)),
    ]


def _subject(ctx: StageContext, contract: Contract, of_table: Sequence[Rule]) -> gate.Subject:
    names, snapshots = ctx.names[contract.table], ctx.snapshots or {}
    shown = with_images(of_table, contract, names.changes, snapshots[names.changes])
    return gate.Subject(contract.table, tuple(names), tuple(shown))


def _feed_rules(ctx: StageContext, judging: Judging, accounting: Accounting) -> tuple[Rule, ...]:
    feed = ctx.feed
    states = ctx.control.source_states(feed.feed).values()
    late = [one for one in states if one.is_late(one.at, feed.deadline)]
    joined = {row.table: row.lacking for row in ctx.control.lacking(feed.feed, ctx.window)}
    return (
        *conservation.source_rules(_reads(ctx, accounting), late),
        conservation.whole_tables(joined),
        *feed_rules(feed, judging, accounting),
    )


def _reads(ctx: StageContext, accounting: Accounting) -> WindowReads:
    stored, schemas = ctx.opened("audit"), ctx.control.writer_schemas(ctx.feed.feed)
    return WindowReads(
        promised(stored.from_position or {}, stored.to_position),
        ctx.control.reads(ctx.feed.feed, ctx.window),
        {instance: schema.table for instance, schema in schemas.items()},
        accounting.received,
    )


def _stored(verdict: gate.RuleResult, reason: str) -> AuditResult:
    detail = {
        "says": verdict.says,
        "severity": verdict.severity,
        "stops": verdict.stops,
        "tolerated": reason if verdict.tolerated else None,
        "error": verdict.error,
    }
    return AuditResult(verdict.table, verdict.rule, verdict.success, verdict.violations or 0, detail)
