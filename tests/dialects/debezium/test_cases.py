"""The golden cases of Debezium, through its kernels."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from tests.dialects.golden import Case, cases, outcomes
from tests.dialects.reading import read

ALL = cases("debezium")


def decoded(case: Case, raw: pa.RecordBatch | None = None) -> list[pa.RecordBatch]:
    """The messages of a case, by a plan of all of them; `raw`: only those."""
    known = {case.stated.table: case.stated} if case.stated else {}
    return read(
        DEBEZIUM.kernel, case.messages if raw is None else raw, case.feed, known, case.schemas, case.messages
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    found = outcomes(decoded(case))
    said = [{n: v for n, v in found[at].items() if n != "sort_key"} for at in range(len(found))]
    assert said == case.expected


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    found = outcomes(decoded(case))
    changes = [at for at in found if found[at]["disposition"] == "change"]
    assert sorted(case.order) == [at + 1 for at in sorted(changes)]

    def key(at: int) -> Any:
        return found[at - 1]["sort_key"]

    assert sorted(case.order, key=key) == case.order
