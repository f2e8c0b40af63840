"""What every stage of a run works with: the feed, its window in the control store, the lake's names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.config import Feed, Settings
from changeledger.contract import Contract, TableNames, distinct_names
from changeledger.dialects.base import Dialect, message_record
from changeledger.dialects.registry import DIALECTS
from changeledger.errors import ConfigError, StageOrderError
from changeledger.stages.reading import union
from changeledger.storage import lake
from changeledger.storage.control import LEASE_SECONDS, ControlStore, WindowRow, furthest
from changeledger.storage.releases import complete_releases
from changeledger.window import Window

log = logging.getLogger("changeledger")

# The lake's namespace of what belongs to no feed.
NAMESPACE = "changeledger"
_IN_ORDER = "run the stages in order: extract, normalize, reconcile, audit, publish"


def control_store(settings: Settings) -> ControlStore:
    settings.home.mkdir(parents=True, exist_ok=True)
    return ControlStore(settings.control_url)


def entered(control: ControlStore, feed: Feed, window: Window) -> bool:
    """Takes the feed's lease; False when there is nothing left to do for the window.

    Raises LeaseHeld. Needs no Spark: to wait costs no start of one.
    """
    stored = control.window(feed.feed, window)
    if stored is not None and stored.done:
        log.info("%s: the window %s is %s already: nothing to do", feed.feed, window.id, stored.status)
        return False
    control.acquire_lease(feed.feed, window.holder, LEASE_SECONDS)
    return True


@dataclass(frozen=True)
class Run:
    """One run of one feed over one window."""

    spark: SparkSession
    feed: Feed
    window: Window
    control: ControlStore
    settings: Settings
    # The feed with all its tables: `feed` has those of the run alone.
    whole: Feed

    @classmethod
    def begin(cls, spark: SparkSession, feed: Feed, window: Window) -> Run | None:
        """The run, holding the feed's lease; None when there is nothing left to do for its window."""
        settings = Settings()
        control = control_store(settings)
        if not entered(control, feed, window):
            if control.incomplete_releases(feed.feed):
                # What a crash behind the commit point has left of this window, or of another.
                control.acquire_lease(feed.feed, window.holder, LEASE_SECONDS)
                complete_releases(spark, control, feed.feed)
                control.release_lease(feed.feed, window.holder)
            return None
        lake.create_namespace(spark, feed.namespace)
        asked = feed.only(window.request.tables) if window.request.partial else feed
        return cls(spark, asked, window, control, settings, feed)

    @property
    def id(self) -> str:
        return self.window.id

    @property
    def branch(self) -> str:
        return self.window.branch

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.feed.dialect]

    @property
    def names(self) -> dict[str, TableNames]:
        return distinct_names(self.feed.namespace, [t.table for t in self.feed.tables])

    @property
    def dispositions(self) -> str:
        return f"lake.{self.feed.namespace}.dispositions"

    @property
    def quarantine(self) -> str:
        return f"lake.{self.feed.namespace}.quarantine"

    @property
    def breaks(self) -> str:
        """Changes that broke the image chain; there only once some have."""
        return f"lake.{self.feed.namespace}.breaks"

    @property
    def pending(self) -> str:
        """Messages that wait for what they lack; there only once some have."""
        return f"lake.{self.feed.namespace}.pending"

    @property
    def replay(self) -> str:
        """Records to read again; there only once somebody has asked."""
        return f"lake.{self.feed.namespace}.replay"

    @property
    def repairs(self) -> str:
        """Repairs as they were planned, by the run that applies them; there only once some were."""
        return f"lake.{self.feed.namespace}.repairs"

    @property
    def raw_messages(self) -> str:
        return f"lake.{self.feed.namespace}.raw"

    def raw_table(self, table: str) -> str:
        """The raw rows of one source table of a feed that reads change tables."""
        return f"lake.{self.feed.namespace}.raw_{self.names[table].current.rsplit('.', 1)[1]}"

    def opened(self, stage: str) -> WindowRow:
        """The window as extract stored it. Raises StageOrderError when it has not."""
        stored = self.control.window(self.feed.feed, self.window)
        if stored is None:
            raise StageOrderError(
                f"{stage} of {self.feed.feed}: the window {self.id} has not been extracted", _IN_ORDER
            )
        return stored

    @property
    def built(self) -> list[str]:
        """The tables that normalize writes on the branch, as far as they are there."""
        tables = [self.dispositions, self.quarantine, self.pending, self.replay]
        tables += [names.changes for names in self.names.values()]
        return [table for table in tables if lake.exists(self.spark, table)]

    def contracts(self) -> dict[str, Contract]:
        """Contracts of the tables that have a ledger."""
        stored = {t: self.control.contract(self.feed.feed, t) for t in self.names}
        return {
            table: contract
            for table, contract in stored.items()
            if contract is not None and lake.exists(self.spark, self.names[table].changes)
        }

    def mark_done(self, stage: str) -> None:
        """Tag the branch as the stage leaves it: the next one starts there, however often it is tried."""
        lake.each(lambda table: lake.tag_branch(self.spark, table, self.mark(stage), self.branch), self.built)

    def mark(self, stage: str) -> str:
        return f"{stage}_{self.id}"

    def begin_from(self, stage: str) -> None:
        """Put the branch back to where `stage` left it. Raises StageOrderError when it is not done."""
        self.require_done(stage)
        lake.each(lambda table: lake.branch_at(self.spark, table, self.branch, self.mark(stage)), self.built)

    def require_done(self, stage: str) -> None:
        """Raises StageOrderError when `stage` has not been run to its end on this window."""
        stored = self.opened(stage)
        done = (
            lake.exists(self.spark, self.dispositions)
            and lake.snapshot_of(self.spark, self.dispositions, self.mark(stage)) is not None
        )
        if not done:
            raise StageOrderError(
                f"{self.feed.feed}: {stage} of the window {self.id} has not been run to its end", _IN_ORDER
            )
        if not self.control.stands_on_main(stored):
            raise StageOrderError(
                f"{self.feed.feed}: since the window {self.id} was built, another was released or the "
                "tables were maintained: what it has built would undo that",
                "run it again from normalize: in Airflow clear normalize with what follows it",
            )

    def new_changes(self, table: str) -> DataFrame:
        """The ledger rows of this run, on its branch."""
        return lake.read(self.spark, self.names[table].changes, self.branch).where(F.col("run_id") == self.id)

    def raw_records(self) -> DataFrame:
        """`record` of everything that the run accounts for: new, asked for again, pending, and repairs."""
        raws = [self.raw_messages, *map(self.raw_table, self.names)]
        found = [self.raw(raw) for raw in raws if lake.exists(self.spark, raw)]
        found += [more for more in (self.waiting(), self.planned()) if more is not None]
        return union([rows.select("record") for rows in found])

    def raw(self, table: str) -> DataFrame:
        """The raw records that the run reads, with `record`: of its window, and those asked for again."""
        rows = lake.read(self.spark, table)
        if "record" not in rows.columns:
            rows = rows.withColumn("record", message_record())
        new = rows.where(F.col("run_id") == self.id)
        asked = self.replayed()
        if asked is None:
            return new
        runs = [row["run_id"] for row in asked.select("run_id").distinct().collect()]
        again = rows.where(F.col("run_id").isin(runs)).join(
            F.broadcast(asked.select("run_id", "record")), ["run_id", "record"], "left_semi"
        )
        return new.unionByName(_not_read(again, new).select(*new.columns))

    def waiting(self) -> DataFrame | None:
        """Messages that earlier windows have left to wait, with their `record`; None where there are none.

        They may be of any table, so a run over some leaves them alone.
        """
        if self.window.request.partial or not lake.exists(self.spark, self.pending):
            return None
        waiting = lake.read(self.spark, self.pending).withColumn("record", message_record())
        return _not_read(waiting, self.raw(self.raw_messages))

    def replayed(self) -> DataFrame | None:
        """The records asked for again; None where there are none."""
        if self.window.request.partial or not lake.exists(self.spark, self.replay):
            return None
        asked = lake.read(self.spark, self.replay)
        return None if asked.isEmpty() else asked

    def planned(self) -> DataFrame | None:
        """The repairs that the run applies; None where it is a run of another kind."""
        if self.window.request.mode != "repair":
            return None
        return lake.read(self.spark, self.repairs).where(F.col("run_id") == self.id)

    def require_released(self, end: Mapping[str, Any], released: Mapping[str, Any]) -> None:
        """Raises ConfigError where a run over some tables would read what no release has: it would be theirs
        alone, and the records of the other tables would have no run."""
        if furthest(released, end) != released:
            raise ConfigError(
                f"{self.feed.feed}: chosen tables are read again, and the window {self.id} reaches beyond "
                "what is released",
                "run the feed without `tables` first, or end the window earlier",
            )

    def nothing_new(self) -> bool:
        """Has the window no record of its own, does nothing wait, and is nothing asked for again?"""
        waiting = self.waiting()
        if (waiting is not None and not waiting.isEmpty()) or self.replayed() is not None:
            return False
        if self.planned() is not None:
            return False
        raws = [self.raw_messages, *map(self.raw_table, self.names)]
        there = [lake.read(self.spark, raw) for raw in raws if lake.exists(self.spark, raw)]
        return all(rows.where(F.col("run_id") == self.id).isEmpty() for rows in there)


def _not_read(few: DataFrame, new: DataFrame) -> DataFrame:
    """`few` without the records that the window has read itself: windows may overlap."""
    read = new.select("record").join(F.broadcast(few.select("record")), "record", "left_semi")
    return few.join(read, "record", "left_anti")
