"""The plan by which the kernel decodes one table's messages: small, picklable and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from changeledger.config.feed import Feed
from changeledger.config.sources import DebeziumSource
from changeledger.dialects import plan
from changeledger.dialects.debezium import avro as avro_tables
from changeledger.dialects.debezium.discovery import Discovery
from changeledger.dialects.debezium.fields import Field, Fields
from changeledger.dialects.debezium.schema_block import written_fields
from changeledger.dialects.kernel import ResolvedSchema
from changeledger.kernels import avro
from changeledger.model import growth
from changeledger.model.contract import Column, Contract


@dataclass(frozen=True)
class TablePlan(plan.TablePlan):
    """How to decode the messages of one table that share a writer schema."""

    # The database of all messages, or None if no message names one or several databases may be the feed's.
    database: str | None = None
    # Whether the messages are Avro's own JSON, which wraps values in the names of their types.
    unions: bool = False
    # The writer's Avro schema as JSON, or None if the messages are JSON.
    avro_schema: str | None = None
    # What the schema block says about each column, or None if messages have no block or each has its own.
    fields: Fields | None = None
    # Whether several databases may be the feed's.
    is_of_several: bool = False

    @property
    def source(self) -> DebeziumSource:
        assert isinstance(self.feed.source, DebeziumSource), "config binds a dialect to its source"
        return self.feed.source

    @property
    def source_table(self) -> str:
        """The table's name in the messages."""
        return self.writer_schema.source_table or self.writer_schema.table

    @property
    def never_null(self) -> list[int]:
        """The numbers of the columns outside the key that the feed or the block states as NOT NULL."""
        columns = zip(self.writer_schema.columns, self.fields or (), strict=False)
        never = {at for at, (c, f) in enumerate(columns) if f and f.never_null and not c.key_position}
        return sorted(never.union(super().never_null))

    @property
    def written_columns(self) -> Sequence[tuple[Column, Field | None]]:
        """The columns, each with its field of the schema block.

        A whole number without a semantic type is a count in the feed's unit if the feed states the column.
        Otherwise the column's type comes from another block, and this field belongs to a column of whole
        numbers that had the same name.
        """
        columns, stated = self.writer_schema.columns, self._stated
        fields = self.fields or (None,) * len(columns)
        return [
            (c, field if field is None or c.name.lower() in stated else field.of_unstated(c.sql_type))
            for c, field in zip(columns, fields, strict=True)
        ]

    def written_as(self, fields: Fields | None) -> TablePlan:
        """Returns the plan for messages whose own schema block has these fields.

        A column may have been widened or narrowed since, or another connector may state more about it.
        Reading each message by its own block makes it the same change in every window, whatever other
        messages the window has. Columns of the key keep their type, so that a key has one text everywhere.
        If the plan's type cannot hold a column's written type, the column keeps the plan's type.
        """
        columns = self.writer_schema.columns
        if fields is not None:
            pairs, stated = zip(columns, fields, strict=True), self._stated
            columns = tuple(c if c.name.lower() in stated else _as_written(c, field) for c, field in pairs)
        written = self.writer_schema.model_copy(update={"columns": columns})
        return replace(self, fields=fields, writer_schema=written)

    @property
    def _stated(self) -> frozenset[str]:
        """The columns, in lower case, whose types the feed states; no block overrides these."""
        config = self.feed.table(self.writer_schema.table)
        return frozenset(c.name.lower() for c in config.stated) if config is not None else frozenset()


def _as_written(column: Column, field: Field | None) -> Column:
    if field is None or field.sql_type is None or column.key_position:
        return column
    said = {"type": field.sql_type, "length_stated": field.length_stated}
    written = column.model_copy(update=said)
    return written if growth.takes(column, written) else column


def table_plan(  # noqa: PLR0913, PLR0917 - as every dialect's
    discovery: Discovery,
    number: int,
    feed: Feed,
    resolved: ResolvedSchema,
    contract: Contract,
    window_id: str,
) -> TablePlan:
    """Returns the plan for table `number` of the discovery."""
    table = discovery.tables[number]
    avro_schema = discovery.schemas[table.schema_id] if table.schema_id is not None else None
    columns = resolved.writer_schema.names
    block = None if avro_schema is None else avro_tables.block(avro.schema(avro_schema).root)
    return TablePlan(
        feed=feed,
        writer_schema=resolved.writer_schema.read_as(table.source_table),
        contract=contract,
        database=discovery.database,
        is_of_several=discovery.is_of_several,
        window_id=window_id,
        unions=table.unions,
        avro_schema=avro_schema,
        fields=written_fields(block, columns),
    )
