"""Kernels decode the golden cases of Debezium."""

from __future__ import annotations

import pyarrow as pa
import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from tests.dialects.golden import Case, assert_as_expected, assert_in_order, cases, outcomes
from tests.dialects.reading import read

ALL = cases("debezium")


def decoded(case: Case, raw: pa.RecordBatch | None = None) -> list[pa.RecordBatch]:
    """Decodes a case, or only `raw` with the plan of the whole case."""
    known = {case.stated.table: case.stated} if case.stated else {}
    return read(
        DEBEZIUM.kernel, case.messages if raw is None else raw, case.feed, known, case.schemas, case.messages
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert_as_expected(case, outcomes(decoded(case)))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    assert_in_order(case, outcomes(decoded(case)))
