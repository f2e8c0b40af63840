"""Converts rows from a contract's columns to the published ones: drops, hashes, casts and renames columns.

A value is converted alike in every window, and in the source's rows, so that equal values stay equal and
different values stay different. Hashes are HMAC-SHA256: without the secret nobody can guess values and check
them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import changes, display, images, ledger
from changeledger.kernels.arrow import (
    NAMES,
    arrow_type,
    as_schema,
    by_name,
    holding,
    named_where,
    row_type,
    valid,
    with_column,
)
from changeledger.kernels.equality import EXACT, form_of, without_zeros
from changeledger.kernels.images import Image
from changeledger.model import change
from changeledger.model.contract import Column, Contract

_KEY_NAMED_BY: Final = b"changeledger: which key is this"


def key_id(secret: str) -> str:
    """Identifies the key without revealing it."""
    return hmac.digest(secret.encode(), _KEY_NAMED_BY, hashlib.sha256).hex()[:16]


def cells(values: pa.Array, column: Column, secret: str) -> pa.Array:
    """Converts the values of a contract's column to what is published."""
    rule = column.publish
    if rule is None or rule.is_same_values:
        return values
    if rule.hash:
        return _hashed(values, column, secret)
    kind = arrow_type(column.published.spark_type)
    return display.texts(values) if pa.types.is_string(kind) else pc.cast(values, kind)


def text_of_hash(values: pa.Array, column: Column) -> pa.StringArray:
    """Returns the text to hash: the same for all values that people call equal (`equality.form_of`)."""
    form = form_of(column, column).value
    texts = display.texts(values if form is None else form(values))
    return without_zeros(texts) if pa.types.is_decimal(values.type) else texts


def hash_alike(column: Column, other: Column) -> bool:
    """Returns whether equal values of two source columns have the same text to hash."""
    kinds = [c.spark_type for c in (column, other)]
    if all(kind.startswith(EXACT) for kind in kinds):
        return True
    return kinds[0] == kinds[1] and form_of(column, column).value == form_of(other, other).value


def _hashed(values: pa.Array, column: Column, secret: str) -> pa.StringArray:
    key = secret.encode()
    encoded = text_of_hash(values, column).dictionary_encode()
    hashes = [
        hmac.digest(key, text.encode(), hashlib.sha256).hex() for text in encoded.dictionary.to_pylist()
    ]
    return pa.array(hashes, pa.string()).take(encoded.indices)


@dataclass(frozen=True)
class PublishRows:
    """Kernel that converts a source's rows to the published columns in `names`.

    `change.UNFIT_COLUMNS` is passed on unchanged, with the source's column names.
    """

    contract: Contract
    secret: str = field(repr=False)
    names: Sequence[str]

    @property
    def needed(self) -> list[str]:
        """The columns to read from the source."""
        return [*(c.name for c in self._columns), *self._unfit]

    @property
    def schema(self) -> pa.Schema:
        published = row_type(tuple(c.published for c in self._columns))
        return pa.schema([*published, *(pa.field(name, NAMES) for name in self._unfit)])

    @property
    def _columns(self) -> list[Column]:
        published = {c.published.name: c for c in self.contract.columns}
        return [published[name] for name in self.names if name not in self._unfit]

    @property
    def _unfit(self) -> list[str]:
        return [name for name in self.names if name == change.UNFIT_COLUMNS]

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [cells(rows.column(c.name), c, self.secret) for c in self._columns]
        columns += [rows.column(name) for name in self._unfit]
        schema = self.schema
        return pa.RecordBatch.from_arrays(
            [cell.cast(kind) for cell, kind in zip(columns, schema.types, strict=True)], schema=schema
        )


@dataclass(frozen=True)
class PublishChanges:
    """Kernel that converts decoded rows from the contract's ledger columns to the published contract's.

    Other columns are passed on. Ids are computed again: an id over a dropped value would reveal it to anyone
    who tries all possible values. `decoded`: the schema of the input.
    """

    contract: Contract
    secret: str = field(repr=False)
    decoded: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The schema of the output."""
        published = self.contract.published
        key, image = row_type(published.key), row_type(published.columns)
        kinds = {"key": key, "previous_key": key, "before": image, "after": image}
        return pa.schema([f.with_type(kinds.get(f.name, f.type)) for f in self.decoded])

    def __call__(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        decoded = as_schema(decoded, self.decoded)
        names = self.contract.published.names
        kept = [at for at, c in enumerate(self.contract.columns) if c.publish is None or not c.publish.drop]
        columns = by_name(decoded)
        for name in ("key", "previous_key"):
            columns[name] = self._key(decoded.column(name))
        sides = []
        for name in ("before", "after"):
            image = self._image(ledger.image(decoded, name, self.contract), kept)
            columns[name] = images.struct(image, self.contract.published.columns)
            columns[f"{name}_unknown_columns"] = images.gaps(image, names)
            sides.append(image)
        changed = decoded.column("changed")
        columns["changed"] = named_where(
            ledger.named(changed, self.contract.names)[:, kept], names, valid(changed)
        )
        rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=self.schema)
        return with_column(rows, "change_id", self._ids(rows, *sides))

    def _key(self, keys: pa.StructArray) -> pa.StructArray:
        kind = row_type(self.contract.published.key)
        key_cells = [
            cells(cell, column, self.secret)
            for cell, column in zip(keys.flatten(), self.contract.key, strict=True)
        ]
        return pa.StructArray.from_arrays(key_cells, fields=list(kind), mask=keys.is_null())

    def _image(self, image: Image, kept: Sequence[int]) -> Image:
        image_cells = [cells(image.cells[at], self.contract.columns[at], self.secret) for at in kept]
        return Image(image.present, image_cells, None if image.states is None else image.states[:, kept])

    def _ids(self, rows: pa.RecordBatch, before: Image, after: Image) -> pa.StringArray:
        has_id = valid(rows.column("change_id"))
        if not has_id.any():
            return rows.column("change_id")
        no_pair = pa.nulls(rows.num_rows, rows.schema.field("source_position").type)
        nothing = np.zeros(rows.num_rows, np.bool_)
        ledger_changes = ledger.changes(rows, before, after, rows.column("key").flatten(), nothing, no_pair)
        nowhere = holding(rows.column("flags"), change.POSITION_UNKNOWN)
        ledger_changes = replace(ledger_changes, flags={change.POSITION_UNKNOWN: nowhere})
        return changes.ids_of(ledger_changes, has_id, self.contract.published)
