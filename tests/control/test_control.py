"""The control store on SQLite is idempotent, ordered, and safe under concurrency."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError, IntegrityError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from changeledger.control import AuditResult, BuiltSnapshots, ControlStore, database, upgrade
from changeledger.control.database import engine_for, reachable
from changeledger.control.tables.base import ControlTable
from changeledger.control.windows import furthest
from changeledger.mask_order.decision import Evidence, MaskDecision
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError, LeaseHeld, LeaseLost, SourceUnavailable, StageOrderError
from changeledger.model.window import Window
from tests.released import release

FEED = "shop_cdc"
# The migration of a future version.
NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade():
    op.add_column("releases", sa.Column("note", sa.String(), server_default="as before"))
"""


def hour(number: int) -> Window:
    start = datetime(2026, 1, 31, tzinfo=UTC) + timedelta(hours=number)
    return Window(start=start, end=start + timedelta(hours=1))


def lsn(number: int) -> dict[str, str]:
    return {"lsn": f"{number:020X}"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/not yet there/control.db"


@pytest.fixture
def store(url: str) -> ControlStore:
    return ControlStore(url)


def released(store: ControlStore, window: Window, to: dict[str, str]) -> int:
    passed(store, window, {"lake.shop_cdc.dbo_parts": 1}, to)
    return store.releases.commit(FEED, window, {"lake.shop_cdc.dbo_parts": 1}, {}, to)


def passed(store: ControlStore, window: Window, tables: dict[str, int], to: dict[str, str]) -> None:
    """Stores a window whose audit has judged these snapshots and passed."""
    store.windows.open(FEED, window, store.windows.position(FEED), to)
    store.windows.begin_stage(FEED, window, "normalize")
    store.audits.save(FEED, window, [], BuiltSnapshots("branch", tables))


def at_once(number: int, work: Callable[[int], object]) -> list[object]:
    """Returns the outcomes of `number` threads that start together. An exception is an outcome, too."""
    barrier = threading.Barrier(number)

    def outcome(index: int) -> object:
        barrier.wait()
        try:
            return work(index)
        except Exception as error:  # noqa: BLE001 - compared by the test
            return error

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(outcome, range(number)))


class TestSchema:
    @pytest.mark.usefixtures("store")
    def test_migrations_make_the_models_tables(self, url: str) -> None:
        with engine_for(url).connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": "changeledger_version"})
            assert compare_metadata(context, ControlTable.metadata) == []

    def test_a_second_upgrade_changes_nothing(self, store: ControlStore, url: str) -> None:
        released(store, hour(0), lsn(1))
        upgrade(url)
        assert store.windows.position(FEED) == lsn(1)

    @pytest.mark.usefixtures("store")
    def test_sqlite_is_in_wal_mode(self, url: str) -> None:
        with engine_for(url).connect() as connection:
            assert connection.scalar(text("PRAGMA journal_mode")) == "wal"

    def test_first_starts_at_once(self, tmp_path: Path) -> None:
        # Different spellings of one file get separate engines, as separate processes do.
        folder = tmp_path / "x"
        urls = [f"sqlite:///{folder}{'/.' * index}/control.db" for index in range(6)]
        folder.mkdir()
        assert at_once(6, lambda index: upgrade(urls[index])) == [None] * 6
        assert ControlStore(urls[0]).windows.position(FEED) is None

    @pytest.mark.usefixtures("store")
    def test_a_newer_store_is_refused(self, url: str) -> None:
        with engine_for(url).begin() as connection:
            connection.execute(text("UPDATE changeledger_version SET version_num = '9999'"))
        with pytest.raises(ConfigError, match="another version") as refused:
            upgrade(url)
        assert "install the newer version" in refused.value.remedy
        assert "restore its backup" in refused.value.remedy
        with engine_for(url).begin() as connection:
            (row,) = connection.execute(text("SELECT version_num FROM changeledger_version"))
        assert row.version_num == "9999", "it is left as it is"

    def test_an_older_store_is_brought_up_to_date(
        self, store: ControlStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A version with one more migration keeps the store's content."""
        released(store, hour(0), lsn(1))
        newer = tmp_path / "migrations"
        shutil.copytree(database.MIGRATIONS, newer)
        (newer / "versions" / "v0002_next.py").write_text(NEXT, "utf-8")
        monkeypatch.setattr(database, "MIGRATIONS", newer)
        upgrade(url)
        upgrade(url)
        with engine_for(url).begin() as connection:
            (row,) = connection.execute(text("SELECT status, note FROM releases"))
        assert tuple(row) == ("committed", "as before")

    @pytest.mark.usefixtures("store")
    def test_a_store_of_an_unreleased_version_is_refused(self, url: str) -> None:
        with engine_for(url).begin() as connection:
            connection.execute(text("DROP TABLE resets"))
            connection.execute(text("ALTER TABLE releases DROP COLUMN reason"))
        with pytest.raises(ConfigError, match=r"lacks releases\.reason, resets\.feed, .* unreleased"):
            upgrade(url)


class TestUnreachable:
    def test_a_closed_port_names_the_remedy_and_no_password(self) -> None:
        with pytest.raises(SourceUnavailable) as caught:
            ControlStore("postgresql+psycopg://me:s3cret@127.0.0.1:1/control")
        assert "s3cret" not in str(caught.value)
        assert "127.0.0.1" in caught.value.message
        assert caught.value.retryable
        assert caught.value.__cause__ is None

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        (tmp_path / "control.db").write_bytes(b"\0" * 4096)
        with pytest.raises(SourceUnavailable, match="cannot be used: file is not a database") as caught:
            ControlStore(f"sqlite:///{tmp_path}/control.db")
        assert "restore its backup (docs/backup.md)" in caught.value.remedy

    def test_a_password_in_the_query_is_hidden(self) -> None:
        with pytest.raises(SourceUnavailable) as caught:
            ControlStore("postgresql+psycopg:///control?host=127.0.0.1&port=1&user=me&password=s3cret")
        assert "s3cret" not in str(caught.value)
        assert "host=127.0.0.1&port=1&user=me cannot be used" in caught.value.message

    @pytest.mark.parametrize(
        ("error", "is_the_databases"),
        [
            (OperationalError("UPDATE", {}, RuntimeError("s3cret refused")), True),
            # A read-only PostgreSQL, and a file that is not an SQLite database.
            (InternalError("UPDATE", {}, RuntimeError("cannot execute UPDATE in a read-only")), True),
            (DatabaseError("UPDATE", {}, RuntimeError("file is not a database")), True),
            (PoolTimeout("QueuePool limit reached"), True),
            (ProgrammingError("UPDATE", {}, RuntimeError("syntax error")), False),
            (IntegrityError("INSERT", {}, RuntimeError("NOT NULL failed")), False),
        ],
    )
    def test_what_a_database_says_of_itself(self, error: Exception, is_the_databases: bool) -> None:
        engine = engine_for("postgresql+psycopg://me:s3cret@127.0.0.1:1/control?sslpassword=s3cret")
        with pytest.raises(SourceUnavailable if is_the_databases else type(error)) as caught:  # noqa: SIM117
            with reachable(engine):
                raise error
        if is_the_databases:
            assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url", ["me:s3cret@nowhere", "mysql://me:s3cret@h/d", "nosuch://me:s3cret@h/d", "sqlite://"]
    )
    def test_what_is_no_store(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            ControlStore(url)
        assert "s3cret" not in str(caught.value)

    def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(SourceUnavailable):
            ControlStore(f"sqlite:///{tmp_path}/file/control.db")


class TestWindows:
    def test_the_stored_window_wins(self, store: ControlStore) -> None:
        store.windows.open(FEED, hour(0), None, lsn(5))
        again = store.windows.open(FEED, hour(0), lsn(1), lsn(9))
        assert (again.from_position, again.to_position) == (None, lsn(5))
        assert (again.start, again.end) == (hour(0).start, hour(0).end)
        assert not again.released

    def test_an_unknown_window(self, store: ControlStore) -> None:
        assert store.windows.row(FEED, hour(0).id) is None

    def test_opened_at_once_all_read_the_same(self, store: ControlStore) -> None:
        rows = at_once(8, lambda index: store.windows.open(FEED, hour(0), None, lsn(index)).to_position)
        assert all(row == rows[0] for row in rows)


class TestReleases:
    def test_release_position_and_window_together(self, store: ControlStore) -> None:
        big = 2**63 - 1
        passed(store, hour(0), {"t": big}, lsn(5))
        release_id = store.releases.commit(FEED, hour(0), {"t": big}, {"changes": 3}, lsn(5))
        row = store.releases.of_window(FEED, hour(0))
        assert row is not None
        assert (row.id, row.tables, row.counts, row.completed) == (
            release_id,
            {"t": big},
            {"changes": 3},
            False,
        )
        assert store.windows.position(FEED) == lsn(5)
        window = store.windows.row(FEED, hour(0).id)
        assert window is not None
        assert window.released

    def test_a_window_never_opened_leaves_nothing(self, store: ControlStore) -> None:
        with pytest.raises(StageOrderError):
            store.releases.commit(FEED, hour(0), {}, {}, lsn(5))
        assert store.releases.of_window(FEED, hour(0)) is None
        assert store.windows.position(FEED) is None

    def test_twice_is_once(self, store: ControlStore) -> None:
        first = released(store, hour(0), lsn(5))
        assert store.releases.commit(FEED, hour(0), {"other": 2}, {}, lsn(9)) == first
        row = store.releases.of_window(FEED, hour(0))
        assert row is not None
        assert row.tables == {"lake.shop_cdc.dbo_parts": 1}
        assert store.windows.position(FEED) == lsn(5)

    def test_committed_at_once_is_one_release(self, store: ControlStore) -> None:
        passed(store, hour(0), {}, lsn(5))
        ids = at_once(8, lambda _: store.releases.commit(FEED, hour(0), {}, {}, lsn(5)))
        assert len(set(map(str, ids))) == 1

    def test_an_old_window_does_not_move_the_feed_back(self, store: ControlStore) -> None:
        released(store, hour(5), lsn(50))
        released(store, hour(1), lsn(10))
        assert store.windows.position(FEED) == lsn(50)

    def test_incomplete_until_completed(self, store: ControlStore) -> None:
        first, second = released(store, hour(0), lsn(1)), released(store, hour(1), lsn(2))
        assert [row.id for row in store.releases.incomplete(FEED)] == [first, second]
        store.releases.complete(FEED, first)
        store.releases.complete(FEED, first)
        assert [row.id for row in store.releases.incomplete(FEED)] == [second]
        assert store.releases.incomplete("another") == []
        latest = store.releases.latest(FEED)
        assert latest is not None
        assert latest.id == second

    @pytest.mark.parametrize(
        ("known", "new", "expected"),
        [
            (lsn(9), lsn(10), lsn(10)),
            ({"t": {"0": 5, "1": 9}}, {"t": {"0": 6, "1": 2}}, {"t": {"0": 6, "1": 9}}),
            ({"t": {"0": 5}}, {"t": {"1": 1}, "u": {"0": 0}}, {"t": {"0": 5, "1": 1}, "u": {"0": 0}}),
        ],
    )
    def test_furthest(self, known: object, new: object, expected: object) -> None:
        assert furthest(known, new) == expected
        assert furthest(new, known) == expected


class TestContracts:
    first = Contract(table="dbo.parts", columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
    second = Contract(table="dbo.parts", columns=(*first.columns, Column(name="n", type="int", ordinal=2)))

    def test_versions(self, store: ControlStore, url: str) -> None:
        assert store.contracts.of_table(FEED, "dbo.parts") is None
        for number, contract in enumerate((self.first, self.first, self.second, self.second)):
            release(store, FEED, [contract], hour(number))
            assert store.contracts.of_feed(FEED) == {"dbo.parts": contract}
        with engine_for(url).connect() as connection:
            rows = connection.execute(text("SELECT version, window_id FROM contracts ORDER BY version"))
            assert list(rows) == [(1, hour(0).id), (2, hour(2).id)]
        assert store.contracts.of_table("another", "dbo.parts") is None

    def test_what_is_not_released_is_the_windows_own(self, store: ControlStore) -> None:
        release(store, FEED, [self.first], hour(0))
        passed(store, hour(1), {}, lsn(2))
        store.windows.finish_stage(FEED, hour(1), "normalize", BuiltSnapshots("branch", {}), [self.second])
        assert store.windows.contracts_of(FEED, hour(1)) == {"dbo.parts": self.second}
        assert store.contracts.of_table(FEED, "dbo.parts") == self.first
        store.windows.begin_stage(FEED, hour(1), "normalize")
        assert store.windows.contracts_of(FEED, hour(1)) == {}


PARTS = "dbo.parts"
BIG = MaskDecision("big", True, "proved: big 1")
OPEN = MaskDecision("big", False, "both byte orders read the same so far: either 1")
CLOSED = MaskDecision(None, False, "the masks contradict both byte orders")


class TestWriterSchemas:
    def test_the_first_of_an_id_stays_for_its_feed(self, store: ControlStore) -> None:
        store.contracts.save_avro_schema("shop", "7", "first", "w1")
        store.contracts.save_avro_schema("shop", "7", "second", "w2")
        store.contracts.save_avro_schema("other", "7", "third", "w1")
        assert store.contracts.avro_schemas("shop") == {"7": "first"}


class TestMaskEvidence:
    def test_nothing_is_known_at_first(self, store: ControlStore) -> None:
        assert store.contracts.mask_evidence(FEED) == {}

    def test_windows_add_up_by_table(self, store: ControlStore) -> None:
        store.contracts.save_mask_evidence(FEED, PARTS, hour(0), Evidence(either=1), OPEN)
        store.contracts.save_mask_evidence(FEED, "dbo.makers", hour(0), Evidence(neither=7), CLOSED)
        store.contracts.save_mask_evidence("other_feed", PARTS, hour(0), Evidence(little=9), BIG)
        assert store.contracts.mask_evidence(FEED)[PARTS].mask_order is None
        store.contracts.save_mask_evidence(
            FEED, PARTS, hour(1), Evidence(big=2, examples={"big": "one"}), BIG
        )
        evidence = store.contracts.mask_evidence(FEED)
        assert list(evidence) == ["dbo.makers", PARTS]
        parts = evidence[PARTS]
        assert parts.total == Evidence(big=2, either=1, examples={"big": "one"})
        assert (parts.mask_order, parts.why) == ("big", "proved: big 1")
        assert (parts.first_window, parts.last_window) == (hour(0).id, hour(1).id)
        assert (evidence["dbo.makers"].mask_order, evidence["dbo.makers"].why) == (None, CLOSED.why)

    def test_a_window_that_runs_again_counts_once(self, store: ControlStore) -> None:
        store.contracts.save_mask_evidence(FEED, PARTS, hour(0), Evidence(big=1), BIG)
        store.contracts.save_mask_evidence(FEED, PARTS, hour(1), Evidence(big=10), BIG)
        store.contracts.save_mask_evidence(FEED, PARTS, hour(1), Evidence(little=20), CLOSED)
        row = store.contracts.mask_evidence(FEED)[PARTS]
        assert row.total == Evidence(big=1, little=20)
        assert row.mask_order is None
        # A window that runs again does not count its own earlier evidence.
        assert row.without(hour(1)) == Evidence(big=1)
        assert row.without(hour(2)) == Evidence(big=1, little=20)

    def test_replays_and_backfills(self, store: ControlStore) -> None:
        for number in (1, 2, 3):
            store.contracts.save_mask_evidence(FEED, PARTS, hour(number), Evidence(big=10**number), BIG)
        for number in (2, 1):
            store.contracts.save_mask_evidence(FEED, PARTS, hour(number), Evidence(big=5), CLOSED)
        row = store.contracts.mask_evidence(FEED)[PARTS]
        assert (row.total, row.mask_order) == (Evidence(big=1110), "big")
        store.contracts.save_mask_evidence(FEED, PARTS, hour(0), Evidence(either=4), BIG)
        row = store.contracts.mask_evidence(FEED)[PARTS]
        assert (row.total, row.last) == (Evidence(big=1110, either=4), Evidence(big=1000))
        assert (row.first_window, row.last_window) == (hour(0).id, hour(3).id)

    def test_a_contract_is_stored_without_the_order_of_its_masks(self, store: ControlStore) -> None:
        contract = Contract(table=PARTS, columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
        release(store, FEED, [contract.model_copy(update={"mask_order": "little"})], hour(0))
        assert store.contracts.of_table(FEED, PARTS) == contract


class TestAudits:
    def test_a_new_attempt_replaces_the_old_one(self, store: ControlStore) -> None:
        def saved() -> list[tuple[str, bool, int]]:
            return [
                (row.rule, row.success, row.violations) for row in store.audits.of_window(FEED, hour(0).id)
            ]

        built = BuiltSnapshots("branch", {"t": 1})
        verdicts = [AuditResult("t", "a", False, 2**40, {"rows": [1]}), AuditResult("t", "b", True, 0, {})]
        store.audits.save(FEED, hour(0), verdicts, built)
        store.audits.save(FEED, hour(1), [AuditResult("t", "a", True, 0, {})], built)
        assert saved() == [("a", False, 2**40), ("b", True, 0)]
        store.audits.save(FEED, hour(0), [AuditResult("t", "a", True, 0, {})], built)
        assert saved() == [("a", True, 0)]

    @pytest.mark.parametrize("stage", ["extract", "normalize", "reconcile"])
    def test_a_stage_that_builds_again_forgets_what_was_judged(self, store: ControlStore, stage: str) -> None:
        passed(store, hour(0), {"t": 1}, lsn(5))
        store.windows.begin_stage(FEED, hour(0), stage)
        assert store.windows.stage(FEED, hour(0), "audit") is None
        assert store.audits.of_window(FEED, hour(0).id) == []
        with pytest.raises(StageOrderError, match="it was not run"):
            store.releases.commit(FEED, hour(0), {"t": 1}, {}, lsn(5))

    def test_what_was_judged_is_released_and_nothing_else(self, store: ControlStore) -> None:
        passed(store, hour(0), {"t": 1, "u": 2}, lsn(5))
        with pytest.raises(StageOrderError, match="other snapshots of u"):
            store.releases.commit(FEED, hour(0), {"t": 1, "u": 3, "untouched": 4}, {}, lsn(5))
        assert store.releases.of_window(FEED, hour(0)) is None
        assert store.releases.commit(FEED, hour(0), {"t": 1, "u": 2, "untouched": 4}, {}, lsn(5))

    def test_what_was_built_on_an_older_release_is_not_released(self, store: ControlStore) -> None:
        passed(store, hour(0), {"t": 1}, lsn(5))
        released(store, hour(1), lsn(6))
        with pytest.raises(StageOrderError, match="run it again from normalize"):
            store.releases.commit(FEED, hour(0), {"t": 1}, {}, lsn(5))

    def test_what_an_audit_stopped_is_not_released(self, store: ControlStore) -> None:
        passed(store, hour(0), {"t": 1}, lsn(5))
        failed = [AuditResult("t", "order_strict", False, 3, {"stops": True})]
        store.audits.save(FEED, hour(0), failed, BuiltSnapshots("branch", {"t": 1}))
        with pytest.raises(StageOrderError, match="order_strict"):
            store.releases.commit(FEED, hour(0), {"t": 1}, {}, lsn(5))


class TestLeases:
    def test_held_names_holder_and_time(self, store: ControlStore) -> None:
        store.leases.acquire(FEED, "run 1", 600)
        store.leases.acquire(FEED, "run 1", 600)
        store.leases.acquire("another", "run 2", 600)
        with pytest.raises(LeaseHeld, match=r"run 1 .* until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"):
            store.leases.acquire(FEED, "run 2", 600)

    def test_released_only_by_its_holder(self, store: ControlStore) -> None:
        store.leases.acquire(FEED, "run 1", 600)
        store.leases.release(FEED, "run 2")
        with pytest.raises(LeaseHeld):
            store.leases.acquire(FEED, "run 2", 600)
        store.leases.release(FEED, "run 1")
        store.leases.acquire(FEED, "run 2", 600)

    def test_expired_is_taken_over(self, store: ControlStore) -> None:
        store.leases.acquire(FEED, "run 1", 0)
        store.leases.acquire(FEED, "run 2", 600)
        with pytest.raises(LeaseHeld, match="run 2"):
            store.leases.acquire(FEED, "run 1", 600)

    @pytest.mark.parametrize("expired", [False, True])
    def test_of_many_at_once_one_gets_it(self, store: ControlStore, expired: bool) -> None:
        if expired:
            store.leases.acquire(FEED, "dead", 0)
        results = at_once(12, lambda index: store.leases.acquire(FEED, f"run {index}", 600))
        assert sum(isinstance(result, int) for result in results) == 1
        assert sum(isinstance(result, LeaseHeld) for result in results) == 11

    def test_the_same_runs_next_process_takes_it_at_once(self, store: ControlStore, url: str) -> None:
        first = store.leases.acquire(FEED, "run 1", 600)
        assert store.leases.acquire(FEED, "run 1", 600) == first, "a process that asks again has what it had"
        retry = ControlStore(url, process="another")
        assert retry.leases.acquire(FEED, "run 1", 600) > first
        retry.windows.open(FEED, hour(0), None, lsn(5))

    @pytest.mark.parametrize("taker", ["run 1", "run 2"])
    def test_a_run_that_lost_its_lease_writes_nothing(
        self, store: ControlStore, url: str, taker: str
    ) -> None:
        """The taker is its own next try, or another run after the lease has expired."""
        passed(store, hour(0), {"t": 1}, lsn(5))
        store.leases.acquire(FEED, "run 1", 0)
        ControlStore(url, process="another").leases.acquire(FEED, taker, 600)
        writes: list[Callable[[], object]] = [
            lambda: store.windows.open(FEED, hour(1), None, lsn(6)),
            lambda: store.windows.begin_stage(FEED, hour(0), "normalize"),
            lambda: store.windows.finish_stage(FEED, hour(0), "reconcile", BuiltSnapshots("b", {})),
            lambda: store.audits.save(FEED, hour(0), [], BuiltSnapshots("b", {})),
            lambda: store.windows.close_empty(FEED, hour(0), lsn(9)),
            lambda: store.releases.commit(FEED, hour(0), {"t": 1}, {}, lsn(5)),
            lambda: store.leases.renew(FEED, 600),
        ]
        for write in writes:
            with pytest.raises(LeaseLost, match=taker):
                write()
        store.leases.release(FEED, "run 1")
        held = store.leases.of_feed(FEED)
        assert held is not None
        assert held.holder == taker, "what it does not hold it does not release"
        assert store.releases.of_window(FEED, hour(0)) is None

    def test_released_it_is_not_renewed(self, store: ControlStore) -> None:
        store.leases.acquire(FEED, "run 1", 600)
        store.leases.release(FEED, "run 1")
        store.leases.renew(FEED, 600)
        assert store.leases.of_feed(FEED) is None

    def test_after_a_failure_it_is_left_for_a_while(self, store: ControlStore, url: str) -> None:
        store.leases.acquire(FEED, "run 1", 36_000)
        store.leases.leave(FEED, "run 1")
        held = store.leases.of_feed(FEED)
        assert held is not None
        assert held.expires_at - datetime.now(UTC) < timedelta(minutes=6)
        with pytest.raises(LeaseHeld):
            ControlStore(url, process="another").leases.acquire(FEED, "run 2", 600)
