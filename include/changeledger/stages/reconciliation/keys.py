"""Reads what is published of the keys that a run's changes touch or its truncates end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not

from changeledger.kernels import order, touched
from changeledger.kernels.arrow import history_schema, ledger_schema, row_type
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import BatchKernel, Rows, as_batch, chosen, together
from changeledger.kernels.touched import (
    COMMITS,
    HASHES,
    Among,
    HashesOf,
    Touched,
    commits,
    known,
    sides_touched,
    touched_schema,
)
from changeledger.lake import conditions, scans
from changeledger.lake.leaving import Ends
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import buckets, selection
from changeledger.stages.common import published_changes
from changeledger.stages.common.context import StageContext

_SORT_KEY = pa.schema([("sort_key", pa.binary())])


class _Changes(NamedTuple):
    """What the run's changes affect: the keys, the first sort key, ids and commits of joined halves."""

    touched: Touched
    first: bytes | None
    joined: pa.Table
    commits: pa.Table


@dataclass(frozen=True)
class Keys:
    """Reads by the keys of one table's changes.

    `ledger`: the snapshot with the run's changes. `published`: that of the published history, or None.
    `emptied`: sort keys of the run's truncates.
    """

    ctx: StageContext
    contract: Contract
    ledger: int
    published: int | None
    emptied: tuple[bytes, ...]
    # None if nothing is published. No cached property: its lock is the class's, and tables ask together.
    changes: _Changes | None = None

    def with_changes(self) -> Keys:
        """Returns a copy that knows what the run's changes affect."""
        return self if self.published is None else replace(self, changes=self._asked())

    def _asked(self) -> _Changes:
        placed = self._of_run(published_changes.placed_schema(self.contract))
        schema = touched_schema(row_type(self.contract.key))
        keys = placed.through(partial(sides_touched, schema=schema), schema)
        ends = chosen(placed, _SORT_KEY.names).through(touched.ends, _SORT_KEY)
        joined = placed.through(selection.joined, placed.schema)
        ids = joined.through(selection.ids, selection.IDS)
        places = joined.through(commits, COMMITS)
        of_keys, of_ends, of_ids, of_commits = keys.collected_with([ends, ids, places])
        return _Changes(Touched.of(of_keys), pc.min(of_ends.column(0)).as_py(), of_ids, of_commits)

    def _history(self, where: BooleanExpression, among: BatchKernel, schema: pa.Schema) -> Rows:
        """Reads published intervals that meet the condition and pass the kernel."""
        name = self.ctx.names[self.contract.table].history
        return scans.scanned(self.ctx.workers, name, where, schema, self.published, among)

    def _ledger(self, where: BooleanExpression, among: BatchKernel, schema: pa.Schema) -> Rows:
        """Reads published changes that meet the condition and pass the kernel."""
        name = self.ctx.names[self.contract.table].changes
        return scans.scanned(self.ctx.workers, name, where, schema, among=among)

    @property
    def new(self) -> Rows:
        """The run's own changes."""
        return self._of_run(ledger_schema(self.contract))

    def _of_run(self, schema: pa.Schema) -> Rows:
        name = self.ctx.names[self.contract.table].changes
        return scans.scanned(self.ctx.workers, name, scans.of_window(self.ctx.id), schema, self.ledger)

    def opened(self) -> Rows:
        """Reads the open intervals of keys that the changes affect, and of those that truncates end."""
        schema = history_schema(self.contract)
        if self.changes is None:
            return self.ctx.workers.nothing(schema)
        where: BooleanExpression = conditions.is_null("_valid_to")
        if not self.emptied:
            where = And(where, scans.are_near(self.changes.touched))
        among = selection.OpenOrEmptied(self.contract, self.changes.touched.hashes, self.emptied)
        return self._history(where, among, schema)

    def shown(self, opened: Rows) -> Rows:
        """Reads published snapshot rows of the keys that are later than the run's first change.

        `opened`: what the method `opened` returns.
        """
        schema = buckets.places_schema(self.contract)
        if self.changes is None or self.changes.first is None:
            return self.ctx.workers.nothing(schema)
        is_later = conditions.is_behind("sort_key", self.changes.first)
        where = And(conditions.is_equal("operation", change.SNAPSHOT), is_later)
        hashes = self.changes.touched.hashes
        if self.emptied:
            more = opened.through(HashesOf(selection.key_of_rows(self.contract)), HASHES).collected()
            hashes = order.distinct(np.concatenate([hashes, known(more)]))
        else:
            where = And(where, scans.are_near(self.changes.touched, "key."))
        return self._ledger(where, Among(buckets.KEY, hashes), schema)

    def again(self) -> Rows:
        """Reads the keys to rebuild, and since where.

        These are keys of published halves of key updates that the run has joined, and keys that a truncate
        ends in an interval that is not their last.
        """
        schema = buckets.places_schema(self.contract)
        if self.changes is None:
            return self.ctx.workers.nothing(schema)
        return together([self._joined(self.changes, schema), *self._ended_before(schema)])

    def _joined(self, changes: _Changes, schema: pa.Schema) -> Rows:
        if not len(changes.joined):
            return self.ctx.workers.nothing(schema)
        # Both halves are at the position of the update.
        where = scans.are_near(Touched.of(changes.commits))
        hashes = order.distinct(by("change_id")(as_batch(changes.joined)))
        with_ids = schema.append(pa.field("change_id", pa.string()))
        return chosen(self._ledger(where, Among(by("change_id"), hashes), with_ids), schema.names)

    def _ended_before(self, schema: pa.Schema) -> list[Rows]:
        if not self.emptied:
            return []
        of_keys = pa.schema([*row_type(self.contract.key), *selection.SPAN])
        is_closed = Not(conditions.is_null("_valid_to"))
        rows = self._history(is_closed, partial(selection.were_there, emptied=self.emptied), of_keys)
        kernel = partial(selection.as_places, contract=self.contract, sort_key=min(self.emptied))
        return [rows.through(kernel, schema)]

    def changes_of(self, late: Touched, since: bytes | None) -> Rows:
        """Reads the branch's ledger rows that affect the keys. `since`: a sort key, or None for all."""
        name, schema = self.ctx.names[self.contract.table].changes, ledger_schema(self.contract)
        where = AlwaysTrue() if since is None else conditions.is_from("sort_key", since)
        among = selection.EffectsOn(late.hashes)
        return scans.scanned(self.ctx.workers, name, where, schema, self.ledger, among)

    def intervals_at(self, late: Touched, since: bytes | None) -> Rows:
        """Reads the published intervals of the keys that contain the sort key `since` and begin before it."""
        schema = history_schema(self.contract)
        if since is None:
            return self.ctx.workers.nothing(schema)
        reaches = Ends("_next_sort_key", since).where
        where = And(conditions.is_before("_sort_key", since), reaches, scans.are_near(late))
        return self._history(where, selection.OpenOrEmptied(self.contract, late.hashes), schema)
