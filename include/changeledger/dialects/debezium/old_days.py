"""Finds days before 15 October 1582 and fractions of a second before 1970, which may be sent wrong.

SQL Server and its JDBC driver count old days in the Gregorian calendar. Java's `Timestamp` and `Date` count
them in the Julian calendar, and the connector asks these for year, month and day (`Conversions`): the day
0001-01-01 is sent as 0001-01-03. The driver has the same fault for `datetimeoffset`
(microsoft/mssql-jdbc#1088, #2246, #2565). Nothing in a message says to which calendar a day belongs.

For a `datetimeoffset` the connector computes whole seconds from milliseconds by a division that rounds
towards 1970 (`SqlServerValueConverters.convertTimestampWithZone`): 1969-12-31T23:59:59.5Z is sent as
1970-01-01T00:00:00.5Z.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract

CALENDAR_SUSPECT = "calendar_suspect"
_BASES = {"date", "datetime2", "datetimeoffset"}
# The first day that is certain, by the lake's type of the column.
_FIRST_CERTAIN = {
    "date": date(1582, 10, 15),
    "timestamp_ntz": datetime(1582, 10, 15),
    "string": "1582-10-15",
}
_SECOND = timedelta(seconds=1)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
# The texts of all moments before 1970-01-01T00:00:01Z, in any offset, sort before this one.
_LATER = "1970-01-02"


def in_images(before: Image, after: Image, columns_of: Contract) -> Bools:
    """Returns which changes have such a day or fraction."""
    has_one = np.zeros(len(before.present), np.bool_)
    for at, column in enumerate(columns_of.columns):
        if column.sql_type.base not in _BASES:
            continue
        for image in (before, after):
            cells = image.cells[at]
            first = pa.scalar(_FIRST_CERTAIN[column.spark_type], cells.type)
            is_doubtful = flags_of(pc.less(cells, first))
            if column.sql_type.base == "datetimeoffset":
                is_doubtful |= _may_be_late(cells)
            has_one |= is_doubtful & image.present
    return has_one


def _may_be_late(moments: pa.StringArray) -> Bools:
    """Returns which moments may be sent a second late: those before 1970-01-01T00:00:01Z with a fraction.

    The connector counts in milliseconds, so fractions below one do not matter.
    """
    is_late = flags_of(pc.less(moments, _LATER))
    for at in np.flatnonzero(is_late).tolist():
        moment = datetime.fromisoformat(moments[at].as_py())
        is_late[at] = moment < _1970 + _SECOND and moment.microsecond >= 1000
    return is_late
