"""What the audit reads of a run, at the snapshots that it judges and in narrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not, Or

from changeledger.audit import columns, dispositions, ids, record_sums, repeated_halves
from changeledger.audit.columns import built_schema, changes_schema
from changeledger.kernels.arrow import RECORD, row_type, table_schema
from changeledger.kernels.hashed import Key, by
from changeledger.kernels.rows import BatchKernel, Rows, together
from changeledger.kernels.touched import (
    HASHES,
    Among,
    HashesOf,
    Touched,
    keys_touched,
    known,
    sides_touched,
    touched_schema,
)
from changeledger.lake import scans
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


class OfKeys(NamedTuple):
    """What the branch has of the keys that the run touches, and main of its ids (`ids.PUBLISHED_IDS`)."""

    history: Rows
    current: Rows
    published: Rows


@dataclass(frozen=True)
class JudgedRows:
    """Of one run. `tables`: what the snapshots that are judged say of themselves."""

    ctx: StageContext
    tables: Mapping[str, BuiltTable]

    def dispositions(self) -> Rows:
        """The run's records that became no change, or are no change of their own."""
        return self._of_window(self.ctx.lake.dispositions, dispositions.ROWS)

    def breaks(self) -> Rows:
        """The breaks of image chains that this run is the first to find."""
        return self._of_window(self.ctx.lake.image_chain_breaks, BREAKS)

    def read(self) -> Rows:
        """`record_sums.ENTRIES` of all that the run accounts for, with the source of its own raw rows."""
        ctx = self.ctx
        found: list[Rows] = []
        for raw in ctx.raws:
            schema, kernel = (_READ_MESSAGE, _message_read) if raw == ctx.lake.raw else (_READ_ROW, _row_read)
            own = scans.scanned(ctx.workers, raw, scans.of_window(ctx.id), schema)
            found.append(own.through(kernel, record_sums.ENTRIES))
        more = [input_records.asked_again(ctx, raw) for raw in ctx.raws]
        more += [input_records.waiting(ctx), input_records.planned(ctx)]
        for rows in more:
            if rows is not None:
                carried = ctx.workers.of_spark(rows.select("source_position"), schema=_READ_RECORD)
                found.append(carried.through(_other_read, record_sums.ENTRIES))
        return together(found)

    def changes(self, contract: Contract) -> Rows:
        """The ledger rows of the run."""
        rows = self._of_window(self.ctx.names[contract.table].changes, columns.ledger_read(contract))
        schema = changes_schema(contract)
        return rows.through(partial(columns.of_ledger, schema=schema), schema)

    def of_keys(self, contract: Contract, new: Rows) -> OfKeys:
        """`new`: the run's changes of the table."""
        names = self.ctx.names[contract.table]
        workers = self.ctx.workers
        nothing = workers.nothing(ids.PUBLISHED_IDS)
        if not any(self._is_written(name) for name in names):
            none = workers.nothing(built_schema(contract))
            return OfKeys(none, none, nothing)
        if all(self.tables[name].main is None for name in names):
            # All that is there is the run's.
            return OfKeys(*self._built(contract, AlwaysTrue(), AlwaysTrue()), nothing)
        touched = self._touched(contract)
        is_own, is_near = scans.of_window(self.ctx.id, "_window_id"), scans.are_near(touched)
        # By the condition files are passed over, by the hashes rows are found.
        may_matter = Or(is_own, And(scans.is_null("_valid_to"), is_near)), Or(is_own, is_near)
        among = Among(key_of_rows(contract), touched.hashes)
        return OfKeys(*self._built(contract, *may_matter, among), self._published(contract, new))

    def _touched(self, contract: Contract) -> Touched:
        """The keys that the run touches, by changes or otherwise."""
        names, own = self.ctx.names[contract.table], row_type(contract.key)
        schema = touched_schema(own)
        of_changes = pa.schema([("key", own), ("previous_key", own)])
        parts = [
            self._of_window(names.changes, of_changes).through(partial(sides_touched, schema=schema), schema)
        ]
        for name in (names.history, names.current):
            rows = self._at(name, scans.of_window(self.ctx.id, "_window_id"), pa.schema(list(own)))
            parts.append(rows.through(partial(keys_touched, schema=schema), schema))
        return Touched.of(together(parts).collected())

    def _built(
        self,
        contract: Contract,
        of_history: BooleanExpression,
        of_current: BooleanExpression,
        among: BatchKernel | None = None,
    ) -> tuple[Rows, Rows]:
        names, schema = self.ctx.names[contract.table], built_schema(contract)
        of_each = (names.history, of_history, True), (names.current, of_current, False)
        history, current = (
            self._at(name, where, columns.rows_read(contract, intervals=intervals), among).through(
                partial(columns.as_built, contract=contract), schema
            )
            for name, where, intervals in of_each
        )
        return history, current

    def _published(self, contract: Contract, new: Rows) -> Rows:
        """Rows of main that have an id of the run's changes."""
        name = self.ctx.names[contract.table].changes
        if self.tables[name].main is None:
            return self.ctx.workers.nothing(ids.PUBLISHED_IDS)
        among = _among(new.through(ids.new_ids, ids.NEW_IDS), by("id"))
        of = pa.schema([("change_id", pa.string()), ("source_position", RECORD)])
        rows = scans.scanned(self.ctx.workers, name, published_changes.are_near(new), of)
        return rows.through(ids.published_ids, ids.PUBLISHED_IDS).through(among, ids.PUBLISHED_IDS)

    def stayed(self, contract: Contract, duplicates: Rows) -> Rows:
        """Ids of changes of other runs, on the branch, where the duplicates name them."""
        is_other = Not(scans.of_window(self.ctx.id))
        rows = self._at(self.ctx.names[contract.table].changes, is_other, _HALVES)
        among = _among(duplicates.through(ids.of_duplicates, ids.DUPLICATE_IDS), by("id"))
        return rows.through(ids.ids_of, ids.IDS).through(among, ids.IDS)

    def records(self, contract: Contract, halves: Rows) -> Rows:
        """Records of the ledger, on the branch, at the places of these halves."""
        rows = self._at(self.ctx.names[contract.table].changes, AlwaysTrue(), _RECORDS)
        found = rows.through(repeated_halves.records_of, repeated_halves.RECORDS)
        return found.through(_among(halves, repeated_halves.key), repeated_halves.RECORDS)

    def _is_written(self, table: str) -> bool:
        return table in self.tables and self.tables[table].is_new

    def _of_window(self, table: str, schema: pa.Schema) -> Rows:
        if not self._is_written(table):
            return self.ctx.workers.nothing(schema)
        return self._at(table, scans.of_window(self.ctx.id), schema)

    def _at(
        self, table: str, where: BooleanExpression, schema: pa.Schema, among: BatchKernel | None = None
    ) -> Rows:
        """Rows of the table as the run has built it."""
        assert self.ctx.snapshots is not None, "the audit judges snapshots"
        return scans.scanned(self.ctx.workers, table, where, schema, self.ctx.snapshots[table], among)


def _among(rows: Rows, key: Key) -> Among:
    """The kernel of rows that have the key of one of these."""
    return Among(key, known(rows.through(HashesOf(key), HASHES).collected()))


def _message_read(rows: pa.RecordBatch) -> pa.RecordBatch:
    topic, partition, offset = rows.columns
    cells = [topic, partition, offset, pa.nulls(len(rows), pa.binary())]
    numbers = pc.cast(partition, pa.string())
    received = pc.binary_join_element_wise(topic, pc.binary_join_element_wise("[", numbers, "]", ""), "")
    return record_sums.of_read(pa.StructArray.from_arrays(cells, fields=list(RECORD)), received)


def _row_read(rows: pa.RecordBatch) -> pa.RecordBatch:
    return record_sums.of_read(rows.column("source_position"), rows.column("_instance"))


def _other_read(rows: pa.RecordBatch) -> pa.RecordBatch:
    return record_sums.of_read(rows.column("source_position"), pa.nulls(len(rows), pa.string()))
