"""What is published of the keys that a run's changes touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.kernels.arrow import column, history_schema, ledger_schema, row_type
from changeledger.kernels.rows import Here, Rows
from changeledger.model import change
from changeledger.model.change import quoted
from changeledger.model.contract import Contract
from changeledger.reconcile import buckets
from changeledger.stages.common.carried import Carrier
from changeledger.stages.common.context import StageContext
from changeledger.storage import lake, scans
from changeledger.storage.spread import Spread, as_frame

_TOUCHED = "touched"


@dataclass(frozen=True)
class Keys:
    """`published`: the snapshot of the history, None if there is none; `came`: the run's truncates."""

    ctx: StageContext
    contract: Contract
    published: int | None
    came: pa.Table

    @property
    def names(self) -> list[str]:
        return [quoted(c.name) for c in self.contract.key]

    @property
    def of_rows(self) -> str:
        """Spark SQL, equal for rows of history of one key."""
        return _hash(self.names)

    def ended(self) -> int:
        """How many published intervals the run's truncates end."""
        if self._spans is None or self.published is None:
            return 0
        return self._history.where(self._spans).count()

    @property
    def _history(self) -> DataFrame:
        """What is published."""
        name = self.ctx.names[self.contract.table].history
        return lake.read(self.ctx.spark, name, snapshot=self.published)

    def _here(self, new: Rows) -> dict[str, pa.Array] | None:
        """The parts of the changes' keys, where these are so few that they can be asked for."""
        if self._spans is not None or not isinstance(new, Here) or not scans.can_ask(self._parts):
            return None
        both = pa.concat_arrays([column(new.table, side).drop_null() for side in ("key", "previous_key")])
        return dict(zip(self._parts.names, both.flatten(), strict=True))

    @property
    def _parts(self) -> pa.Schema:
        return pa.schema(list(row_type(self.contract.key)))

    @cached_property
    def _spans(self) -> Column | None:
        """Was a row alive when the table was emptied? None if the run has not emptied it."""
        each = [
            (F.col("_sort_key") < F.lit(at))
            & (F.col("_next_sort_key").isNull() | (F.col("_next_sort_key") > F.lit(at)))
            for at in self.came.column("sort_key").to_pylist()
        ]
        return reduce(or_, each) & ~F.col("_is_deleted") if each else None

    def opened(self, new: Rows, carrier: Carrier) -> Rows:
        """The open intervals of keys that the changes have effects on, and of those that truncates end."""
        schema = history_schema(self.contract)
        if self.published is None:
            return Here(schema.empty_table())
        here = self._here(new)
        if here is not None:
            where = And(scans.is_null("_valid_to"), scans.among(here))
            name = self.ctx.names[self.contract.table].history
            return Here(scans.read(name, where, schema, self.published))
        rows = self._history.where(F.col("_valid_to").isNull())
        touched = self._touched(new)
        is_one = F.expr(self.of_rows) == touched[_TOUCHED]
        found = rows.join(touched, is_one, "left_semi")
        if self._spans is not None:
            found = found.unionByName(rows.where(self._spans).join(touched, is_one, "left_anti"))
        return carrier.carried(found.select(*map(quoted, schema.names)), schema)

    def are_none(self, opened: Rows) -> bool:
        """Is nothing published of the keys?"""
        return isinstance(opened, Here) and not len(opened.table)

    def _touched(self, new: Rows) -> DataFrame:
        """Hashes of the keys. A hash that another key has, too, brings a row that is not asked for."""
        rows = self._some_of(new, "key", "previous_key")
        sides = [
            rows.where(F.col(side).isNotNull()).select(F.expr(self._of(side)).alias(_TOUCHED))
            for side in ("key", "previous_key")
        ]
        found = lake.union(sides).distinct()
        return F.broadcast(found) if isinstance(new, Here) else found

    def _of(self, side: str) -> str:
        return _hash(f"{side}.{name}" for name in self.names)

    def _some_of(self, new: Rows, *columns: str) -> DataFrame:
        """Columns of the run's changes."""
        if isinstance(new, Spread):
            # As the lake has them: no kernel is needed to look at them.
            return self.ctx.new_changes(self.contract.table).select(*columns)
        return as_frame(self.ctx.spark, Here(new.collected().select(columns)))

    @property
    def _ledger(self) -> DataFrame:
        """What is published."""
        return lake.read(self.ctx.spark, self.ctx.names[self.contract.table].changes)

    def shown(self, new: Rows, opened: Rows, carrier: Carrier) -> Rows:
        """Published rows of snapshots of the keys after the run's first change. `opened`: see `opened`."""
        schema = buckets.shown_schema(self.contract)
        first = self._ends(new, "sort_key")[0]
        if self.published is None or first is None:
            return Here(schema.empty_table())
        here = self._here(new)
        if here is not None:
            of_keys = scans.among({f"key.{name}": cells for name, cells in here.items()})
            is_shown = scans.is_equal("operation", change.SNAPSHOT), scans.is_behind("sort_key", first)
            name = self.ctx.names[self.contract.table].changes
            return Here(scans.read(name, And(of_keys, *is_shown), schema))
        behind = (F.col("operation") == change.SNAPSHOT) & (F.col("sort_key") > F.lit(first))
        touched = self._touched(new)
        if self._spans is not None:
            ended = as_frame(self.ctx.spark, opened).select(F.expr(self.of_rows).alias(_TOUCHED))
            touched = touched.unionByName(ended).distinct()
        rows = self._ledger.where(behind).select("key", "sort_key")
        found = rows.join(touched, F.expr(self._of("key")) == touched[_TOUCHED], "left_semi")
        return carrier.carried(found, schema)

    def _ends(self, new: Rows, column: str) -> tuple[bytes | None, bytes | None]:
        """The least and the greatest value of a column of bytes."""
        if isinstance(new, Here):
            ends = pc.min_max(new.table.column(column)).as_py()
            return ends["min"], ends["max"]
        row = self._some_of(new, column).agg(F.min(column), F.max(column)).collect()[0]
        least, greatest = (None if one is None else bytes(one) for one in row)
        return least, greatest

    def again(self, new: Rows, carrier: Carrier) -> Rows:
        """Keys to be built again: of published halves of key updates that the run has joined, and those that
        a truncate ends in an interval that is not their last."""
        schema = buckets.keys_schema(self.contract)
        found = [] if self.published is None else [*self._joined(new), *self._ended_before(self._history)]
        return carrier.carried(lake.union(found).distinct(), schema) if found else Here(schema.empty_table())

    def _joined(self, new: Rows) -> list[DataFrame]:
        if isinstance(new, Here) and new.table.column("paired_change_id").null_count == len(new.table):
            return []
        ids = F.explode(F.array("change_id", "paired_change_id")).alias("change_id")
        joined = self._some_of(new, "change_id", "paired_change_id").where("paired_change_id IS NOT NULL")
        # The two halves stand where the update stands.
        near = F.col("commit_lsn").between(*map(F.lit, self._ends(new, "commit_lsn")))
        found = self._ledger.where(near).join(F.broadcast(joined.select(ids)), "change_id", "left_semi")
        return [found.select("key")]

    def _ended_before(self, published: DataFrame) -> list[DataFrame]:
        if self._spans is None:
            return []
        ended = published.where(self._spans & F.col("_valid_to").isNotNull())
        return [ended.select(F.struct(*self.names).alias("key"))]

    def changes_of(self, ledger: DataFrame, keys: pa.Table) -> DataFrame:
        """All ledger rows that have an effect on the keys."""
        few = as_frame(self.ctx.spark, Here(keys)).select(F.expr(self._of("key")).alias(_TOUCHED))
        rows = ledger.select(*ledger_schema(self.contract).names)
        is_own, is_left = (F.expr(self._of(side)) == few[_TOUCHED] for side in ("key", "previous_key"))
        moved = rows.where(F.col("previous_key").isNotNull())
        elsewhere = moved.join(few, is_left, "left_semi").join(few, is_own, "left_anti")
        return rows.join(few, is_own, "left_semi").unionByName(elsewhere)


def _hash(expressions: Iterable[str]) -> str:
    return f"xxhash64({', '.join(expressions)})"
