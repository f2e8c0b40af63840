"""Avro records as the JSON that the same converter would write of them, by the schema of their writer.

So there is one way to read a message, whatever its converter: counts are numbers, bytes base64, and values of
logical types as they are stored. Confluent's frame precedes a record: a zero byte, and in four the id of its
schema. A record must use up all of its bytes.
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
# Ids are positive in 32 bits with a sign.
_ID_LIMIT = 2**31
# The member of a registry's answer that says of which type a schema is.
_TYPE = "schemaType"
_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes", "null"})
# What one type is made of two.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
# Where a type says what it holds.
_ITEMS = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEEPEST = 50
_MOST_SHOWN = 40


class UnusableSchema(ValueError):
    """A schema that is none of Avro's, or says what cannot be read. The text says why."""


class OtherSchema(UnusableSchema):
    """A registry's schema of another type. `kind`: its `schemaType`, such as JSON or PROTOBUF."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the schema's type is {kind}, not AVRO")
        self.kind = kind


class BrokenRecord(ValueError):
    """The bytes are too few or too many, or none of the schema's."""


class NotUtf8(ValueError):
    """Text in the record is not UTF-8. Its text names the members that have it."""


@dataclass(frozen=True)
class Node:
    """A type in a schema. `kind` is Avro's word for it, `properties` whatever else the schema says of it."""

    kind: str
    name: str = ""
    # Of a record.
    fields: Mapping[str, Node] = field(default_factory=dict)
    # Of an array or a map its items; of a union its branches without null.
    parts: Sequence[Node] = ()
    nullable: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict)
    # Of a record's field; None: it has none.
    default: Any = None


class Schema:
    """The schema of a writer. Raises UnusableSchema."""

    def __init__(self, text: str) -> None:
        self._named: dict[str, tuple[Node, str] | None] = {}
        try:
            written = json.loads(text)
            if isinstance(written, dict) and _TYPE in written:
                raise OtherSchema(str(written[_TYPE]))
            # Half a surrogate pair is in no name that JSON in UTF-8 can have.
            json.dumps(written, ensure_ascii=False).encode()
            self.root, plain = self._read(written, "", 0)
            if self.root.kind != "record":
                raise UnusableSchema(f"the schema of a {self.root.kind}, not of a record")
            self._parsed = fastavro.parse_schema(plain)
        except UnusableSchema:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise UnusableSchema(f"no Avro schema: {error}") from error
        self._fractions = _fractions(self.root)

    def record(self, data: bytes, errors: str = "strict") -> dict[str, Any]:
        """The record after a frame. Raises BrokenRecord, and UnicodeDecodeError if strict."""
        source = BytesIO(data)
        try:
            datum: Any = fastavro.schemaless_reader(source, self._parsed, None, handle_unicode_errors=errors)
        except UnicodeDecodeError:
            raise
        except Exception as error:
            # Whatever broken bytes lead to.
            raise BrokenRecord(str(error)) from error
        if source.tell() != len(data):
            raise BrokenRecord("more bytes than the record has")
        record: dict[str, Any] = datum
        return record

    def json(self, data: bytes) -> bytes:
        """The record as JSON. Raises BrokenRecord and NotUtf8."""
        try:
            record = self.record(data)
        except UnicodeDecodeError:
            raise NotUtf8(_with_broken_text(self.record(data, "replace"))) from None
        for name, finite in self._fractions:
            record[name] = finite(record[name])
        return msgspec.json.encode(record)

    def _read(self, given: Any, namespace: str, depth: int) -> tuple[Node, Any]:
        """The type, and the same without logical types, in names of our own."""
        if depth > _DEEPEST:
            raise UnusableSchema(f"types in one another, more than {_DEEPEST} deep")
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
                    raise UnusableSchema(f"{full} holds itself")
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
            raise UnusableSchema(f"{full} has symbols that are no names")
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
    """The full name of a named type, and the namespace of what is defined in it."""
    name, stated = str(given["name"]), given.get("namespace")
    full = _full(name, namespace if stated is None else str(stated))
    return full, full.rpartition(".")[0]


@lru_cache(maxsize=256)
def schema(text: str) -> Schema:
    """Parsed once a process. Raises UnusableSchema."""
    return Schema(text)


# What makes a text of a number that JSON does not have.
_Finite = Callable[[Any], Any]


def _fractions(node: Node) -> list[tuple[str, _Finite]]:
    """The fields of a record in which there are fractions, and what is done with their values.

    JSON has no infinity and no NaN, and a writer of JSON would make NULL of them: they become texts.
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
    """The value with what `change` makes of its leaves."""
    if isinstance(value, dict):
        return {name: _mapped(change, member) for name, member in value.items()}
    return [_mapped(change, element) for element in value] if isinstance(value, list) else change(value)


def _with_broken_text(record: Mapping[str, Any]) -> str:
    """The first member of a record in which text was replaced."""
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
    """The id in a frame."""
    return str(int.from_bytes(value[1:FRAME_BYTES], "big"))


def is_framed(value: bytes | None) -> bool:
    return value is not None and len(value) >= FRAME_BYTES and value[0] == 0


def names_schema(value: bytes | None) -> bool:
    """Does a frame have an id that a registry can have given?"""
    return value is not None and is_framed(value) and 0 < int(schema_id(value)) < _ID_LIMIT


def schema_ids(raws: Iterable[bytes | None]) -> set[str]:
    """The ids in the frames of messages' keys and values."""
    return {schema_id(raw) for raw in raws if raw is not None and names_schema(raw)}


def registered(kind: str | None, text: str) -> str:
    """A registry's schema as it is kept: one that is not Avro's as the registry answers it, with its type."""
    return text if kind in {None, "AVRO"} else json.dumps({_TYPE: kind, "schema": text})


def beginning(value: bytes) -> str:
    """The first bytes of a message that is no text, to show."""
    return f"begins with 0x{value[:_MOST_SHOWN].hex().upper()}"
