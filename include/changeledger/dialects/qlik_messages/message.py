"""Reads a single message, with or without its envelope, or says why it is neither.

The message is `{magic, type, messageSchemaId, message: {..}}`, or only what is in `message`. The first
problem counts, in the order of the functions here.
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

    is_metadata: bool
    schema: str | None
    table: str | None
    schema_id: str | None
    headers: Texts
    data: Members | None
    before_data: Members | None
    magic: str | None
    type: str | None
    is_enveloped: bool
    has_message: bool


def read(value: bytes) -> Message:
    """Reads a message, whatever it says. Raises Problem if it is not JSON in one of these forms."""
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
    kind, magic = json_text.text(outer.get("type")), json_text.text(outer.get("magic"))
    structure = json_text.text(body.get("tableStructure"))
    # The envelope's type decides; without one, the contents of the message do.
    by_content = structure is not None and headers.get("operation") is None
    # An empty text says nothing.
    schema_id = headers.get("externalSchemaId") or json_text.text(outer.get("messageSchemaId")) or None
    return Message(
        is_metadata=by_content if kind is None else kind.upper() in METADATA,
        schema=json_text.text(body.get("schema")),
        table=json_text.text(body.get("table")),
        schema_id=schema_id,
        headers=headers,
        data=objects["data"],
        before_data=objects["beforeData"],
        magic=magic,
        type=kind,
        is_enveloped=magic is not None or inner is not None,
        has_message=inner is not None,
    )


def _headers(members: Members) -> Texts:
    """Returns headers as text.

    Raises Problem if a mask is a JSON number: nothing says whether its digits are hex.
    """
    for name in _MASKS:
        if name in members and json_text.is_unquoted(members[name]):
            raise Problem("malformed_mask", f"{name} is not text: {json_text.text(members[name])}")
    return {name: json_text.text(token) for name, token in members.items()}


def check(message: Message) -> None:
    """Raises Problem if an envelope is not Qlik's, or data has no operation."""
    if message.is_enveloped:
        if message.magic not in {None, MAGIC}:
            raise Problem("wrong_magic", named("magic", message.magic))
        if message.type is not None and message.type.upper() not in {DATA, *METADATA}:
            raise Problem("unknown_type", named("type", message.type))
    if message.magic is not None and not message.has_message:
        raise Problem("no_message", "an envelope without `message`")
    if not message.is_metadata and message.headers.get("operation") is None:
        raise Problem("no_operation", "the message has no `headers.operation`")
