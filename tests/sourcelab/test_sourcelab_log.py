"""The simulated log is fixed by its seed, obeys the rules of SQL Server's log, and determines the truth."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from sourcelab.log import Log, simulate
from sourcelab.tables import TABLES, Table


@pytest.fixture(scope="module", params=[1, 2, 3])
def log(request: pytest.FixtureRequest) -> Log:
    return simulate(request.param, 600)


def _every(log: Log) -> list:
    return [change for transaction in log.transactions for change in transaction.changes]


def test_the_same_seed_gives_the_same_log() -> None:
    assert simulate(5, 50) == simulate(5, 50)
    assert simulate(5, 50) != simulate(6, 50)


def test_a_longer_log_begins_with_the_shorter_one() -> None:
    assert simulate(5, 80).transactions[:51] == simulate(5, 50).transactions


def test_positions_and_times_go_forward(log: Log) -> None:
    for earlier, later in pairwise(log.transactions):
        assert earlier.commit_lsn < later.begin_lsn
        assert earlier.commit_time <= later.begin_time <= later.commit_time
    for transaction in log.transactions:
        assert transaction.commit_time.microsecond % 1000 == 0
        lsns = [c.change_lsn for c in transaction.changes]
        assert lsns == sorted(set(lsns))
        assert transaction.begin_lsn < lsns[0]
        assert lsns[-1] < transaction.commit_lsn
        assert all(len(lsn) == 10 for lsn in (*lsns, transaction.begin_lsn, transaction.commit_lsn))
        commands = [c.command_id for c in transaction.changes]
        assert commands == sorted(commands)
        assert set(commands) == set(range(1, commands[-1] + 1))


def test_every_change_finds_the_row_that_it_changes(log: Log) -> None:
    """Replays the changes one by one. The final rows remain at the end."""
    rows: dict[Table, dict] = {table: {} for table in TABLES}
    for change in _every(log):
        alive, key_of = rows[change.table], change.table.key_of
        if change.before is not None:
            assert alive.pop(key_of(change.before)) == change.before
        if change.after is not None:
            assert key_of(change.after) not in alive
            assert all(change.after[c.name] is not None or c.nullable for c in change.table.columns)
            alive[key_of(change.after)] = change.after
    for table in TABLES:
        assert rows[table] == log.final_rows(table)
        assert rows[table]


def test_no_update_changes_nothing(log: Log) -> None:
    updates = [c for c in _every(log) if c.operation == "update"]
    for change in updates:
        differ = tuple(n for n in change.table.names if change.before[n] != change.after[n])
        assert change.changed == differ != ()
        assert not set(change.changed) & set(change.table.key)


def test_the_history_of_a_key_has_no_hole_and_ends_in_the_final_row(log: Log) -> None:
    for table in TABLES:
        history = log.history(table)
        for key in {i.key for i in history}:
            intervals = [i for i in history if i.key == key]
            assert [i.valid_to for i in intervals[:-1]] == [i.valid_from for i in intervals[1:]]
            assert intervals[-1].valid_to is None
        opened = {i.key: i.row for i in history if i.valid_to is None and not i.deleted}
        assert opened == log.final_rows(table)


def test_the_log_has_what_it_promises(log: Log) -> None:
    changes = _every(log)
    assert {c.operation for c in changes} == {"insert", "update", "delete", "key_update"}
    rows_of_statement = Counter((id(t), c.command_id) for t in log.transactions for c in t.changes)
    assert max(rows_of_statement.values()) > 1
    assert len(TABLES[3].columns) == 100
    updates = [c for c in changes if c.operation == "update"]
    notes = [c for c in updates if c.table.name == "customers"]
    assert {"notes" in c.changed for c in notes} == {True, False}
    assert any(c.before[n] is None for c in updates for n in c.changed)
    assert any(c.after[n] is None for c in updates for n in c.changed)
    orders = [key for key in log.final_rows(TABLES[1]) if key[1] > 2**53]
    assert orders


def test_a_key_comes_again_after_its_delete(log: Log) -> None:
    within = across = 0
    gone: dict[tuple, int] = {}
    for at, transaction in enumerate(log.transactions):
        for change in transaction.changes:
            table = change.table
            if change.after is not None and (table, table.key_of(change.after)) in gone:
                since = gone.pop((table, table.key_of(change.after)))
                within, across = within + (since == at), across + (since != at)
            if change.operation in {"delete", "key_update"}:
                gone[table, table.key_of(change.before)] = at
    assert within
    assert across
