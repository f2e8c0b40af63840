"""Erase: removes the rows of one key from all tables of the lake and from their files.

A row is found by its key in decoded tables, and by the records of its changes in raw tables. Deleted rows
stay in data files and in snapshots that branches and tags keep, so files are rewritten, and these branches
and tags are dropped. The newest release then has other snapshots, without these rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.audit.remedies import REMEDIES
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import LEASE_SECONDS, ControlStore, ErasureRow, SnapshotRow, lease_held
from changeledger.dialects.tables import keys
from changeledger.kernels import display, publishing
from changeledger.lake import catalog, iceberg, refs, scans, summaries, upkeep
from changeledger.lake.parallel import parallel_map
from changeledger.lake.publishing import complete_releases
from changeledger.lake.refs import release_tag
from changeledger.model.change import literal
from changeledger.model.errors import ConfigError
from changeledger.model.table_names import (
    DRIFT,
    FINDINGS,
    NAMESPACE,
    REPAIRS,
    TableNames,
    snapshot_table,
)
from changeledger.model.window import branch_of
from changeledger.model.wording import counted
from changeledger.pages import folders
from changeledger.stages.common.context import control_store, log
from changeledger.stages.common.publishing import require_as_published, secret_of
from changeledger.stages.maintenance.erased_records import ErasedRecords
from changeledger.stages.maintenance.one_key import OneKey, in_any_case
from changeledger.stages.maintenance.raw_rows import standing_runs, trim_raw

# Tables of a feed, other than ledgers, that have a `source_position` and lead to no other record.
_BY_RECORD = ("quarantine", "replay_requests", "image_chain_breaks", "applied_repairs")
# Tables shared by all feeds, with keys as JSON.
_SHARED = (DRIFT, REPAIRS, FINDINGS)
_RECORDS = "changeledger_erased_records"
_OF_RECORD = f"source_position IN (SELECT source_position FROM {_RECORDS})"  # noqa: S608 - our own view
_PLACE = "source_position.source, source_position.`partition`, source_position.`offset`"
_OF_OFFSET = f"(topic, `partition`, `offset`) IN (SELECT {_PLACE} FROM {_RECORDS})"  # noqa: S608 - as above


@dataclass(frozen=True)
class Erasing:
    """The erasure of one key of one table of a feed."""

    spark: SparkSession
    control: ControlStore
    feed: Feed
    # The key in the form of the published tables, and in the form of the source.
    key: OneKey
    source_key: OneKey

    @classmethod
    def of(cls, spark: SparkSession, feed: Feed, table: str, values: Mapping[str, str]) -> Erasing:
        """Prepares an erasure. Raises ConfigError if the feed has no such table, or the table no such key."""
        control = control_store(Settings())
        (config,) = feed.only([table]).tables
        contract = control.contracts.of_table(feed.feed, config.table)
        if contract is None:
            raise ConfigError(
                f"the feed {feed.feed!r} has published nothing of {config.table}", "run its DAG first"
            )
        key = OneKey.of(contract, values)
        return cls(spark, control, feed, _as_published(feed, key), key)

    def counts(self) -> dict[str, int]:
        """Returns the number of rows that would be erased, by lake table."""
        self._find_records()
        row_counts = {
            table: upkeep.count_where(self.spark, table, " OR ".join(f"({c})" for c in conditions))
            for table, conditions in self._conditions().items()
        }
        return {table: count for table, count in row_counts.items() if count}

    def linked(self) -> list[str]:
        """Returns other keys that the row has had, as JSON: they may belong to the same person."""
        changes = iceberg.read(self.spark, self._names.changes).where("previous_key IS NOT NULL")
        moved = [
            changes.where(self.key.columns(f"{column}.")).select(F.to_json(other).alias("key"))
            for column, other in (("key", "previous_key"), ("previous_key", "key"))
        ]
        return sorted(row["key"] for row in iceberg.union(moved).distinct().collect())

    def erase(self, by: str) -> dict[str, int]:
        """Erases the rows of the key. Returns the number of erased rows by table.

        Raises LeaseHeld while a run of the feed works; while its database is compared or verified, which
        would write what it has read of the row; and while another key is erased, since all erasures write
        the shared tables of findings. If it was killed, calling it again continues at once: its name as the
        lease's holder depends on the key only.
        """
        database, holder = self._database, f"changeledger erase ({self._key_hash[:8]})"
        with ExitStack() as held:
            for name in (self.feed.feed, database.comparison, database.verification, NAMESPACE):
                held.enter_context(lease_held(self.control.leases, name, holder))
            complete_releases(lambda: self.spark, self.control, self.feed.feed)
            return self._erase(by)

    @property
    def _database(self) -> Database:
        return Database(database=self.feed.database)

    @property
    def _key_hash(self) -> str:
        named = json.dumps([self.key.contract.table, sorted(self.key.values.items())])
        return hashlib.sha256(named.encode()).hexdigest()

    def _erase(self, by: str) -> dict[str, int]:
        feed, contract = self.feed.feed, self.key.contract
        self._find_records()
        conditions = self._conditions()
        # First, forget what open windows have built: publishing it would bring the rows back.
        self.control.upkeep.forget_built(feed, [w.window_id for w in self.control.windows.all_open(feed)])
        counts = {}
        for table, wanted in conditions.items():
            count = sum(upkeep.delete_where(self.spark, table, condition) for condition in wanted)
            if table == self._names.history:
                # A row that was moved away from the key stays, without naming it.
                moved = f"coalesce({self.key.columns('_previous_key.')}, false)"
                upkeep.unset_where(self.spark, table, "_previous_key", moved)
            # Data files may still have values of rows that were deleted long ago.
            if summaries.has_deleted_rows(table):
                upkeep.compact(self.spark, table)
            upkeep.forget_removed_files(self.spark, table)
            if count:
                counts[table] = count
                log.info("%s: %s erased", table, counted(count, "row"))
        self._move_release(list(conditions))
        self._purge(list(conditions))
        self._remove_pages()
        database, at = self._database, datetime.now(UTC)
        self.control.upkeep.forget_shown_rows(feed, database.comparison, database.verification)
        self.control.upkeep.save_erasure(
            ErasureRow(feed=feed, table=contract.table, key_hash=self._key_hash, by=by, counts=counts, at=at)
        )
        return counts

    def _remove_pages(self) -> None:
        """Removes pages that may show rows: of audits with failed rules or users' expectations, and of
        audits that the control store no longer knows."""
        feed = self.feed.feed
        passed = self.control.upkeep.passed_windows(feed, REMEDIES)
        audited = Settings().data_docs / feed
        for folder in audited.iterdir() if audited.is_dir() else ():
            if folder.name not in passed:
                folders.remove(folder)

    @property
    def _names(self) -> TableNames:
        return self.feed.names[self.key.contract.table]

    def _conditions(self) -> dict[str, list[str]]:
        """Returns the conditions of the rows to delete, for each table that exists.

        Tables that lead to records come last, and the ledger last of all, so that a repeated erasure still
        finds what a killed one has left.
        """
        table = self.key.contract.table
        of_table = f"{in_any_case('table')} = {literal(table)}"
        shared = f"database = {literal(self.feed.database)} AND {of_table}"
        ours = self.feed.lake
        conditions = {
            self._names.current: [self.key.columns()],
            self._names.history: [self.key.columns()],
            **{getattr(ours, name): [_OF_RECORD] for name in _BY_RECORD},
            ours.pending: [_OF_OFFSET],
            **{name: [f"{shared} AND {self.key.in_json()}"] for name in _SHARED},
            **{name: [self.source_key.columns()] for name in self._as_read()},
            ours.raw: [_OF_OFFSET],
            self._names.raw: [_OF_RECORD],
            ours.dispositions: [_OF_RECORD],
            self._names.changes: [self.key.in_ledger()],
        }
        broken = f"`table` = {literal(table)} AND {self.key.in_json()}"
        conditions[ours.image_chain_breaks].append(broken)
        # Repairs of an unreleased run: their changes are in no ledger, and the run would apply them again.
        planned = self.key.in_json("decode(source_position.row, 'UTF-8')")
        conditions[ours.applied_repairs].append(f"{of_table} AND {planned}")
        return {name: wanted for name, wanted in conditions.items() if catalog.exists(name)}

    def _find_records(self) -> None:
        """Creates the view `_RECORDS` of the row's raw records. Its rows are fixed: the tables from which
        they are found lose theirs."""
        frame = ErasedRecords(self.spark, self.feed, self.key, self.source_key).positions()
        rows = frame.distinct().collect()
        self.spark.createDataFrame(rows, frame.schema).createOrReplaceTempView(_RECORDS)

    @property
    def _in_source(self) -> str:
        """The table's name in snapshots of `verify`, in lower case."""
        return self.key.contract.table.lower()

    def _as_read(self) -> set[str]:
        """Returns the tables into which `verify` has read the source table, in any of its snapshots."""
        read = self._read_of_source()
        last = {read.tables[self._in_source]["name"]} if read is not None else set()
        return {snapshot_table(self.feed.database, self.key.contract.table), *last}

    def _read_of_source(self) -> SnapshotRow | None:
        """Returns the last snapshot of `verify` if it has the table."""
        row = self.control.proofs.last_snapshot(self.feed.database)
        return row if row is not None and self._in_source in row.tables else None

    def _move_release(self, written: Sequence[str]) -> None:
        """Moves the newest release to the present main, and drops the tags of older releases."""
        newest = self.control.releases.latest(self.feed.feed)
        if newest is None:
            return
        # After a pause, this erasure may have been repeated and have moved it: then this process ends here.
        self.control.leases.renew(self.feed.feed, LEASE_SECONDS)
        released = [table for table in written if table in newest.tables]
        mains, tag = refs.heads(released, refs.MAIN), release_tag(newest.id)
        parallel_map(lambda table: refs.set_tag(table, tag, mains[table]), mains)
        rows = scans.counts({table: mains[table] for table in self._names if table in mains})
        counts = {kind: rows[table] for kind, table in self._names._asdict().items() if table in rows}
        self.control.upkeep.move_release(newest, {**newest.tables, **mains}, self.key.contract.table, counts)
        # A table that the feed no longer lists has only tags of older releases.
        tables = [table for table in {*newest.tables, *written} if catalog.exists(table)]
        refs.drop_named(
            tables, refs.TAG, lambda name: name.startswith(("release_", "displaced_")) and name != tag
        )
        if catalog.exists(self.feed.lake.releases):
            upkeep.delete_where(self.spark, self.feed.lake.releases, f"release <> {newest.id}")

    def _purge(self, tables: Sequence[str]) -> None:
        """Drops branches and snapshots of these tables, so that no file has the rows any more."""
        refs.drop_named(tables, refs.BRANCH, lambda name: name.startswith(branch_of("")))
        self._forget_unpublished()
        parallel_map(lambda table: upkeep.expire(self.spark, table, upkeep.END_OF_TIME), tables)
        read = self._read_of_source()
        if read is not None:
            kept = read.tables[self._in_source]
            moved = {**kept, "snapshot": refs.snapshot_of(kept["name"])}
            read.tables = {**read.tables, self._in_source: moved}
            self.control.proofs.save(read)

    def _forget_unpublished(self) -> None:
        """Removes raw messages of unpublished runs, as nothing tells whose they are.

        Open windows read theirs again from the topic.
        """
        raw, stand = self.feed.lake.raw, standing_runs(self.control, self.feed.feed)
        if catalog.exists(raw):
            others = sorted(upkeep.runs_of(self.spark, raw) - stand)
            trim_raw(self.spark, self.feed, others)
            upkeep.forget_removed_files(self.spark, raw)


def _as_published(feed: Feed, key: OneKey) -> OneKey:
    """Returns the key as published tables have it. Raises ConfigError if the secret of hashes is missing."""
    contract = key.contract
    if contract.published == contract:
        return key
    require_as_published(feed, contract)
    secret, texts, cells = secret_of(feed, contract), {}, keys.typed(key.values, contract)
    for column in contract.key:
        (text,) = display.texts(publishing.cells(cells[column.name], column, secret)).to_pylist()
        texts[column.published.name] = text
    return OneKey(contract.published, texts)
