"""Both stores in PostgreSQL, as in installations that share a lake: they can go and come back."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from sqlalchemy import create_engine, text

from changeledger.control import upgrade
from changeledger.control.tables.base import ControlTable
from changeledger.spark.lake_catalog import spark_catalog
from tests.faults.matrix.jobs import Place
from tests.faults.matrix.lab import Lab, State


class Stores(NamedTuple):
    """The databases of a catalog and of a control store, copied from a state in SQLite."""

    lab: Lab
    name: str

    def copy_from(self, state: State) -> None:
        with self._server() as session:
            for database in self.databases:
                session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        self._copy_catalog(state)
        self._copy_control(state)

    @property
    def databases(self) -> tuple[str, str]:
        return f"{self.name}_catalog", f"{self.name}_control"

    @property
    def control_url(self) -> str:
        return self.lab.source.url.rpartition("/")[0] + f"/{self.databases[1]}"

    def place(self, place: Place) -> Place:
        """Returns the place with these stores."""
        source = self.lab.source
        uri = source.url.rpartition("/")[0] + f"/{self.databases[0]}"
        catalog = {"type": "sql", "uri": uri, "warehouse": self.lab.settings.warehouse}
        environment = {
            **place.environment,
            "CHANGELEDGER_CONTROL_URL": self.control_url,
            "CHANGELEDGER_CATALOG": json.dumps(catalog),
        }
        return Place(environment, spark_catalog(catalog))

    def refuse(self) -> None:
        """Ends every connection, and refuses new ones."""
        self._allow("false")
        with self._server() as session:
            ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ANY(%s)"
            session.execute(ends, (list(self.databases),))

    def accept(self) -> None:
        self._allow("true")

    def restart(self) -> None:
        """Refuses connections at once, and accepts them again after two seconds."""
        self.refuse()
        threading.Timer(2.0, self.accept).start()

    def expect_lease(self, seconds: float) -> None:
        """Like `State.expect_lease`."""
        engine = create_engine(self.control_url)
        with engine.begin() as control:
            moment = f"now() + interval '{seconds:.0f} seconds'"
            control.execute(text(f"UPDATE leases SET expires_at = {moment} WHERE holder <> ''"))
        engine.dispose()

    def drop(self) -> None:
        with self._server() as session:
            for database in self.databases:
                name = sql.Identifier(database)
                session.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def _allow(self, allowed: str) -> None:
        with self._server() as session:
            for database in self.databases:
                name = sql.Identifier(database)
                statement = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS ").format(name)
                session.execute(statement + sql.SQL(allowed))

    def _server(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.lab.server_url, autocommit=True)

    def _copy_catalog(self, state: State) -> None:
        """Copies Iceberg's tables, with Iceberg's own definitions."""
        address = self.lab.server_url.rpartition("/")[0] + f"/{self.databases[0]}"
        with closing(sqlite3.connect(state.catalog)) as old, psycopg.connect(address) as new:
            definitions = old.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            for table, statement in definitions:
                new.execute(statement)
                rows = old.execute(f"SELECT * FROM {table}").fetchall()
                with new.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)

    def _copy_control(self, state: State) -> None:
        upgrade(self.control_url)
        # At a feed's first window, the store may lack some or all tables.
        upgrade(f"sqlite:///{state.control}")
        old, new = create_engine(f"sqlite:///{state.control}"), create_engine(self.control_url)
        with old.connect() as source, new.begin() as target:
            for table in ControlTable.metadata.sorted_tables:
                rows = [dict(row._mapping) for row in source.execute(table.select())]
                # The migrations write rows of their own.
                target.execute(table.delete())
                if rows:
                    target.execute(table.insert(), rows)
        for engine in (old, new):
            engine.dispose()
