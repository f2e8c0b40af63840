"""LSNs of change tables: 10 bytes, or an export's text of them in four forms; nothing else is one."""

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
from changeledger.dialects.tables.instants import to_utc
from changeledger.dialects.tables.rows import RawRows

FEED = Feed.model_validate(
    {
        "feed": "cdc", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip


def read(column: pa.Array) -> list[bytes | None]:
    return lsn_bytes(RawRows.of(pa.RecordBatch.from_arrays([column], ["lsn"])), "LSN").to_pylist()


@given(lsn=st.binary(min_size=10, max_size=10), upper=st.booleans())
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
    """(start_lsn, command_id, seqval, operation), in 10, 4, 10 and 1 bytes; what is not there has none."""
    columns = {
        "__$start_lsn": pa.array([b"\1" * 10, b"\2" * 10]),
        "__$operation": pa.array([2, 4], pa.int32()),
        "__$seqval": pa.array([b"\3" * 10, None]),
        "__$command_id": pa.array([258, None], pa.int32()),
    }
    found = record(pa.RecordBatch.from_pydict(columns), "dbo_t", FEED).to_pylist()
    assert [one["row"] for one in found] == [
        b"\1" * 10 + b"\0\0\1\2" + b"\3" * 10 + b"\2", b"\2" * 10 + b"\0\0\0\0" + b"\4",
    ]  # fmt: skip
    assert {one["source"] for one in found} == {"dbo_t_CT"}


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)),
    st.sampled_from(["Europe/Zurich", "America/St_Johns", "Asia/Kolkata"]),
)
def test_local_times_become_utc(local: datetime, zone: str) -> None:
    """A time that comes twice is the earlier one; one that is left out counts from before the gap."""
    micros = np.array(
        [int(local.replace(tzinfo=ZoneInfo("UTC")).timestamp()) * 1_000_000 + local.microsecond]
    )
    aware = local.replace(tzinfo=ZoneInfo(zone))
    expected = int((aware.utcoffset() or datetime.resolution).total_seconds()) * 1_000_000
    assert (micros - to_utc(micros, zone)).tolist() == [expected]


def test_the_hours_of_a_change_of_clocks() -> None:
    def utc(text: str) -> str:
        local = np.array([np.datetime64(text, "us").astype(np.int64)])
        return str(to_utc(local, "Europe/Zurich").astype("M8[us]")[0])[:16]

    # 2026-03-29 02:00 does not exist, 2026-10-25 02:00 to 03:00 comes twice.
    assert utc("2026-03-29T02:30") == "2026-03-29T01:30"
    assert utc("2026-10-25T02:30") == "2026-10-25T00:30"
