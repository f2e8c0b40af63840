"""A message that is read as usual says what it says when it is read member by member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.dialects.ces import envelope
from changeledger.dialects.messages.problems import Problem

_INDEX = st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, -1, "1", None, 1.0, True])
_MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("type", "source", "time", "id"), st.sampled_from(["text", "", None, 7])),
    "logicalid": st.sampled_from(["a:b:1", None]),
    "operation": st.sampled_from(["INS", "upd", None]),
    **dict.fromkeys(("segmentindex", "splitindex", "splittotalcnt"), _INDEX),
    "finalsegment": st.sampled_from([True, False, None, "true", 1]),
    "data": st.sampled_from(['{"eventsource": {}}', "a piece", "\u00fc\ud83d\ude00", None, {"eventrow": 1}]),
    "Data": st.sampled_from(["in another case"]),
    "data_base64": st.sampled_from(["e30=", None]),
    "other": st.sampled_from([1, [], "\\ud800"]),
}


@st.composite
def _messages(draw: st.DrawFn) -> bytes:
    """Some members, most often those that are there; now and then one twice, or half of a surrogate pair."""
    names = draw(st.lists(st.sampled_from([*_MEMBERS, "data", "data", "logicalid"]), max_size=9))
    text = ", ".join(f"{json.dumps(name)}: {json.dumps(draw(_MEMBERS[name]))}" for name in names)
    text = text.replace('"a piece"', draw(st.sampled_from(['"a piece"', '"\\ud800"'])))
    return f"{draw(st.sampled_from(['', ' ']))}{{{text}}}".encode("utf-8", "surrogatepass")


def _read(value: bytes) -> tuple[object, ...]:
    try:
        return envelope.read(value)
    except Problem as problem:
        return tuple(problem.outcome)


@given(_messages())
def test_the_usual_way_says_the_same(value: bytes) -> None:
    found = _read(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "_usual", lambda _: None)
        assert _read(value) == found


def test_messages_of_each_generation_are_as_usual() -> None:
    for place in (
        {"segmentindex": 0, "finalsegment": True},
        {"segmentindex": 2, "finalsegment": False},
        {"splitindex": 0, "splittotalcnt": 0},
        {},
    ):
        message = {"type": "t", "source": "/", "logicalid": "a", "time": "t", "operation": "INS", **place}
        assert envelope._usual(json.dumps({**message, "data": "{}"}).encode()) is not None
