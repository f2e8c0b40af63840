"""The header columns of a Qlik change table: bound by prefix and name, whichever of them there are."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger import lsn, masks
from changeledger.config import QlikTablesSource
from changeledger.dialects.base import in_calendar
from changeledger.dialects.qlik_tables_sql import (
    CHANGE_MASK,
    CHANGE_OPER,
    CHANGE_SEQ,
    OPERATION,
    STREAM_POSITION,
    TIMESTAMP,
    TRANSACTION_ID,
)
from changeledger.dialects.table_rows import Rows

_LETTERS = {"INSERT": "I", "UPDATE": "U", "DELETE": "D", "BEFOREIMAGE": "B", "TRUNCATE": "T"}
# Of a SQL Server source: the LSN as 8:8:4, and whatever may follow it.
_BEGINS_WITH_LSN = r"^[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}(?![0-9A-Fa-f])"
_LSN_LENGTH = 22
# The time in a change_seq, to hundredths of a second.
_TIME = r"^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\d+$"
# The year 1970 stands for a time that the source did not tell.
_FIRST_TIME = "1971-01-01 00:00:00"


def is_known(stamp: Column) -> Column:
    """Is a timestamp one that the source has told?"""
    return F.coalesce(stamp >= F.lit(_FIRST_TIME).cast("timestamp"), F.lit(False))


@dataclass(frozen=True)
class Header:
    """Expressions on the header of each row. A column that is not stored is NULL."""

    rows: Rows
    source: QlikTablesSource

    def name(self, header: str) -> str:
        return self.source.header_prefix + header

    def has(self, header: str) -> bool:
        return self.rows.has(self.name(header))

    def missing(self) -> str | None:
        """What there is to say of a table that has no column which tells changes from a full load."""
        names = [self.name(header) for header in (CHANGE_SEQ, CHANGE_OPER, OPERATION)]
        if any(map(self.rows.has, names)):
            return None
        return f"none of the columns {', '.join(names)} is there: correct `header_prefix`"

    def text(self, header: str) -> Column:
        """Without the blanks around it, and NULL where nothing is left."""
        return F.nullif(F.trim(self.rows.text(self.name(header))), F.lit(""))

    def letter(self) -> Column:
        """I, U, D, B or T; empty for a row of the full load, which has no header values; NULL for others.

        The letter T is not documented: the word TRUNCATE must say it.
        """
        letter, word = F.upper(self.text(CHANGE_OPER)), self.text(OPERATION)
        full_load = self.text(CHANGE_SEQ).isNull() & letter.isNull() & word.isNull()
        told = F.coalesce(letter, self._spoken(), F.when(full_load, F.lit("")))
        return F.when((told != "T") | self._spoken().isNotNull(), told)

    def disagrees(self) -> Column:
        """Do change_oper and operation say different things? NULL where one of them is not told."""
        if not (self.has(CHANGE_OPER) and self.has(OPERATION)):
            return F.lit(False)
        letter, word = F.upper(self.text(CHANGE_OPER)), self.text(OPERATION)
        return word.isNotNull() & (letter != F.coalesce(self._spoken(), F.lit("?")))

    def mask(self) -> Column:
        """The mask's bytes; NULL where there is none or where it is not hex.

        An empty text sets no bit, where it does not stand for NULL.
        """
        empty_is_null = self.source.empty_is_null

        def read(told: Column, kind: str) -> Column:
            if kind == "binary":
                return told
            digits = F.trim(told)
            return masks.from_text(F.nullif(digits, F.lit("")) if empty_is_null else digits)

        return self.rows.first(self.name(CHANGE_MASK), read, "binary")

    def commit_lsn(self) -> Column:
        told = self.text(STREAM_POSITION)
        return F.when(told.rlike(_BEGINS_WITH_LSN), lsn.from_text(F.substring(told, 1, _LSN_LENGTH)))

    def transaction_id(self) -> Column:
        return self.text(TRANSACTION_ID)

    def stamp(self) -> Column:
        """The timestamp, in UTC; NULL where there is none or where it is no point in time."""
        told = self.text(TIMESTAMP)
        # Spark takes a time of day for one of today.
        return in_calendar(F.when(told.rlike("^[0-9]{4}-"), told.try_cast("timestamp")))

    def committed_at(self, stamp: Column) -> Column:
        """The timestamp; else the time in the change_seq, which runs up to 3 s behind it.

        Rows of the full load tell no time: the beginning of 1970 stands for it.
        """
        known = F.when(is_known(stamp), stamp)
        in_seq = F.regexp_replace(self.text(CHANGE_SEQ), _TIME, "$1-$2-$3 $4:$5:$6.$7").try_cast("timestamp")
        unknown = F.when(self.letter() == "", F.timestamp_seconds(F.lit(0)))
        return F.coalesce(known, in_seq, unknown)

    def _spoken(self) -> Column:
        """The letter of the word in `operation`; NULL where it is another word."""
        letters = F.create_map(*(F.lit(x) for pair in _LETTERS.items() for x in pair))
        return letters[F.upper(self.text(OPERATION))]
