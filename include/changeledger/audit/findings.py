"""What rules find: numbers and some offending rows, of one bucket or of all of them together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices

# Offending rows that a finding keeps, and change ids or records that one of several rows shows.
SAMPLES: Final = 20
SHOWN: Final = 5

# Of a sample: both images of the changes that it names, for the page alone.
IMAGES: Final = "images"

FINDINGS: Final = pa.schema(
    [
        ("rule", pa.string()),
        ("violations", pa.int64()),
        ("checked", pa.int64()),
        ("error", pa.string()),
        # `as_json`: nothing that a worker answers is unpickled, which would run what it names.
        ("samples", pa.string()),
    ]
)


@dataclass(frozen=True)
class Finding:
    """`violations`: how many, or None and the `error` that kept the rule from being checked.

    `checked` is the number of rows that a row rule was asked of; None for other rules. `samples`: some
    offending rows, in plain Python values.
    """

    violations: int | None
    checked: int | None = None
    samples: tuple[dict[str, Any], ...] = ()
    error: str | None = None


# A rule that is not checked yet.
Check = Callable[[], Finding]
# Groups of rows that are the same in what must be different: how many, and the first of them.
Groups = tuple[int, list[Indices]]


def checked(checks: Mapping[str, Check]) -> pa.Table:
    """`FINDINGS` of the rules; one that cannot be checked says why."""
    return as_table({name: _outcome(check) for name, check in checks.items()})


def _outcome(check: Check) -> Finding:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever it is, the rule has not been checked
        return Finding(None, error=f"{type(error).__name__}: {error}".split("\n", 1)[0])


def as_table(found: Mapping[str, Finding]) -> pa.Table:
    rows = [
        {
            "rule": name,
            "violations": one.violations,
            "checked": one.checked,
            "error": one.error,
            "samples": as_json(one.samples),
        }
        for name, one in found.items()
    ]
    return pa.Table.from_pylist(rows, FINDINGS)


def by_rule(findings: Iterable[pa.Table]) -> dict[str, Finding]:
    """The findings of all buckets, by rule."""
    found: dict[str, Finding] = {}
    for table in findings:
        for row in table.to_pylist():
            samples = of_json(row.pop("samples"))
            name = row.pop("rule")
            new = Finding(samples=samples, **row)
            found[name] = together(found[name], new) if name in found else new
    return found


def as_json(samples: Sequence[Mapping[str, Any]]) -> str:
    """Rows in plain Python values, as `of_json` gives them back."""
    return json.dumps([_tagged(row) for row in samples], default=str)


def of_json(text: str) -> tuple[dict[str, Any], ...]:
    return tuple(_untagged(row) for row in json.loads(text))


# What JSON does not have, by a name, as text and back.
_KINDS: Final[Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]]] = {
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "Decimal": (Decimal, str, Decimal),
}


def _tagged(value: Any) -> Any:
    """An object of JSON with one member says of what kind it is."""
    if isinstance(value, Mapping):
        return {"dict": {name: _tagged(member) for name, member in value.items()}}
    if isinstance(value, list | tuple):
        return [_tagged(member) for member in value]
    for name, (kind, written, _) in _KINDS.items():
        if isinstance(value, kind):
            return {name: written(value)}
    return value


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(member) for member in value]
    if not isinstance(value, dict):
        return value
    ((name, inner),) = value.items()
    if name == "dict":
        return {member: _untagged(one) for member, one in inner.items()}
    return _KINDS[name][2](inner)


def together(one: Finding, other: Finding) -> Finding:
    """A rule that cannot be checked in one place has not been checked."""
    return Finding(
        _sum(one.violations, other.violations),
        _sum(one.checked, other.checked),
        (*one.samples, *other.samples)[:SAMPLES],
        one.error or other.error,
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def of_rows(rows: pa.Table, violated: Bools, shown: Sequence[str]) -> Finding:
    """Of a rule that each row must satisfy."""
    at = np.flatnonzero(violated)
    return Finding(len(at), len(rows), samples(rows, at, shown))


def samples(rows: pa.Table, at: Indices, shown: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Some of these rows, in plain Python values."""
    some = rows.select(list(shown)).take(pa.array(at[:SAMPLES]))
    kinds = {field.name: field.type for field in some.schema}
    return tuple({name: plain(v, kinds[name]) for name, v in row.items()} for row in some.to_pylist())


def plain(value: Any, kind: pa.DataType) -> Any:
    """Times are in UTC, and do not say so; a map is a dict."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return dict(value) if pa.types.is_map(kind) and value is not None else value


def repeated(columns: Sequence[pa.Array], rows: int) -> Groups:
    """Groups of rows that are equal in all columns; two NULLs are equal."""
    codes = order.codes(columns, rows)
    at = order.repeated(codes)
    in_order = at[np.argsort(codes[at], kind="stable")]
    bounds = [*np.flatnonzero(order.begins([codes[in_order]], len(in_order))).tolist(), len(in_order)]
    some = list(pairwise(bounds))[:SAMPLES]
    return len(bounds) - 1, [in_order[begin:end] for begin, end in some]


def cells(keys: pa.StructArray) -> list[pa.Array]:
    """The columns of keys; NULL if the key is."""
    found: list[pa.Array] = keys.flatten()
    return found
