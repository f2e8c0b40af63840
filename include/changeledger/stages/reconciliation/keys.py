"""What is published of the keys that a run's changes touch, or that its truncates end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not, Or

from changeledger.kernels import order, touched
from changeledger.kernels.arrow import history_schema, ledger_schema, row_type
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import BatchKernel, Here, Rows, together
from changeledger.kernels.touched import (
    HASHES,
    Among,
    HashesOf,
    Touched,
    known,
    sides_touched,
    touched_schema,
)
from changeledger.lake import refs, scans
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import buckets, selection
from changeledger.spark.caching import Cache
from changeledger.stages.common import published_changes
from changeledger.stages.common.carrier import Carrier
from changeledger.stages.common.context import StageContext

_IDS = pa.schema([("change_id", pa.string()), ("paired_change_id", pa.string())])
_SORT_KEY = pa.schema([("sort_key", pa.binary())])
_COMMIT_LSN = pa.schema([("commit_lsn", pa.binary())])


@dataclass(frozen=True)
class Keys:
    """`published`: the snapshot of the history, None if there is none; `emptied`: when the run's truncates
    have emptied the table, as sort keys; `changes`: how many the run has."""

    ctx: StageContext
    contract: Contract
    published: int | None
    emptied: tuple[bytes, ...]
    changes: int
    cache: Cache

    @cached_property
    def carrier(self) -> Carrier:
        # A truncate ends whatever was there.
        return Carrier.for_rows(self.changes + self._ended(), self.cache)

    def _ended(self) -> int:
        """How many published intervals the run's truncates end, at most: by what is known of the files."""
        if not self.emptied or self.published is None:
            return 0
        is_there = Or(scans.is_null("_valid_to"), scans.is_behind("_next_sort_key", min(self.emptied)))
        begins_before = scans.is_before("_sort_key", max(self.emptied))
        return scans.most_rows(self._history_name, And(begins_before, is_there), self.published)

    @property
    def _history_name(self) -> str:
        return self.ctx.names[self.contract.table].history

    def _history(self, where: BooleanExpression, among: BatchKernel, schema: pa.Schema) -> Rows:
        """Published rows that meet the condition, and pass through the kernel."""
        of = schema, self.published
        return self.carrier.scanned(self.ctx.spark, self._history_name, where, of, among)

    def _ledger(self, where: BooleanExpression, among: BatchKernel, schema: pa.Schema) -> Rows:
        """Published changes that meet the condition, and pass through the kernel."""
        name = self.ctx.names[self.contract.table].changes
        return self.carrier.scanned(self.ctx.spark, name, where, (schema, None), among)

    @cached_property
    def new(self) -> Rows:
        """The run's own changes."""
        return self._of_run(ledger_schema(self.contract))

    def _of_run(self, schema: pa.Schema) -> Rows:
        name = self.ctx.names[self.contract.table].changes
        of = schema, refs.snapshot_of(name, self.ctx.branch)
        return self.carrier.scanned(self.ctx.spark, name, scans.of_window(self.ctx.id), of)

    def _own(self, schema: pa.Schema) -> Rows:
        """These columns of the run's changes; workers read no others."""
        new = self.new
        return Here(new.table.select(schema.names)) if isinstance(new, Here) else self._of_run(schema)

    @cached_property
    def _touched(self) -> Touched:
        own = row_type(self.contract.key)
        schema, of_changes = touched_schema(own), pa.schema([("key", own), ("previous_key", own)])
        rows = self._own(of_changes).through(partial(sides_touched, schema=schema), schema)
        return Touched.of(rows.collected())

    def _first(self) -> bytes | None:
        """The sort key of the run's first change."""
        rows = self._own(_SORT_KEY).through(touched.ends, _SORT_KEY)
        first: bytes | None = pc.min(rows.collected().column(0)).as_py()
        return first

    def opened(self) -> Rows:
        """The open intervals of keys that the changes have effects on, and of those that truncates end."""
        schema = history_schema(self.contract)
        if self.published is None:
            return Here(schema.empty_table())
        where: BooleanExpression = scans.is_null("_valid_to")
        if not self.emptied:
            where = And(where, scans.are_near(self._touched))
        among = selection.OpenOrEmptied(self.contract, self._touched.hashes, self.emptied)
        return self._history(where, among, schema)

    def are_none(self, opened: Rows) -> bool:
        """Is nothing published of the keys?"""
        return isinstance(opened, Here) and not len(opened.table)

    def shown(self, opened: Rows) -> Rows:
        """Published rows of snapshots of the keys after the run's first change. `opened`: see `opened`."""
        schema = buckets.shown_schema(self.contract)
        first = None if self.published is None else self._first()
        if first is None:
            return Here(schema.empty_table())
        where = And(scans.is_equal("operation", change.SNAPSHOT), scans.is_behind("sort_key", first))
        hashes = self._touched.hashes
        if self.emptied:
            more = opened.through(HashesOf(selection.key_of_rows(self.contract)), HASHES).collected()
            hashes = order.distinct(np.concatenate([hashes, known(more)]))
        else:
            where = And(where, scans.are_near(self._touched, "key."))
        return self._ledger(where, Among(buckets.KEY, hashes), schema)

    def again(self) -> Rows:
        """Keys to be built again: of published halves of key updates that the run has joined, and those that
        a truncate ends in an interval that is not their last."""
        schema = buckets.keys_schema(self.contract)
        if self.published is None:
            return Here(schema.empty_table())
        return together([self._joined(schema), *self._ended_before(schema)])

    def _joined(self, schema: pa.Schema) -> Rows:
        ids = self._own(_IDS).through(selection.joined_ids, selection.IDS).collected()
        if not len(ids):
            return Here(schema.empty_table())
        # The two halves stand where the update stands.
        where = published_changes.are_near(self._own(_COMMIT_LSN))
        hashes = known(Here(ids).through(HashesOf(by("change_id")), HASHES).collected())
        with_ids = schema.append(pa.field("change_id", pa.string()))
        return self._ledger(where, Among(by("change_id"), hashes), with_ids).through(
            selection.only_keys, schema
        )

    def _ended_before(self, schema: pa.Schema) -> list[Rows]:
        if not self.emptied:
            return []
        of_keys = pa.schema([*row_type(self.contract.key), *selection.SPAN])
        is_closed = Not(scans.is_null("_valid_to"))
        rows = self._history(is_closed, selection.Emptied(self.emptied), of_keys)
        return [rows.through(partial(selection.as_keys, contract=self.contract), schema)]

    def changes_of(self, keys: pa.Table) -> Rows:
        """All ledger rows of the branch that have an effect on the keys."""
        name, schema = self.ctx.names[self.contract.table].changes, ledger_schema(self.contract)
        of = schema, refs.snapshot_of(name, self.ctx.branch)
        return self.carrier.scanned(self.ctx.spark, name, AlwaysTrue(), of, selection.EffectsOn.of(keys))
