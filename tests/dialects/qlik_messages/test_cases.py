"""Kernels decode the golden cases of Qlik's messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.golden import Case, assert_as_expected, assert_in_order, cases, outcomes
from tests.dialects.qlik_messages.decoding import decoded

ALL = cases("qlik_messages")


def of_case(case: Case) -> dict[int, dict[str, Any]]:
    known = {case.stated.table: case.stated} if case.stated else {}
    return outcomes(decoded(case.messages, case.feed, known, case.stated, case.schemas))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL])
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert_as_expected(case, of_case(case))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.folder.name) for case in ALL if case.order])
def test_the_order_is_the_sources(case: Case) -> None:
    assert_in_order(case, of_case(case))
