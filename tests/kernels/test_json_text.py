"""Finds lone surrogates in JSON, however deeply escaped: JSON can hold them, UTF-8 cannot."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.kernels.json_text import has_lone_surrogate

TEXTS = st.text(st.characters(categories=["L", "Cs", "Po", "So"]) | st.sampled_from('\\u"dD8cf'), max_size=8)


@given(TEXTS)
def test_a_half_of_a_pair_is_found(text: str) -> None:
    # Python joins the halves of a pair, as every reader of JSON does.
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    is_lone = "\ufffd" in joined and "\ufffd" not in text
    assert has_lone_surrogate(json.dumps(text).encode()) == is_lone


@pytest.mark.parametrize("value", [rb'"\uD800"', rb'"\udfff"', rb'{"a": ["\\\\\uDbff"]}'])
def test_in_either_case(value: bytes) -> None:
    assert has_lone_surrogate(value)


@pytest.mark.parametrize("value", [rb'"\\ud800"', rb'"\ud83d\ude00"', rb'"\ud7ff"', rb'"\ud800'])
def test_none_in_other_values(value: bytes) -> None:
    assert not has_lone_surrogate(value)
