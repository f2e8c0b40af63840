"""Finds the raw records of the row that is erased."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config.feed import Feed
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.messages.message_keys import MESSAGE_KEY, WithKey
from changeledger.dialects.registry import DIALECTS
from changeledger.dialects.tables import keys
from changeledger.kernels.arrow import POSITIONS
from changeledger.kernels.rows import BatchKernel
from changeledger.lake import catalog, iceberg
from changeledger.lake.records import message_record
from changeledger.model import change
from changeledger.model.table_names import TableNames
from changeledger.spark.rows import Workers
from changeledger.stages.maintenance.one_key import OneKey, in_any_case


@dataclass(frozen=True)
class ErasedRecords:
    """Finds the raw records of one key of one of the feed's tables."""

    spark: SparkSession
    feed: Feed
    # The key in the form of the published tables, and in the form of the source.
    key: OneKey
    source_key: OneKey

    def positions(self) -> DataFrame:
        """Returns the records in the column `source_position`; a record may be in several rows."""
        ledger = iceberg.read(self.spark, self._names.changes).where(self.key.in_ledger())
        paired = ledger.where("paired_source_position IS NOT NULL").select(
            F.col("paired_source_position").alias("source_position")
        )
        records = ledger.select("source_position").union(paired)
        events = iceberg.union([records, *self._repeated(ledger)])
        passed_over = self._passed_over()
        own = iceberg.union([self._own(ledger), *passed_over])
        of_events = [events, *passed_over, *self._segments(events), *self._keyed_alike(records, own)]
        return iceberg.union([*of_events, *self._quarantined(), *self._of_rows()])

    @property
    def _names(self) -> TableNames:
        return self.feed.names[self.key.contract.table]

    def _own(self, ledger: DataFrame) -> DataFrame:
        """Returns records whose message has this key, without those of the other key of a key update."""
        moved_away = ledger.where(self.key.columns("previous_key."))
        return (
            ledger.where(self.key.columns("key."))
            .select("source_position")
            .union(moved_away.select(F.col("paired_source_position").alias("source_position")))
        )

    def _repeated(self, ledger: DataFrame) -> list[DataFrame]:
        """Returns the duplicates of these changes: dispositions name the change that they repeat."""
        dispositions = self.feed.lake.dispositions
        if not catalog.exists(dispositions):
            return []
        ids = ledger.select(F.col("change_id").alias("detail"))
        return [
            iceberg.read(self.spark, dispositions).join(ids, "detail", "left_semi").select("source_position")
        ]

    def _segments(self, events: DataFrame) -> list[DataFrame]:
        """Returns the other segments of split events: dispositions name the position of the first one."""
        if not catalog.exists(self.feed.lake.dispositions):
            return []
        parts = ("source", F.lit("["), "partition", F.lit("]@"), "offset")
        place = F.concat(*(F.col(f"source_position.{p}") if isinstance(p, str) else p for p in parts))
        paired = iceberg.read(self.spark, self.feed.lake.dispositions).where(
            F.col("disposition") == change.PAIRED
        )
        firsts = events.select(place.alias("detail"))
        return [paired.join(firsts, "detail", "left_semi").select("source_position")]

    def _keyed_alike(self, records: DataFrame, own: DataFrame) -> list[DataFrame]:
        """Returns messages with the message key of the `own` records: tombstones, and unreadable messages.

        Leaves out message keys that other rows have, too: one key may serve a whole topic or table.
        """
        if not catalog.exists(self.feed.lake.raw):
            return []
        place = ["topic", MESSAGE_KEY]
        keyed = self._keyed()
        keys = keyed.join(own, "source_position", "left_semi").select(place).distinct()
        candidates = keyed.join(keys, place, "left_semi")
        ledgers = filter(catalog.exists, [names.changes for names in self.feed.names.values()])
        changes = [iceberg.read(self.spark, t).select("source_position") for t in ledgers]
        others = candidates.join(iceberg.union(changes), "source_position", "left_semi").join(
            records, "source_position", "left_anti"
        )
        return [
            candidates.join(others.select(place).distinct(), place, "left_anti").select("source_position")
        ]

    def _quarantined(self) -> list[DataFrame]:
        """Returns quarantined messages of the table with this key in JSON: the row may have no others."""
        if not catalog.exists(self.feed.lake.quarantine):
            return []
        messages = iceberg.read(self.spark, self.feed.lake.quarantine)
        of_table = messages.where(F.expr(in_any_case("table")) == self.key.contract.table)
        return self._with_key(of_table.select("source_position", F.col("raw_key").alias(MESSAGE_KEY)))

    def _passed_over(self) -> list[DataFrame]:
        """Returns messages of the table that no ledger leads to.

        A run of other tables has read them again, or the feed did not list the table then.
        """
        if not catalog.exists(self.feed.lake.raw) or not catalog.exists(self.feed.lake.dispositions):
            return []
        table, named = self.key.contract.table, F.expr(in_any_case("detail"))
        names_table = named.isin(table, table.partition(".")[2]) | named.endswith(f".{table}")
        reasons = F.col("reason").isin(change.TABLE_NOT_CHOSEN, change.TABLE_NOT_IN_FEED)
        passed = iceberg.read(self.spark, self.feed.lake.dispositions).where(reasons & names_table)
        return self._with_key(self._keyed().join(passed, "source_position", "left_semi"))

    def _keyed(self) -> DataFrame:
        """Returns raw messages that have a key."""
        messages = iceberg.read(self.spark, self.feed.lake.raw).where("key IS NOT NULL")
        return messages.select(
            "topic", F.col("key").alias(MESSAGE_KEY), message_record().alias("source_position")
        )

    def _with_key(self, messages: DataFrame) -> list[DataFrame]:
        """Returns the `source_position` of messages whose `MESSAGE_KEY` is the row's key in JSON."""
        dialect, key = DIALECTS[self.feed.dialect], self.source_key
        if not isinstance(dialect, MessageDialect):
            return []
        cells = keys.typed(key.values, key.contract)
        with_key = WithKey(cells, key.contract, self.feed, dialect.read_key_cell)
        return [self._through(messages.select("source_position", MESSAGE_KEY), with_key)]

    def _through(self, records: DataFrame, with_key: BatchKernel) -> DataFrame:
        workers = Workers(lambda: self.spark)
        return workers.of_spark(records).through(with_key, POSITIONS).frame

    def _of_rows(self) -> list[DataFrame]:
        """Returns raw rows of change tables with this key; their columns are in the source's types."""
        if not catalog.exists(self._names.raw):
            return []
        rows, key = iceberg.read(self.spark, self._names.raw), self.source_key
        # A column that has changed its type is stored as two (`<name>::<type>`).
        begin = tuple(f"{name.lower()}::" for name in key.values)
        columns = [name for name in rows.columns if f"{name.lower()}::".startswith(begin)]
        narrow = rows.select("source_position", *map(change.quoted, columns))
        return [self._through(narrow, keys.WithKey(keys.typed(key.values, key.contract), key.contract))]
