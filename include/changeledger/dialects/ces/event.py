"""Reads the event in the `data` of a single message: its table, columns, key, transaction and images.

`data`, `eventsource`, `eventrow` and the images in it are objects, or texts that hold one.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from changeledger.dialects.ces.envelope import Texts, members_of
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import binary_text, json_text
from changeledger.kernels.json_text import NotJson, Token

_BLANKS = " \t\r\n"
_NOTHING = {"", "null"}
_NULL = msgspec.Raw(b"null")
_LIST = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


class EventData(NamedTuple):
    """The contents of `data`. Images are the texts of their objects, or None."""

    table: str
    database: str | None
    # As JSON; None if the message does not have them.
    cols: str | None
    # Each key column's name and its value.
    key: dict[str, Token]
    transaction: Texts
    old: str | None
    current: str | None


def read(data: str | bytes) -> EventData:
    """Reads the event. Raises Problem."""
    text = data if isinstance(data, str) else _text_of(data)
    if not text.lstrip(_BLANKS).startswith("{"):
        # It is base64 of bytes.
        raw = binary_text.from_base64(text)
        text = text if raw is None else _text_of(raw)
    event = json_text.in_lower_case(members_of(text, "unparseable_data"))
    source = _object(event.get("eventsource"))
    table = {name: json_text.text((source or {}).get(name)) for name in ("schema", "tbl")}
    if source is None or not table["schema"] or not table["tbl"]:
        raise Problem("no_table", "`eventsource` does not name schema and table")
    written = event.get("eventrow")
    if json_text.text(written) is None:
        written = event.get("eventdata")
    row = _object(written)
    if row is None:
        raise Problem("no_event_row", "`data` has no `eventrow`")
    transaction = _object(source.get("transaction")) or {}
    return EventData(
        f"{table['schema']}.{table['tbl']}",
        json_text.text(source.get("db")),
        json_text.text(source.get("cols")),
        _key(source.get("pkkey")),
        {name: json_text.text(token) for name, token in transaction.items()},
        json_text.text(row.get("old")),
        json_text.text(row.get("current")),
    )


def _text_of(raw: bytes) -> str:
    """Decodes UTF-8. Raises Problem for other bytes: replacing them would publish another text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        if raw.lstrip(_BLANKS.encode()).startswith(b"{"):
            raise Problem("not_utf8", "`data` is not UTF-8") from None
        raise Problem("unparseable_data", raw.decode(errors="replace")) from None


def image(text: str | None, side: str) -> dict[str, Token]:
    """Returns an image's members by their names as written; none if it was not sent. Raises Problem."""
    if text is None or text.strip(_BLANKS).lower() in _NOTHING:
        return {}
    return members_of(text, "malformed_image", f"`eventrow` has no object in {side}")


def _object(token: Token | None) -> dict[str, Token] | None:
    """Returns the members of an object, or of the object in a text; None for anything else."""
    text = json_text.text(token)
    try:
        return None if text is None else json_text.in_lower_case(json_text.members(text.encode()))
    except NotJson:
        return None


def _key(token: Token | None) -> dict[str, Token]:
    text = json_text.text(token)
    try:
        entries = [json_text.in_lower_case(entry) for entry in _LIST.decode(text or "[]")]
    except (msgspec.MsgspecError, RecursionError):
        return {}
    named = ((json_text.text(e.get("columnname")), e.get("value", _NULL)) for e in entries)
    return {name: value for name, value in named if name is not None}
