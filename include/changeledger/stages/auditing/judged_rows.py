"""What the audit reads of a run: few columns, at the snapshots that it judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not, Or

from changeledger.audit import applied, columns, dispositions, ids, record_sums, repeated_halves, suspects
from changeledger.audit.columns import built_schema, changes_schema
from changeledger.kernels.arrow import RECORD, row_type, table_schema
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
# Columns that identify the version of a row, and those that describe an interval.
_VERSION: Final = ("_change_id",)
_SPAN: Final = (*_VERSION, "_valid_to", "_is_deleted")


class Where(NamedTuple):
    """Conditions for intervals and current rows of the branch. `among`: a kernel that filters rows read."""

    history: BooleanExpression
    current: BooleanExpression
    among: BatchKernel | None = None


class Around(NamedTuple):
    """What a table has around the run's changes.

    `keys`: selects the rows of the keys that the run touches; None if it has written nothing.
    `published`: rows of main that have an id of the run's changes (`ids.PUBLISHED_IDS`).
    """

    keys: Where | None
    published: Rows


class Written(NamedTuple):
    """Rows that the run has written: changes (`applied.ledger_read`), intervals, and current rows."""

    changes: Rows
    history: Rows
    current: Rows


@dataclass(frozen=True)
class JudgedRows:
    """Reads the rows of one run. `tables`: the summaries of the snapshots that are judged."""

    ctx: StageContext
    tables: Mapping[str, BuiltTable]

    def dispositions(self, table: str | None = None) -> Rows:
        """Reads the run's dispositions: records that became no change of their own. `table`: None for all.

        Each table has files of its own. If each table's check read the files of all tables, the work would
        grow with the square of their number.
        """
        return self._of_window(self.ctx.lake.dispositions, dispositions.ROWS, table)

    def breaks(self, table: str) -> Rows:
        """Reads the breaks of the table's image chains that this run is the first to find."""
        return self._of_window(self.ctx.lake.image_chain_breaks, BREAKS, table)

    def read(self) -> Rows:
        """Reads `record_sums.ENTRIES` of all records that the run accounts for.

        Entries of the run's own raw rows have their source.
        """
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

    def kept(self) -> dict[str, Rows]:
        """Reads `record_sums.ENTRIES` of the records that the run keeps as received, by their disposition.

        A run of chosen tables passes over pending records, so these are left out.
        """
        lake = self.ctx.lake
        rows = self._of_window(lake.quarantine, _READ_RECORD)
        kept: dict[str, Rows] = {change.QUARANTINED: rows.through(record_sums.of_others, record_sums.ENTRIES)}
        if not self.ctx.window.request.partial:
            is_there = lake.pending in self.tables
            nothing: Rows = self.ctx.workers.nothing(_READ_MESSAGE)
            waiting = self._at(lake.pending, AlwaysTrue(), _READ_MESSAGE) if is_there else nothing
            kept[change.PENDING] = waiting.through(record_sums.of_messages, record_sums.ENTRIES)
        return kept

    def changes(self, contract: Contract) -> Rows:
        """Reads the run's ledger rows."""
        rows = self._of_window(self.ctx.names[contract.table].changes, columns.ledger_read(contract))
        schema = changes_schema(contract)
        return rows.through(partial(columns.of_ledger, schema=schema), schema)

    def placed(self, contract: Contract) -> Rows:
        """Reads the run's ledger rows: key, position, ids, and the records that became changes."""
        return self._placed(contract, _RECORDS)

    def _placed(self, contract: Contract, more: Iterable[pa.Field] = ()) -> Rows:
        schema = pa.schema([*published_changes.placed_schema(contract), *more])
        return self._of_window(self.ctx.names[contract.table].changes, schema)

    def around(self, contract: Contract) -> Around:
        names, nothing = self.ctx.names[contract.table], self.ctx.workers.nothing(ids.PUBLISHED_IDS)
        if not any(map(self._is_written, names)):
            return Around(None, nothing)
        if not any(self.tables[name].is_published for name in names):
            # Nothing is published, so all rows are the run's.
            return Around(Where(AlwaysTrue(), AlwaysTrue()), nothing)
        placed = self._placed(contract)
        places = placed.through(commits, COMMITS)
        own_ids = placed.through(suspects.ids_of_changes, HASHES).through(HashesOf(suspects.key), HASHES)
        of_keys, of_commits, of_ids = self._keys(contract, placed).collected_with([places, own_ids])
        keys = Touched.of(of_keys)
        is_own, is_near = self._is_own, scans.are_near(keys)
        # The condition skips files; the hashes pick rows.
        may_matter = Or(is_own, And(conditions.is_null("_valid_to"), is_near)), Or(is_own, is_near)
        return Around(
            Where(*may_matter, Among(key_of_rows(contract), keys.hashes)),
            self._published(contract, scans.are_near(Touched.of(of_commits)), Among(by("id"), known(of_ids))),
        )

    @property
    def _is_own(self) -> BooleanExpression:
        """The condition for intervals and current rows that the run has written."""
        return scans.of_window(self.ctx.id, "_window_id")

    def _keys(self, contract: Contract, placed: Rows) -> Rows:
        """Returns the keys that the run touches: of its changes, and of the rows that it has written."""
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

    def written(self, contract: Contract) -> Written:
        """Reads what the run has written, with all cells that the audit compares."""
        names = self.ctx.names[contract.table]
        schemas = applied.history_read(contract), applied.current_read(contract)
        history, current = (
            self._at(name, self._is_own, schema)
            if self._is_written(name)
            else self.ctx.workers.nothing(schema)
            for name, schema in zip((names.history, names.current), schemas, strict=True)
        )
        return Written(self._of_window(names.changes, applied.ledger_read(contract)), history, current)

    def hashed(self, contract: Contract, where: Where | None) -> tuple[Rows, Rows]:
        """Reads `suspects.OPEN` of intervals and `applied.VERSION` of current rows of other runs."""
        if where is None:
            return self.ctx.workers.nothing(suspects.OPEN), self.ctx.workers.nothing(applied.VERSION)
        names, key = self.ctx.names[contract.table], key_of_rows(contract)
        of_each = (
            (names.history, where.history, _SPAN),
            (names.current, where.current, _VERSION),
        )
        history, current = (
            self._at(name, And(rows, Not(self._is_own)), columns.of_rows(contract, read), where.among)
            for name, rows, read in of_each
        )
        opened = history.through(partial(suspects.opened, key_of_rows=key), suspects.OPEN)
        return opened, current.through(partial(suspects.versions, key_of_rows=key), applied.VERSION)

    def of_keys(self, contract: Contract, where: Where | None, *, whole: bool = True) -> tuple[Rows, Rows]:
        """Reads intervals and current rows (`columns.built_schema`). `whole`: with all cells."""
        names, schema = self.ctx.names[contract.table], built_schema(contract)
        if where is None:
            return self.ctx.workers.nothing(schema), self.ctx.workers.nothing(schema)
        as_built = partial(columns.as_built, contract=contract, whole=whole)
        of_each = (names.history, where.history, True), (names.current, where.current, False)
        history, current = (
            self._at(
                name, condition, columns.rows_read(contract, intervals=intervals, whole=whole), where.among
            ).through(as_built, schema)
            for name, condition, intervals in of_each
        )
        return history, current

    def own(self, contract: Contract) -> tuple[Rows, Rows]:
        """Reads the intervals and current rows that the run has written."""
        is_written = any(map(self._is_written, self.ctx.names[contract.table]))
        where = Where(self._is_own, self._is_own) if is_written else None
        return self.of_keys(contract, where, whole=False)

    def stayed(self, contract: Contract, duplicates: Rows) -> Rows:
        """Reads the ids of other runs' changes on the branch, among those that the duplicates name."""
        named = duplicates.through(ids.of_duplicates, ids.DUPLICATE_IDS)
        among, is_near = _found_by(named, by("id"), duplicates)
        where = And(Not(scans.of_window(self.ctx.id)), is_near)
        rows = self._at(self.ctx.names[contract.table].changes, where, _HALVES)
        return rows.through(ids.ids_of, ids.IDS).through(among, ids.IDS)

    def records(self, contract: Contract, halves: Rows) -> Rows:
        """Reads the records of ledger rows on the branch at the positions of these halves."""
        among, is_near = _found_by(halves, repeated_halves.key, halves)
        rows = self._at(self.ctx.names[contract.table].changes, is_near, _RECORDS)
        records = rows.through(repeated_halves.records_of, repeated_halves.RECORDS)
        return records.through(among, repeated_halves.RECORDS)

    def _is_written(self, table: str) -> bool:
        return table in self.tables and self.tables[table].is_new

    def _of_window(self, name: str, schema: pa.Schema, table: str | None = None) -> Rows:
        """Reads the run's rows of the lake table `name`. `table`: only rows of this source table."""
        if not self._is_written(name):
            return self.ctx.workers.nothing(schema)
        where = scans.of_window(self.ctx.id)
        return self._at(
            name, where if table is None else And(where, conditions.is_equal("table", table)), schema
        )

    def _at(
        self, table: str, where: BooleanExpression, schema: pa.Schema, among: BatchKernel | None = None
    ) -> Rows:
        """Reads rows of the table as the run has built it."""
        assert self.ctx.snapshots is not None, "the audit judges snapshots"
        return scans.scanned(self.ctx.workers, table, where, schema, self.ctx.snapshots[table], among)


def _found_by(rows: Rows, key: Key, duplicates: Rows) -> tuple[Among, BooleanExpression]:
    """Returns a kernel that keeps rows with a key of `rows`, and a condition for positions of duplicates."""
    places = duplicates.through(commits, COMMITS)
    hashes, of_commits = rows.through(HashesOf(key), HASHES).collected_with([places])
    return Among(key, known(hashes)), scans.are_near(Touched.of(of_commits))
