"""What every stage of a run works with: the feed, its window in the control store, the lake's names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from changeledger.config.feed import Feed
from changeledger.config.folders import private_home
from changeledger.config.settings import Settings
from changeledger.control import (
    IN_ORDER,
    LEASE_SECONDS,
    BuiltSnapshots,
    ControlStore,
    Position,
    ResetRow,
    WindowRow,
    built_on_another,
    furthest,
)
from changeledger.dialects.interface import Dialect
from changeledger.dialects.registry import DIALECTS
from changeledger.lake import catalog, iceberg, refs, same_releases, scans
from changeledger.lake.parallel import parallel_map
from changeledger.lake.publishing import complete_releases
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError, StageOrderError
from changeledger.model.table_names import FeedTables, TableNames
from changeledger.model.window import Window
from changeledger.spark.rows import Workers
from changeledger.stages.common.publishing import require_as_published, require_names

log = logging.getLogger("changeledger")

# Up to this many rows are small data: to prepare Spark's queries costs more than to run them (ADR 0018).
MOST_ROWS = 200_000


def control_store(settings: Settings) -> ControlStore:
    private_home(settings.home)
    return ControlStore(settings.control_url)


class HeldLease(NamedTuple):
    """A feed's lease that this process has taken: the store that writes under it, and its token."""

    control: ControlStore
    token: int


def take_lease(feed: Feed, window: Window) -> HeldLease | None:
    """Take the feed's lease, once a process; None when there is nothing left to do for the window.

    Raises LeaseHeld. Needs no Spark: to wait costs no start of one.
    """
    control = control_store(Settings())
    if _is_done(control, feed, window) and not control.releases.incomplete(feed.feed):
        # Of a try that ended before it could: others would wait for it as for one that works.
        control.leases.release(feed.feed, window.holder)
        return None
    return HeldLease(control, control.leases.acquire(feed.feed, window.holder, LEASE_SECONDS))


def _is_done(control: ControlStore, feed: Feed, window: Window) -> bool:
    stored = control.windows.row(feed.feed, window.id)
    if stored is None or not stored.done:
        return False
    log.info("%s: the window %s is %s already: nothing to do", feed.feed, window.id, stored.status)
    return True


@dataclass(frozen=True)
class StageContext:
    """One run of one feed over one window."""

    # Spark, started by the first call: a stage with little to do needs none.
    session: Callable[[], SparkSession]
    workers: Workers
    feed: Feed
    window: Window
    control: ControlStore
    settings: Settings
    # The feed with all its tables: `feed` has those of the run alone.
    whole: Feed
    # The reset that the run answers: it builds its tables anew, from the source's beginning.
    reset: ResetRow | None
    # Where this process builds. Another try of the same window, before or beside it, has another branch.
    branch: str
    # Of a stage that judges or publishes: the snapshots that the run has built, and no later ones.
    snapshots: Mapping[str, int] | None = None

    @classmethod
    def begin(
        cls,
        session: Callable[[], SparkSession],
        workers: Workers,
        feed: Feed,
        window: Window,
        lease: HeldLease,
    ) -> StageContext | None:
        """The run under the feed's lease; None when there is nothing left to do for its window.

        Raises StoresDisagree if the control store and the lake are not of one time. What a crash after a
        release's commit point has left, of this window or of another, is completed first: nothing is built on
        main while it is moved.
        """
        control = lease.control
        same_releases.require_newest(control, feed.feed)
        complete_releases(session, control, feed.feed)
        # Again: another process may have finished the window before this one had the lease.
        if _is_done(control, feed, window):
            control.leases.release(feed.feed, window.holder)
            return None
        require_names(control, feed)
        asked = feed.only(window.request.tables) if window.request.partial else feed
        return cls(
            session,
            workers,
            asked,
            window,
            control,
            Settings(),
            feed,
            control.resets.pending(feed.feed),
            f"{window.branch}_{lease.token}",
        )

    @property
    def spark(self) -> SparkSession:
        return self.session()

    @property
    def id(self) -> str:
        return self.window.id

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.feed.dialect]

    @property
    def names(self) -> Mapping[str, TableNames]:
        return self.feed.names

    @property
    def lake(self) -> FeedTables:
        return self.feed.lake

    @property
    def starts_over(self) -> bool:
        """Does the run build its tables from nothing, in place of those that are published?"""
        return self.reset is not None

    @property
    def released(self) -> Position:
        """How far the tables reach that the run goes on from; of each source nothing if it starts over."""
        known = None if self.starts_over else self.control.windows.position(self.feed.feed)
        return known or {}

    def has_raw_rows(self) -> bool:
        """Has the window rows in raw, which an earlier try has read?"""
        return any(scans.has_rows(raw, self.id) for raw in self.raws)

    @property
    def raws(self) -> list[str]:
        """The raw tables that are there."""
        return catalog.existing([self.lake.raw, *(names.raw for names in self.names.values())])

    def open(
        self,
        resolve: Callable[[], tuple[Any, Any]],
        is_there: Callable[[WindowRow], bool] = lambda _: True,
    ) -> WindowRow:
        """The window, stored with the positions that `resolve` gives where it is not stored yet, or where its
        source has no longer what is stored.

        What later stages have built of it is forgotten: they read what is extracted now.
        """
        feed, stored = self.feed.feed, self.control.windows.row(self.feed.feed, self.window.id)
        if stored is None or stored.taken_back or not is_there(stored):
            anew = stored is not None
            stored = self.control.windows.open(feed, self.window, *resolve(), anew=anew)
        self.control.windows.begin_stage(feed, self.window, "extract")
        # What chosen tables do not read is left to the next run: publish takes off the list what is pinned.
        listed = None if self.window.request.partial else refs.snapshot_of(self.lake.replay_requests)
        self.control.windows.pin_replay(feed, self.window, listed)
        return stored

    def opened(self, stage: str) -> WindowRow:
        """The window as extract stored it. Raises StageOrderError when it has not."""
        stored = self.control.windows.row(self.feed.feed, self.window.id)
        if stored is None or stored.taken_back:
            since = "" if stored is None else " since it was taken back"
            raise StageOrderError(
                f"{stage} of {self.feed.feed}: the window {self.id} has not been extracted{since}", IN_ORDER
            )
        return stored

    def main_before(self, table: str) -> int | None:
        """Main of a table that the run writes without a branch; asked before it reads what it writes there.

        Raises LeaseLost. Whoever takes the lease after this writes after this: then main is another one, and
        what this process writes is refused.
        """
        snapshot = refs.snapshot_of(table)
        self.control.leases.renew(self.feed.feed, LEASE_SECONDS)
        return snapshot

    @property
    def written(self) -> list[str]:
        """The tables that normalize writes on the branch, as far as they are there."""
        tables = [self.lake.dispositions, self.lake.quarantine, self.lake.pending]
        return catalog.existing([*tables, *(names.changes for names in self.names.values())])

    def built(self, table: str) -> DataFrame:
        """The table as the run has built it."""
        if self.snapshots is None:
            return iceberg.read(self.spark, table, self.branch)
        return iceberg.read(self.spark, table, snapshot=self.snapshots[table])

    def contracts(self) -> dict[str, Contract]:
        """Published contracts of the tables that have a ledger: as released, or as normalize has found them
        since. Raises ConfigError where the YAML wants one published otherwise."""
        feed = self.feed.feed
        stored = {
            **self.control.contracts.of_feed(feed),
            **self.control.windows.contracts_of(feed, self.window),
        }
        ledgers = {table: names.changes for table, names in self.names.items() if table in stored}
        existing = catalog.existing(ledgers.values())
        existing_contracts = {table: stored[table] for table, ledger in ledgers.items() if ledger in existing}
        for contract in existing_contracts.values():
            require_as_published(self.feed, contract)
        return {table: contract.published for table, contract in existing_contracts.items()}

    def finish(
        self,
        stage: str,
        built: Collection[str],
        contracts: Iterable[Contract] = (),
        *,
        untouched: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Store what the stage has built of these tables on the branch, and by which contracts.

        `untouched`: where main is of tables that have no branch, since the run changes nothing in them.
        """
        heads = refs.heads(built, self.branch)
        missing = sorted(set(built) - heads.keys())
        if missing:
            raise StageOrderError(
                f"{self.feed.feed}: the branch {self.branch} is gone from {', '.join(missing)}: somebody has "
                "dropped what the run has built",
                "run it again from normalize: in Airflow clear normalize with what follows it",
            )
        self.control.windows.finish_stage(
            self.feed.feed, self.window, stage, BuiltSnapshots(self.branch, {**untouched, **heads}), contracts
        )

    def begin_from(self, built: Mapping[str, int]) -> None:
        """Begin this process' branch where a stage has left its own."""
        parallel_map(lambda table: refs.set_branch(table, self.branch, built[table]), built)

    def require_done(self, stage: str) -> BuiltSnapshots:
        """What `stage` has built on main as it is. Raises StageOrderError; see `require_ended`."""
        built = self.require_ended(stage)
        if not self.control.windows.stands_on_main(self.opened(stage)):
            raise StageOrderError(*built_on_another(self.feed.feed, self.id))
        return built

    def require_ended(self, stage: str) -> BuiltSnapshots:
        """What `stage` has built. Raises StageOrderError when it has not been run to its end."""
        self.opened(stage)
        done = self.control.windows.stage(self.feed.feed, self.window, stage)
        if done is None:
            raise StageOrderError(
                f"{self.feed.feed}: {stage} of the window {self.id} has not been run to its end",
                f"{IN_ORDER}, from {stage} on: in Airflow clear {stage} with what follows it",
            )
        return done.built

    def at(self, done: BuiltSnapshots) -> StageContext:
        """The run as that stage has left it, whatever was written on its branch since."""
        return replace(self, branch=done.branch, snapshots=done.tables)

    def require_released(self, end: Mapping[str, Any], released: Mapping[str, Any]) -> None:
        """Raises ConfigError if a run over some tables would read what no release has: it would be theirs
        alone, and the records of the other tables would have no run."""
        if furthest(released, end) != released:
            raise ConfigError(
                f"{self.feed.feed}: chosen tables are read again, and the window {self.id} reaches beyond "
                "what is released",
                "run the feed without `tables` first, or end the window earlier",
            )
