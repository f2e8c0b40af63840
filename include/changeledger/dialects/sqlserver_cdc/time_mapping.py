"""The SELECTs on `cdc.lsn_time_mapping`: commit LSNs with their times, in the zone of the server.

No sys.fn_* function is needed, so a login that may read the table is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, null, or_, select

from changeledger.dialects.sqlserver_cdc.clock import FallBack, RepeatedHour
from changeledger.dialects.sqlserver_cdc.header import COMMIT_FOLD
from changeledger.dialects.sqlserver_cdc.literals import LsnLiteral, WholeMinute
from changeledger.dialects.tables.sql import literal_time, named_table


class TimeMapping:
    """SELECTs on the table, which is in `cdc_schema`."""

    def __init__(self, cdc_schema: str) -> None:
        self.name = f"{cdc_schema}.lsn_time_mapping"
        self.table = named_table(cdc_schema, "lsn_time_mapping", "start_lsn", "tran_end_time", "tran_id")
        self._lsn, self._time = self.table.c.start_lsn, self.table.c.tran_end_time

    def highest_lsn(self, before: datetime | None = None, falls_back: FallBack | None = None) -> Select[Any]:
        """Selects the last LSN captured, or the last one committed before a time (in the server's zone).

        This is the rule of sys.fn_cdc_map_time_to_lsn with `largest less than`: a window excludes its end.
        `falls_back` describes the hour that has the time twice. The time's own `fold` says which occurrence
        is meant.
        """
        query = select(func.max(self._lsn).label("lsn"))
        if before is None:
            return query
        earlier = self._time < literal_time(before)
        if falls_back is None:
            return query.where(earlier)
        is_first = [] if falls_back.fold is None else [self._lsn < LsnLiteral(falls_back.since or b"")]
        if not before.fold:
            return query.where(earlier, *is_first)
        of_first = and_(self._time < literal_time(falls_back.hour.end), *is_first)
        return query.where(or_(earlier, of_first))

    def newest_transaction(self) -> Select[Any]:
        """Selects the last LSN captured, with its time (in the server's zone); no row if there is none."""
        last = select(func.max(self._lsn)).scalar_subquery()
        return select(self._lsn.label("lsn"), self._time.label("time")).where(self._lsn == last)

    def commit_times(self, lsns: Iterable[bytes]) -> Select[Any]:
        """Selects the commit times of these LSNs, and that of the lowest LSN for which the source has one."""
        wanted = or_(*(self._lsn == LsnLiteral(lsn) for lsn in lsns))
        lowest = select(func.min(self._lsn)).scalar_subquery()
        return select(self._lsn.label("lsn"), self._time.label("time")).where(
            or_(wanted, self._lsn == lowest)
        )

    def transactions(self, after: bytes | None, to: bytes) -> Select[Any]:
        """Selects the LSNs of the window's transactions, to cut a large read into ranges."""
        return select(self._lsn.label("lsn")).where(*in_range(self._lsn, after, to))

    def span(self) -> Select[Any]:
        """Selects the earliest and the latest time, each by a subquery that looks at one end of an index."""
        first, last = (select(of(self._time)).scalar_subquery() for of in (func.min, func.max))
        return select(first.label("first"), last.label("last"))

    def around(self, hour: RepeatedHour) -> Select[Any]:
        """Selects the commits that `clock.fall_back` needs: where the minute changes in the order of LSNs."""
        minute = WholeMinute(self._time)
        commits = (
            select(
                self._lsn.label("lsn"), minute.label("minute"),
                func.lag(minute).over(order_by=self._lsn).label("before"),
            )
            .where(self._time >= literal_time(hour.marks_from), self._time < literal_time(hour.end))
            .subquery("commits")
        )  # fmt: skip
        is_other = or_(commits.c.before.is_(None), commits.c.minute != commits.c.before)
        return select(commits.c.lsn, commits.c.minute).where(is_other)


def fold(lsn: ColumnElement[Any], time: ColumnElement[Any], known: Sequence[FallBack]) -> ColumnElement[Any]:
    """The pass of a repeated hour in which a commit was; NULL if it is unknown, or in no such hour."""
    whens: list[tuple[ColumnElement[bool], Any]] = []
    for transition in known:
        in_hour = and_(time >= literal_time(transition.hour.start), time < literal_time(transition.hour.end))
        if transition.since is not None:
            later = and_(in_hour, lsn >= LsnLiteral(transition.since))
            whens.append((later, null() if transition.fold is None else transition.fold))
        whens.append((in_hour, 0))
    return case(*whens).label(COMMIT_FOLD)


def in_range(lsn: ColumnElement[Any], after: bytes | None, to: bytes) -> list[ColumnElement[bool]]:
    upper = lsn <= LsnLiteral(to)
    return [upper] if after is None else [lsn > LsnLiteral(after), upper]
