"""Reads raw records from JSON lines, and contracts from a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from changeledger.config.files import invalid_settings, parsed
from changeledger.model.column_names import alike, shown
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError

_HEX = "0123456789abcdefABCDEF"
# The table of rows that do not name their table.
NO_TABLE = "table"


class Message(NamedTuple):
    """A Kafka message, with the columns of a raw table of messages. `timestamp` is None if it has none."""

    topic: str
    partition: int
    offset: int | None
    timestamp: str | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Row(NamedTuple):
    """A row of a change table, with its cells as text; binary cells are 0x and hex."""

    table: str
    cells: Mapping[str, str | None]


class Unreadable(NamedTuple):
    """A line that is not a record, and why."""

    why: str


def messages(lines: Iterable[str | bytes]) -> list[Message | Unreadable]:
    return [_read(line, _message) for line in lines]


def rows(lines: Iterable[str | bytes]) -> list[Row | Unreadable]:
    return [_read(line, _row) for line in lines]


def _read(line: str | bytes, make: Any) -> Any:
    try:
        # Numbers keep their digits, because none of them is converted to a double.
        fields = json.loads(line, parse_float=str, parse_int=_Digits, object_pairs_hook=_members)
        if not isinstance(fields, dict):
            return Unreadable("the line is not a JSON object")
        return make(fields)
    except KeyError as error:
        return Unreadable(f"the line is not a record: {error} is missing")
    except (ValueError, TypeError, RecursionError) as error:
        return Unreadable(f"the line is not a record: {error}")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a duplicate member: it is unknown which of its values counts."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return members


class _Digits(str):
    """A whole number as written."""

    __slots__ = ()


def _message(fields: Mapping[str, Any]) -> Message:
    """Reads a message in our form, or in that of `kcat -J`: `payload`, `ts`, and headers as one flat list."""
    words = {"payload": "value", "ts": "timestamp"}
    fields = {words.get(name, name): member for name, member in fields.items()}
    if not fields.keys() & {"key", "value", "key_hex", "value_hex"}:
        raise ValueError("it has neither a key nor a value")
    offset = fields.get("offset")
    return Message(
        _name(fields.get("topic") or "topic"),
        _number(fields.get("partition") or 0, "partition", 32),
        None if offset is None else _number(offset, "offset", 64),
        None if fields.get("timestamp") is None else str(fields["timestamp"]),
        _bytes(fields, "key"),
        _bytes(fields, "value"),
        _headers(fields.get("headers")),
    )


def _name(value: Any) -> str:
    """Returns a name as text. Raises ValueError if it has a lone surrogate, which is not a character."""
    str(value).encode("utf-8")
    return str(value)


def _number(value: Any, what: str, bits: int) -> int:
    if not 0 <= int(value) < 2 ** (bits - 1):
        raise ValueError(f"{what} is {value}")
    return int(value)


def _bytes(fields: Mapping[str, Any], member: str) -> bytes | None:
    encoded = fields.get(f"{member}_hex")
    if encoded is not None:
        return bytes.fromhex(re.sub("^0[xX]", "", str(encoded)))
    text = fields.get(member)
    if text is None:
        return None
    if not isinstance(text, str) or isinstance(text, _Digits):
        raise TypeError(f"{member} is not text; write other bytes as {member}_hex")
    # A lone surrogate is kept for the decoder.
    return text.encode("utf-8", "surrogatepass")


def _headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """Reads headers from an object, or from a list of objects, a list of pairs or a flat list.

    The lists exist because Kafka allows duplicate names.
    """
    if headers is None:
        return []
    if isinstance(headers, dict):
        pairs = list(headers.items())
    elif all(isinstance(header, dict) for header in headers):
        pairs = [(header["key"], header.get("value")) for header in headers]
    elif all(isinstance(header, list) for header in headers):
        pairs = [(key, value) for key, value in headers]
    else:
        pairs = list(zip(headers[::2], headers[1::2], strict=True))
    return [(_name(k), None if v is None else str(v).encode("utf-8", "surrogatepass")) for k, v in pairs]


def _row(fields: Mapping[str, Any]) -> Row:
    cells = fields.get("row")
    if not isinstance(cells, dict):
        raise TypeError("`row` is not an object of columns")
    names = [name.lower() for name in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two columns differ from {twice[0]!r} in case only")
    return Row(_name(fields.get("table") or NO_TABLE), {_name(n): _cell(v) for n, v in cells.items()})


def _cell(value: Any) -> str | None:
    """Returns a cell as text. Raises TypeError for an object or a list, and ValueError as `_name` does."""
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise TypeError("a cell is an object or a list: write it as the column's text")
    return _name(value) if isinstance(value, str) else json.dumps(value)


def is_bytes(text: str) -> bool:
    """Returns whether a cell's text is bytes: 0x and hex digits."""
    return text[:2].lower() == "0x" and len(text) % 2 == 0 and all(c in _HEX for c in text[2:])


class _StatedColumn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    type: str
    nullable: bool = True
    ordinal: int | None = Field(default=None, ge=1)
    key_position: int = Field(default=0, ge=0)
    computed: bool = False


class _Stated(BaseModel):
    model_config = ConfigDict(extra="forbid")

    table: str
    key: tuple[str, ...] = ()
    columns: tuple[_StatedColumn, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _agrees(self) -> _Stated:
        names = [c.name for c in self.columns]
        if twice := alike(names):
            raise ValueError(f"columns names a column twice: {shown(twice)}")
        if missing := {key.lower() for key in self.key} - {name.lower() for name in names}:
            raise ValueError(f"key names columns that do not exist: {shown(sorted(missing))}")
        ordinals = [c.ordinal or at for at, c in enumerate(self.columns, 1)]
        if len(set(ordinals)) < len(ordinals):
            # A column that does not state its ordinal has that of its place in the list.
            raise ValueError(f"two columns have the same ordinal: {ordinals}")
        return self

    def contract(self) -> Contract:
        place = {name.lower(): at for at, name in enumerate(self.key, 1)}
        return Contract(
            table=self.table,
            columns=tuple(
                Column(
                    name=c.name,
                    type=c.type,
                    nullable=c.nullable,
                    ordinal=c.ordinal or at,
                    key_position=place.get(c.name.lower(), c.key_position),
                    computed=c.computed,
                )
                for at, c in enumerate(self.columns, 1)
            ),
        )


def contracts(path: Path) -> dict[str, Contract]:
    """Reads the contracts in a YAML or JSON file, by table. The file has one contract or a list.

    A contract is written like a table in a feed's file (`table`, `key`, `columns`), and a column may have an
    `ordinal`. Raises ConfigError that says what is wrong.
    """
    remedy = f"correct {path}: `table`, `key`, and `columns` with `name` and `type` (docs/decode.md)"
    try:
        stored = parsed(path.read_text("utf-8"))
        stated = [
            _Stated.model_validate(entry) for entry in (stored if isinstance(stored, list) else [stored])
        ]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the contract file {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(
            f"the contract file {path} is not valid: {invalid_settings(error)}", remedy
        ) from error
    by_table = {}
    for stated_contract in stated:
        contract = stated_contract.contract()
        for column in contract.columns:
            column.sql_type  # noqa: B018 - parses, and raises with the remedy
        by_table[contract.table] = contract
    return by_table
