"""The golden cases of SQL Server's CDC tables, through their kernels."""

from __future__ import annotations

import pytest

from changeledger.kernels.sqlserver_cdc.kernel import SQLSERVER_CDC
from changeledger.kernels.tables.pairs import joined
from tests.kernels.golden import Case, cases, outcomes
from tests.kernels.golden_rows import of_the_rows, plan, raw, rows

ALL = cases("sqlserver_cdc")


def found(case: Case) -> list[dict[str, object]]:
    table, read = rows(case)
    records = raw(read, SQLSERVER_CDC.record(read, table.removesuffix("_CT"), case.feed))
    said = outcomes([joined(SQLSERVER_CDC.decode(records, plan(case)), plan(case))])
    return [said[at] for at in range(read.num_rows)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert [of_the_rows(one) for one in found(case)] == [of_the_rows(one) for one in case.expected]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    said = found(case)
    changes = [at for at, one in enumerate(said, 1) if one["disposition"] == "change"]
    assert sorted(case.order) == changes
    assert sorted(changes, key=lambda at: str(said[at - 1]["sort_key"])) == case.order
