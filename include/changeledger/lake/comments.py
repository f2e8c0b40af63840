"""Writes comments of tables and columns into the catalog, if they differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.types import NestedField, StructType

from changeledger.lake import catalog
from changeledger.model.comments import ColumnComments, Comments

_COMMENT = "comment"
# Refers to the schema that the same commit adds.
_LAST = -1


def write(table: str, comments: Comments, loaded: Table | None = None) -> None:
    """Writes comments by field id, since a column's name may contain dots.

    Columns without a comment here keep theirs. `loaded`: the table, if it is loaded with its present columns.
    """

    def change(known: Table) -> Callable[[], object] | None:
        updates = _updates(known, comments)
        # Two processes could give their schemas the same number, and Spark cannot read such a table.
        same = AssertCurrentSchemaId.model_validate({"current-schema-id": known.schema().schema_id})
        return partial(known.catalog.commit_table, known, (same,), updates) if updates else None

    catalog.commit(table, change, loaded)


def _updates(table: Table, comments: Comments) -> tuple[TableUpdate, ...]:
    schema = table.schema()
    fields = [_commented(field, (), comments.columns) for field in schema.fields]
    updates: list[TableUpdate] = []
    if fields != list(schema.fields):
        number = 1 + max(version.schema_id for version in table.metadata.schemas)
        commented = Schema(*fields, schema_id=number, identifier_field_ids=schema.identifier_field_ids)
        updates += [
            AddSchemaUpdate(schema=commented),
            SetCurrentSchemaUpdate.model_validate({"schema-id": _LAST}),
        ]
    if table.properties.get(_COMMENT) != comments.table:
        updates.append(SetPropertiesUpdate(updates={_COMMENT: comments.table}))
    return tuple(updates)


def _commented(field: NestedField, path: tuple[str, ...], comments: ColumnComments) -> NestedField:
    path = (*path, field.name)
    kind = field.field_type
    if isinstance(kind, StructType):
        kind = StructType(*(_commented(inner, path, comments) for inner in kind.fields))
    return field.model_copy(update={"field_type": kind, "doc": comments.get(path, field.doc)})
