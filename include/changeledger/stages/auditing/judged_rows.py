"""What the audit reads of a run, at the snapshots that it judges and in narrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not, Or

from changeledger.audit import columns, dispositions, ids, record_sums, repeated_halves, suspects
from changeledger.audit.columns import built_schema, changes_schema
from changeledger.kernels.arrow import INSTANT, RECORD, row_type, table_schema
from changeledger.kernels.hashed import Key, by
from changeledger.kernels.rows import BatchKernel, Rows, together
from changeledger.kernels.touched import (
    COMMITS,
    HASHES,
    Among,
    HashesOf,
    Touched,
    commits,
    keys_touched,
    known,
    sides_touched,
    touched_schema,
)
from changeledger.lake import conditions, scans
from changeledger.lake.summaries import BuiltTable
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.selection import key_of_rows
from changeledger.stages.common import input_records, published_changes
from changeledger.stages.common.context import StageContext

_OF_BREAKS = {"table", "key", "change_id", "kind", "columns", "source_position"}
BREAKS: Final = table_schema([(name, kind) for name, kind in change.BREAK_COLUMNS if name in _OF_BREAKS])
_READ_MESSAGE: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_READ_ROW: Final = pa.schema([("source_position", RECORD), ("_instance", pa.string())])
_READ_RECORD: Final = pa.schema([("source_position", RECORD)])
_HALVES: Final = pa.schema([("change_id", pa.string()), ("paired_change_id", pa.string())])
_RECORDS: Final = pa.schema([("source_position", RECORD), ("paired_source_position", RECORD)])
# What says of a row which version it is, and of an interval what it is.
_VERSION: Final = pa.schema([("_change_id", pa.string())])
_SPAN: Final = pa.schema([*_VERSION, ("_valid_to", INSTANT), ("_is_deleted", pa.bool_())])


class Where(NamedTuple):
    """Which intervals and current rows of the branch. `among`: the kernel that picks them from those read."""

    history: BooleanExpression
    current: BooleanExpression
    among: BatchKernel | None = None


class Around(NamedTuple):
    """What a table has where the run's changes are.

    `keys`: the rows of the keys that the run touches; None where it has written none. `published`: rows of
    main that have an id of the run's changes (`ids.PUBLISHED_IDS`).
    """

    keys: Where | None
    published: Rows


@dataclass(frozen=True)
class JudgedRows:
    """Of one run. `tables`: what the snapshots that are judged say of themselves."""

    ctx: StageContext
    tables: Mapping[str, BuiltTable]

    def dispositions(self, table: str | None = None) -> Rows:
        """The run's records that became no change, or are no change of their own; of one table, or of all.

        A table has files of its own: if each read those of all, the work would grow with their square.
        """
        return self._of_window(self.ctx.lake.dispositions, dispositions.ROWS, table)

    def breaks(self, table: str) -> Rows:
        """The breaks of the table's image chains that this run is the first to find."""
        return self._of_window(self.ctx.lake.image_chain_breaks, BREAKS, table)

    def read(self) -> Rows:
        """`record_sums.ENTRIES` of all that the run accounts for, with the source of its own raw rows."""
        ctx = self.ctx
        entries: list[Rows] = []
        for raw in ctx.raws:
            is_messages = raw == ctx.lake.raw
            schema = _READ_MESSAGE if is_messages else _READ_ROW
            kernel = record_sums.of_messages if is_messages else record_sums.of_rows
            own = scans.scanned(ctx.workers, raw, scans.of_window(ctx.id), schema)
            entries.append(own.through(kernel, record_sums.ENTRIES))
        again = [input_records.asked_again(ctx, raw) for raw in ctx.raws]
        again += [input_records.waiting(ctx), input_records.planned(ctx)]
        for rows in again:
            if rows is not None:
                carried = ctx.workers.of_spark(rows.select("source_position"), schema=_READ_RECORD)
                entries.append(carried.through(record_sums.of_others, record_sums.ENTRIES))
        return together(entries)

    def changes(self, contract: Contract) -> Rows:
        """The ledger rows of the run."""
        rows = self._of_window(self.ctx.names[contract.table].changes, columns.ledger_read(contract))
        schema = changes_schema(contract)
        return rows.through(partial(columns.of_ledger, schema=schema), schema)

    def placed(self, contract: Contract) -> Rows:
        """The ledger rows of the run: key, place, ids, and the records that became changes."""
        return self._placed(contract, _RECORDS)

    def _placed(self, contract: Contract, more: Iterable[pa.Field] = ()) -> Rows:
        schema = pa.schema([*published_changes.placed_schema(contract), *more])
        return self._of_window(self.ctx.names[contract.table].changes, schema)

    def around(self, contract: Contract) -> Around:
        names, nothing = self.ctx.names[contract.table], self.ctx.workers.nothing(ids.PUBLISHED_IDS)
        if not any(map(self._is_written, names)):
            return Around(None, nothing)
        if not any(self.tables[name].is_published for name in names):
            # All that is there is the run's.
            return Around(Where(AlwaysTrue(), AlwaysTrue()), nothing)
        placed = self._placed(contract)
        places = placed.through(commits, COMMITS)
        own_ids = placed.through(suspects.ids_of_changes, HASHES).through(HashesOf(suspects.key), HASHES)
        of_keys, of_commits, of_ids = self._keys(contract, placed).collected_with([places, own_ids])
        keys = Touched.of(of_keys)
        is_own, is_near = self._is_own, scans.are_near(keys)
        # By the condition files are passed over, by the hashes rows are found.
        may_matter = Or(is_own, And(conditions.is_null("_valid_to"), is_near)), Or(is_own, is_near)
        return Around(
            Where(*may_matter, Among(key_of_rows(contract), keys.hashes)),
            self._published(contract, scans.are_near(Touched.of(of_commits)), Among(by("id"), known(of_ids))),
        )

    @property
    def _is_own(self) -> BooleanExpression:
        """Is an interval or a current row the run's?"""
        return scans.of_window(self.ctx.id, "_window_id")

    def _keys(self, contract: Contract, placed: Rows) -> Rows:
        """The keys that the run touches, by changes or otherwise."""
        names, key_type = self.ctx.names[contract.table], row_type(contract.key)
        schema = touched_schema(key_type)
        parts = [placed.through(partial(sides_touched, schema=schema), schema)]
        for name in (names.history, names.current):
            rows = self._at(name, self._is_own, pa.schema(list(key_type)))
            parts.append(rows.through(partial(keys_touched, schema=schema), schema))
        return together(parts)

    def _published(self, contract: Contract, where: BooleanExpression, among: Among) -> Rows:
        name = self.ctx.names[contract.table].changes
        if not self.tables[name].is_published:
            return self.ctx.workers.nothing(ids.PUBLISHED_IDS)
        of = pa.schema([("change_id", pa.string()), ("source_position", RECORD)])
        rows = scans.scanned(self.ctx.workers, name, where, of)
        return rows.through(ids.published_ids, ids.PUBLISHED_IDS).through(among, ids.PUBLISHED_IDS)

    def hashed(self, contract: Contract, where: Where | None) -> tuple[Rows, Rows]:
        """`suspects.OPEN` of intervals and `suspects.VERSION` of current rows."""
        if where is None:
            return self.ctx.workers.nothing(suspects.OPEN), self.ctx.workers.nothing(suspects.VERSION)
        names, key_fields = self.ctx.names[contract.table], list(row_type(contract.key))
        key = key_of_rows(contract)
        history = self._at(names.history, where.history, pa.schema([*key_fields, *_SPAN]), where.among)
        schema = pa.schema([*key_fields, *_VERSION])
        current = self._at(names.current, where.current, schema, where.among)
        opened = history.through(partial(suspects.opened, key_of_rows=key), suspects.OPEN)
        return opened, current.through(partial(suspects.versions, key_of_rows=key), suspects.VERSION)

    def of_keys(self, contract: Contract, where: Where | None) -> tuple[Rows, Rows]:
        """Intervals and current rows: `columns.built_schema`."""
        names, schema = self.ctx.names[contract.table], built_schema(contract)
        if where is None:
            return self.ctx.workers.nothing(schema), self.ctx.workers.nothing(schema)
        of_each = (names.history, where.history, True), (names.current, where.current, False)
        history, current = (
            self._at(name, condition, columns.rows_read(contract, intervals=intervals), where.among).through(
                partial(columns.as_built, contract=contract), schema
            )
            for name, condition, intervals in of_each
        )
        return history, current

    def own(self, contract: Contract) -> tuple[Rows, Rows]:
        """The run's own intervals and current rows."""
        is_written = any(map(self._is_written, self.ctx.names[contract.table]))
        return self.of_keys(contract, Where(self._is_own, self._is_own) if is_written else None)

    def stayed(self, contract: Contract, duplicates: Rows) -> Rows:
        """Ids of changes of other runs, on the branch, where the duplicates name them."""
        named = duplicates.through(ids.of_duplicates, ids.DUPLICATE_IDS)
        among, is_near = _found_by(named, by("id"), duplicates)
        where = And(Not(scans.of_window(self.ctx.id)), is_near)
        rows = self._at(self.ctx.names[contract.table].changes, where, _HALVES)
        return rows.through(ids.ids_of, ids.IDS).through(among, ids.IDS)

    def records(self, contract: Contract, halves: Rows) -> Rows:
        """Records of the ledger, on the branch, at the places of these halves."""
        among, is_near = _found_by(halves, repeated_halves.key, halves)
        rows = self._at(self.ctx.names[contract.table].changes, is_near, _RECORDS)
        records = rows.through(repeated_halves.records_of, repeated_halves.RECORDS)
        return records.through(among, repeated_halves.RECORDS)

    def _is_written(self, table: str) -> bool:
        return table in self.tables and self.tables[table].is_new

    def _of_window(self, name: str, schema: pa.Schema, table: str | None = None) -> Rows:
        """The run's rows of that lake table; `table`: those that say that they are of this source table."""
        if not self._is_written(name):
            return self.ctx.workers.nothing(schema)
        where = scans.of_window(self.ctx.id)
        return self._at(
            name, where if table is None else And(where, conditions.is_equal("table", table)), schema
        )

    def _at(
        self, table: str, where: BooleanExpression, schema: pa.Schema, among: BatchKernel | None = None
    ) -> Rows:
        """Rows of the table as the run has built it."""
        assert self.ctx.snapshots is not None, "the audit judges snapshots"
        return scans.scanned(self.ctx.workers, table, where, schema, self.ctx.snapshots[table], among)


def _found_by(rows: Rows, key: Key, duplicates: Rows) -> tuple[Among, BooleanExpression]:
    """The kernel of rows that have the key of one of these; and where they stand, as the duplicates say."""
    places = duplicates.through(commits, COMMITS)
    hashes, of_commits = rows.through(HashesOf(key), HASHES).collected_with([places])
    return Among(key, known(hashes)), scans.are_near(Touched.of(of_commits))
