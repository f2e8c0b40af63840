"""Checks a feed's change tables: whether they exist and can be read, and how far back they reach."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import literal, select

from changeledger.cli.check import retention
from changeledger.cli.check.outcome import OK, WARNING, Check, Checks, caught, described, judged
from changeledger.cli.decode import reader as decoding
from changeledger.cli.decode.records import Row
from changeledger.config.connection import Connection
from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.dialects.interface import TableDialect, TableReader
from changeledger.dialects.registry import DIALECTS
from changeledger.jdbc.database import JdbcDatabase
from changeledger.model.contract import Contract
from changeledger.model.window import Window

_ROWS = 3


def checks(feed: Feed, connection: Connection) -> Checks[None]:
    dialect = DIALECTS[feed.dialect]
    assert isinstance(dialect, TableDialect), "config binds a dialect to its source"
    with closing(JdbcDatabase(feed.connection, connection)) as database:
        if not (yield from caught("connection", _connected(connection, database))):
            return
        rows: list[Row] = []
        known: dict[str, Contract] = {}
        readers: list[TableReader] = []
        for config in feed.tables:
            # One by one, so that a table that cannot be read does not hide the others.
            alone = feed.only([config.table])
            reader = yield from caught(f"table {config.table}", _table(alone, config, dialect, database))
            if reader is None:
                continue
            readers.append(reader)
            known |= {table.table: table.writer_schema for table in reader.tables}
            rows += (yield from caught("grants", _rows(alone, config, reader, database))) or []
        if readers:
            yield from caught("retention", _retention(feed, readers[0]))
        if rows:
            yield from judged(feed, list(decoding.results(feed, rows, known)))


def _connected(connection: Connection, database: JdbcDatabase) -> Checks[bool]:
    database.rows(select(literal(1).label("answer")))
    yield Check("connection", OK, f"the database {connection.schema_ or ''} at {connection.host} answers")
    return True


def _table(
    feed: Feed, config: TableConfig, dialect: TableDialect, database: JdbcDatabase
) -> Checks[TableReader]:
    reader = dialect.reader(feed, database)
    yield from described(config, {f"{table.instance}: ": table.writer_schema for table in reader.tables})
    for caution in reader.cautions():
        yield Check(f"table {config.table}", WARNING, caution.text, caution.remedy)
    return reader


def _rows(feed: Feed, config: TableConfig, reader: TableReader, database: JdbcDatabase) -> Checks[list[Row]]:
    """Reads some rows of the table's newest change table."""
    now = datetime.now(UTC)
    _, ends = reader.bounds(Window(start=now - timedelta(hours=1), end=now), {})
    newest = reader.tables[-1]
    query = reader.queries(newest, None, ends.get(config.table))[-1]
    cells = database.rows(query.limit(_ROWS))
    if cells:
        yield Check("grants", OK, f"the login may read {newest.instance}")
    else:
        yield Check(
            "grants", WARNING, f"the login may read {newest.instance}, which has no rows",
            "does the capture run? Change a row of the table, and check again",
        )  # fmt: skip
    for state in reader.source_states({}, now):
        if state.is_odd or state.is_late(now, feed.deadline):
            yield Check("capture", WARNING, state.text(), "look at the capture job, or at the Qlik task")
    # Cells in the form of `decode`'s records.
    return [Row(newest.table, {name: _text(value) for name, value in row.items()}) for row in cells]


def _retention(feed: Feed, reader: TableReader) -> Checks[None]:
    since = reader.kept_since()
    if since is None:
        yield Check(
            "retention", WARNING, "the source has no change yet", "check again after a row has changed"
        )
        return
    reach = datetime.now(UTC) - since
    pause = retention.longest_pause(feed.schedule)
    text = f"the oldest change is of {since:%Y-%m-%d %H:%M} UTC; the schedule pauses for up to {pause}"
    if reach > pause + feed.deadline:
        yield Check("retention", OK, text)
    else:
        yield Check(
            "retention", WARNING, text,
            "unless the capture is new, raise the retention of its clean-up: changes removed before a run "
            "reads them are lost",
        )  # fmt: skip


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex().upper()}"
    return str(int(value)) if isinstance(value, bool) else str(value)
