"""Times in Qlik's headers and metadata.

Wire notes: text without a zone is UTC; a number below 10^9, and the year 1970, mean that the time is unknown.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from changeledger.dialects.qlik_messages import instants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 2026-08-07T16:25:00Z is 1786119900 seconds after 1970.
        *(
            (text, "2026-08-07 16:25:00")
            for text in (
                "2026-08-07T16:25:00", "2026-08-07 16:25", " 2026-08-07T16:25:00Z ", "2026-08-07T16:25:00.",
                "2026-08-07T18:25:00+2", "2026-08-07T18:25:00+02", "2026-08-07T21:55:00+530",
                "2026-08-07T10:55:00 -05:30", "2026-08-08T10:25:00+18:00", "2026-08-07T17:24:00+0059",
                "1786119900", "1786119900000", "1786119900000000", "1786119900000000000",
            )
        ),
        ("2026-08-07T16:25:00.1234567", "2026-08-07 16:25:00.123456"),
        # Each unit begins where its count does.
        ("1000000000", "2001-09-09 01:46:40"),
        ("1000000000000", "2001-09-09 01:46:40"),
        ("1000000000000000", "2001-09-09 01:46:40"),
        ("1000000000000000000", "2001-09-09 01:46:40"),
        ("253402300799999999", "9999-12-31 23:59:59.999999"),
        ("1971-01-01T00:00:00", "1971-01-01 00:00:00"),
        *(
            (text, None)
            for text in (
                None, "", "soon", "2026-02-29T00:00:00", "2026-08-07T16:25:00+18:01",
                "2026-08-07T16:25:00+01:60", "1970-12-31T23:59:59.999999", "1970-01-01", "999999999",
                "999999999999", "0", "253402300800000000",
            )
        ),
    ],
)  # fmt: skip
def test_a_time_is_known_or_not(text: str | None, expected: str | None) -> None:
    micros = instants.known(text)
    since = None if expected is None else datetime.fromisoformat(expected) - datetime(1970, 1, 1)
    assert micros == (None if since is None else since // timedelta(microseconds=1))
