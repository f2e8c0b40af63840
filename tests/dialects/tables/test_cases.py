"""Kernels decode the golden cases of change tables: SQL Server's CDC and Qlik's."""

from __future__ import annotations

from typing import Any

import pytest

from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC
from tests.dialects.golden import Case, assert_in_order, cases
from tests.dialects.golden_rows import assert_rows_as_expected, rows_became

DIALECTS = {dialect.name: dialect for dialect in (SQLSERVER_CDC, QLIK_TABLES)}
ALL = [case for name in DIALECTS for case in cases(name)]


def results(case: Case) -> dict[int, dict[str, Any]]:
    dialect = DIALECTS[case.folder.parent.name]
    return rows_became(case, dialect.kernel, lambda table: table.removesuffix("_CT"))


def name(case: Case) -> str:
    return f"{case.folder.parent.name}-{case.folder.name}"


@pytest.mark.parametrize("case", ALL, ids=name)
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert_rows_as_expected(case, results(case))


@pytest.mark.parametrize("case", [case for case in ALL if case.order], ids=name)
def test_the_order_is_the_sources(case: Case) -> None:
    assert_in_order(case, results(case))
