"""Compares rows that a topic delivers again in a snapshot with what the feed had published of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from typing import NamedTuple

from pyiceberg.expressions import And, BooleanExpression, Or
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.control import ControlStore, ProofRow, ReleaseRow
from changeledger.control.outcomes import DRIFTED, PROVEN, TOPIC
from changeledger.kernels.rows import Part, Rows, bucketed, together
from changeledger.lake import conditions, scans
from changeledger.lake.refs import release_tag
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.table_names import TableNames
from changeledger.spark.rows import Workers
from changeledger.stages.common.stored import Stored
from changeledger.stages.verification.proofs import COUNTED, ProofWriter
from changeledger.stages.verification.tables import concluded
from changeledger.verify import drift, resnapshot, verdicts


def prove(spark: SparkSession, control: ControlStore, writer: ProofWriter, feed: Feed) -> list[ProofRow]:
    """Proves each table whose rows were delivered again by releases since the last such proof."""
    releases = unproved(control, feed)
    runs = {
        table: [release.window_id for release in releases if _snapshot_rows(release, table)]
        for table in (t.table for t in feed.tables)
    }
    contracts = control.contracts.of_feed(feed.feed, release=releases[-1].id) if releases else {}
    redelivered = [
        _Redelivered(feed, contracts[table].published, releases[-1], brought)
        for table, brought in runs.items()
        if brought
    ]
    return writer.workers.each(lambda redelivery: _table(spark, writer, redelivery), redelivered)


def unproved(control: ControlStore, feed: Feed) -> list[ReleaseRow]:
    """Returns the releases since the last such proof, or none if they brought no snapshot rows."""
    rows = [r for r in control.proofs.of_database(feed.database) if (r.feed, r.against) == (feed.feed, TOPIC)]
    releases = control.releases.after(feed.feed, max((row.release for row in rows), default=0))
    tables = [t.table for t in feed.tables]
    brought = any(_snapshot_rows(release, table) for release in releases for table in tables)
    return releases if brought else []


def _snapshot_rows(release: ReleaseRow, table: str) -> int:
    changes = release.counts.get("tables", {}).get(table, {}).get("changes", {})
    return int(changes.get(change.SNAPSHOT, 0))


class _Redelivered(NamedTuple):
    """A table of a feed at a release, and the runs that brought snapshot rows of it."""

    feed: Feed
    contract: Contract
    release: ReleaseRow
    runs: Sequence[str]


def _table(spark: SparkSession, writer: ProofWriter, redelivered: _Redelivered) -> ProofRow:
    feed, release, contract = redelivered.feed, redelivered.release, redelivered.contract
    rows = _rows(spark, writer.workers, redelivered)
    kernel, parts = resnapshot.Judge(contract), {resnapshot.ROWS: Part(rows, resnapshot.KEY)}
    outputs = bucketed(parts, kernel, resnapshot.OUTPUTS)
    counts = dict.fromkeys(COUNTED, 0)
    for row in outputs[resnapshot.COUNTS].collected().to_pylist():
        counts[row["verdict"]] += row["rows"]
        counts["rows"] += row["rows"]
    is_wrong = any(counts[verdict] for verdict in verdicts.DRIFTS)
    proof = ProofRow(
        id=f"{feed.feed}.release_{release.id}.{contract.table}",
        against=TOPIC,
        snapshot_id=f"release_{release.id}",
        database=feed.database,
        table=contract.table,
        feed=feed.feed,
        release=release.id,
        outcome=DRIFTED if is_wrong else PROVEN,
        since=release.created_at,
        until=release.created_at,
        counts=counts,
        at=datetime.now(UTC),
    )
    if is_wrong:
        names, tag = TableNames.of(feed.namespace, contract.table), release_tag(release.id)
        ledger = Stored.of(spark, writer.workers, names.changes, tag)
        conclude = drift.Conclude(writer.named(proof), release.created_at)
        wrong = concluded(outputs[resnapshot.WRONG], ledger, conclude)
        writer.add_drift(proof, wrong[drift.DRIFT_ROWS])
    writer.add_proof(proof)
    return proof


def _rows(spark: SparkSession, workers: Workers, redelivered: _Redelivered) -> Rows:
    """Reads the rows that were sent again and the versions in history (`resnapshot.schema`)."""
    contract = redelivered.contract
    names = TableNames.of(redelivered.feed.namespace, contract.table)
    tag = release_tag(redelivered.release.id)
    of_runs: BooleanExpression = reduce(Or, map(scans.of_window, redelivered.runs))
    brought = And(conditions.is_equal("operation", change.SNAPSHOT), of_runs)
    columns, schema = [*contract.names, *resnapshot.OF_HISTORY], resnapshot.schema(contract)
    again = Stored.of(spark, workers, names.changes, tag).rows(resnapshot.OF_LEDGER, brought)
    versions = Stored.of(spark, workers, names.history, tag).rows(columns)
    sent_again = partial(resnapshot.sent_again, contract=contract, runs=redelivered.runs)
    as_versions = partial(resnapshot.as_versions, contract=contract)
    return together([again.through(sent_again, schema), versions.through(as_versions, schema)])
