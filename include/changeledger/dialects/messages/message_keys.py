"""Finds the messages whose key, in JSON, is that of a given row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.kernels import binary_text, cells, text_cells
from changeledger.kernels.arrow import POSITIONS, arrow_type
from changeledger.model.contract import Column, Contract

MESSAGE_KEY: Final = "message_key"

# Reads a JSON cell of a key; returns None if it is no value of the column's type. The third argument is the
# column's field in the key's schema block, or None if there is none.
ReadCell = Callable[[Any, Column, Mapping[str, Any] | None, Feed], Any]


def of_text(cell: Any, column: Column, _field: Mapping[str, Any] | None, _feed: Feed) -> Any:
    """Reads a cell by the text of its value; bytes are in base64."""
    text = cell if isinstance(cell, str) else as_json(cell)
    if column.spark_type == "binary":
        return binary_text.from_padded_base64(text)
    read = text_cells.lenient_reader(column.sql_type)
    return text_cells.from_texts(column.sql_type, read)(pa.array([text])).values[0].as_py()


def as_json(cell: Any) -> str:
    return json.dumps(cell, default=str) if isinstance(cell, dict | list | bool) else str(cell)


@dataclass(frozen=True)
class WithKey:
    """Selects from messages (`source_position`, `MESSAGE_KEY`) the `POSITIONS` of those with one key.

    A message's key must have exactly the contract's key columns. `key`: the cells of the key by the
    contract's names, each an array of one.
    """

    key: Mapping[str, pa.Array]
    contract: Contract
    feed: Feed
    read_cell: ReadCell

    def __call__(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        same = [self._is_same(key) for key in messages.column(MESSAGE_KEY).to_pylist()]
        return messages.select(POSITIONS.names).filter(pa.array(same, pa.bool_()))

    def _is_same(self, message_key: bytes | None) -> bool:
        said, fields = _members(message_key)
        if said.keys() != {column.name.lower() for column in self.contract.key}:
            return False
        return all(
            self._cell(said[column.name.lower()], column, fields).equals(self.key[column.name])
            for column in self.contract.key
        )

    def _cell(self, cell: Any, column: Column, fields: Mapping[str, Mapping[str, Any]]) -> pa.Array:
        def read(given: Any) -> Any:
            return self.read_cell(given, column, fields.get(column.name.lower()), self.feed)

        return cells.each([cell], read, arrow_type(column.spark_type)).values


def _members(message_key: bytes | None) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """Returns the members of a key and their fields in its schema block, by names in lower case.

    Both are empty if the key is no JSON object. With a schema, Connect puts the key into `payload`.
    """
    try:
        said = json.loads((message_key or b"{}").decode(), parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}, {}
    if not isinstance(said, dict):
        return {}, {}
    block, payload = said.get("schema"), said.get("payload")
    fields = block.get("fields") if isinstance(block, dict) else None
    described = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    members = payload if isinstance(payload, dict) else said
    by_name = {str(field.get("field")).lower(): field for field in described}
    return {name.lower(): cell for name, cell in members.items()}, by_name
