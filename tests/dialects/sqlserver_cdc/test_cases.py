"""Kernels decode the golden cases of SQL Server's CDC tables."""

from __future__ import annotations

from typing import Any

import pytest

from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC
from tests.dialects.golden import Case, assert_in_order, cases
from tests.dialects.golden_rows import assert_rows_as_expected, rows_became

ALL = cases("sqlserver_cdc")


def results(case: Case) -> dict[int, dict[str, Any]]:
    return rows_became(case, SQLSERVER_CDC.kernel, lambda table: table.removesuffix("_CT"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert_rows_as_expected(case, results(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    assert_in_order(case, results(case))
