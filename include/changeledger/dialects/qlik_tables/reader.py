"""The SELECTs on Qlik change tables, `<table>__ct`, and the rows of them that a window reads.

A position is a change_seq: 35 digits, monotone within a task and common to all of its change tables. It is
still kept for each table, because one table may be filled later than another. Rows without one (full load, or
broken) have no place in that order: every window reads them, and the ledger recognizes those that it has.
A change table does not show whether rows before its first one were removed, so that goes unnoticed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Select,
    TableClause,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from changeledger.config.feed import Feed
from changeledger.config.sources import QlikTablesSource
from changeledger.config.tables import TableConfig
from changeledger.dialects.interface import Caution, ChangeTable, SourceDatabase, TablePositions
from changeledger.dialects.qlik_tables.columns import columns_of, writer_schema_of
from changeledger.dialects.qlik_tables.header import (
    CHANGE_OPER,
    CHANGE_SEQ,
    OPERATION,
    TIMESTAMP,
    header_names,
)
from changeledger.dialects.qlik_tables.positions import SEQ_DIGITS, TIME_DIGITS
from changeledger.dialects.tables.sql import as_read, literal_time, named_table
from changeledger.model.errors import ConfigError, SourceDataLostError, load_again
from changeledger.model.source_names import meant, several_alike
from changeledger.model.source_state import SourceState
from changeledger.model.window import Window

SUFFIX = "__ct"
_MINUTE_DIGITS = 12
_HIGHEST = "9" * SEQ_DIGITS


class _StoredTable(NamedTuple):
    """One change table in the database."""

    rows: TableClause
    # The header columns' names in the table, by their lower-case names without prefix.
    headers: Mapping[str, str]
    timestamp_type: str

    @property
    def seq(self) -> ColumnElement[Any]:
        return self.rows.c[self.headers[CHANGE_SEQ]]

    @property
    def has_times(self) -> bool:
        """Whether the timestamp's type is a time, not text."""
        return self.timestamp_type.startswith(("timestamp", "datetime"))

    @property
    def stamp(self) -> ColumnElement[Any]:
        return self.rows.c[self.headers[TIMESTAMP]]


class ChangeTables:
    """An `interface.TableReader`. Raises ConfigError if a table of the feed has no change table."""

    def __init__(self, feed: Feed, database: SourceDatabase) -> None:
        source = feed.source
        assert isinstance(source, QlikTablesSource), "config binds a dialect to its source"
        self._feed = feed
        self._source = source
        self._database = database
        self._stored: dict[str, _StoredTable] = {}
        self.tables: Sequence[ChangeTable] = [self._find(config) for config in feed.tables]
        _require_one_each(self.tables)

    def check(self, released: TablePositions) -> None:
        """Raises SourceDataLostError if a table ends before what was read: it was filled again.

        An empty table may have been archived.
        """
        for of_table in self.tables:
            known, (top,) = released.get(of_table.table), self._highest(of_table)
            if known is not None and top is not None and top < known:
                raise SourceDataLostError(
                    f"{self._feed.feed}: {of_table.instance} ends at {top}, but {known} was read: its task "
                    "was started again from an earlier time, or the table was restored",
                    load_again(self._feed.feed),
                )

    def landmarks(self, positions: TablePositions) -> Mapping[str, str]:
        """Returns each position with its change table.

        Another change table may have a name that differs only in case, or be in another schema.
        """
        read = {of_table.table: self._stored[of_table.instance].rows for of_table in self.tables}
        # An earlier version stored only the beginning of this text, without the schema.
        return {
            table: f"{at} ({read[table].name}) of {read[table].schema}"
            for table, at in positions.items()
            if table in read
        }

    def source_states(self, read: TablePositions, at: datetime) -> Sequence[SourceState]:
        """Takes the newest time from the last change_seq: an idle task leaves no marks of the time."""
        states = []
        for of_table in self.tables:
            (top,) = self._highest(of_table)
            position, end = read.get(of_table.table, ""), top or ""
            states.append(SourceState(of_table.instance, position, end, at, newest=_time_of(end)))
        return states

    def kept_since(self) -> datetime | None:
        """Returns the oldest time of the table that reaches back least, among those that have rows."""
        lowest = [self._lowest(of_table) for of_table in self.tables]
        return max((time for seq in lowest if (time := _time_of(seq or ""))), default=None)

    def cautions(self) -> Sequence[Caution]:
        """Returns none: nothing in the target says what the task does."""
        return ()

    def bounds(self, window: Window, released: TablePositions) -> tuple[TablePositions, TablePositions]:
        first, last = {}, {}
        for of_table in self.tables:
            known = released.get(of_table.table)
            _, before, end = self._highest(of_table, window.start, window.end)
            if known is not None:
                first[of_table.table] = min(known, before or "")
                if end and end <= first[of_table.table]:
                    self._require_none_below(of_table, end, window)
            reached = max(first.get(of_table.table, ""), end or "")
            if reached:
                last[of_table.table] = reached
        return first, last

    def queries(self, table: ChangeTable, after: str | None, to: str | None) -> Sequence[Select[Any]]:
        database_table, start, last = self._stored[table.instance], after or "", to or ""
        names = [database_table.rows.c[name] for name in database_table.headers.values()]
        data = [
            as_read(database_table.rows.c[c.name], c.sql_type).label(c.name)
            for c in table.writer_schema.columns
        ]
        first, *others = (
            _between(database_table.seq, low, high)
            for low, high in pairwise([start, *self._cuts(database_table.seq, start, last), last])
        )
        # The first query also reads the rows without a position.
        ranges = [or_(first, ~_placed(database_table.seq)), *others]
        return [select(*names, *data).where(condition) for condition in ranges]

    def _find(self, config: TableConfig) -> ChangeTable:
        schema, _, name = config.table.partition(".")
        schema = self._source.target_schema or schema
        alike = self._database.rows(columns_of(schema, name + SUFFIX))
        names = {f"{row['table_schema']}.{row['table_name']}" for row in alike}
        meant_name = meant(f"{schema}.{name}{SUFFIX}", None, names)
        rows = [row for row in alike if f"{row['table_schema']}.{row['table_name']}" == meant_name]
        rows.sort(key=lambda row: row["ordinal_position"])
        if names and not rows:
            raise several_alike(config.table, names)
        if not rows:
            raise ConfigError(
                f"{config.table} has no change table {schema}.{name}{SUFFIX}",
                "switch on `Store changes` for it in the Qlik task, name the schema "
                "(`target_schema:`), and grant the feed's login SELECT on it; if its change table has "
                "another name, create a view with this name",
            )
        prefix = self._source.header_prefix
        stated = [*config.key, *(c.name for c in config.stated)]
        own_names = header_names([row["column_name"] for row in rows], prefix, stated)
        headers = {
            row["column_name"].lower()[len(prefix) :]: row["column_name"]
            for row in rows
            if row["column_name"].lower() in own_names
        }
        if CHANGE_SEQ not in headers or not {CHANGE_OPER, OPERATION} & set(headers):
            raise ConfigError(
                f"{rows[0]['table_name']} lacks {prefix}{CHANGE_SEQ}, or both {prefix}{CHANGE_OPER} and "
                f"{prefix}{OPERATION}",
                "add them in the Qlik task's settings (Change tables), or correct `header_prefix:`",
            )
        timestamps = [row["data_type"] for row in rows if row["column_name"] == headers.get(TIMESTAMP)]
        # Tables in several schemas may have the same name.
        schema, name = rows[0]["table_schema"], rows[0]["table_name"]
        instance = f"{schema}.{name}"
        table = named_table(schema, name, *(row["column_name"] for row in rows))
        kind = str(timestamps[0]).lower() if timestamps else ""
        self._stored[instance] = _StoredTable(table, headers, kind)
        return ChangeTable(config.table, instance, writer_schema_of(config, own_names, rows).checked())

    def _require_none_below(self, of_table: ChangeTable, read: str, window: Window) -> None:
        """Raises SourceDataLostError if changes later than `read` sort below it, so that no run reads them.

        Within a task a change_seq does not fall, whatever the clock does. It falls if the clock was ahead
        when `read` was written, so that its time has not come yet, and the task has been started anew since.
        """
        database_table, time = self._stored[of_table.instance], _time_of(read)
        if time is None or time < window.end or not database_table.has_times:
            return
        seq, stamp = database_table.seq, database_table.stamp
        of_read = select(func.max(stamp)).where(seq == literal(read)).correlate(None).scalar_subquery()
        is_later = and_(_placed(seq), stamp > of_read, _is_before(database_table, window.end))
        (row,) = self._database.rows(select(func.max(seq).label("below")).where(is_later))
        if row["below"] is not None:
            raise SourceDataLostError(
                f"{self._feed.feed}: {of_table.instance} has changes up to {row['below']} that are "
                f"later than {read}, which was read: the clock was set back, and the task was started "
                "anew, so older changes sort after newer ones: delete the older ones from the change "
                "table, or have the task recreate it",
                load_again(self._feed.feed),
            )

    def _highest(self, of_table: ChangeTable, *before: datetime) -> list[str | None]:
        """Returns the highest change_seq of all changes, and of those before each of the times."""
        database_table = self._stored[of_table.instance]
        seq = database_table.seq
        early = [func.max(case((_is_before(database_table, at), seq))) for at in before]
        results = [highest.label(f"highest_{n}") for n, highest in enumerate([func.max(seq), *early])]
        (row,) = self._database.rows(select(*results).where(_placed(seq)))
        return [row[result.name] for result in results]

    def _lowest(self, of_table: ChangeTable) -> str | None:
        seq = self._stored[of_table.instance].seq
        (row,) = self._database.rows(select(func.min(seq).label("lowest")).where(_placed(seq)))
        lowest: str | None = row["lowest"]
        return lowest

    def _cuts(self, seq: ColumnElement[Any], after: str, to: str) -> list[str]:
        """Returns ends of minutes that cut a large read into ranges of about `partition_rows` rows."""
        minute = func.substring(seq, 1, _MINUTE_DIGITS)
        query = select(minute.label("minute"), func.count().label("rows")).group_by(minute)
        rows = self._database.rows(query.where(_between(seq, after, to)))
        counted = sorted((str(row["minute"]), int(row["rows"])) for row in rows)
        totals = [n // self._source.partition_rows for n in accumulate(count for _, count in counted)]
        ends = [at + "9" * (SEQ_DIGITS - _MINUTE_DIGITS) for at, _ in counted]
        starts = zip(ends, [0, *totals], totals, strict=False)
        return [end for end, before, now in starts if now > before and end < to]


def _require_one_each(tables: Sequence[ChangeTable]) -> None:
    """Raises ConfigError if two tables of the feed would be read from one change table."""
    first: dict[str, str] = {}
    for of_table in tables:
        other = first.setdefault(of_table.instance, of_table.table)
        if other != of_table.table:
            raise ConfigError(
                f"{other} and {of_table.table} are both in {of_table.instance}",
                "give one of them a feed of its own, with the `target_schema:` that has its change table",
            )


def _time_of(seq: str) -> datetime | None:
    try:
        return datetime.strptime(f"{seq[:TIME_DIGITS]}0000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    except ValueError:
        return None


def _is_before(database_table: _StoredTable, at: datetime) -> ColumnElement[bool]:
    """Compares the change's timestamp, or else the time in its change_seq, which runs up to 3 s behind."""
    utc = at.astimezone(UTC)
    if not database_table.has_times:
        return database_table.seq < literal(utc.strftime("%Y%m%d%H%M%S%f")[:TIME_DIGITS])
    stamp = database_table.stamp
    kind, end = database_table.timestamp_type, literal_time(utc)
    if "with time zone" in kind or kind == "datetimeoffset":
        end = cast(literal(utc.strftime("%Y-%m-%dT%H:%M:%S+00:00")), DateTime(timezone=True))
    return or_(stamp < end, stamp.is_(None))


def _between(seq: ColumnElement[Any], after: str, to: str) -> ColumnElement[bool]:
    return and_(_placed(seq), seq > literal(after), seq <= literal(to))


def _placed(seq: ColumnElement[Any]) -> ColumnElement[bool]:
    """Tests for the length and range of a change_seq. Text that sorts above all digits is no position."""
    return and_(
        seq.is_not(None), func.char_length(seq) == SEQ_DIGITS, seq >= literal("0"), seq <= literal(_HIGHEST)
    )
