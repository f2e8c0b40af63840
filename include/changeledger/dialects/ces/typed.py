"""Decodes by types the messages that the producer wrote in its usual form; `single` reads all others.

A message that is accepted here must have no problem that `single` would find, and give the same event there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from changeledger.dialects.ces import avro
from changeledger.dialects.ces.envelope import has_whole_event, struct_of
from changeledger.dialects.ces.events import (  # fmt: skip
    DELETE,
    INSERT,
    UPDATE,
    Event,
    ImageLayout,
    Texts,
    as_row,
    image_after,
    image_before,
    layout_of,
    members,
)
from changeledger.dialects.ces.key_beside import doubtful
from changeledger.dialects.ces.single import is_known
from changeledger.kernels import json_text
from changeledger.model.contract import Contract

_Text = str | None
Decode = Callable[[bytes | str], Any]


class Key(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A column of `pkkey`."""

    columnname: str
    value: str | None = None


class Transaction(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    commitlsn: _Text = None
    beginlsn: _Text = None
    sequencenumber: int | str | None = None
    committime: _Text = None
    finalevent: bool | None = None


class Source(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    schema: str
    tbl: str
    db: _Text = None
    cols: msgspec.Raw = msgspec.Raw(b"null")
    pkkey: list[Key] | None = None
    transaction: Transaction | None = None


def envelope_of(side: Any) -> tuple[Any, Any]:
    """Returns the structs of the envelope and of its `data`, with images of the type `side`."""
    images = msgspec.defstruct(
        "Images", [("old", side, None), ("current", side, None)], forbid_unknown_fields=True, gc=False
    )
    data = msgspec.defstruct(
        "Data", [("eventsource", Source), ("eventrow", images)], forbid_unknown_fields=True, gc=False
    )
    return struct_of(data | str | None), data


def _functions_on(rows: ImageLayout) -> tuple[Callable[[Any], Any], Callable[[Any], bool]]:
    """Returns functions: the row of a side (None if there is none), and whether a row lacks the key."""
    of_row: Decode = json_text.decoder(rows.row).decode
    nothing = rows.row()
    keys = [attrgetter(field) for field in rows.key_fields]

    def row_of(side: Any) -> Any:
        if side is None or side == "{}":
            return None
        row = of_row(side) if isinstance(side, str) else side
        return None if row == nothing else row

    def lacks_key(row: Any) -> bool:
        for key in keys:  # noqa: SIM110 - a generator takes three times as long
            if key(row) is UNSET:
                return True
        return False

    return row_of, lacks_key


def _with_key(
    image: Callable[..., Texts | None], operation: str, row: Any, key: Sequence[Key] | None, rows: ImageLayout
) -> tuple[Any, list[str]]:
    """Returns a row completed by the key beside it, and the names of members that have no column."""
    sent = {} if row is None else members(row, rows)
    return as_row(
        image(operation, sent, {column.columnname: column.value for column in key or ()}, rows), rows
    )


def _key_beside(rows: ImageLayout) -> Callable[[Any, Sequence[Key] | None], Any]:
    """Returns `doubtful` as a function of a row and `pkkey`."""
    spelled = dict(zip(rows.fields, rows.names, strict=True))
    keys = [(spelled[field], attrgetter(field)) for field in rows.key_fields]

    def beside(row: Any, key: Sequence[Key] | None) -> Any:
        if not key or [(c.columnname, c.value) for c in key] == [(name, value(row)) for name, value in keys]:
            return None
        return doubtful({column.columnname: column.value for column in key}, row, rows)

    return beside


@lru_cache(maxsize=64)
def reader_of(writer_schema: Contract) -> Callable[[int, bytes], Event | None]:
    """Returns the reader of a message, which gives None or raises one of `UNREADABLE` for unusual ones."""
    rows = layout_of(writer_schema)
    of_envelope, of_data = (json_text.decoder(kind).decode for kind in envelope_of(rows.row | str | None))
    (row_of, lacks_key), key_beside, single_key = _functions_on(rows), _key_beside(rows), len(rows.key) == 1

    def read(at: int, value: bytes) -> Event | None:
        envelope = of_envelope(avro.as_json(value))
        operation, kind, data = envelope.operation, envelope.type, envelope.data
        is_change = operation in _OPERATIONS and kind is not None and is_known(kind)
        if not is_change or not has_whole_event(envelope) or data is None:
            return None
        if isinstance(data, str):
            data = of_data(data)
        source, images, unknown = data.eventsource, data.eventrow, list[str]()
        before, after = old, current = row_of(images.old), row_of(images.current)
        if operation == DELETE:
            after = None
            if old is None or lacks_key(old):
                before, unknown = _with_key(image_before, operation, old, source.pkkey, rows)
        elif current is None:
            return None
        elif lacks_key(current):
            after, unknown = _with_key(image_after, operation, current, source.pkkey, rows)
        if operation == INSERT:
            before = None
        elif operation == UPDATE and old is not None and not single_key and lacks_key(old):
            before, others = _with_key(image_before, operation, old, source.pkkey, rows)
            unknown = others or unknown
        at_source = source.transaction or _NOWHERE
        return Event(
            at, operation, kind, envelope.logicalid, envelope.time,
            at_source.commitlsn, at_source.sequencenumber, at_source.committime,
            before, after, old is not None, current is not None, unknown,
            key_beside(before if after is None else after, source.pkkey), _shared(bytes(source.cols)),
        )  # fmt: skip

    return read


# Bounded, because a worker outlives its batches, and messages that have only changed columns write `cols` in
# many ways.
@lru_cache(maxsize=1024)
def _shared(cols: bytes) -> bytes:
    """Returns the same object for equal bytes, which many messages of a batch have."""
    return cols


_NOWHERE = Transaction()
_OPERATIONS = frozenset({INSERT, UPDATE, DELETE})
