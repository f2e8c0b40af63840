"""Reads the images of a single event: a value and a state for each column, or what is wrong with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from changeledger.dialects.debezium import incomplete, unions
from changeledger.dialects.debezium.fields import DECIMAL, Field
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import Cell, cell_of
from changeledger.dialects.messages.problems import Problem, no_columns
from changeledger.kernels import json_text
from changeledger.kernels.cells import KNOWN, NOT_CAPTURED, UNAVAILABLE
from changeledger.kernels.json_text import Members, Token
from changeledger.model.contract import Column
from changeledger.model.sql_type import SqlType

# Reasons of quarantine, in order: the first that applies to a message counts.
_CONTRADICTS, _NO_KEY, _INEXACT = "schema_contradicts", "no_key", "inexact_number"
_MISFIT = "value_does_not_fit"
# What is wrong with columns, by reason.
Faults = defaultdict[str, list[str]]
_KEY_REMEDY = "set the connector to leave columns of the key unchanged, or state another `key:` of the table"


class Side(NamedTuple):
    """One image: a value and a state for each column of the writer schema."""

    values: list[Any]
    states: bytes


class _Column(NamedTuple):
    name: str
    type: str
    # How the column is written, by branch of a union; "" if the value is in none.
    cells: Mapping[str, Cell]
    # Whether a connector with the feed's settings writes the column as bytes.
    in_bytes: bool


@lru_cache(maxsize=64)
def _columns(plan: TablePlan) -> Sequence[_Column]:
    cells = [(column, {"": cell_of(column, plan.source, field)}) for column, field in plan.written_columns]
    return [
        _Column(c.name, c.type, cell | (_of_branches(c, plan) if plan.unions else {}), _in_bytes(c, plan))
        for c, cell in cells
    ]


def _in_bytes(column: Column, plan: TablePlan) -> bool:
    if column.spark_type.startswith("decimal"):
        return plan.source.decimal_handling_mode == "precise"
    return column.spark_type == "binary" and plan.source.binary_handling_mode == "bytes"


def _of_branches(column: Column, plan: TablePlan) -> dict[str, Cell]:
    """Returns the column's cell for each branch of a union.

    A branch names Avro's type as a schema block would. The scale of a decimal in bytes is the column's.
    """
    kind = column.spark_type
    fields = {branch: Field(name) for branch, name in unions.KINDS.items()}
    if kind.startswith("decimal"):
        fields["bytes"] = Field("bytes", DECIMAL, SqlType.parse(kind).scale or 0)
    return {branch: cell_of(column, plan.source, field) for branch, field in fields.items()}


def images(
    before: Members | None, after: Members | None, plan: TablePlan, in_unions: bool
) -> tuple[Side | None, Side | None]:
    """Reads both images of an event. Raises Problem.

    `in_unions`: whether the cells are wrapped in the names of their types.
    """
    names = set(plan.writer_schema.names)
    for image in (before, after):
        unknown = [name for name in image or {} if name not in names]
        if unknown:
            raise no_columns(plan.writer_schema.table, unknown, plan.writer_schema.names)
    incomplete.check(before, after, plan)
    faults: Faults = defaultdict(list)
    sides = [None if image is None else _side(image, plan, in_unions, faults) for image in (before, after)]
    for reason in (_CONTRADICTS, _NO_KEY, _INEXACT):
        if reason in faults:
            raise Problem(reason, "; ".join(dict.fromkeys(faults[reason])))
    if _MISFIT in faults:
        raise Problem(_MISFIT, f"values that do not fit: {', '.join(dict.fromkeys(faults[_MISFIT]))}")
    return sides[0], sides[1]


def _side(image: Members, plan: TablePlan, in_unions: bool, faults: Faults) -> Side:
    """Reads one image. Adds what is wrong with its columns to `faults`."""
    values, states = [], bytearray()
    for name, kind, cells, in_bytes in _columns(plan):
        text, branch, is_unquoted = _text(image.get(name), in_unions, in_bytes)
        cell = cells[branch]
        value, state = None, KNOWN
        if text is None:
            state = KNOWN if name in image else NOT_CAPTURED
        elif text in cell.placeholders:
            state = UNAVAILABLE
        elif cell.contradiction is not None:
            faults[_CONTRADICTS].append(f"{name} {kind}: {cell.contradiction}")
        elif cell.key_lost is not None and (what := cell.key_lost(text)) is not None:
            faults[_NO_KEY].append(f"{name} {what}, so several rows may have the same value: {_KEY_REMEDY}")
        elif is_unquoted and cell.is_inexact is not None and cell.is_inexact(text):
            faults[_INEXACT].append(_inexact(name, kind, text))
        else:
            value = (cell.of_unquoted if is_unquoted else cell.read)(text)
            if value is None:
                faults[_MISFIT].append(f"{name} {kind}")
        values.append(value)
        states.append(state)
    return Side(values, bytes(states))


def _inexact(name: str, kind: str, text: str) -> str:
    return (
        f"{name} {kind} is the number {text}, which has more digits than a double keeps: set the "
        "connector's decimal.handling.mode to precise or string"
    )


def _text(token: Token | None, in_unions: bool, in_bytes: bool) -> tuple[str | None, str, bool]:
    """Returns the text of a cell, its branch of a union, and whether it is written without quotes.

    Quotes matter: `1200` and `true` could also be base64.
    """
    if token is None:
        return None, "", False
    if in_unions:
        return unions.cell(token, in_bytes=in_bytes)
    return json_text.text(token), "", json_text.is_unquoted(token)
