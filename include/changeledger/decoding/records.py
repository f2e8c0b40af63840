"""Raw records told as JSON lines, and contracts told in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from changeledger.config import invalid_members
from changeledger.contract import Column, Contract
from changeledger.errors import ConfigError

_HEX = "0123456789abcdefABCDEF"


class Message(NamedTuple):
    """A Kafka message: the columns of a raw table of messages, without `timestamp` where none is told."""

    topic: str
    partition: int
    offset: int | None
    timestamp: str | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Row(NamedTuple):
    """A row of a change table: its cells as text; binary ones as 0x and hex."""

    table: str
    cells: Mapping[str, str | None]


class Unreadable(NamedTuple):
    """A line that tells no record, and why."""

    why: str


def messages(lines: Iterable[str | bytes]) -> list[Message | Unreadable]:
    return [_read(line, _message) for line in lines]


def rows(lines: Iterable[str | bytes]) -> list[Row | Unreadable]:
    return [_read(line, _row) for line in lines]


def _read(line: str | bytes, make: Any) -> Any:
    try:
        # Numbers keep their digits: none of them goes through a double.
        told = json.loads(line, parse_float=str, parse_int=_whole)
        if not isinstance(told, dict):
            return Unreadable("the line is no JSON object")
        return make(told)
    except (ValueError, TypeError, RecursionError) as error:
        return Unreadable(f"the line is no record: {error}")


class _Digits(str):
    """A whole number as it is written."""

    __slots__ = ()


def _whole(digits: str) -> _Digits:
    return _Digits(digits)


def _message(told: Mapping[str, Any]) -> Message:
    offset = told.get("offset")
    return Message(
        str(told.get("topic") or "topic"),
        int(told.get("partition") or 0),
        None if offset is None else int(offset),
        None if told.get("timestamp") is None else str(told["timestamp"]),
        _bytes(told, "key"),
        _bytes(told, "value"),
        _headers(told.get("headers")),
    )


def _bytes(told: Mapping[str, Any], member: str) -> bytes | None:
    encoded = told.get(f"{member}_hex")
    if encoded is not None:
        return bytes.fromhex(str(encoded).removeprefix("0x"))
    text = told.get(member)
    if text is None:
        return None
    if not isinstance(text, str) or isinstance(text, _Digits):
        raise TypeError(f"{member} is no text; write what is not text as {member}_hex")
    # A lone surrogate stays one, for the decoder to meet.
    return text.encode("utf-8", "surrogatepass")


def _headers(told: Any) -> list[tuple[str, bytes | None]]:
    """Headers as an object, or as `[{"key": .., "value": ..}]`, for Kafka allows a name twice."""
    if told is None:
        return []
    pairs = told.items() if isinstance(told, dict) else [(one["key"], one.get("value")) for one in told]
    return [(str(k), None if v is None else str(v).encode("utf-8", "surrogatepass")) for k, v in pairs]


def _row(told: Mapping[str, Any]) -> Row:
    cells = told.get("row")
    if not isinstance(cells, dict):
        raise TypeError("`row` is no object of columns")
    return Row(str(told.get("table") or "table"), {str(n): _cell(v) for n, v in cells.items()})


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return json.dumps(value)


def is_bytes(text: str) -> bool:
    """Is a cell's text bytes, as 0x and hex?"""
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
    """The contracts in a YAML or JSON file, by table: one, or a list of them.

    A contract is written as a table in a feed's file is (`table`, `key`, `columns`); a column may have its
    `ordinal` beside. Raises ConfigError that says what is wrong.
    """
    remedy = f"correct {path}: `table`, `key`, and `columns` with `name` and `type` (docs/decode.md)"
    try:
        told = yaml.safe_load(path.read_text("utf-8"))
        stated = [_Stated.model_validate(one) for one in (told if isinstance(told, list) else [told])]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the contract file {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(
            f"the contract file {path} is not valid: {invalid_members(error)}", remedy
        ) from error
    found = {}
    for one in stated:
        contract = one.contract()
        for column in contract.columns:
            column.sql_type  # noqa: B018 - parses, and raises with the remedy
        found[contract.table] = contract
    return found
