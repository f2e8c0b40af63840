"""The `source:` of a feed's YAML: one model for each dialect."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
)

from changeledger.model.base_model import Strict


class KafkaTopics(Strict):
    """Topics to read: names, or patterns with `*` for any run of characters."""

    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of topics, or patterns with `*` for any run of characters."""


class DebeziumSource(KafkaTopics):
    """Topics of Debezium, and how the connector is set up."""

    placeholder: str = Field(default="__debezium_unavailable_value", min_length=1)
    """The connector's `unavailable.value.placeholder`: what it writes for a large value that it could not
    read."""
    decimals: Literal["precise", "text"] = "precise"
    """How the connector writes decimals (`decimal.handling.mode`): `precise` is base64 of their bytes,
    `text` is for its modes `string` and `double`."""
    temporal: Literal["adaptive", "connect"] = "adaptive"
    """The unit of times (`time.precision.mode`): `adaptive` goes by the column's precision, and is also for
    `isostring`; `connect` is always milliseconds."""
    binaries: Literal["base64", "hex"] = "base64"
    """How the connector writes bytes (`binary.handling.mode`); `base64` is also for `base64-url-safe`."""


class QlikMessagesSource(KafkaTopics):
    """Topics of a Qlik task; its messages say all else."""


class CesSource(KafkaTopics):
    """The topic of a change event stream group."""

    binaries: Literal["any", "hex", "base64"] = "any"
    """How the server writes bytes, which is not published: `any` reads `0x` and hex digits as hex, all else
    as base64."""


class SqlServerCdcSource(Strict):
    """SQL Server CDC tables: the schema that holds `change_tables`, `lsn_time_mapping` and `*_CT`."""

    cdc_schema: str = "cdc"
    """The schema that has `change_tables`, `lsn_time_mapping` and the `*_CT` tables."""
    partition_rows: int = Field(default=200_000, ge=1)
    """Rows that one Spark task reads; a window with more rows is read in parallel."""


class QlikTablesSource(Strict):
    """Qlik change tables `<table>__ct`, in the database that the task writes to."""

    target_schema: str | None = None
    """The schema of the change tables, where it is not the source table's own."""
    header_prefix: str = "header__"
    """The prefix of the header columns, as the task's settings have it."""
    empty_is_null: bool = False
    """`true` where the target has no empty text and holds `''` for NULL."""
    partition_rows: int = Field(default=200_000, ge=1)
    """Rows that one Spark task reads; a window with more rows is read in parallel."""


SOURCE_MODELS: dict[str, type[Strict]] = {
    "debezium": DebeziumSource,
    "qlik_tables": QlikTablesSource,
    "qlik_messages": QlikMessagesSource,
    "ces": CesSource,
    "sqlserver_cdc": SqlServerCdcSource,
}
