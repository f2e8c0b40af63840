"""Queries for the newest row of each key, run in the database because results are kept for years."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, select, union
from sqlalchemy.orm import aliased

from changeledger.control.tables.results import DIFFER, ComparisonRow, ProofRow

Ids = Select[tuple[str]] | CompoundSelect[tuple[str]]


def standing_comparisons(databases: Iterable[str], *where: ColumnElement[bool]) -> Ids:
    """Selects the ids of the last comparison of each table of two feeds, and of open disagreements."""
    of = ComparisonRow
    within = of.database.in_(list(databases)), *where
    newest = _newest(of, (of.database, of.reference, of.feed, of.table), *within)
    return union(newest, select(of.id).where(*within, of.outcome == DIFFER))


def newest_proofs(databases: Iterable[str], *where: ColumnElement[bool]) -> Ids:
    """Selects the ids of the last proofs of each table of a feed, against its source and its topic."""
    of = ProofRow
    key = of.database, of.feed, of.table, of.against
    return _newest(of, key, of.database.in_(list(databases)), *where)


def _newest(
    of: type[ComparisonRow | ProofRow], key: Sequence[Any], *where: ColumnElement[bool]
) -> Select[tuple[str]]:
    """Selects for each `key` the id with the latest `at`, and among these the greatest id.

    The table's index has key, time and id, so no row is read and nothing is sorted.
    """
    keys = select(*key).where(*where).group_by(*key).subquery()
    row = aliased(of)
    is_of_key = [getattr(row, column.key) == keys.c[column.key] for column in key]
    ages = row.at.desc(), row.id.desc()
    newest = select(row.id).where(*is_of_key).order_by(*ages).limit(1).correlate(keys).scalar_subquery()
    return select(newest).select_from(keys)
