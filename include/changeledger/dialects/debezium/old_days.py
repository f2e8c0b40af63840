"""Days before 15 October 1582, of which the connector may write another one.

SQL Server counts them in the Gregorian calendar, and so does its JDBC driver. Java's `Timestamp` and `Date`
count them in the Julian one, in which the connector asks them for year, month and day (`Conversions`): the
day 0001-01-01 is sent as 0001-01-03. The driver has the same fault for `datetimeoffset`
(microsoft/mssql-jdbc#1088, #2246, #2565). Nothing in a message says which calendar a day is of.
"""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import Bools, flags_of
from changeledger.kernels.images import Image
from changeledger.model.contract import Contract

CALENDAR_SUSPECT = "calendar_suspect"
_BASES = {"date", "datetime2", "datetimeoffset"}
# By the lake's type of a column.
_FIRST_CERTAIN = {
    "date": date(1582, 10, 15),
    "timestamp_ntz": datetime(1582, 10, 15),
    "string": "1582-10-15",
}


def in_images(before: Image, after: Image, columns_of: Contract) -> Bools:
    """Which changes have such a day."""
    has_one = np.zeros(len(before.present), np.bool_)
    for at, column in enumerate(columns_of.columns):
        if column.sql_type.base not in _BASES:
            continue
        for image in (before, after):
            cells = image.cells[at]
            first = pa.scalar(_FIRST_CERTAIN[column.spark_type], cells.type)
            has_one |= flags_of(pc.less(cells, first)) & image.present
    return has_one
