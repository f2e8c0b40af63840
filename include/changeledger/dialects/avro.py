"""Avro records as Spark columns, by the schema of their writer.

Spark's own `from_avro` reads the bytes. The schema that it gets says the same of them as the writer's does,
but has names of its own (bytes hold no names, and a column may be called anything), and no logical types:
the counts and bytes that come out are those that the JSON form of the same record has as text.

`from_avro` stops at the end of a record and does not look at what follows. So a mark is appended to each
record, and read as its last field: it is found in its place only where the record has used up all bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from changeledger.change import literal, quoted

_PLAIN = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
    "null": "STRING",
}
# What Spark makes one type of two.
_WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
# Where a type says what it holds.
_ITEMS = {"array": "items", "map": "values"}
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MARK_BYTES = 16
_DEEPEST = 50

# What is wanted of a record: `TEXT` for a member as text, `RAW` for bytes as they are in a text that may be
# none, `MEMBERS` for a map of its own members' texts, or the wanted members of the record that it is.
TEXT = "text"
RAW = "raw"
MEMBERS = "members"
Wanted = Mapping[str, Any]


class UnusableSchema(ValueError):
    """A schema that is none of Avro's, or says what Spark cannot read. The text says why."""


# SQL text of the text of a value at a path; None where it is the usual one.
Leaf = Callable[["Node", str], str | None]


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


class Schema:
    """The schema of a writer. Raises UnusableSchema."""

    def __init__(self, text: str) -> None:
        self._named: dict[str, tuple[Node, str] | None] = {}
        try:
            self.root, body = self._read(json.loads(text), "", 0)
        except UnusableSchema:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise UnusableSchema(f"no Avro schema: {error}") from error
        if self.root.kind != "record":
            raise UnusableSchema(f"the schema of a {self.root.kind}, not of a record")
        self.plain = body
        rest = {"type": "fixed", "name": "mark", "size": _MARK_BYTES}
        fields = [{"name": "body", "type": body}, {"name": "mark", "type": rest}]
        self._marked = json.dumps({"type": "record", "name": "marked", "fields": fields})

    def read(self, value: Column) -> Column:
        """The record in bytes, for `body` to take it out: a struct of what `from_avro` makes of it."""
        mark = F.unhex(F.md5(value))
        return from_avro(F.concat(value, mark), self._marked, {"mode": "PERMISSIVE"})

    @staticmethod
    def body(read: Column, value: Column) -> Column:
        """The record; NULL where the bytes are too few or too many, or none of the schema's."""
        return F.when(read["mark"] == F.unhex(F.md5(value)), read["body"])

    def struct(self, path: str, wanted: Wanted, leaf: Leaf | None = None) -> str:
        """SQL text of a struct with the wanted members of the record at `path`; NULL for those not there.

        `leaf` gives the text of values that the dialect's JSON does not write as usual.
        """
        return _struct(self.root, path, wanted, leaf or in_base64)

    def json(self, path: str) -> str:
        """SQL text of the record at `path` as JSON: all its members by their names, bytes as base64."""
        return f"to_json(CAST({path} AS {_ddl(self.root)}), map('ignoreNullFields', 'false'))"

    def _read(self, told: Any, namespace: str, depth: int) -> tuple[Node, Any]:
        """The type, and the same in names of our own."""
        if depth > _DEEPEST:
            raise UnusableSchema(f"types in one another, more than {_DEEPEST} deep")
        if isinstance(told, list):
            return self._union(told, namespace, depth)
        if isinstance(told, str):
            return self._by_name(told, namespace)
        if isinstance(told["type"], dict | list):
            return self._read(told["type"], namespace, depth + 1)
        return self._described(told, namespace, depth)

    def _described(self, told: Mapping[str, Any], namespace: str, depth: int) -> tuple[Node, Any]:
        kind, said = told["type"], {k: v for k, v in told.items() if k not in {"type", "fields", "name"}}
        if kind == "record":
            return self._record(told, said, namespace, depth)
        if kind in _ITEMS:
            item, plain = self._read(told[_ITEMS[kind]], namespace, depth + 1)
            return Node(kind, parts=(item,), properties=said), {"type": kind, _ITEMS[kind]: plain}
        if kind in {"enum", "fixed"}:
            return self._named_leaf(told, said, namespace)
        node, plain = self._by_name(kind, namespace)
        return replace(node, properties=said), plain

    def _by_name(self, name: str, namespace: str) -> tuple[Node, Any]:
        if name in _PLAIN:
            return Node(name), name
        for full in (_full(name, namespace), name):
            if full in self._named:
                known = self._named[full]
                if known is None:
                    raise UnusableSchema(f"{full} holds itself")
                return known
        raise UnusableSchema(f"a type {name!r} that it does not define")

    def _record(self, told: Any, said: Mapping[str, Any], namespace: str, depth: int) -> tuple[Node, Any]:
        full, inner = _names(told, namespace)
        own = self._reserve(full)
        fields, plain = {}, []
        for at, one in enumerate(told["fields"]):
            name = str(one["name"])
            if name in fields:
                raise UnusableSchema(f"{full} has two fields {name!r}")
            fields[name], kind = self._read(one["type"], inner, depth + 1)
            plain.append({"name": f"f{at}", "type": kind})
        node = Node("record", full, fields, properties=said)
        self._named[full] = node, own
        return node, {"type": "record", "name": own, "fields": plain}

    def _named_leaf(self, told: Any, said: Mapping[str, Any], namespace: str) -> tuple[Node, Any]:
        full, _ = _names(told, namespace)
        own, kind = self._reserve(full), str(told["type"])
        node = Node(kind, full, properties=said)
        self._named[full] = node, own
        if kind == "fixed":
            return node, {"type": kind, "name": own, "size": int(told["size"])}
        symbols = [str(symbol) for symbol in told["symbols"]]
        if not all(map(_SYMBOL.match, symbols)):
            raise UnusableSchema(f"{full} has symbols that are no names")
        return node, {"type": kind, "name": own, "symbols": symbols}

    def _reserve(self, full: str) -> str:
        if full in self._named:
            raise UnusableSchema(f"{full} is defined twice")
        self._named[full] = None
        return f"t{len(self._named)}"

    def _union(self, told: list[Any], namespace: str, depth: int) -> tuple[Node, Any]:
        read = [self._read(one, namespace, depth + 1) for one in told]
        branches = [node for node, _ in read if node.kind != "null"]
        plain = [own for _, own in read]
        if not branches:
            return Node("null"), plain
        nullable = len(branches) < len(read)
        widened = _WIDENED.get(frozenset(b.kind for b in branches)) if len(branches) > 1 else None
        if len(branches) > 1 and widened is None:
            return Node("union", parts=branches, nullable=nullable), plain
        one = branches[0]
        return replace(one, kind=widened or one.kind, nullable=nullable or one.nullable), plain


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _names(told: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace of what is defined in it."""
    name, stated = str(told["name"]), told.get("namespace")
    full = _full(name, namespace if stated is None else str(stated))
    return full, full.rpartition(".")[0]


def in_base64(node: Node, path: str) -> str | None:
    return f"base64({path})" if node.kind in {"bytes", "fixed"} else None


def _struct(node: Node, path: str, wanted: Wanted, leaf: Leaf) -> str:
    members = [f"{literal(name)}, {_member(node, path, name, what, leaf)}" for name, what in wanted.items()]
    return f"CASE WHEN {path} IS NOT NULL THEN named_struct({', '.join(members)}) END"


def _member(node: Node, path: str, name: str, what: Any, leaf: Leaf) -> str:
    place = {known: at for at, known in enumerate(node.fields)}.get(name)
    if place is None:
        return f"CAST(NULL AS {wanted_ddl(what)})"
    inner, inside = node.fields[name], f"{path}.f{place}"
    if what == TEXT:
        return _text(inner, inside, leaf)
    if what == RAW:
        return f"CAST({inside} AS STRING)"
    if inner.kind != "record":
        return f"CAST(NULL AS {wanted_ddl(what)})"
    return _members(inner, inside, leaf) if what == MEMBERS else _struct(inner, inside, what, leaf)


def wanted_ddl(what: Any) -> str:
    """The Spark type of what is wanted."""
    if what in (TEXT, RAW):
        return "STRING"
    if what == MEMBERS:
        return "MAP<STRING, STRING>"
    return f"STRUCT<{', '.join(f'{quoted(name)}: {wanted_ddl(inner)}' for name, inner in what.items())}>"


def _members(node: Node, path: str, leaf: Leaf) -> str:
    pairs = ", ".join(
        f"{literal(name)}, {_text(inner, f'{path}.f{at}', leaf)}"
        for at, (name, inner) in enumerate(node.fields.items())
    )
    return f"CASE WHEN {path} IS NOT NULL THEN CAST(map({pairs}) AS MAP<STRING, STRING>) END"


def _text(node: Node, path: str, leaf: Leaf) -> str:
    """SQL text of a value as JSON would write it, a text without its quotes."""
    special = leaf(node, path)
    if special is not None:
        return special
    if node.kind == "null":
        return "CAST(NULL AS STRING)"
    if node.kind in {"string", "enum"}:
        return path
    if node.kind == "union":
        branches = (_text(b, f"{path}.member{at}", leaf) for at, b in enumerate(node.parts))
        return f"coalesce({', '.join(branches)})"
    if node.kind in {"record", "array", "map"}:
        return f"to_json(CAST({path} AS {_ddl(node)}), map('ignoreNullFields', 'false'))"
    return f"CAST({path} AS STRING)"


def _ddl(node: Node) -> str:
    if node.kind in {"record", "union"}:
        members = node.fields.items()
        if node.kind == "union":
            members = {f"member{at}": part for at, part in enumerate(node.parts)}.items()
        return f"STRUCT<{', '.join(f'{quoted(name)}: {_ddl(inner)}' for name, inner in members)}>"
    if node.kind == "array":
        return f"ARRAY<{_ddl(node.parts[0])}>"
    if node.kind == "map":
        return f"MAP<STRING, {_ddl(node.parts[0])}>"
    return {"enum": "STRING", "fixed": "BINARY"}.get(node.kind) or _PLAIN[node.kind]
