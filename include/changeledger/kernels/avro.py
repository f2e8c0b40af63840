"""Converts Avro records, by their writer's schema, to the JSON that the same converter would write.

So messages are read in one way, whatever their converter: counts are numbers, bytes are base64, and values of
logical types stay as stored. Confluent's frame precedes a record: a zero byte, and the schema's id in four
bytes. A record must use up all of its bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

import fastavro
import msgspec

FRAME_BYTES = 5
# Ids are positive signed 32-bit numbers.
_ID_LIMIT = 2**31
# The member of a registry's response that names the schema's type.
_TYPE = "schemaType"
_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes", "null"})
# Unions of two types that are read as the wider one.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
# The attribute in which a container names its element type.
_ITEMS = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEEPEST = 50
_MOST_SHOWN = 40


class UnusableSchema(ValueError):
    """The schema is not Avro, or is Avro that cannot be read. The message says why."""


class OtherSchema(UnusableSchema):
    """The registry's schema is of another type. `kind`: its `schemaType`, such as JSON or PROTOBUF."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the schema's type is {kind}, not AVRO")
        self.kind = kind


class BrokenRecord(ValueError):
    """The record has too few or too many bytes, or does not match the schema."""


class NotUtf8(ValueError):
    """Text in the record is not UTF-8. The message names the first member with such text."""


@dataclass(frozen=True)
class Node:
    """A type in a schema. `kind` is Avro's name of it, `properties` are all other attributes."""

    kind: str
    name: str = ""
    # A record's fields by name.
    fields: Mapping[str, Node] = field(default_factory=dict)
    # The element type of an array or a map; the branches of a union, without null.
    parts: Sequence[Node] = ()
    nullable: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)
    # The default of a record's field; None if it has none.
    default: Any = None


class Schema:
    """A writer's schema. Raises UnusableSchema."""

    def __init__(self, text: str) -> None:
        self._named: dict[str, tuple[Node, str] | None] = {}
        try:
            written = json.loads(text)
            if isinstance(written, dict) and _TYPE in written:
                raise OtherSchema(str(written[_TYPE]))
            # Fails for half a surrogate pair, which no name in UTF-8 JSON can have.
            json.dumps(written, ensure_ascii=False).encode()
            self.root, plain = self._read(written, "", 0)
            if self.root.kind != "record":
                raise UnusableSchema(f"the schema of a {self.root.kind}, not of a record")
            self._parsed = fastavro.parse_schema(plain)
        except UnusableSchema:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise UnusableSchema(f"not an Avro schema: {error}") from error
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

    def _read(self, given: Any, namespace: str, depth: int) -> tuple[Node, Any]:
        """Returns the type, and its schema without logical types and with generated names."""
        if depth > _DEEPEST:
            raise UnusableSchema(f"types nested more than {_DEEPEST} deep")
        if isinstance(given, list):
            return self._union(given, namespace, depth)
        if isinstance(given, str):
            return self._by_name(given, namespace)
        if isinstance(given["type"], dict | list):
            return self._read(given["type"], namespace, depth + 1)
        return self._described(given, namespace, depth)

    def _described(self, given: Mapping[str, Any], namespace: str, depth: int) -> tuple[Node, Any]:
        kind, said = given["type"], {k: v for k, v in given.items() if k not in {"type", "fields", "name"}}
        if kind == "record":
            return self._record(given, said, namespace, depth)
        if kind in _ITEMS:
            element, plain = self._read(given[_ITEMS[kind]], namespace, depth + 1)
            return Node(kind, parts=(element,), properties=said), {"type": kind, _ITEMS[kind]: plain}
        if kind in {"enum", "fixed"}:
            return self._named_leaf(given, said, namespace)
        node, plain = self._by_name(kind, namespace)
        return replace(node, properties=said), plain

    def _by_name(self, name: str, namespace: str) -> tuple[Node, Any]:
        if name in _PRIMITIVE:
            return Node(name), name
        for full in (_full(name, namespace), name):
            if full in self._named:
                known = self._named[full]
                if known is None:
                    raise UnusableSchema(f"{full} contains itself")
                return known
        raise UnusableSchema(f"a type {name!r} that it does not define")

    def _record(self, given: Any, said: Mapping[str, Any], namespace: str, depth: int) -> tuple[Node, Any]:
        full, inner = _names(given, namespace)
        reserved = self._reserve(full)
        fields: dict[str, Node] = {}
        plain = []
        for field_schema in given["fields"]:
            name = str(field_schema["name"])
            if name in fields:
                raise UnusableSchema(f"{full} has two fields {name!r}")
            of_type, kind = self._read(field_schema["type"], inner, depth + 1)
            fields[name] = replace(of_type, default=field_schema.get("default"))
            plain.append({"name": name, "type": kind})
        node = Node("record", full, fields, properties=said)
        self._named[full] = node, reserved
        return node, {"type": "record", "name": reserved, "fields": plain}

    def _named_leaf(self, given: Any, said: Mapping[str, Any], namespace: str) -> tuple[Node, Any]:
        full, _ = _names(given, namespace)
        reserved, kind = self._reserve(full), str(given["type"])
        node = Node(kind, full, properties=said)
        self._named[full] = node, reserved
        if kind == "fixed":
            return node, {"type": kind, "name": reserved, "size": int(given["size"])}
        symbols = [str(symbol) for symbol in given["symbols"]]
        if not all(map(_SYMBOL.match, symbols)):
            raise UnusableSchema(f"{full} has symbols that are not names")
        return node, {"type": kind, "name": reserved, "symbols": symbols}

    def _reserve(self, full: str) -> str:
        if full in self._named:
            raise UnusableSchema(f"{full} is defined twice")
        self._named[full] = None
        return f"t{len(self._named)}"

    def _union(self, given: list[Any], namespace: str, depth: int) -> tuple[Node, Any]:
        read = [self._read(branch_schema, namespace, depth + 1) for branch_schema in given]
        branches = [node for node, _ in read if node.kind != "null"]
        plain = [schema for _, schema in read]
        if not branches:
            return Node("null"), plain
        nullable = len(branches) < len(read)
        widened = _WIDENED.get(frozenset(b.kind for b in branches)) if len(branches) > 1 else None
        if len(branches) > 1 and widened is None:
            return Node("union", parts=branches, nullable=nullable), plain
        branch = branches[0]
        return replace(branch, kind=widened or branch.kind, nullable=nullable or branch.nullable), plain


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _names(given: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Returns the full name of a named type, and the namespace of types defined inside it."""
    name, stated = str(given["name"]), given.get("namespace")
    full = _full(name, namespace if stated is None else str(stated))
    return full, full.rpartition(".")[0]


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
    return text if kind in {None, "AVRO"} else json.dumps({_TYPE: kind, "schema": text})


def beginning(value: bytes) -> str:
    """Formats the first bytes of a message that is not text."""
    return f"begins with 0x{value[:_MOST_SHOWN].hex().upper()}"
