"""Converts Avro records, by their writer's schema, to the JSON that the same converter would write.

So messages are read in one way, whatever their converter: counts are numbers, bytes are base64, and values of
logical types stay as stored. Confluent's frame precedes a record: a zero byte, and the schema's id in four
bytes. A record must use up all of its bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

import fastavro
import msgspec

from changeledger.kernels.avro_types import TYPE, Node, Types, UnusableSchema

FRAME_BYTES = 5
# Ids are positive signed 32-bit numbers.
_ID_LIMIT = 2**31
_MOST_SHOWN = 40


class BrokenRecord(ValueError):
    """The record has too few or too many bytes, or does not match the schema."""


class NotUtf8(ValueError):
    """Text in the record is not UTF-8. The message names the first member with such text."""


class Schema:
    """A writer's schema. Raises UnusableSchema."""

    def __init__(self, text: str) -> None:
        try:
            types = Types(text)
            self._parsed = fastavro.parse_schema(types.plain)
        except UnusableSchema:
            raise
        except Exception as error:
            # A broken schema can lead to any exception.
            raise UnusableSchema(f"not an Avro schema: {error}") from error
        self.root = types.root
        self._fractions = _fractions(self.root)

    def record(self, data: bytes, errors: str = "strict") -> dict[str, Any]:
        """Decodes the record after a frame. Raises BrokenRecord, and UnicodeDecodeError if strict."""
        source = BytesIO(data)
        try:
            datum: Any = fastavro.schemaless_reader(source, self._parsed, None, handle_unicode_errors=errors)
        except UnicodeDecodeError:
            raise
        except Exception as error:
            # Broken bytes can lead to any exception.
            raise BrokenRecord(str(error)) from error
        if source.tell() != len(data):
            raise BrokenRecord("more bytes than the record has")
        record: dict[str, Any] = datum
        return record

    def json(self, data: bytes) -> bytes:
        """Converts the record to JSON. Raises BrokenRecord and NotUtf8."""
        try:
            record = self.record(data)
        except UnicodeDecodeError:
            raise NotUtf8(_with_broken_text(self.record(data, "replace"))) from None
        for name, finite in self._fractions:
            record[name] = finite(record[name])
        return msgspec.json.encode(record)


@lru_cache(maxsize=256)
def schema(text: str) -> Schema:
    """Parses a schema once per process. Raises UnusableSchema."""
    return Schema(text)


# Replaces numbers that JSON lacks with texts.
_Finite = Callable[[Any], Any]


def _fractions(node: Node) -> list[tuple[str, _Finite]]:
    """Returns the fields of a record that have floating point numbers, and the conversion of their values.

    JSON has no infinity and no NaN, and a JSON writer would turn them into NULL, so they become texts.
    """
    converters = ((name, _finite_of(field)) for name, field in node.fields.items())
    return [(name, finite) for name, finite in converters if finite is not None]


def _finite_of(node: Node) -> _Finite | None:
    if node.kind in {"float", "double"}:
        return _finite
    if node.kind == "record":
        fields = _fractions(node)
        return partial(_finite_record, fields) if fields else None
    return partial(_mapped, _finite) if any(_finite_of(part) is not None for part in node.parts) else None


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _finite_record(fields: Sequence[tuple[str, _Finite]], record: Any) -> Any:
    if record is not None:
        for name, finite in fields:
            record[name] = finite(record[name])
    return record


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Applies `change` to the leaves of the value."""
    if isinstance(value, dict):
        return {name: _mapped(change, member) for name, member in value.items()}
    return [_mapped(change, element) for element in value] if isinstance(value, list) else change(value)


def _with_broken_text(record: Mapping[str, Any]) -> str:
    """Returns the first member of a record in which text was replaced."""
    broken: list[bool] = []

    def look(leaf: Any) -> None:
        broken.append(isinstance(leaf, str) and "\ufffd" in leaf)

    for name, value in record.items():
        broken.clear()
        _mapped(look, value)
        if any(broken):
            return name
    return ""


def schema_id(value: bytes) -> str:
    """Returns the schema's id in a frame."""
    return str(int.from_bytes(value[1:FRAME_BYTES], "big"))


def is_framed(value: bytes | None) -> bool:
    return value is not None and len(value) >= FRAME_BYTES and value[0] == 0


def names_schema(value: bytes | None) -> bool:
    """Returns whether a value begins with a frame whose id a registry can have assigned."""
    return value is not None and is_framed(value) and 0 < int(schema_id(value)) < _ID_LIMIT


def schema_ids(raws: Iterable[bytes | None]) -> set[str]:
    """Returns the schemas' ids in the frames of keys and values."""
    return {schema_id(raw) for raw in raws if raw is not None and names_schema(raw)}


def registered(kind: str | None, text: str) -> str:
    """Returns a registry's schema as it is stored: a schema other than Avro together with its type."""
    return text if kind in {None, "AVRO"} else json.dumps({TYPE: kind, "schema": text})


def beginning(value: bytes) -> str:
    """Formats the first bytes of a message that is not text."""
    return f"begins with 0x{value[:_MOST_SHOWN].hex().upper()}"
