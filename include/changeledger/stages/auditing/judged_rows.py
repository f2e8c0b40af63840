"""What the audit reads of a run, at the snapshots that it judges and in narrow columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.audit import books, built, ids, places
from changeledger.audit.columns import built_schema, changes_schema
from changeledger.audit.left import LEFT
from changeledger.kernels.arrow import column, table_schema
from changeledger.kernels.rows import Here, Rows
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.stages.auditing import narrow
from changeledger.stages.common import input_records, near
from changeledger.stages.common.carried import Carrier
from changeledger.stages.common.context import StageContext
from changeledger.storage import lake
from changeledger.storage.spread import as_table
from changeledger.storage.summaries import Built

_OF_BREAKS = {"table", "key", "change_id", "kind", "columns", "known", "before", "flags", "record"}
BREAKS: Final = table_schema([(name, kind) for name, kind in change.BREAK_COLUMNS if name in _OF_BREAKS])


class OfKeys(NamedTuple):
    """What the branch has of the keys that the run touches, and main of its ids (`ids.PUBLISHED_IDS`)."""

    history: Rows
    current: Rows
    published: Rows


@dataclass(frozen=True)
class JudgedRows:
    """Of one run. `tables`: what the snapshots that are judged say of themselves."""

    ctx: StageContext
    tables: Mapping[str, Built]
    carrier: Carrier

    def left(self) -> Rows:
        """The run's records that became no change, or are no change of their own."""
        if not self._is_written(self.ctx.dispositions):
            return Here(LEFT.empty_table())
        hashes = {
            "record_hash": F.xxhash64("record"),
            "detail_hash": F.xxhash64("detail"),
            "place_hash": F.xxhash64("record.source", "record.row"),
        }
        rows = self._of_run(self.ctx.dispositions).withColumns(hashes)
        return self.carrier.carried(rows.select(*LEFT.names), LEFT)

    def breaks(self) -> Rows:
        """The breaks of image chains that this run is the first to find."""
        if not self._is_written(self.ctx.breaks):
            return Here(BREAKS.empty_table())
        return self.carrier.carried(self._of_run(self.ctx.breaks).select(*BREAKS.names), BREAKS)

    def read(self) -> Rows:
        """`books.ENTRIES` of everything that the run accounts for, with the source of its own raw rows."""
        ctx = self.ctx
        of_topic = F.concat("topic", F.lit("["), F.col("partition").cast("string"), F.lit("]"))
        frames = []
        for raw in ctx.raws:
            source = of_topic if raw == ctx.raw_messages else F.col("_instance")
            own = F.when(F.col("run_id") == ctx.id, source)
            frames.append(input_records.raw(ctx, raw).select("record", own.alias("received")))
        more = [rows for rows in (input_records.waiting(ctx), input_records.planned(ctx)) if rows is not None]
        frames += [rows.select("record", F.lit(None).cast("string").alias("received")) for rows in more]
        entries = {
            "hash": F.xxhash64("record"),
            "disposition": F.lit(books.READ),
            "times": F.lit(1).cast("bigint"),
        }
        rows = lake.union(frames).withColumns(entries).select(*books.ENTRIES.names)
        return self.carrier.carried(rows, books.ENTRIES)

    def changes(self, contract: Contract) -> Rows:
        """The ledger rows of the run."""
        schema, name = changes_schema(contract), self.ctx.names[contract.table].changes
        if not self._is_written(name):
            return Here(schema.empty_table())
        rows = narrow.of_ledger(self._of_run(name), contract)
        # Of many rows several ask.
        return self.carrier.carried(rows if self.carrier.size is None else self.carrier.cache(rows), schema)

    def of_keys(self, contract: Contract, new: Rows) -> OfKeys:
        """`new`: the run's changes of the table."""
        if not any(self._is_written(name) for name in self.ctx.names[contract.table]):
            none = Here(built_schema(contract).empty_table())
            return OfKeys(none, none, Here(ids.PUBLISHED_IDS.empty_table()))
        if self._is_first(contract):
            # All that is there is the run's.
            history, current = (
                self.carrier.carried(rows, built_schema(contract)) for rows in self._built(contract)
            )
            return OfKeys(history, current, Here(ids.PUBLISHED_IDS.empty_table()))
        published = self._published(contract, new)
        keys = _hashes(new, "key_hash", "previous_hash")
        if self.carrier.size is None:
            touched = [column(new.collected(), name) for name in ("key", "previous_key")]
            return self._here(contract, keys.collected(), touched, published)
        return self._spread(contract, keys, published)

    def _is_first(self, contract: Contract) -> bool:
        """Is nothing of the table published?"""
        return all(self.tables[name].main is None for name in self.ctx.names[contract.table])

    def _here(
        self, contract: Contract, keys: pa.Table, touched: list[pa.Array], published: DataFrame | None
    ) -> OfKeys:
        """In one query, and in another one where the run touches keys by more than its changes.

        `keys`: hashes of the keys that are `touched`.
        """
        schema = narrow.found_schema(contract)
        history, current = self._built(contract)
        is_own, is_open = F.col("_run_id") == self.ctx.id, F.col("_valid_to").isNull()
        # The same in other words: Spark would join two conditions with a common part, and push down neither.
        is_mine = F.coalesce("_run_id", F.lit("")) == self.ctx.id
        while True:
            of_keys, near = narrow.among("key_hash", Here(keys)), narrow.within(touched, contract)
            # By the first condition files are passed over, by the second one rows are found.
            opened = history.where(is_own | (is_open & near)).where(is_mine | of_keys)
            parts = [
                narrow.found(opened, built.HISTORY, contract),
                narrow.found(current.where(is_own | near).where(is_mine | of_keys), built.CURRENT, contract),
            ]
            if published is not None:
                parts.append(narrow.found(published, ids.PUBLISHED, contract))
            rows = as_table(lake.union(parts), schema)
            hashes = pc.unique(column(rows, "key_hash")).drop_null()
            more = hashes.filter(pc.invert(pc.is_in(hashes, value_set=column(keys, "hash"))))
            if not len(more):
                return OfKeys(*narrow.parted(rows, contract))
            touched = [*touched, column(rows, "key")]
            keys = pa.concat_tables([keys, pa.table([more], schema=narrow.HASHES)])

    def _spread(self, contract: Contract, keys: Rows, published: DataFrame | None) -> OfKeys:
        history, current = self._built(contract)
        is_own = F.col("_run_id") == self.ctx.id
        own = [rows.where(is_own).select(F.col("key_hash").alias("hash")) for rows in (history, current)]
        touched = self.carrier.carried(lake.union(own), narrow.HASHES).and_all([keys])
        schema, none = built_schema(contract), Here(ids.PUBLISHED_IDS.empty_table())
        may_matter = history.where(is_own | F.col("_valid_to").isNull())
        return OfKeys(
            self.carrier.carried(narrow.having(may_matter, "key_hash", touched), schema),
            self.carrier.carried(narrow.having(current, "key_hash", touched), schema),
            none if published is None else self.carrier.carried(published, ids.PUBLISHED_IDS),
        )

    def _built(self, contract: Contract) -> tuple[DataFrame, DataFrame]:
        names = self.ctx.names[contract.table]
        history, current = (self.ctx.built(name) for name in (names.history, names.current))
        return narrow.as_built(history, contract), narrow.as_built(current, contract)

    def _published(self, contract: Contract, new: Rows) -> DataFrame | None:
        """Rows of main that have an id of the run's changes; None where there can be none."""
        name = self.ctx.names[contract.table].changes
        bounds = None if self.tables[name].main is None else near.between(new)
        if bounds is None:
            return None
        rows = lake.read(self.ctx.spark, name).where(bounds)
        known = _hashes(new, "id_hash", "half_hash")
        found = narrow.having(rows.select("change_id", "record"), "xxhash64(change_id)", known)
        return found.select(F.col("change_id").alias("id"), "record", F.xxhash64("record").alias("hash"))

    def stayed(self, contract: Contract, duplicates: Rows) -> Rows:
        """Ids of changes of other runs, on the branch, where the duplicates name them."""
        ledger = self.ctx.built(self.ctx.names[contract.table].changes)
        of_others = ledger.where(F.col("run_id") != self.ctx.id)
        rows = of_others.select(F.explode(F.array("change_id", "paired_change_id")).alias("id"))
        found = narrow.having(rows, "xxhash64(id)", _hashes(duplicates, "detail_hash"))
        return self.carrier.carried(found, ids.IDS)

    def records(self, contract: Contract, halves: Rows) -> Rows:
        """Records of the ledger, on the branch, at the places of these halves."""
        ledger = self.ctx.built(self.ctx.names[contract.table].changes)
        rows = ledger.select(F.explode(F.array("record", "paired_record")).alias("record"))
        at = "xxhash64(record.source, record.row)"
        return self.carrier.carried(narrow.having(rows, at, _hashes(halves, "place_hash")), places.RECORDS)

    def _is_written(self, table: str) -> bool:
        return table in self.tables and self.tables[table].is_new

    def _of_run(self, table: str) -> DataFrame:
        return self.ctx.built(table).where(F.col("run_id") == self.ctx.id)


def _hashes(rows: Rows, *columns: str) -> Rows:
    return rows.through(partial(narrow.hashes, columns=columns), narrow.HASHES)
