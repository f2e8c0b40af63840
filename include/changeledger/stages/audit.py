"""Audit: judges what the run has built on its branch, before anything is published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.audit import conservation, gate, page, rules, suites, user_expectations
from changeledger.audit.conservation import WindowReads
from changeledger.audit.gate import RuleResult
from changeledger.audit.narrow_rows import NOT_CHECKED, RULE, RULES
from changeledger.audit.page import Audit
from changeledger.audit.rules import Rule
from changeledger.audit.user_expectations import Asked
from changeledger.control import AuditResult
from changeledger.kernels.rows import Rows, together
from changeledger.lake import summaries
from changeledger.model.window import promised
from changeledger.model.wording import counted
from changeledger.pages import folders
from changeledger.pages.redaction import REDACTED, redacted_row
from changeledger.spark.rows import as_spark
from changeledger.stages.auditing import kept_records, resetting
from changeledger.stages.auditing.asked import AskedTables, without_records
from changeledger.stages.auditing.evidence import with_images
from changeledger.stages.auditing.judged_rows import JudgedRows
from changeledger.stages.auditing.judging import Accounting, Judging, read_dispositions
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.common.frame import stage

# Severity of image chain breaks, by the feed's `image_chain`.
_SEVERITY: dict[str, rules.Severity] = {"report": "warning", "stop": "error"}


@stage
def run(ctx: StageContext) -> None:
    """Audits the run. Raises AuditFailed if a rule fails: published tables stay, the branch is kept."""
    built = ctx.require_done("reconcile")
    ctx = ctx.at(built)
    feed, window = ctx.feed, ctx.window
    index = gate.docs_index(ctx.settings.data_docs, feed.feed, window)
    with folders.filled(index.parent, last=index.name) as folder:
        tables = summaries.built(built.tables)
        if ctx.starts_over:
            # A run that starts over does not continue from published tables.
            tables = {name: table._replace(is_published=False) for name, table in tables.items()}
        subjects, verdicts = _judged(ctx, tables, folder)
        audit = Audit(feed.feed, window, ctx.branch, verdicts)
        gate.document(audit, subjects, folder)
    stored = [_stored(verdict, window.request.reason) for verdict in verdicts]
    ctx.control.audits.save(feed.feed, window, stored, built)
    docs = ctx.settings.address(index)
    log.info("%s: Data Docs: %s", feed.feed, docs)
    gate.gate(audit, subjects, docs)
    log.info("%s: %s passed", feed.feed, counted(sum(v.success for v in verdicts), "rule"))
    for verdict in verdicts:
        if not verdict.success:
            why = f"is tolerated: {window.request.reason}" if verdict.tolerated else "does not stop the run"
            values = feed.feed, verdict.table, verdict.rule, verdict.failure, why, verdict.says
            log.warning("%s: %s: %s %s and %s. %s", *values)
    if window.request.dry_run:
        ctx.control.leases.release(feed.feed, window.holder)
        log.info("%s: a dry run ends here; what it built is on the branch %s", feed.feed, ctx.branch)


def _judged(
    ctx: StageContext, tables: Mapping[str, summaries.BuiltTable], folder: Path
) -> tuple[list[gate.Subject], list[RuleResult]]:
    """Judges all subjects. Great Expectations writes its pages into `folder`."""
    with ThreadPoolExecutor(1) as pool:
        # Importing Great Expectations takes seconds, so it runs while Spark reads.
        loading = pool.submit(suites.load)
        subjects, rows = _subjects(ctx, tables)
        loading.result()
        subjects, asked = _with_expectations(ctx, subjects, AskedTables(ctx, tables))
        judged = suites.Judged(_shown(ctx, rows), asked, ctx.settings.redact_values)
        verdicts = gate.judge(judged, ctx.window, subjects, folder)
    return subjects, _with_images(ctx, verdicts)


def _subjects(
    ctx: StageContext, tables: Mapping[str, summaries.BuiltTable]
) -> tuple[list[gate.Subject], Rows]:
    """Returns the feed and each of its tables as subjects, and `narrow_rows.ROWS` of all of them."""
    judged = JudgedRows(ctx, tables)
    judging = Judging(judged, read_dispositions(judged), _SEVERITY[ctx.feed.image_chain])
    contracts = list(ctx.contracts().values())
    of_feed, of_tables = judging.of_all(contracts)
    accounting = judging.accounting(of_feed, of_tables)
    for balance in accounting.balances:
        log.info("%s: %s", ctx.feed.feed, balance)
    name = f"feed {ctx.feed.feed}"
    of_records = judging.of_records(name, redact=ctx.settings.redact_values)

    def addresses(names: Iterable[str]) -> tuple[str, ...]:
        """Returns the addresses at the run's branch; tables that the run did not change have no branch."""
        return tuple(f"{n}.branch_{ctx.branch}" if tables[n].is_new else n for n in names)

    beside = addresses((ctx.lake.dispositions, ctx.lake.quarantine))
    subjects = [
        gate.Subject(name, beside, _feed_rules(ctx, judging, accounting)),
        *(
            gate.Subject(contract.table, addresses(ctx.names[contract.table]), tuple(of_table.rules))
            for contract, of_table in zip(contracts, of_tables, strict=True)
        ),
    ]
    return subjects, together([of_records, *(rows for of_table in of_tables for rows in of_table.rows)])


def _with_expectations(
    ctx: StageContext, subjects: Sequence[gate.Subject], tables: AskedTables
) -> tuple[list[gate.Subject], list[Asked]]:
    """Adds users' expectations to the subjects. Also returns what these expectations are asked of."""
    contracts, in_all = ctx.contracts(), []
    for name in without_records(ctx.feed, contracts):
        log.warning(
            "%s: %s: no record of it has arrived, so its expectations are not evaluated", ctx.feed.feed, name
        )
    extended = []
    for subject in subjects:
        table = ctx.feed.table(subject.name)
        if table is not None and table.expectations:
            asked = tables.of(table, contracts[subject.name])
            names = {expectation.rule for each in asked for expectation in each.expectations}
            added = user_expectations.rules(table, names)
            extended.append(replace(subject, rules=(*subject.rules, *added)))
            in_all += asked
        else:
            extended.append(subject)
    return extended, in_all


def _shown(ctx: StageContext, rows: Rows) -> DataFrame:
    """Returns the rows for Great Expectations, redacted if configured: its results and pages show them."""
    frame = as_spark(rows).frame
    if not ctx.settings.redact_values:
        return frame
    # Keep only the type of an error: its message may contain values.
    error = {rule: F.regexp_extract(rule, rf"^{NOT_CHECKED}\w+", 0) for rule in RULES}
    is_error = F.col("kind") == RULE
    reasons = {
        rule: F.when(is_error & F.col(rule).isNotNull(), error[rule]).otherwise(F.col(rule)) for rule in RULES
    }
    return frame.withColumns({**reasons, "key": F.when(F.col("key").isNotNull(), F.lit(REDACTED))})


def _with_images(ctx: StageContext, verdicts: Sequence[RuleResult]) -> list[RuleResult]:
    """Adds the images of changes that break a rule, for the page."""
    shown: list[RuleResult] = []
    contracts = ctx.contracts()
    for table, results in groupby(verdicts, attrgetter("table")):
        of_table = list(results)
        shown += with_images(ctx, of_table, contracts[table]) if table in contracts else of_table
    if not ctx.settings.redact_values:
        return shown
    return [replace(result, samples=tuple(map(redacted_row, result.samples))) for result in shown]


def _feed_rules(ctx: StageContext, judging: Judging, accounting: Accounting) -> tuple[Rule, ...]:
    feed = ctx.feed
    states = ctx.control.sources.states(feed.feed).values()
    late = [state for state in states if state.is_late(state.at, feed.deadline)]
    balances, faults, _ = accounting
    is_replay = ctx.window.request.mode == "replay"
    lacking = ctx.whole.listed(ctx.control.feed_tables.lacking(feed.feed, ctx.window))
    joined = {row.table: row.lacking for row in lacking}
    return (
        *conservation.source_rules(_reads(ctx, accounting), late),
        conservation.whole_tables(joined),
        *resetting.rules_of(ctx),
        *conservation.feed_rules(feed, balances, faults, judging.quarantined(), is_replay=is_replay),
        kept_records.rule_of(judging.judged, judging.beside),
    )


def _reads(ctx: StageContext, accounting: Accounting) -> WindowReads:
    stored, schemas = ctx.opened("audit"), ctx.control.contracts.writer_schemas(ctx.feed.feed)
    return WindowReads(
        promised(stored.from_position or {}, stored.to_position),
        ctx.control.sources.reads(ctx.feed.feed, ctx.window.id),
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
        # Shown in alerts.
        "first": page.shown(verdict.samples[0]) if verdict.samples else None,
    }
    return AuditResult(verdict.table, verdict.rule, verdict.success, verdict.violations or 0, detail)
