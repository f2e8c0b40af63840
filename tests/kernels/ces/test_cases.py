"""The golden cases of CES, through its kernels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.ces.decoding import decoded
from tests.kernels.golden import Case, cases, outcomes

ALL = cases("ces")


def of_case(case: Case) -> dict[int, dict[str, Any]]:
    known = {case.stated.table: case.stated} if case.stated else {}
    return outcomes(decoded(case.messages, case.feed, known, case.stated))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    found = of_case(case)
    said = [{n: v for n, v in found[at].items() if n != "sort_key"} for at in range(len(case.expected))]
    assert said == case.expected


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    found = of_case(case)
    changes = [at for at in found if found[at]["disposition"] == "change"]
    assert sorted(case.order) == [at + 1 for at in sorted(changes)]

    def key(at: int) -> Any:
        return found[at - 1]["sort_key"]

    assert sorted(case.order, key=key) == case.order
