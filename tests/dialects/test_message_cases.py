"""Kernels decode the golden cases of CES and of Qlik's messages, in whatever way they read them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from changeledger.dialects.ces import discovery as ces_discovery
from changeledger.dialects.ces import typed as ces_typed
from changeledger.dialects.ces.dialect import CES
from changeledger.dialects.qlik_messages import addresses, discovery, typed
from changeledger.dialects.qlik_messages.avro import schemas_in
from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from tests.dialects.golden import Case, assert_as_expected, assert_in_order, cases, outcomes
from tests.dialects.reading import decoded

KERNELS = {dialect.name: dialect.kernel for dialect in (CES, QLIK_MESSAGES)}
CASES = [case for dialect in KERNELS for case in cases(dialect)]
ALL, IN_ORDER = (
    [pytest.param(case, id=f"{case.folder.parent.name}-{case.folder.name}") for case in chosen]
    for chosen in (CASES, [case for case in CASES if case.order])
)


def batches(case: Case) -> list[Any]:
    kernel = KERNELS[case.folder.parent.name]
    return decoded(kernel, case.messages, case.feed, case.stated, case.schemas)


@pytest.mark.parametrize("case", ALL)
def test_a_case_becomes_what_the_specification_says(case: Case) -> None:
    assert_as_expected(case, outcomes(batches(case)))


@pytest.mark.parametrize("case", IN_ORDER)
def test_the_order_is_the_sources(case: Case) -> None:
    assert_in_order(case, outcomes(batches(case)))


@pytest.mark.parametrize("case", ALL)
def test_what_is_read_by_types_is_what_is_read_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> dict[int, Any]:
        return {row["source_position"]["offset"]: row for batch in batches(case) for row in batch.to_pylist()}

    by_types = rows()
    for module in (ces_typed, typed):
        monkeypatch.setattr(module, "reader_of", lambda _: lambda *_: None)
    monkeypatch.setattr(ces_discovery, "_usual", lambda _: None)
    monkeypatch.setattr(discovery, "address", lambda value: addresses.single_address(value or b""))
    monkeypatch.setattr(addresses, "contents", lambda value: addresses.single_contents(value or b""))
    assert rows() == by_types


@pytest.mark.parametrize("case", ALL)
def test_facts_of_parts_are_the_facts_of_the_whole(case: Case) -> None:
    kernel, cut = (
        KERNELS[case.folder.parent.name],
        Random(case.folder.name).randrange(case.messages.num_rows + 1),
    )
    schemas = {**schemas_in(case.messages.column("value").to_pylist()), **case.schemas}
    whole = kernel.merged([kernel.facts(case.messages, schemas)])
    parts = [kernel.facts(part, schemas) for part in (case.messages.slice(0, cut), case.messages.slice(cut))]
    assert kernel.merged(parts).equals(whole)
    assert kernel.merged(parts[::-1]).equals(whole)
