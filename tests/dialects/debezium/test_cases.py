"""Kernels decode the golden cases of Debezium."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from changeledger.dialects.debezium.dialect import DEBEZIUM
from tests.dialects.golden import Case, cases, outcomes
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
    results = outcomes(decoded(case))
    said = [{n: v for n, v in results[at].items() if n != "sort_key"} for at in range(len(results))]
    assert said == case.expected


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    results = outcomes(decoded(case))
    changes = [at for at in results if results[at]["disposition"] == "change"]
    assert sorted(case.order) == [at + 1 for at in sorted(changes)]

    def key(at: int) -> Any:
        return results[at - 1]["sort_key"]

    assert sorted(case.order, key=key) == case.order
