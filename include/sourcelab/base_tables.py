"""The source tables that the simulated SQL Server has beside its change tables."""

from __future__ import annotations

import psycopg
from psycopg import sql

from sourcelab.log import Log
from sourcelab.postgres import copy_rows, plain_url, postgres_type
from sourcelab.tables import Key, Row, Table


def load(url: str, log: Log, to_tx: int | None = None) -> None:
    """Creates the tables as the transactions before `to_tx` left them (all transactions if None)."""
    with psycopg.connect(plain_url(url)) as session:
        for table in log.tables:
            session.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema)))
            columns = [
                sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(postgres_type(c)))
                for c in table.columns
            ]
            keys = sql.SQL(", ").join(map(sql.Identifier, table.key))
            session.execute(
                sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(
                    _name(table), sql.SQL(", ").join(columns), keys
                )
            )
    append(url, log, 0, len(log.transactions) if to_tx is None else to_tx)


def append(url: str, log: Log, from_tx: int, to_tx: int) -> None:
    """Applies the net effect of the transactions `[from_tx, to_tx)` at once."""
    touched: dict[Table, dict[Key, Row | None]] = {table: {} for table in log.tables}
    for transaction in log.transactions[from_tx:to_tx]:
        for change in transaction.changes:
            rows = touched[change.table]
            if change.before is not None:
                rows[change.table.key_of(change.before)] = None
            if change.after is not None:
                rows[change.table.key_of(change.after)] = change.after
    with psycopg.connect(plain_url(url)) as session:
        for table, rows in touched.items():
            for key in rows:
                delete(session, table, key)
            insert(session, table, [row for row in rows.values() if row is not None])


def delete(session: psycopg.Connection, table: Table, key: Key) -> None:
    """Deletes the row with this key, if it exists."""
    wanted = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in table.key)
    session.execute(sql.SQL("DELETE FROM {} WHERE {}").format(_name(table), wanted), key)


def insert(session: psycopg.Connection, table: Table, rows: list[Row]) -> None:
    copy_rows(session, table.schema, table.name, [tuple(row[name] for name in table.names) for row in rows])


def _name(table: Table) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
