"""Comparing published ledgers: what is stored in the lake and the control store, and what people see."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Literal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.compare.verdicts import FAULTS
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ComparisonRow, ControlStore
from changeledger.model import change
from changeledger.model.errors import ConfigError, FeedsDisagree, LeaseHeld
from changeledger.model.table_names import FINDINGS, TableNames
from changeledger.reports.comparison import compare_and_report
from changeledger.spark import dealing, tasks
from changeledger.stages import compare
from sourcelab import faults
from sourcelab.log import Log, Transaction, simulate
from sourcelab.tables import CUSTOMERS
from tests.injected import effects
from tests.ledger_rows import PLAIN, Manner
from tests.published_feeds import TABLES, feed_of, move_main, publish, release_mains


def test_what_differs_is_kept_and_shown(spark: SparkSession) -> None:
    log = simulate(11, 40)
    reported, lost = faults.lose(log, 20)
    feeds = published_pair("billing", {"old_tool": log, "new_tool": reported})
    database = Database(database="billing", reference="billing_old_tool")
    with pytest.raises(FeedsDisagree, match=r"new_tool .* missing"):
        compare_and_report(spark, database, feeds)
    rows = ControlStore(Settings().control_url).comparisons.of_database("billing")
    assert {row.table for row in rows} == {"dbo.customers", "sales.orders"}
    touched = {c.table.full_name for _, c in lost.changes} & {row.table for row in rows}
    assert {row.table for row in rows if row.outcome == "differ"} == touched != set()
    # The last transaction may be incomplete: it is the fence.
    assert {row.to_lsn for row in rows} == {log.transactions[-1].commit_lsn.hex().upper()}
    assert all(sum(agreeing for agreeing, _ in row.spans) == row.counts["equal"] for row in rows)
    findings = spark.table(FINDINGS).where("database = 'billing'").collect()
    assert {bytes(row["commit_lsn"]) for row in findings} == {log.transactions[20].commit_lsn}
    assert {row["verdict"] for row in findings} == {"missing"}
    assert all(
        row["key"] and row["source_position"] and row["other_source_position"] is None for row in findings
    )
    folder = Settings().data_docs / "compare_billing"
    page = (folder / "index.html").read_text("utf-8")
    assert "new_tool does not agree" in page
    assert log.transactions[20].commit_lsn.hex().upper() in page
    assert "new_tool does not agree" in (folder / "comparison.md").read_text("utf-8")


def test_a_comparison_goes_on_where_the_last_one_ended(spark: SparkSession) -> None:
    log = simulate(12, 40)
    database, first = Database(database="stock"), replace(log, transactions=log.transactions[:20])
    feeds = published_pair("stock", {"one": first, "two": first})
    assert {row.outcome for row in compare.run(spark, database, feeds)} == {"agree"}
    assert compare.run(spark, database, feeds) == []
    reported, fault = faults.change_value(log, 30, Random(1))
    ((transaction, corrupted),) = fault.changes
    publish(feeds["stock_one"], log)
    publish(feeds["stock_two"], reported)
    with pytest.raises(FeedsDisagree, match=r"1 differs\. The first: .*, key \{.*: differs"):
        compare.run(spark, database, feeds)
    (finding,) = spark.table(FINDINGS).where("database = 'stock'").collect()
    assert (finding["table"], bytes(finding["commit_lsn"])) == (
        corrupted.table.full_name,
        transaction.commit_lsn,
    )
    (cell,) = finding["cells"]
    assert cell["name"] == fault.column
    assert cell["after"] != cell["after_other"]
    begun = {row.from_lsn for row in ControlStore(Settings().control_url).comparisons.of_database("stock")}
    assert first.transactions[-1].commit_lsn.hex().upper() in begun
    # After the correction, comparing everything again removes the findings.
    publish(feeds["stock_two"], log)
    assert {row.outcome for row in compare.run(spark, database, feeds, full=True)} == {"agree"}
    assert spark.table(FINDINGS).where("database = 'stock'").isEmpty()
    rows = ControlStore(Settings().control_url).comparisons.of_database("stock")
    assert {row.outcome for row in rows} == {"agree"}


def test_a_disagreement_stays_until_it_is_resolved_or_accepted(spark: SparkSession) -> None:
    log = simulate(12, 40)
    database, first = Database(database="stays"), replace(log, transactions=log.transactions[:35])
    reported, fault = faults.change_value(first, 30, Random(1))
    ((_, corrupted),) = fault.changes
    feeds = published_pair("stays", {"one": first, "two": reported})
    control = ControlStore(Settings().control_url)
    # With nothing new, and with a log that has grown: each run fails, and the break is stored once.
    for to in (first, first, log):
        publish(feeds["stays_one"], to)
        wrong = replace(log, transactions=[*reported.transactions, *to.transactions[35:]])
        publish(feeds["stays_two"], wrong)
        with pytest.raises(FeedsDisagree, match=f"two {corrupted.table.full_name}: 1 differs"):
            compare.run(spark, database, feeds)
        (finding,) = spark.table(FINDINGS).where("database = 'stays'").collect()
        (row,) = control.comparisons.disagreements("stays")
        assert (finding["comparison_id"], row.table) == (row.id, corrupted.table.full_name)
    assert row.to_lsn == log.transactions[-1].commit_lsn.hex().upper()
    assert control.comparisons.accept("stays", "no", "me", table="dbo.no_table") == 0
    table = corrupted.table.full_name.upper()
    assert control.comparisons.accept("stays", "known", "me", feed="stays_two", table=table) == 1
    compare_and_report(spark, database, feeds)
    report = (Settings().data_docs / "compare_stays" / "comparison.md").read_text("utf-8")
    assert "Accepted by me" in report
    assert "because: known" in report
    # A full comparison reports it again. Once the feed is right, no option is needed.
    with pytest.raises(FeedsDisagree, match="1 differs"):
        compare.run(spark, database, feeds, full=True)
    publish(feeds["stays_two"], log)
    rows = compare.run(spark, database, feeds)
    assert [(row.table, row.outcome) for row in rows] == [(corrupted.table.full_name, "agree")]
    assert spark.table(FINDINGS).where("database = 'stays'").isEmpty()


def test_a_release_that_moves_its_tables_is_not_half_compared(spark: SparkSession) -> None:
    """One table of the feed is moved, the other not yet: the rows that the latter lacks are no difference.

    Derived by hand: what both feeds have released ends with the transactions of the first release, the last
    of which is the fence.
    """
    log = simulate(19, 40)
    first = replace(log, transactions=log.transactions[:20])
    feeds = published_pair("moving", {"moved": log, "moves": first})
    move_main(feeds["moving_moves"], log, CUSTOMERS)
    rows = compare.run(spark, Database(database="moving"), feeds)
    assert {(row.table, row.outcome) for row in rows} == {(table.full_name, "agree") for table in TABLES}
    fence = [t for t in first.transactions if touches(t)][-1]
    assert {row.to_lsn for row in rows} == {fence.commit_lsn.hex().upper()}
    release_mains(feeds["moving_moves"])


def test_one_comparison_at_a_time(spark: SparkSession) -> None:
    """Two comparisons would overwrite each other's results, and an erasure must not run during one."""
    log = simulate(12, 10)
    feeds = published_pair("alone", {"first": log, "second": log})
    other = ControlStore(Settings().control_url, process="another")
    other.leases.acquire("compare_alone", "another comparison", 60)
    with pytest.raises(LeaseHeld, match="another comparison works on the comparison of 'alone'"):
        compare.run(spark, Database(database="alone"), feeds)
    other.leases.release("compare_alone", "another comparison")
    assert compare.run(spark, Database(database="alone"), feeds) != []
    assert other.leases.of_feed("compare_alone") is None


def test_repairs_are_not_compared(spark: SparkSession) -> None:
    """No tool reports repairs. Repairs without an LSN must not make the other changes lose theirs."""
    log = simulate(13, 30)
    feeds = published_pair("corrected", {"right": log, "repaired": log})
    changes = TableNames.of(feeds["corrected_repaired"].namespace, CUSTOMERS.full_name).changes
    some = spark.table(changes).where("operation = 'update'").limit(3)
    repairs = some.withColumns(
        {
            "flags": F.array(F.lit(change.REPAIRED)),
            "commit_lsn": F.lit(None).cast("binary"),
            "change_id": F.concat(F.lit("repair of "), "change_id"),
        }
    )
    repairs.writeTo(changes).append()
    release_mains(feeds["corrected_repaired"])
    assert spark.table(changes).where("commit_lsn IS NULL").count() == 3
    rows = compare.run(spark, Database(database="corrected"), feeds)
    assert {(row.table, row.outcome, row.to_lsn) for row in rows} == {
        (table.full_name, "agree", log.transactions[-1].commit_lsn.hex().upper()) for table in TABLES
    }


def test_one_feed_alone_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        Database(database="billing").compared({"one": feed_of("one", "billing")})
    with pytest.raises(ConfigError, match="no feed 'three'"):
        Database(database="billing", reference="three").compared(
            {name: feed_of(name, "billing") for name in ("one", "two")}
        )


def published_pair(database: str, logs: dict[str, Log], **manners: Manner) -> dict[str, Feed]:
    """Publishes two feeds; the first is the reference."""
    feeds = {name: feed_of(f"{database}_{name}", database) for name in logs}
    for name, feed in feeds.items():
        publish(feed, logs[name], manners.get(name, PLAIN))
    return {feed.feed: feed for feed in feeds.values()}


def compared(spark: SparkSession, database: str, feeds: dict[str, Feed]) -> dict[str, list[ComparisonRow]]:
    """Returns all comparisons so far, by table. A failure shows only in their rows."""
    with suppress(FeedsDisagree):
        compare.run(spark, Database(database=database, reference=next(iter(feeds))), feeds)
    rows: dict[str, list[ComparisonRow]] = {}
    for row in ControlStore(Settings().control_url).comparisons.of_database(database):
        rows.setdefault(row.table, []).append(row)
    return rows


def faulty(rows: dict[str, list[ComparisonRow]]) -> dict[str, dict[str, int]]:
    """Returns the nonzero counts of faults, by table."""
    counts = {table: {v: sum(row.counts[v] for row in of) for v in FAULTS} for table, of in rows.items()}
    return {t: nonzero for t, of in counts.items() if (nonzero := {v: n for v, n in of.items() if n})}


def touches(transaction: Transaction) -> bool:
    return any(c.table in TABLES for c in transaction.changes)


def plain(log: Log, number: int) -> int:
    """Returns the first transaction from `number` on that touches the tables, but no key of them twice."""
    for at, transaction in enumerate(log.transactions[number:], start=number):
        keys = [
            (c.table.name, c.table.key_of(row))
            for c in transaction.changes
            if c.table in TABLES
            for row in (c.after or c.before,)
            if row is not None
        ]
        if keys and len(set(keys)) == len(keys):
            return at
    raise AssertionError("there is none")


@pytest.mark.parametrize(
    ("database", "unclear", "lost_by", "verdict"),
    [
        pytest.param("unclear_missing", "other", "other", "missing", marks=pytest.mark.long),
        pytest.param("unclear_extra", "other", "reference", "extra", marks=pytest.mark.long),
        ("unclear_reference", "reference", "other", "missing"),
    ],
)
def test_positions_that_are_change_lsns_are_found_out(
    spark: SparkSession, database: str, unclear: str, lost_by: str, verdict: str
) -> None:
    """Derived by hand: each effect of the lost transaction is missing, or extra, and nothing else is."""
    log = simulate(15, 40)
    without, lost = faults.lose(log, plain(log, 20))
    logs = {"reference": log, "other": log, lost_by: without}
    feeds = published_pair(database, logs, **{unclear: Manner(position="change")})
    rows = compared(spark, database, feeds)
    expected = {t.full_name: len(effects(lost.changes, t)) for t in TABLES}
    assert faulty(rows) == {t: {verdict: n} for t, n in expected.items() if n}
    last = [t for t in log.transactions if touches(t)][-1]
    assert {row.to_lsn for (row,) in rows.values()} == {last.commit_lsn.hex().upper()}, "a commit LSN"
    feed, of = f"{database}_{unclear}", f"{database}_{'other' if unclear == 'reference' else 'reference'}"
    for (row,) in rows.values():
        positions = row.positions
        assert positions is not None
        assert (positions["feed"], positions["lsn"], positions["of"]) == (feed, "change", of)
        assert positions["equal"] == positions["positions"] > 50


def test_positions_that_are_commit_lsns_are_said_to_be(spark: SparkSession) -> None:
    log = simulate(15, 15)
    feeds = published_pair("usual", {"one": log, "two": log})
    compare_and_report(spark, Database(database="usual"), feeds)
    folder = Settings().data_docs / "compare_usual"
    for name in ("index.html", "comparison.md"):
        assert "the positions of usual_two are commit LSNs of usual_one" in (folder / name).read_text("utf-8")


def test_a_transaction_that_was_open_at_the_fence_is_not_extra(spark: SparkSession) -> None:
    """Its change has a lower LSN than commits that both have, and the reference has not reached it yet."""
    log = simulate(16, 40)
    numbers = [n for n, t in enumerate(log.transactions) if touches(t)]
    at = next(n for n in numbers if n >= 20 and log.transactions[n].changes[0].table in TABLES)
    opened = log.transactions[at]
    before, fence = (log.transactions[n] for n in numbers[numbers.index(at) - 2 : numbers.index(at)])
    lsn = (int.from_bytes(before.commit_lsn) + 1).to_bytes(10)
    (first, *later_changes) = opened.changes
    early = replace(opened, changes=(replace(first, change_lsn=lsn), *later_changes))
    later = replace(log, transactions=(*log.transactions[:at], early, *log.transactions[at + 1 :]))
    logs = {"one": replace(later, transactions=later.transactions[:at]), "two": later}
    feeds = published_pair("opened", logs, two=Manner(position="change"))
    rows = compared(spark, "opened", feeds)
    assert faulty(rows) == {}
    assert {row.to_lsn for (row,) in rows.values()} == {fence.commit_lsn.hex().upper()}
    # Once the reference reaches it, it is compared, and so is all that follows.
    publish(feeds["opened_one"], later)
    rows = compared(spark, "opened", feeds)
    assert faulty(rows) == {}
    assert {of[1].from_lsn for of in rows.values()} == {fence.commit_lsn.hex().upper()}
    end = [t for t in later.transactions if touches(t)][-1]
    everything = [(t, c) for t in later.transactions if t is not end for c in t.changes]
    counted = {table: sum(row.counts["equal"] for row in of) for table, of in rows.items()}
    assert counted == {t.full_name: len(effects(everything, t)) for t in TABLES}


def test_positions_of_another_log_leave_the_order_unknown(spark: SparkSession) -> None:
    log = simulate(17, 40)
    without, lost = faults.lose(log, plain(log, 20))
    logs = {"reference": log, "other": without}
    feeds = published_pair("foreign", logs, other=Manner(position="other"))
    rows = compared(spark, "foreign", feeds)
    expected = {t.full_name: len(effects(lost.changes, t)) for t in TABLES}
    assert faulty(rows) == {t: {"missing": n} for t, n in expected.items() if n}
    for (row,) in rows.values():
        assert row.positions is not None
        assert (row.positions["lsn"], row.positions["equal"]) == ("unknown", 0)
        assert (row.from_lsn, row.to_lsn) == (None, None)


def test_of_a_feed_without_lsns_the_time_that_both_have_is_compared(spark: SparkSession) -> None:
    """The feed is behind, and has its last transaction only in part."""
    log = simulate(17, 40)
    without, lost = faults.lose(log, plain(log, 20))
    last = next(at for at in range(30, 38) if len(without.transactions[at].changes) > 1)
    begun = replace(without.transactions[last], changes=without.transactions[last].changes[:1])
    behind = replace(without, transactions=(*without.transactions[:last], begun))
    logs = {"reference": log, "other": behind}
    feeds = published_pair("no_lsns", logs, other=Manner(knows_lsn=False))
    rows = compared(spark, "no_lsns", feeds)
    expected = {t.full_name: len(effects(lost.changes, t)) for t in TABLES}
    assert faulty(rows) == {t: {"missing": n} for t, n in expected.items() if n}
    assert all(row.counts["equal"] > 10 for (row,) in rows.values())


@pytest.mark.parametrize(
    "position", [pytest.param(position, marks=pytest.mark.long) for position in ("commit", "change", "other")]
)
def test_in_any_buckets_the_same_is_found(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, position: Literal["commit", "change", "other"]
) -> None:
    log = simulate(18, 40)
    reported, _ = faults.change_value(log, plain(log, 25), Random(2))
    without, _ = faults.lose(reported, plain(log, 20))
    logs = {"reference": log, "other": without}
    feeds = published_pair(f"buckets_{position}", logs, other=Manner(position=position))
    outcomes = []
    for at, size in enumerate((tasks.BUCKET, 100)):
        monkeypatch.setattr(dealing, "BUCKET", size)
        database = f"buckets_{position}_{at}"
        # The same ledgers, in a database that was never compared.
        of_database = {name: feed.model_copy(update={"database": database}) for name, feed in feeds.items()}
        rows = compared(spark, database, of_database)
        findings = spark.table(FINDINGS).where(F.col("database") == database)
        left_out = {"comparison_id", "database", "reference", "feed", "change_id", "other_change_id"}
        kept = findings.select(*(c for c in findings.columns if c not in left_out)).collect()
        of_rows = {t: (row.counts, row.columns, row.spans, row.outcome) for t, (row,) in rows.items()}
        outcomes.append((of_rows, sorted(map(str, kept))))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1]
