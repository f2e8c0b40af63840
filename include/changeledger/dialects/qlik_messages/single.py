"""Reads a single message of a table: its event, or why it cannot be read.

The first problem counts. Problems of masks, positions, times and cells are found for all events together
(`decode`).
"""

from __future__ import annotations

from collections.abc import Sequence

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem, no_value_of
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages import message
from changeledger.dialects.qlik_messages.events import (  # fmt: skip
    DELETE,
    HEADERS,
    OPERATIONS,
    REFRESH,
    UPDATE,
    Event,
    as_row,
    is_unsaid,
    layout_of,
    misfits,
)
from changeledger.dialects.qlik_messages.message import Message
from changeledger.kernels.json_text import Members, text
from changeledger.model.column_names import alike, folded, shown
from changeledger.model.contract import Contract
from changeledger.model.source_names import TABLES_ALIKE, not_meant


def read(at: int, value: bytes | None, plan: TablePlan) -> Event | Outcome:
    """Reads the message with the number `at`."""
    if value is None:
        return message.TOMBSTONE
    try:
        return _event(at, message.read(value), plan.writer_schema)
    except Problem as problem:
        return problem.outcome


def _event(at: int, data_message: Message, writer_schema: Contract) -> Event:
    operation = (data_message.headers.get("operation") or "").upper()
    if operation not in OPERATIONS:
        raise Problem("unknown_operation", f"operation is {operation}")
    _check_names(data_message, writer_schema)
    data_message = data_message._replace(
        data=_by_column(data_message.data, writer_schema),
        before_data=_by_column(data_message.before_data, writer_schema),
    )
    before, after = _images(operation, data_message, [column.name for column in writer_schema.key])
    if operation != DELETE and after is None:
        raise Problem("no_after_image", f"{operation} without `data`")
    if operation == DELETE and before is None:
        raise Problem("no_before_image", "a delete without a row")
    rows = layout_of(writer_schema)
    old, unknown = as_row(before, rows)
    # A delete's cells outside the key are filler.
    counted = (operation == DELETE and writer_schema.key) or writer_schema.columns
    for image in (before, after):
        if bad := misfits(image, counted):
            raise Problem("value_does_not_fit", no_value_of(bad))
    if operation == UPDATE and not unknown and is_unsaid(old, rows):
        old = None
    new, others = as_row(after, rows)
    said = {} if operation == REFRESH else data_message.headers
    sequence, time, position, transaction, changes, columns, counter = map(said.get, HEADERS)
    return Event(
        at, operation, sequence, time, position, transaction, changes, columns, counter,
        old, new, unknown or others,
    )  # fmt: skip


def _check_names(data_message: Message, writer_schema: Contract) -> None:
    """Raises Problem if a message names another table. A missing name says nothing."""
    source_table = writer_schema.source_table or writer_schema.table
    schema, table = source_table.split(".", 1)
    stated = zip((data_message.schema, data_message.table), (schema, table), strict=True)
    named = ".".join(otherwise if name is None else name for name, otherwise in stated)
    if named.lower() != source_table.lower():
        raise Problem("table_mismatch", f"{shown([named])} with the columns of {source_table}")
    # A schema id identifies the table more exactly.
    if named != source_table and data_message.schema_id is None:
        raise Problem(TABLES_ALIKE, not_meant(named, writer_schema.table, source_table))


def _by_column(image: Members | None, writer_schema: Contract) -> Members | None:
    """Returns the image under its columns' names: the feed may state them in another case."""
    if image is None or image.keys() <= set(writer_schema.names) or alike(tuple(image)):
        return image
    names = {folded(name): name for name in writer_schema.names}
    return {names.get(folded(name), name): token for name, token in image.items()}


def _images(
    operation: str, data_message: Message, key: Sequence[str]
) -> tuple[Members | None, Members | None]:
    """Returns both images. The row of a delete is taken from whichever member has it."""
    old, new = data_message.before_data, data_message.data
    if operation != DELETE:
        return old if operation == UPDATE else None, new
    if all(text(token) is None for token in (old or {}).values()):
        return new, None
    keys = ((text((old or {}).get(name)), text((new or {}).get(name))) for name in key)
    if any(None not in pair and pair[0] != pair[1] for pair in keys):
        raise Problem("ambiguous_row", "a delete has rows with different keys in `data` and `beforeData`")
    return old, None
