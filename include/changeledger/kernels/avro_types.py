"""Reads Avro schemas into trees of types, and refuses schemas by which a few bytes would fill the memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

# The member of a registry's response that names the schema's type.
TYPE = "schemaType"
_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes", "null"})
# Unions of two types that are read as the wider one.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
# The attribute in which a container names its element type.
_ITEMS = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEEPEST = 50
# Two images of a table with all 30,000 columns that SQL Server allows are 180,000 types, if each is a struct.
_MOST_TYPES = 200_000


class UnusableSchema(ValueError):
    """The schema is not Avro, or is Avro that cannot be read. The message says why."""


class OtherSchema(UnusableSchema):
    """The registry's schema is of another type. `kind`: its `schemaType`, such as JSON or PROTOBUF."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the schema's type is {kind}, not AVRO")
        self.kind = kind


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

    @cached_property
    def extent(self) -> Extent:
        inner = [node.extent for node in (*self.fields.values(), *self.parts)]
        takes_none = self.kind == "null" or (self.kind == "record" and not inner)
        return Extent(
            1 + sum(of_inner.types for of_inner in inner),
            1 + max((of_inner.depth for of_inner in inner), default=0),
            takes_none
            or (self.kind == "fixed" and self.properties["size"] == 0)
            or any(of_inner.has_empty for of_inner in inner),
        )


class Extent(NamedTuple):
    """The number of types in a type, each as often as it is named, and how deep they are nested.

    `has_empty`: whether values of one of these types take no byte.
    """

    types: int
    depth: int
    has_empty: bool


class Types:
    """The types of a schema. Raises UnusableSchema, or any other error if the text is not a schema.

    `root`: the schema's record. `plain`: its schema for fastavro, without logical types and with generated
    names.
    """

    def __init__(self, text: str) -> None:
        self._named: dict[str, tuple[Node, str] | None] = {}
        written = json.loads(text)
        if isinstance(written, dict) and TYPE in written:
            raise OtherSchema(str(written[TYPE]))
        # Fails for half a surrogate pair, which no name in UTF-8 JSON can have.
        json.dumps(written, ensure_ascii=False).encode()
        self.root, self.plain = self._read(written, "")
        if self.root.kind != "record":
            raise UnusableSchema(f"the schema of a {self.root.kind}, not of a record")

    def _read(self, given: Any, namespace: str) -> tuple[Node, Any]:
        """Returns the type, and its plain schema.

        A named type may be used again and again, each time in the next one: forty lines of schema can
        describe 2^40 types.
        """
        node, plain = self._of_kind(given, namespace)
        if node.extent.depth > _DEEPEST:
            raise UnusableSchema(f"types nested more than {_DEEPEST} deep")
        if node.extent.types > _MOST_TYPES:
            raise UnusableSchema(f"more than {_MOST_TYPES:,} types")
        return node, plain

    def _of_kind(self, given: Any, namespace: str) -> tuple[Node, Any]:
        if isinstance(given, list):
            return self._union(given, namespace)
        if isinstance(given, str):
            return self._by_name(given, namespace)
        if isinstance(given["type"], dict | list):
            return self._read(given["type"], namespace)
        return self._described(given, namespace)

    def _described(self, given: Mapping[str, Any], namespace: str) -> tuple[Node, Any]:
        kind, said = given["type"], {k: v for k, v in given.items() if k not in {"type", "fields", "name"}}
        if kind == "record":
            return self._record(given, said, namespace)
        if kind in _ITEMS:
            element, plain = self._read(given[_ITEMS[kind]], namespace)
            if element.extent.has_empty:
                # The count before the elements may be 2^62.
                raise UnusableSchema(
                    f"{kind} elements that take no byte, so that any number of them fits a message"
                )
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

    def _record(self, given: Any, said: Mapping[str, Any], namespace: str) -> tuple[Node, Any]:
        full, inner = _names(given, namespace)
        reserved = self._reserve(full)
        fields: dict[str, Node] = {}
        plain = []
        for field_schema in given["fields"]:
            name = str(field_schema["name"])
            if name in fields:
                raise UnusableSchema(f"{full} has two fields {name!r}")
            of_type, kind = self._read(field_schema["type"], inner)
            fields[name] = replace(of_type, default=field_schema.get("default"))
            plain.append({"name": name, "type": kind})
        node = Node("record", full, fields, properties=said)
        self._named[full] = node, reserved
        return node, {"type": "record", "name": reserved, "fields": plain}

    def _named_leaf(self, given: Any, said: Mapping[str, Any], namespace: str) -> tuple[Node, Any]:
        full, _ = _names(given, namespace)
        reserved, kind = self._reserve(full), str(given["type"])
        if kind == "fixed":
            size = int(given["size"])
            node = Node(kind, full, properties={**said, "size": size})
            self._named[full] = node, reserved
            return node, {"type": kind, "name": reserved, "size": size}
        node = Node(kind, full, properties=said)
        self._named[full] = node, reserved
        symbols = [str(symbol) for symbol in given["symbols"]]
        if not all(map(_SYMBOL.match, symbols)):
            raise UnusableSchema(f"{full} has symbols that are not names")
        return node, {"type": kind, "name": reserved, "symbols": symbols}

    def _reserve(self, full: str) -> str:
        if full in self._named:
            raise UnusableSchema(f"{full} is defined twice")
        self._named[full] = None
        return f"t{len(self._named)}"

    def _union(self, given: list[Any], namespace: str) -> tuple[Node, Any]:
        read = [self._read(branch_schema, namespace) for branch_schema in given]
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
