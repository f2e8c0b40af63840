"""A log's changes as rows of the ledger, as a feed would have them: for tests of what stands behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from changeledger import change
from changeledger.contract import Column, Contract
from changeledger.reconcile import history
from changeledger.reconcile.proof import Published
from sourcelab.log import Change, Log, Transaction
from sourcelab.tables import Row, Table


class Manner(NamedTuple):
    """How a capture tool tells changes."""

    # An update of a key is a delete and an insert.
    parts_key_updates: bool = False
    # The image of a delete holds its key alone.
    key_only_deletes: bool = False
    # Columns that are never told.
    untold: frozenset[str] = frozenset()
    knows_lsn: bool = True


PLAIN = Manner()


def contract_of(table: Table) -> Contract:
    return Contract(
        table=table.full_name,
        columns=tuple(
            Column(
                name=c.name,
                type=c.type,
                ordinal=c.ordinal,
                nullable=c.nullable,
                key_position=table.key.index(c.name) + 1 if c.name in table.key else 0,
            )
            for c in table.columns
        ),
    )


def ledger(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> DataFrame:
    """The columns of `change.ledger_columns` of the table's contract."""
    kinds = change.ledger_columns(contract_of(table))
    told = [
        _row(table, transaction, one, operation, serial, part, manner, feed)
        for serial, (transaction, one) in enumerate(_changes(log, table))
        for part, operation in enumerate(_operations(one, manner))
    ]
    schema = ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds)
    return spark.createDataFrame([tuple(row.get(name) for name, _ in kinds) for row in told], schema)


def _changes(log: Log, table: Table) -> Iterator[tuple[Transaction, Change]]:
    for transaction in log.transactions:
        for one in sorted(transaction.changes, key=lambda c: c.change_lsn):
            if one.table is table:
                yield transaction, one


def _operations(one: Change, manner: Manner) -> tuple[str, ...]:
    if one.operation != "key_update":
        return (one.operation,)
    return ("delete", "insert") if manner.parts_key_updates else ("update",)


def _row(
    table: Table,
    transaction: Transaction,
    one: Change,
    operation: str,
    serial: int,
    part: int,
    manner: Manner,
    feed: str,
) -> dict[str, Any]:
    before = one.before if operation in {"update", "delete"} else None
    after = one.after if operation in {"update", "insert"} else None
    row = after if after is not None else before
    assert row is not None, "a change has an image"
    moved = operation == "update" and before is not None and table.key_of(before) != table.key_of(row)
    unknown = (
        set(table.names) - set(table.key) if manner.key_only_deletes and after is None else manner.untold
    )
    lsn = transaction.commit_lsn if manner.knows_lsn else None
    return {
        "change_id": f"{feed}-{serial}-{part}",
        "operation": operation,
        "key": table.key_of(row),
        "previous_key": table.key_of(before) if moved and before is not None else None,
        "before": _image(table, before, unknown),
        "after": _image(table, after, manner.untold),
        "before_gaps": _gaps(before, unknown),
        "after_gaps": _gaps(after, manner.untold),
        "changed": list(one.changed) if operation == "update" else None,
        "commit_lsn": lsn,
        "change_lsn": one.change_lsn,
        "sort_key": transaction.commit_lsn + one.change_lsn + bytes([part]),
        "committed_at": transaction.commit_time,
        "feed": feed,
        "record": (table.full_name, 0, serial, None),
        "run_id": "run",
    }


def _image(table: Table, row: Row | None, unknown: set[str] | frozenset[str]) -> tuple[Any, ...] | None:
    return None if row is None else tuple(None if n in unknown else row[n] for n in table.names)


def _gaps(row: Row | None, unknown: set[str] | frozenset[str]) -> dict[str, str] | None:
    return None if row is None or not unknown else dict.fromkeys(sorted(unknown), change.NOT_CAPTURED)


def published(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> Published:
    """Current rows and history that stand on the ledger, as reconcile would build them."""
    contract = contract_of(table)
    told = history.effects(ledger(spark, log, table, manner, feed), contract)
    made = history.intervals(told, contract, "run", carry=True).persist()
    alive = made.where(made["_valid_to"].isNull() & ~made["_is_deleted"])
    current = alive.select(*(alive[name] for name, _ in change.current_columns(contract)))
    return Published(current, made, contract)
