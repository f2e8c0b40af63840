"""LSNs of change tables: 10 bytes, or an export's text in four forms. Other values are refused."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.config.feed import Feed
from changeledger.dialects.sqlserver_cdc.header import lsn_bytes, record
from changeledger.dialects.tables import instants
from changeledger.dialects.tables.instants import NO_FOLD, to_utc
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.rows import RawRows, Read

FEED = Feed.model_validate(
    {
        "feed": "cdc", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip


def read(column: pa.Array) -> list[bytes | None]:
    return lsn_bytes(RawRows.of(pa.RecordBatch.from_arrays([column], ["lsn"])), "LSN").to_pylist()


@pytest.mark.parametrize("others", [[], ["2026-08-07 16:25"]])
def test_digits_beyond_microseconds_are_cut_off_a_time_of_a_header(others: list[str]) -> None:
    """A column of one form is read vectorised, a mixed one text by text."""
    times = pa.array(["2026-08-07 16:25:00.8833337", "2026-08-07T16:25:00", *others, None])
    micros, has_time = instants.read(Read("string", times), in_zone=True)
    assert micros.tolist()[:2] == [1786119900883333, 1786119900000000]
    assert has_time.tolist() == [True] * (len(times) - 1) + [False]


@given(lsn=st.binary(min_size=10, max_size=10).filter(any), upper=st.booleans())
def test_an_lsn_has_four_forms_of_text(lsn: bytes, *, upper: bool) -> None:
    digits = lsn.hex().upper() if upper else lsn.hex()
    grouped = f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"
    texts = [f"0x{digits}", f"0X{digits}", digits, grouped, b64encode(lsn).decode(), None]
    assert read(pa.array(texts)) == [*[lsn] * 5, None]
    assert read(pa.array([lsn, lsn[:9], None])) == [lsn, lsn[:9], None]


@pytest.mark.parametrize(
    "text",
    ["", "NULL", "0x", "0000002A:000003B0:00005", "0000002A.000003B0.0005", "0x0000002A000003B0000G",
     "0x0000002A000003B000", " 000002A000003B00005 ", "\uff10000002A000003B00005", "AAAAKgAAA7AAB!=="],
)  # fmt: skip
def test_other_texts_are_no_lsns(text: str) -> None:
    assert read(pa.array([text])) == [None]


def test_a_record_is_the_position_in_bytes() -> None:
    """(start_lsn, command_id, seqval, operation), in 10, 4, 10 and 1 bytes. A missing part has no bytes."""
    columns = {
        "__$start_lsn": pa.array([b"\1" * 10, b"\2" * 10]),
        "__$operation": pa.array([2, 4], pa.int32()),
        "__$seqval": pa.array([b"\3" * 10, None]),
        "__$command_id": pa.array([258, None], pa.int32()),
    }
    positions = record(pa.RecordBatch.from_pydict(columns), "dbo_t", FEED, Hidden()).to_pylist()
    assert [position["row"] for position in positions] == [
        b"\1" * 10 + b"\0\0\1\2" + b"\3" * 10 + b"\2", b"\2" * 10 + b"\0\0\0\0" + b"\4",
    ]  # fmt: skip
    assert {position["source"] for position in positions} == {"dbo_t_CT"}


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)),
    st.sampled_from(["Europe/Zurich", "America/St_Johns", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.sampled_from([0, 1, NO_FOLD]),
)
def test_local_times_become_utc(local: datetime, zone: str, fold: int) -> None:
    """Applies Python's offset for the pass. In a gap, applies the offset before it."""
    micros = np.array(
        [int(local.replace(tzinfo=ZoneInfo("UTC")).timestamp()) * 1_000_000 + local.microsecond]
    )
    earlier, later = (local.replace(tzinfo=ZoneInfo(zone), fold=at).utcoffset() for at in (0, 1))
    assert earlier is not None
    assert later is not None
    utc, doubtful = to_utc(micros, zone, np.array([fold]))
    expected = later if fold == 1 and later < earlier else earlier
    assert (micros - utc).tolist() == [int(expected.total_seconds()) * 1_000_000]
    assert doubtful.tolist() == [later > earlier or (later < earlier and fold == NO_FOLD)]


@pytest.mark.parametrize(
    ("zone", "local", "fold", "utc", "doubtful"),
    [
        ("Europe/Zurich", "2026-10-25T01:59", NO_FOLD, "2026-10-24T23:59", False),
        ("Europe/Zurich", "2026-10-25T02:30", NO_FOLD, "2026-10-25T00:30", True),
        ("Europe/Zurich", "2026-10-25T02:30", 0, "2026-10-25T00:30", False),
        ("Europe/Zurich", "2026-10-25T02:30", 1, "2026-10-25T01:30", False),
        ("Europe/Zurich", "2026-10-25T02:30", 2, "2026-10-25T00:30", True),
        ("Europe/Zurich", "2026-10-25T03:00", 1, "2026-10-25T02:00", False),
        # Skipped by the clock, whatever the fold.
        ("Europe/Zurich", "2026-03-29T02:30", NO_FOLD, "2026-03-29T01:30", True),
        ("Europe/Zurich", "2026-03-29T02:30", 1, "2026-03-29T01:30", True),
        ("America/New_York", "2026-11-01T01:00", 1, "2026-11-01T06:00", False),
        ("Australia/Sydney", "2026-04-05T02:30", 0, "2026-04-04T15:30", False),
        ("Australia/Sydney", "2026-04-05T02:30", 1, "2026-04-04T16:30", False),
        # Clocks go back half an hour.
        ("Australia/Lord_Howe", "2026-04-05T01:29", NO_FOLD, "2026-04-04T14:29", False),
        ("Australia/Lord_Howe", "2026-04-05T01:30", 0, "2026-04-04T14:30", False),
        ("Australia/Lord_Howe", "2026-04-05T01:30", 1, "2026-04-04T15:00", False),
        ("Asia/Kolkata", "2026-10-25T02:30", NO_FOLD, "2026-10-24T21:00", False),
        ("UTC", "2026-10-25T02:30", NO_FOLD, "2026-10-25T02:30", False),
    ],
)
def test_the_hours_of_a_change_of_clocks(zone: str, local: str, fold: int, utc: str, doubtful: bool) -> None:
    moments, is_doubtful = to_utc(
        np.array([np.datetime64(local, "us").astype(np.int64)]), zone, np.array([fold])
    )
    assert (str(moments.astype("M8[us]")[0])[:16], is_doubtful.tolist()) == (utc, [doubtful])
