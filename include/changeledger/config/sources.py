"""The `source:` of a feed's YAML: one model for each dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from changeledger.model.base_model import Strict

TimePrecision = Literal[
    "adaptive",
    "adaptive_time_microseconds",
    "connect",
    "isostring",
    "microseconds",
    "nanoseconds",
    "structured",
]


# The prefix of the connector's placeholder if it is bytes, not text.
_HEX = "hex:"
_OCTETS = re.compile(r"([0-9A-Fa-f]{2})+")


class KafkaTopics(Strict):
    """Topics to read: names, or patterns with `*` for any run of characters."""

    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    """The topics: names, or patterns in which `*` stands for any characters."""


class DatabaseTopics(KafkaTopics):
    """Topics whose messages name their database."""

    database_name: str | None = Field(default=None, min_length=1)
    """The name of the database in the messages, if the topics have messages of several databases. Default:
    the name in `database:` if messages have it, else the name that nine of ten messages have."""


class DebeziumSource(DatabaseTopics):
    """Topics of Debezium, and the connector's properties under their own names."""

    renamed: ClassVar[Mapping[str, str]] = {
        "placeholder": "unavailable.value.placeholder",
        "decimals": "decimal.handling.mode",
        "temporal": "time.precision.mode",
        "binaries": "binary.handling.mode",
    }

    unavailable_value_placeholder: str = Field(
        default="__debezium_unavailable_value", min_length=1, alias="unavailable.value.placeholder"
    )
    """What the connector writes in place of a large value that it could not read: text, or `hex:` and its
    bytes."""
    decimal_handling_mode: Literal["precise", "string", "double"] = Field(
        default="precise", alias="decimal.handling.mode"
    )
    """How decimals are written: as base64 of their bytes (`precise`), as text, or as JSON numbers."""
    time_precision_mode: TimePrecision = Field(default="adaptive", alias="time.precision.mode")
    """How times are written: in a unit by the column's precision (`adaptive`; with
    `adaptive_time_microseconds` `time` is in microseconds), in milliseconds (`connect`), microseconds or
    nanoseconds, as ISO text, or as objects of their parts (`structured`)."""
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = Field(
        default="bytes", alias="binary.handling.mode"
    )
    """How bytes are written: as base64 in JSON and bytes in Avro (`bytes`), as base64 in one of its
    alphabets, or as hex."""

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _is_text_or_hex(cls, value: str) -> str:
        digits = value.removeprefix(_HEX)
        if value.startswith(_HEX) and not _OCTETS.fullmatch(digits):
            raise ValueError(f"must have two hex digits for each byte behind {_HEX}")
        return value

    @property
    def placeholder_bytes(self) -> bytes:
        """The placeholder as the connector writes it for bytes."""
        text = self.unavailable_value_placeholder
        return bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text.encode()


class QlikMessagesSource(KafkaTopics):
    """Topics of a Qlik task. Its messages contain everything else."""


class CesSource(DatabaseTopics):
    """The topic of a change event stream group."""

    renamed: ClassVar[Mapping[str, str]] = {"binaries": "binary_encoding"}

    binary_encoding: Literal["any", "hex", "base64"] = "any"
    """How the server writes bytes, which is not documented. `any` reads `0x` and hex digits as hex, and
    everything else as base64."""


class SqlServerCdcSource(Strict):
    """SQL Server CDC tables: the schema that holds `change_tables`, `lsn_time_mapping` and `*_CT`."""

    cdc_schema: str = "cdc"
    """The schema of `change_tables`, `lsn_time_mapping` and the `*_CT` tables."""
    partition_rows: int = Field(default=200_000, ge=1)
    """How many rows one Spark task reads. A window with more rows is read in parallel."""


class QlikTablesSource(Strict):
    """Qlik change tables `<table>__ct`, in the database that the task writes to."""

    target_schema: str | None = None
    """The schema of the change tables, if it differs from the source table's."""
    header_prefix: str = "header__"
    """The prefix of the header columns, as in the task's settings."""
    empty_is_null: bool = False
    """`true` if the target has no empty text and stores NULL as `''`. It cannot change while rows are
    published."""
    partition_rows: int = Field(default=200_000, ge=1)
    """How many rows one Spark task reads. A window with more rows is read in parallel."""


SOURCE_MODELS: dict[str, type[Strict]] = {
    "debezium": DebeziumSource,
    "qlik_tables": QlikTablesSource,
    "qlik_messages": QlikMessagesSource,
    "ces": CesSource,
    "sqlserver_cdc": SqlServerCdcSource,
}
