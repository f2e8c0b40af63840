"""Comments of a table and of its columns in the catalog, written where they differ."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate, TableUpdate
from pyiceberg.types import NestedField, StructType

from changeledger.lake import catalog
from changeledger.model.comments import ColumnComments, Comments

_COMMENT = "comment"
# The schema that the commit adds.
_LAST = -1


def write(table: str, comments: Comments, loaded: Table | None = None) -> None:
    """By field ids: a column's name may have dots. Columns without a comment here keep theirs.

    `loaded`: the table, if it is known as its columns are now.
    """
    iceberg_table = loaded or catalog.load(table)
    schema = iceberg_table.schema()
    fields = [_commented(field, (), comments.columns) for field in schema.fields]
    updates: list[TableUpdate] = []
    if fields != list(schema.fields):
        number = 1 + max(version.schema_id for version in iceberg_table.metadata.schemas)
        commented = Schema(*fields, schema_id=number, identifier_field_ids=schema.identifier_field_ids)
        updates += [
            AddSchemaUpdate(schema=commented),
            SetCurrentSchemaUpdate.model_validate({"schema-id": _LAST}),
        ]
    if iceberg_table.properties.get(_COMMENT) != comments.table:
        updates.append(SetPropertiesUpdate(updates={_COMMENT: comments.table}))
    if updates:
        iceberg_table.catalog.commit_table(iceberg_table, (), tuple(updates))


def _commented(field: NestedField, path: tuple[str, ...], comments: ColumnComments) -> NestedField:
    path = (*path, field.name)
    kind = field.field_type
    if isinstance(kind, StructType):
        kind = StructType(*(_commented(inner, path, comments) for inner in kind.fields))
    return field.model_copy(update={"field_type": kind, "doc": comments.get(path, field.doc)})
