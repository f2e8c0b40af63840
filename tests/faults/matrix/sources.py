"""Faults of a source of change tables: it is lost, cleaned up, or restored from a backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from changeledger.model.window import STAGES
from tests.faults.matrix.base import Base, dumped
from tests.faults.matrix.cells import Cell
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.judge import differences
from tests.faults.matrix.lab import CHANGE_TABLE, WINDOWS
from tests.faults.matrix.operator import Defect, Operator, Stopped

_END = WINDOWS[0][1].replace(tzinfo=None)
# Between the last released position and the changes that follow.
_BEHIND = f"""(SELECT max("__$start_lsn") FROM {CHANGE_TABLE} JOIN cdc.lsn_time_mapping
    ON start_lsn = "__$start_lsn" WHERE tran_end_time < %s)"""


def play(who: Operator, base: Base, cell: Cell) -> tuple[str, str]:
    """Plays the window on its own copy of the source. A stop must leave the tables as they were."""
    database = "cell_" + cell.id.replace("-", "_")
    url = who.lab.copied_source(database)
    who.place = who.lab.place(who.state, database)
    try:
        who.carry(cell.window, _ACTS[cell.fault](who, cell, url, base))
    except Stopped as stopped:
        _same(who, base, cell.window - 1)
        return "stopped", f"{stopped} (the published tables are as before; the remedy's new feed was not run)"
    finally:
        _drop(who, database)
    _same(who, base, cell.window)
    return "survived", ""


def _same(who: Operator, base: Base, window: int) -> None:
    reported = dumped(who.lab, who.place, who.folder, who.folder / "tables.json")
    wrong = differences(base.tables[window], reported)
    if wrong:
        raise Defect(f"the tables are not those of window {window}: {'; '.join(wrong)}")


def _gone(who: Operator, cell: Cell, url: str, base: Base) -> Sequence[str]:
    """The source does not answer first, and then it does."""
    true = who.place
    reported = true.environment["AIRFLOW_CONN_SHOP"].replace(f'"port": {who.lab.source.port}', '"port": 9')
    job = who.lab.stage(
        true._replace(environment={**true.environment, "AIRFLOW_CONN_SHOP": reported}),
        who.folder, cell.stage, cell.window,
    )  # fmt: skip
    who._note(job, job.wait())
    return STAGES


Change = Callable[[Operator, str], Any]


def _while_read(act: Change, after: Change | None = None, do: str = "hold") -> Any:
    """Acts after the source's count of the rows, when Spark's workers are about to read and write them.

    `do`: "meet" acts before the count, but after the check. A successful extract is not run again.
    """

    def play(who: Operator, cell: Cell, url: str, base: Base) -> Sequence[str]:
        at = next(e.at for e in base.known[cell.window, cell.stage] if e.label.startswith("append raw"))
        job = who.lab.stage(who.place, who.folder, cell.stage, cell.window, Fault(do, at))
        job.await_meeting()
        act(who, url)
        job.go_on()
        code = job.wait()
        if code != 0:
            who._note(job, code)
        if after is not None:
            after(who, url)
        return STAGES[code == 0 :]

    return play


def _refuse(who: Operator, url: str) -> None:
    _allow(who, url, "false")
    with psycopg.connect(_server(who), autocommit=True) as session:
        ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        session.execute(ends, (url.rpartition("/")[2],))


def _allow(who: Operator, url: str, allowed: str = "true") -> None:
    with psycopg.connect(_server(who), autocommit=True) as session:
        name = sql.Identifier(url.rpartition("/")[2])
        session.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS ").format(name) + sql.SQL(allowed))


def _clean(who: Operator, url: str) -> None:
    """Acts like a clean-up job that removed one unread transaction, and all before it."""
    with psycopg.connect(url, autocommit=True) as session:
        (low,) = session.execute(
            f'SELECT min("__$start_lsn") FROM {CHANGE_TABLE} WHERE "__$start_lsn" > {_BEHIND}', (_END,)
        ).fetchone()  # type: ignore[misc]
        session.execute(f'DELETE FROM {CHANGE_TABLE} WHERE "__$start_lsn" <= %s', (low,))
        above = (int.from_bytes(low) + 1).to_bytes(10)
        session.execute("UPDATE cdc.change_tables SET start_lsn = %s", (above,))
        session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn <= %s", (low,))


def _shorten(who: Operator, url: str) -> None:
    """Acts like a restored backup that ends before the last released position."""
    with psycopg.connect(url, autocommit=True) as session:
        (top,) = session.execute(f"SELECT {_BEHIND}", (_END,)).fetchone()  # type: ignore[misc]
        session.execute(f'DELETE FROM {CHANGE_TABLE} WHERE "__$start_lsn" >= %s', (top,))
        session.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn >= %s", (top,))


def _other_past(who: Operator, url: str) -> None:
    """Acts like such a backup on which other transactions have since reached the same LSNs."""
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "UPDATE cdc.lsn_time_mapping SET tran_end_time = tran_end_time + interval '3 ms' "
            f"WHERE start_lsn >= {_BEHIND}",
            (_END,),
        )


def _before(act: Change) -> Any:
    def play(who: Operator, _cell: Cell, url: str, _base: Base) -> Sequence[str]:
        act(who, url)
        return STAGES

    return play


# Each returns the remaining stages.
_ACTS: dict[str, Callable[[Operator, Cell, str, Base], Sequence[str]]] = {
    "source_gone": _gone,
    "source_gone_during": _while_read(_refuse, _allow),
    "cleaned": _before(_clean),
    "cleaned_during": _while_read(_clean),
    "cleaned_uncounted": _while_read(_clean, do="meet"),
    "restored_shorter": _before(_shorten),
    "restored_longer": _before(_other_past),
}


def _server(who: Operator) -> str:
    return who.lab.server_url


def _drop(who: Operator, database: str) -> None:
    with psycopg.connect(_server(who), autocommit=True) as session:
        session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
