"""Which table a message names, by no more of it than that."""

from __future__ import annotations

import msgspec

from changeledger.kernels.json_text import UNREADABLE


class _Source(msgspec.Struct, gc=False):
    schema: str | None = None
    table: str | None = None


class _Payload(msgspec.Struct, gc=False):
    source: _Source | None = None


class _Routed(msgspec.Struct, gc=False):
    """No more of a message than names its table."""

    payload: _Payload | None = None
    source: _Source | None = None


_ROUTED = msgspec.json.Decoder(_Routed)


def table_in(value: bytes | None) -> str | None:
    """`schema.table`, as `source` has it; None if it does not."""
    if value is None:
        return None
    try:
        message = _ROUTED.decode(value)
    except UNREADABLE:
        return None
    source = (message.payload and message.payload.source) or message.source
    if source is None or source.schema is None or source.table is None:
        return None
    return f"{source.schema}.{source.table}"
