"""The context of every stage: the feed, its window in the control store, the names of its lake tables."""

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

# Up to this many rows count as small data: Spark takes longer to plan a query than to run it (ADR 0018).
MOST_ROWS = 200_000


def control_store(settings: Settings) -> ControlStore:
    private_home(settings.home)
    return ControlStore(settings.control_url)


class HeldLease(NamedTuple):
    """A feed's lease, held by this process: the control store that writes under it, and its token."""

    control: ControlStore
    token: int


def take_lease(feed: Feed, window: Window) -> HeldLease | None:
    """Takes the feed's lease. Returns None if the window is done and no release of the feed is incomplete.

    Raises LeaseHeld. Needs no Spark, so that waiting costs no start.
    """
    control = control_store(Settings())
    if _is_done(control, feed, window) and not control.releases.incomplete(feed.feed):
        # An earlier try may have ended without releasing it; others would wait for it as if it still ran.
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

    # Returns the Spark session; the first call starts it. A stage with little to do needs none.
    session: Callable[[], SparkSession]
    workers: Workers
    feed: Feed
    window: Window
    control: ControlStore
    settings: Settings
    # The feed with all its tables; `feed` has only those of the run.
    whole: Feed
    # The pending reset, if any: the run rebuilds its tables from the source's beginning.
    reset: ResetRow | None
    # The branch that this process builds on. Every other try of the same window has a branch of its own.
    branch: str
    # The snapshots that the run has built, for stages that judge or publish exactly these; else None.
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
        """Begins a run under the feed's lease. Returns None if its window is done already.

        First completes releases that a crash after their commit point left incomplete, of this window or of
        another: nothing is built on main while main moves.
        Raises StoresDisagree if the control store and the lake are not of one time.
        """
        control = lease.control
        same_releases.require_newest(control, feed.feed)
        complete_releases(session, control, feed.feed)
        # Checked again: another process may have finished the window before this one got the lease.
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
        """Whether the run builds its tables from nothing, in place of the published ones."""
        return self.reset is not None

    @property
    def released(self) -> Position:
        """The position that the run continues from; empty before the first release, or if it starts over."""
        known = None if self.starts_over else self.control.windows.position(self.feed.feed)
        return known or {}

    def has_raw_rows(self) -> bool:
        """Returns whether the raw tables have rows of the window, of this try or an earlier one."""
        return any(scans.has_rows(raw, self.id) for raw in self.raws)

    @property
    def raws(self) -> list[str]:
        """The raw tables that exist."""
        return catalog.existing([self.lake.raw, *(names.raw for names in self.names.values())])

    def open(
        self,
        resolve: Callable[[], tuple[Any, Any]],
        is_there: Callable[[WindowRow], bool] = lambda _: True,
    ) -> WindowRow:
        """Stores the window with its positions and returns it. Forgets results of the window's later stages.

        A stored window keeps its positions, so that a retry reads the same. `resolve` gives new ones if it is
        not stored, was taken back, or `is_there` says that the source no longer has what is stored.
        """
        feed, stored = self.feed.feed, self.control.windows.row(self.feed.feed, self.window.id)
        if stored is None or stored.taken_back or not is_there(stored):
            anew = stored is not None
            stored = self.control.windows.open(feed, self.window, *resolve(), anew=anew)
        self.control.windows.begin_stage(feed, self.window, "extract")
        # Publish removes the pinned requests from the list. A run of chosen tables reads none and pins none.
        listed = None if self.window.request.partial else refs.snapshot_of(self.lake.replay_requests)
        self.control.windows.pin_replay(feed, self.window, listed)
        return stored

    def opened(self, stage: str) -> WindowRow:
        """Returns the window as extract stored it. Raises StageOrderError if extract has not stored it."""
        stored = self.control.windows.row(self.feed.feed, self.window.id)
        if stored is None or stored.taken_back:
            since = "" if stored is None else " since it was taken back"
            raise StageOrderError(
                f"{stage} of {self.feed.feed}: the window {self.id} has not been extracted{since}", IN_ORDER
            )
        return stored

    def main_before(self, table: str) -> int | None:
        """Returns the main snapshot of a table that the run writes without a branch. Raises LeaseLost.

        Call it before reading what is to be written: once another process takes the lease and writes, main
        is another snapshot, and the write of this process is refused.
        """
        snapshot = refs.snapshot_of(table)
        self.control.leases.renew(self.feed.feed, LEASE_SECONDS)
        return snapshot

    @property
    def written(self) -> list[str]:
        """The existing tables among those that normalize writes on the branch."""
        tables = [self.lake.dispositions, self.lake.quarantine, self.lake.pending]
        return catalog.existing([*tables, *(names.changes for names in self.names.values())])

    def built(self, table: str) -> DataFrame:
        """Returns the table as the run has built it."""
        if self.snapshots is None:
            return iceberg.read(self.spark, table, self.branch)
        return iceberg.read(self.spark, table, snapshot=self.snapshots[table])

    def contracts(self) -> dict[str, Contract]:
        """Returns the published contracts of the tables that have a ledger: as found by normalize in this
        window, else as released. Raises ConfigError if the YAML wants one published otherwise."""
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
        """Stores the snapshots of the `built` tables on the branch, and the contracts they were built by.

        `untouched`: main snapshots of tables that have no branch, since the run changes nothing in them.
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
        """Begins this process's branch at the snapshots that an earlier stage built."""
        parallel_map(lambda table: refs.set_branch(table, self.branch, built[table]), built)

    def require_done(self, stage: str) -> BuiltSnapshots:
        """As `require_ended`; also raises StageOrderError if main has moved since the branch began."""
        built = self.require_ended(stage)
        if not self.control.windows.stands_on_main(self.opened(stage)):
            raise StageOrderError(*built_on_another(self.feed.feed, self.id))
        return built

    def require_ended(self, stage: str) -> BuiltSnapshots:
        """Returns what `stage` has built. Raises StageOrderError if it has not run to its end."""
        self.opened(stage)
        done = self.control.windows.stage(self.feed.feed, self.window, stage)
        if done is None:
            raise StageOrderError(
                f"{self.feed.feed}: {stage} of the window {self.id} has not finished",
                f"{IN_ORDER}, from {stage} on: in Airflow clear {stage} with what follows it",
            )
        return done.built

    def at(self, done: BuiltSnapshots) -> StageContext:
        """Returns the run as that stage left it, whatever was written on its branch since."""
        return replace(self, branch=done.branch, snapshots=done.tables)

    def require_released(self, end: Mapping[str, Any], released: Mapping[str, Any]) -> None:
        """Raises ConfigError if a run of chosen tables would read beyond the last release: no run would then
        read the records of the other tables there."""
        if furthest(released, end) != released:
            raise ConfigError(
                f"{self.feed.feed}: a run of chosen tables must not read beyond the last release, but "
                f"the window {self.id} does",
                "run the feed without `tables` first, or end the window earlier",
            )
