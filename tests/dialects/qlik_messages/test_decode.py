"""Decodes Qlik's messages whose masks or names differ from those of the golden cases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from changeledger.dialects.kernel import EarlierWindows, ResolvedSchema
from changeledger.dialects.qlik_messages import instants
from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from changeledger.dialects.qlik_messages.values import cell_of
from changeledger.kernels.in_memory import InMemory
from changeledger.model.contract import Column
from changeledger.stages.normalization import reading
from tests.dialects.golden import Case, cases
from tests.dialects.reading import decoded, with_values

Row = dict[str, Any]


def case_of(name: str) -> Case:
    (case,) = [case for case in cases("qlik_messages") if case.folder.name == name]
    return case


def rows(case: Case, values: Sequence[bytes | None]) -> dict[int, Row]:
    batches = decoded(QLIK_MESSAGES.kernel, with_values(case.messages, values), case.feed)
    return {row["source_position"]["offset"]: row for batch in batches for row in batch.to_pylist()}


@pytest.mark.parametrize(
    ("mask", "contradicts"),
    # Only `name`, ordinal 2, differs. Ordinals 4 and 5 are large objects, which masks may omit.
    [("02", False), ("04", True), ("06", True), ("00", True), ("42", True), ("", False)],
)
def test_an_update_sets_the_bits_of_what_differs(mask: str, contradicts: bool) -> None:
    case = case_of("operations")
    values = case.messages.column("value").to_pylist()
    update = next(at for at, value in enumerate(values) if value and b'"changeMask":"02"' in value)
    assert b'"operation":"UPDATE"' in values[update]
    values[update] = values[update].replace(b'"changeMask":"02"', f'"changeMask":"{mask}"'.encode())
    assert ("mask_disagrees" in (rows(case, values)[update]["flags"] or ())) == contradicts


def test_changes_whose_masks_are_in_no_known_order_are_quarantined() -> None:
    case, known = case_of("operations"), EarlierWindows({}, {}, {})
    (records,) = reading.discovered(
        QLIK_MESSAGES.kernel, InMemory.of(case.messages), case.feed, known, "window"
    ).records
    assert records.writer_schema is not None
    written = ResolvedSchema(records.writer_schema, masks_unreadable="they contradict both orders")
    sent = case.messages.column("value").to_pylist()
    outcomes = {
        (
            b'"changeMask":"' in sent[row["source_position"]["offset"]],
            row["disposition"],
            row["reason"],
        )
        for row in records.decoded(written, records.writer_schema).collected().to_pylist()
    }
    assert outcomes >= {(True, "quarantined", "mask_order_contradicted"), (False, "change", None)}
    assert (True, "change", None) not in outcomes


def test_a_number_that_is_no_real_does_not_fit() -> None:
    """2^24 + 1 has no 32-bit form (IEEE 754)."""
    real = cell_of(Column(name="a", type="real", ordinal=1))
    cells = real.convert([0.5, 2.0**24 + 1, 1e300, None])
    assert (cells.values.to_pylist(), cells.unfit is not None and cells.unfit.tolist()) == (
        [0.5, None, None, None],
        [False, True, True, False],
    )


def test_a_message_may_write_stated_columns_in_another_case() -> None:
    case = case_of("columns_stated_in_the_feed")
    values = capitals = case.messages.column("value").to_pylist()
    for name in ("region", "no", "guid", "at"):
        capitals = [
            value and value.replace(f'"{name}":'.encode(), f'"{name.upper()}":'.encode())
            for value in capitals
        ]
    assert capitals != values
    assert [
        (row["disposition"], row.get("before"), row.get("after")) for row in rows(case, capitals).values()
    ] == [(row["disposition"], row.get("before"), row.get("after")) for row in rows(case, values).values()]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        # Offsets as ISO 8601 writes them; none is more than 18 hours (java.time.ZoneOffset).
        ("2026-08-07T16:25:00.883", "2026-08-07T16:25:00.883Z"),
        ("2026-08-07T16:25:00.883+05:30", "2026-08-07T10:55:00.883Z"),
        ("2026-08-07T16:25:00.883-0330", "2026-08-07T19:55:00.883Z"),
        ("2026-08-07 16:25:00.883 +5", "2026-08-07T11:25:00.883Z"),
        ("2026-08-07T16:25:00.883-18:00", "2026-08-08T10:25:00.883Z"),
        ("2026-08-07T16:25:00.883+18:01", None),
        ("2026-08-07T16:25:00.883+05:60", None),
        # The size of a number tells its unit: seconds, milliseconds, microseconds, nanoseconds.
        *((str(10**digits), "2001-09-09T01:46:40Z") for digits in (9, 12, 15, 18)),
        ("1786119900883123456", "2026-08-07T16:25:00.883123Z"),
        # These would be of the year 33658.
        *((str(10**digits - 1), None) for digits in (12, 15, 18)),
    ],
)
def test_a_time_is_one_moment(text: str, moment: str | None) -> None:
    since = moment and (datetime.fromisoformat(moment) - datetime(1970, 1, 1, tzinfo=UTC))
    assert instants.instant(text) == (since and since // timedelta(microseconds=1))
