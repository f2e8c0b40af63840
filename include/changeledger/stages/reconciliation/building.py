"""Builds history and current rows of one table on the run's branch, from published rows and new changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And

from changeledger.kernels.arrow import ledger_schema
from changeledger.kernels.rows import COUNT, Part, Rows, as_batch, bucketed, counted
from changeledger.kernels.touched import Touched
from changeledger.lake import catalog, conditions, scans, writes
from changeledger.lake.file_writes import Writing, Written
from changeledger.lake.leaving import Ends
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.table_names import TableNames
from changeledger.reconcile import buckets
from changeledger.reconcile.selection import key_of_rows
from changeledger.spark.rows import Asked, as_spark
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.reconciliation.breaks import Breaks, Rebuilt
from changeledger.stages.reconciliation.keys import Keys

# Kernel outputs that are written into tables: history and current rows.
_TABLES = (buckets.HISTORY, buckets.CURRENT)


@dataclass(frozen=True)
class Building:
    """Builds one table of a run.

    `ledger`: the snapshot with the run's changes. `published`: that of the published history, or None.
    """

    ctx: StageContext
    contract: Contract
    ledger: int
    published: int | None

    def build(self) -> Breaks:
        """Writes history and current rows to the branch. Returns the breaks of the image chain."""
        ctx, contract = self.ctx, self.contract
        truncates = self._truncates()
        came = truncates.filter(pc.equal(truncates.column("window_id"), ctx.id))
        emptied = tuple(came.column("sort_key").to_pylist())
        keys = Keys(ctx, contract, self.ledger, self.published, emptied).with_changes()
        exploded = keys.new.through(buckets.exploded_batch, buckets.exploded_schema(contract))
        opened = keys.opened()
        parts = {
            buckets.CHANGES: Part(exploded, buckets.key_of_changes),
            buckets.OPENED: Part(opened, key_of_rows(contract)),
            buckets.SHOWN: Part(keys.shown(opened), buckets.KEY),
            buckets.AGAIN: Part(keys.again(), buckets.KEY),
        }
        continued = self._written(parts, buckets.continued, truncates)
        intervals = continued[buckets.KEYS]
        if self.published is None:
            # Nothing is published that could be replaced.
            intervals = ctx.workers.nothing(intervals.schema)
        again, known, breaks, *files = ctx.workers.answers(
            [
                Asked(as_spark(continued[buckets.AGAIN])),
                Asked(as_spark(intervals), most=writes.MOST_KEYS + 1),
                Asked(as_spark(continued[buckets.BREAKS].through(counted, COUNT))),
                *(Asked(as_spark(continued[name])) for name in _TABLES),
            ]
        )
        late = self._late(again.combine_chunks(), truncates, keys)
        self._write([files, *(rebuilt.files for rebuilt in late)], intervals, known, late)
        log.info("%s: %s: rebuilt the history of %d late keys", ctx.feed.feed, contract.table, len(again))
        return Breaks(contract, continued[buckets.BREAKS], sum(breaks.column("n").to_pylist()), late)

    def _written(
        self, parts: Mapping[str, Part], kernel: Callable[..., Mapping[str, pa.Table]], truncates: pa.Table
    ) -> dict[str, Rows]:
        """Applies the kernel to the parts. Its table rows come back as files, which are not committed yet."""
        names = self._names
        of_kernel = partial(kernel, truncates=truncates, contract=self.contract, window_id=self.ctx.id)
        tables = zip(_TABLES, (names.history, names.current), strict=True)
        written = Written(of_kernel, {part: Writing.into(catalog.load(name)) for part, name in tables})
        return bucketed(parts, written, written.outputs(buckets.outputs(self.contract)))

    def _late(self, again: pa.Table, truncates: pa.Table, keys: Keys) -> list[Rebuilt]:
        """Rebuilds the history of these keys since the first new position.

        Keys without an interval at that position are rebuilt from their beginning.
        """
        if not len(again):
            return []
        late, rest = self._rebuilt(again, pc.min(again.column("sort_key")).as_py(), truncates, keys)
        return [late, self._rebuilt(rest, None, truncates, keys)[0]] if len(rest) else [late]

    def _truncates(self) -> pa.Table:
        """Reads all truncates of the table: a change may arrive after the truncate that ended its row."""
        is_truncate = conditions.is_equal("operation", change.TRUNCATE)
        # Only truncates have no key, so files without NULL keys are skipped.
        without_key = [conditions.is_null(f"key.{c.name}") for c in self.contract.key if "." not in c.name]
        where = reduce(And, without_key, is_truncate)
        return scans.read(self._names.changes, where, ledger_schema(self.contract), self.ledger)

    @property
    def _names(self) -> TableNames:
        return self.ctx.names[self.contract.table]

    def _write(
        self, files: Sequence[Sequence[pa.Table]], opened: Rows, known: pa.Table, late: Sequence[Rebuilt]
    ) -> None:
        """Commits the new files to the branch, in place of the rows that they continue.

        From history go the open intervals that are continued (`opened`, of which `known` are collected), and
        for late keys the intervals that end after the sort key from which they were rebuilt.
        """
        names, branch = self._names, self.ctx.branch
        of_history, of_current = [], []
        if self.published is not None:
            of_history.append(self._keys(opened, known, Ends("_valid_to")))
            of_current.append(self._keys(opened, known))
            for rebuilt in late:
                ends = None if rebuilt.since is None else Ends("_next_sort_key", rebuilt.since)
                of_late = self._key_columns(rebuilt.keys)
                rows = self.ctx.workers.given(of_late)
                of_history.append(self._keys(rows, of_late, ends))
                of_current.append(self._keys(rows, of_late))
        history, current = (pa.concat_tables(of_table) for of_table in zip(*files, strict=True))
        changes = [
            writes.TableChange(names.history, branch, history, of_history),
            writes.TableChange(names.current, branch, current, of_current),
        ]
        writes.apply(self.ctx.workers, changes)

    def _rebuilt(
        self, again: pa.Table, since: bytes | None, truncates: pa.Table, keys: Keys
    ) -> tuple[Rebuilt, pa.Table]:
        """Rebuilds the history of these keys since that sort key (None: all of it).

        Also returns the keys that have no interval there to continue.
        """
        contract, late = self.contract, Touched.of_keys(as_batch(self._key_columns(again)))
        changes = keys.changes_of(late, since)
        exploded = changes.through(buckets.exploded_batch, buckets.exploded_schema(contract))
        parts = {
            buckets.CHANGES: Part(exploded, buckets.key_of_changes),
            buckets.OPENED: Part(keys.intervals_at(late, since), key_of_rows(contract)),
            buckets.AGAIN: Part(self.ctx.workers.given(again), buckets.KEY),
        }
        outputs = self._written(parts, buckets.rebuilt, truncates)
        rest, *files = outputs[buckets.AGAIN].collected_with([outputs[name] for name in _TABLES])
        return Rebuilt(again, since, outputs[buckets.BREAKS], files), rest.combine_chunks()

    def _key_columns(self, keys: pa.Table) -> pa.Table:
        """Returns the fields of the struct column `key` as columns."""
        cells = keys.column("key").combine_chunks().flatten()
        return pa.Table.from_arrays(cells, names=[c.name for c in self.contract.key])

    def _keys(self, rows: Rows, keys: pa.Table, ends: Ends | None = None) -> writes.Keys:
        return writes.Keys(rows, [(c.name, c.spark_type) for c in self.contract.key], keys, ends)
