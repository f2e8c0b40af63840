"""Which columns are a table's key, by what the keys of its messages name.

A key column that the connector leaves out of the values stays in the keys (Debezium's page on SQL Server,
`column.exclude.list`). What is left of such a key identifies the wrong rows: it is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from changeledger.dialects.debezium.plain import payload_of
from changeledger.model.column_names import unlike

# What ByLogicalTableRouter adds to keys: the table, which is no column.
_OF_ROUTER = "__dbz__physicalTableIdentifier"


def names_in(key: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a key, by its schema block or its members; none if it is no object."""
    try:
        names = tuple(str(field["field"]) for field in key["schema"]["fields"])
    except (LookupError, TypeError):
        names = ()
    payload = payload_of(key)
    is_whole = payload is not key or key.keys() != {"schema", "payload"}
    return tuple(name for name in names or (payload if is_whole else ()) if name != _OF_ROUTER)


def lacking(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The names that none of the columns has."""
    known = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in known]


def places(names: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """The place in the key of each of its columns, by its name in lower case; empty where one is lacking."""
    if lacking(names, columns):
        return {}
    return {name.lower(): at for at, name in enumerate(unlike(names), 1)}
