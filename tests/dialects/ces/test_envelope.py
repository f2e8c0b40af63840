"""The fast path for common messages reads the same envelope as reading member by member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from changeledger.dialects.ces import envelope
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels.json_text import UNREADABLE

_TEXT = ["text", ""], [None, 7]
_INDEX = [0, 1, 2, 2**31 - 1], [None, -1, 2**31, "1", 1.0, True]
# Common values, then other values.
_MEMBERS: dict[str, tuple[list[Any], list[Any]]] = {
    "data": (['{"eventsource": {}}', "a piece", "\u00fc\U0001f600"], [None, {"eventrow": 1}]),
    "logicalid": (["a:b:1"], [None]),
    "segmentindex": _INDEX,
    "finalsegment": ([True, False], [None, "true", 1]),
    "splitindex": _INDEX,
    "splittotalcnt": _INDEX,
    **dict.fromkeys(("type", "source", "time", "operation", "id"), _TEXT),
    "Data": (["in another case"], []),
    "data_base64": (["e30=", None], []),
}


@st.composite
def _messages(draw: st.DrawFn) -> bytes:
    """Mostly common members; sometimes a repeated one, or half of a surrogate pair."""
    names = ["data", *draw(st.lists(st.sampled_from(list(_MEMBERS)[1:6]), unique=True))]
    names += draw(
        st.lists(st.sampled_from([*_MEMBERS, *["Data"] * 8]), max_size=draw(st.sampled_from([0, 0, 1, 3])))
    )
    members = []
    for name in names:
        usual, others = _MEMBERS[name]
        value = draw(st.sampled_from([*usual * 3, *others]))
        members.append(f"{json.dumps(name)}: {json.dumps(value)}")
    text = ", ".join(members).replace('"a piece"', draw(st.sampled_from(['"a piece"', r'"\ud800"'])))
    return f"{draw(st.sampled_from(['', ' ']))}{{{text}}}".encode()


def _read(value: bytes) -> tuple[object, ...]:
    try:
        return envelope.read(value)
    except Problem as problem:
        return tuple(problem.outcome)


@given(_messages())
def test_the_usual_way_says_the_same(value: bytes) -> None:
    usual = _read(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "_usual", lambda _: None)
        assert _read(value) == usual


@given(_messages())
def test_an_event_is_alone_where_its_message_is_the_whole(value: bytes) -> None:
    try:
        usual = envelope._as_usual(value)
    except UNREADABLE:
        reject()
    assume(usual.data is not None)
    event = _read(value)
    assert envelope.has_whole_event(usual) is (
        event.is_whole if isinstance(event, envelope.Envelope) else None
    )


@given(_messages())
def test_what_is_plainly_no_segment_is_none(value: bytes) -> None:
    event = _read(value)
    is_part = isinstance(event, envelope.Envelope) and not event.is_whole
    assert not (is_part and envelope.is_no_segment(value))


def test_messages_of_each_generation_are_as_usual() -> None:
    for place in (
        {"segmentindex": 0, "finalsegment": True},
        {"segmentindex": 2, "finalsegment": False},
        {"splitindex": 0, "splittotalcnt": 0},
        {},
    ):
        message = {"type": "t", "source": "/", "logicalid": "a", "time": "t", "operation": "INS", **place}
        assert envelope._usual(json.dumps({**message, "data": "{}"}).encode()) is not None
