"""Checks that the server's clock has the offset of the feed's `time_zone`.

`tran_end_time` of `cdc.lsn_time_mapping` is the server's local time (its marks are GETDATE()). With another
zone every commit time is hours early or late, and no row shows it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Select, String, Unicode, cast, func, select

from changeledger.dialects.interface import SourceDatabase


def contradiction(database: SourceDatabase, zone: str) -> str | None:
    """Returns how the server's clock contradicts the zone, or None if it does not.

    A readable secondary is not asked: it has the times of its primary, whose clock it does not know.
    """
    (row,) = database.rows(clock())
    if row["updateability"] != "READ_WRITE":
        return None
    # Python accepts no blank before the offset.
    at = datetime.fromisoformat(str(row["at"]).replace(" +", "+").replace(" -", "-"))
    stated = at.astimezone(ZoneInfo(zone))
    if at.utcoffset() == stated.utcoffset():
        return None
    offsets = (moment.isoformat()[-len("+00:00") :] for moment in (at, stated))
    return (
        "the server's clock is at {}, and the feed's `time_zone: {zone}` at {}: commit times are wrong "
        "by the difference; state the server's zone".format(*offsets, zone=zone)
    )


def clock() -> Select[Any]:
    updateability = func.databasepropertyex(func.db_name(), "Updateability")
    columns: list[ColumnElement[Any]] = [
        cast(func.sysdatetimeoffset(), String(40)).label("at"),
        cast(updateability, Unicode(128)).label("updateability"),
    ]
    return select(*columns)
