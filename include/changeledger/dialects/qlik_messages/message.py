"""Reads a single message, with or without its envelope, or says why it is neither.

The message is `{magic, type, messageSchemaId, message: {..}}`, or only what is in `message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import LONE_SURROGATE, Problem, named
from changeledger.dialects.qlik_messages.metadata import MAGIC
from changeledger.kernels import json_text
from changeledger.kernels.json_text import Members, NotJson, Token
from changeledger.model import change

DATA = "DT"
# The page says MD, older releases wrote MT.
METADATA = ("MD", "MT")
_OBJECTS = ("headers", "data", "beforeData")
_MASKS = ("changeMask", "columnMask")
_BLANKS = b" \t\r\n"
TOMBSTONE = Outcome(change.TOMBSTONE)
Texts = Mapping[str, str | None]


class Message(NamedTuple):
    """The contents of a message. `headers` are texts; images are the tokens of their members, or None."""

    schema: str | None
    table: str | None
    schema_id: str | None
    headers: Texts
    data: Members | None
    before_data: Members | None


def read(value: bytes) -> Message:
    """Reads a message of data or metadata. Raises Problem, with the first one, for any other message."""
    if not value.strip(_BLANKS).startswith(b"{"):
        raise Problem("not_json", f"begins with 0x{value[:8].hex().upper()}")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Problem("not_utf8", "the message is not UTF-8") from None
    is_broken = json_text.has_lone_surrogate(value)
    try:
        outer = json_text.members(value)
    except NotJson:
        raise Problem(*LONE_SURROGATE if is_broken else ("unparseable_json", text)) from None
    try:
        inner = _object(outer, "message")
        objects = {name: _object(outer, name) for name in _OBJECTS}
        if inner is not None:
            objects = {name: _object(inner, name) for name in _OBJECTS}
    except NotJson:
        raise Problem("malformed_envelope", text) from None
    if is_broken:
        raise Problem(*LONE_SURROGATE)
    return _message(outer, inner, objects)


def _object(parent: Members, name: str) -> dict[str, Token] | None:
    """Returns the members of an object; None if it is null or missing. Raises NotJson for anything else."""
    token = parent.get(name)
    if token is None or bytes(token) == b"null":
        return None
    if not json_text.is_object(token):
        raise NotJson(name)
    return json_text.members(token)


def _message(outer: Members, inner: Members | None, objects: Mapping[str, Members | None]) -> Message:
    body = outer if inner is None else inner
    headers = _headers(objects["headers"] or {})
    _check(outer, body, headers)
    # An empty text says nothing.
    schema_id = headers.get("externalSchemaId") or json_text.text(outer.get("messageSchemaId")) or None
    schema, table = (json_text.text(body.get(name)) for name in ("schema", "table"))
    return Message(schema, table, schema_id, headers, objects["data"], objects["beforeData"])


def _headers(members: Members) -> Texts:
    """Returns headers as text.

    Raises Problem if a mask is a JSON number: nothing says whether its digits are hex.
    """
    for name in _MASKS:
        if name in members and json_text.is_unquoted(members[name]):
            raise Problem("malformed_mask", f"{name} is not text: {json_text.text(members[name])}")
    return {name: json_text.text(token) for name, token in members.items()}


def _check(outer: Members, body: Members, headers: Texts) -> None:
    """Raises Problem if an envelope is not Qlik's, or data has no operation."""
    kind, magic = json_text.text(outer.get("type")), json_text.text(outer.get("magic"))
    has_message = body is not outer
    if magic not in {None, MAGIC}:
        raise Problem("wrong_magic", named("magic", magic))
    if (has_message or magic is not None) and kind is not None and kind.upper() not in {DATA, *METADATA}:
        raise Problem("unknown_type", named("type", kind))
    if magic is not None and not has_message:
        raise Problem("no_message", "an envelope without `message`")
    # The envelope's type decides; without one, the contents of the message do.
    by_content = json_text.text(body.get("tableStructure")) is not None
    is_metadata = by_content if kind is None else kind.upper() in METADATA
    if not is_metadata and headers.get("operation") is None:
        raise Problem("no_operation", "the message has no `headers.operation`")
