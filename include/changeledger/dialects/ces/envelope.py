"""Reads the CloudEvents envelope of a single message: attributes, `data`, and the place in a split event.

Names of members match in any case; of members with the same name the last counts. Three generations say in
different ways whether an event is in one message. The preview counts `splitindex` of `splittotalcnt` (0 of 0
is whole). Later ones count `segmentindex` up to `finalsegment`, from 1 or from 0 (wire notes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from changeledger.dialects.ces import avro
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import LONE_SURROGATE, Problem
from changeledger.kernels import binary_text, json_text, sql_text
from changeledger.kernels.avro import beginning
from changeledger.kernels.json_text import UNREADABLE, NotJson, Token
from changeledger.model import change

# The start of an event's `data`, which no later segment can have: its quotes would be escaped.
BEGINS = re.compile(r"\s*\{\s*\"event(source|row|data)\"", re.IGNORECASE)
_BLANKS = b" \t\r\n"
_MOST = 2**31 - 1
_Index = Annotated[int, Meta(ge=0, le=_MOST)]
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
Texts = Mapping[str, str | None]
# Segment, total and whether it is the last.
Place = tuple[int | None, int | None, bool | None]


class Tombstone(Exception):
    """A message without a value."""

    outcome = Outcome(change.TOMBSTONE, "tombstone", "a message without a value")


_SAID = ("type", "source", "logicalid", "time", "operation")


def struct_of(data: Any) -> Any:
    """Returns the struct of a message in JSON as the producer writes it: each name once, in lower case.

    `data` is the type of its `data`, which may be missing.
    """
    text = [(name, str | None, None) for name in (*_SAID, "specversion", "id", "datacontenttype")]
    place = [(name, _Index | None, None) for name in ("segmentindex", "splitindex", "splittotalcnt")]
    rest = [("finalsegment", bool | None, None), ("data", data, None)]
    return msgspec.defstruct("Message", [*text, *place, *rest], forbid_unknown_fields=True, gc=False)


_as_usual = msgspec.json.Decoder(struct_of(str | None)).decode
_without_data = msgspec.json.Decoder(struct_of(msgspec.Raw)).decode


class Envelope(NamedTuple):
    """The envelope of one message. `total` and `is_final` are None if its generation does not write them."""

    type: str | None
    source: str | None
    logicalid: str | None
    time: str | None
    operation: str | None
    # Bytes for a segment in Avro, one that is cut inside a character, or an event that cannot be read.
    data: str | bytes
    segment: int | None
    total: int | None
    is_final: bool | None
    # Whether this message has the whole event.
    is_whole: bool


def read(value: bytes | None) -> Envelope:
    """Reads the envelope. Raises Tombstone or Problem."""
    if value is None:
        raise Tombstone
    in_avro = avro.is_avro(value)
    usual = None if in_avro else _usual(value)
    if usual is not None:
        return usual
    members, data = _in_avro(value) if in_avro else _in_json(value)
    if data is None:
        raise Problem("no_data", "the message has no `data`")
    return _envelope(members, data, *_place(members))


def _usual(value: bytes) -> Envelope | None:
    """Does what `read` does in a tenth of the time; None if the message is not in the usual form."""
    try:
        message = _as_usual(value)
    except UNREADABLE:
        return None
    place = _usual_place(message)
    if place is None or message.data is None:
        return None
    members: Texts = {name: getattr(message, name) for name in _SAID}
    return _envelope(members, message.data, *place)


def has_whole_event(message: Any) -> bool | None:
    """Returns whether this message (of a `struct_of`) has a whole event, not a part; None if uncertain."""
    place = _usual_place(message)
    if place is None:
        return None
    is_whole = _is_whole(*place, message.data)
    return None if not is_whole and message.logicalid is None else is_whole


def is_no_segment(value: bytes) -> bool:
    """Returns whether a message is certainly no part of a split event, without a look at its `data`."""
    try:
        return has_whole_event(_without_data(value)) is True
    except UNREADABLE:
        return False


def _usual_place(message: Any) -> Place | None:
    """Does what `_place` does; None if a part of the place is missing."""
    segment = message.splitindex if message.segmentindex is None else message.segmentindex
    total = None if message.finalsegment is not None else message.splittotalcnt
    if (segment is None) != (message.finalsegment is None and total is None):
        return None
    return segment, total, message.finalsegment


def _envelope(
    members: Texts, data: str | bytes, segment: int | None, total: int | None, is_final: bool | None
) -> Envelope:
    whole = _is_whole(segment, total, is_final, data)
    if not whole and members.get("logicalid") is None:
        raise Problem("no_logicalid", "a part of a split event without `logicalid`")
    type_, source, logicalid, time, operation = map(members.get, _SAID)
    return Envelope(type_, source, logicalid, time, operation, data, segment, total, is_final, whole)


def _in_avro(value: bytes) -> tuple[Texts, str | bytes]:
    members = avro.members(value)
    if members is None:
        raise Problem("malformed_avro", beginning(value))
    return {name: str(member) for name, member in members.items() if name != "data"}, members["data"]


def _in_json(value: bytes) -> tuple[Texts, str | bytes | None]:
    members = _members(value)
    data = members.get("data")
    if data is None and members.get("data_base64") is not None:
        raw = binary_text.from_base64(members["data_base64"] or "")
        return members, None if raw is None else avro.text_or_bytes(raw)
    return members, data


def _members(value: bytes) -> Texts:
    if not value.lstrip(_BLANKS).startswith(b"{"):
        raise Problem("not_json", f"0x{value[:200].hex().upper()}")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Problem("not_utf8", "the message is not UTF-8") from None
    members = members_of(text, "unparseable_json")
    return {name.lower(): json_text.text(token) for name, token in members.items()}


def members_of(text: str, reason: str, detail: str | None = None) -> dict[str, Token]:
    """Returns the members of the object in a text. Raises Problem with `reason`, and `detail` or the text."""
    value = text.encode()
    try:
        members = json_text.members(value)
    except NotJson:
        if not json_text.has_lone_surrogate(value):
            raise Problem(reason, text if detail is None else detail) from None
        raise Problem(*LONE_SURROGATE) from None
    if json_text.has_lone_surrogate(value):
        # The surrogate is in a skipped member.
        raise Problem(*LONE_SURROGATE)
    return members


def _place(members: Texts) -> Place:
    """Returns segment, total and whether it is the last. Raises Problem if one is missing or not a number."""
    index, total, final = (members.get(name) for name in ("segmentindex", "splittotalcnt", "finalsegment"))
    index = members.get("splitindex") if index is None else index
    segment, is_final = _number(index), None if final is None else _FLAGS.get(final.lower())
    # `finalsegment` of later generations takes precedence over `splittotalcnt` of the preview.
    count = None if final is not None else _number(total)
    if (index, total, final) != (None, None, None):
        ends = is_final is not None if final is not None else count is not None and count >= 0
        if segment is None or segment < 0 or not ends:
            shown = (("index", index), ("total", total), ("final", final))
            what = ", ".join(f"{name} {'missing' if text is None else text}" for name, text in shown)
            raise Problem("malformed_segment", what)
    return segment, count, is_final


def _number(text: str | None) -> int | None:
    return None if text is None else sql_text.whole(text, -_MOST - 1, _MOST)


def _is_whole(segment: int | None, total: int | None, is_final: bool | None, data: Any) -> bool:
    """Returns whether a segment is the whole event: a last segment 1 only if an event begins in it."""
    if is_final is not None:
        begins = isinstance(data, str) and BEGINS.match(data) is not None
        return is_final and (segment == 0 or (segment == 1 and begins))
    return total is None or total <= 1
