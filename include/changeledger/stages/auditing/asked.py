"""The tables that users' expectations are asked of, as the run has built them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.audit.user_expectations import ROW, Asked, suite_name
from changeledger.config.expectations import ExpectationConfig, with_tables
from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.lake import scans
from changeledger.lake.summaries import BuiltTable
from changeledger.model.contract import Contract
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import MOST_ROWS, StageContext

_WINDOW = {"current": "_window_id", "history": "_window_id", "changes": "window_id"}


def without_records(feed: Feed, known: Collection[str]) -> list[str]:
    """Returns the tables with expectations but without any record so far. `known`: tables with a ledger."""
    return [table.table for table in feed.tables if table.expectations and table.table not in known]


@dataclass(frozen=True)
class AskedTables:
    """What the expectations of one run are asked of. `tables`: the tables that it has built."""

    ctx: StageContext
    tables: Mapping[str, BuiltTable]

    def of(self, table: TableConfig, contract: Contract) -> list[Asked]:
        """Groups the expectations of a table by what they are asked of.

        Expectations by a type of Great Expectations share one query per table and scope. Each SQL expectation
        has its own. Expectations of scope `touched` are left out if the run has written no rows.
        """
        shared: dict[tuple[str, str], list[ExpectationConfig]] = {}
        asked = []
        is_written = any(self._is_written(contract, kind) for kind in _WINDOW)
        for expectation in table.expectations:
            if expectation.expect:
                shared.setdefault((expectation.on, expectation.scope), []).append(expectation)
            elif is_written or expectation.scope != "touched":
                name = suite_name(contract.table, expectation.rule)
                returned = partial(self._returned, contract, expectation)
                asked.append(Asked(contract.table, name, returned, (expectation,), (ROW,)))
        key = tuple(column.name for column in contract.key)
        for (on, scope), expectations in shared.items():
            shown = ("change_id",) if on == "changes" else (*key, "_change_id")
            if scope == "touched" and not self._has_rows_of_run(contract, on):
                continue
            name = suite_name(contract.table, f"{on} {scope}")
            frame = partial(self._frame, contract, on, scope)
            asked.append(Asked(contract.table, name, frame, tuple(expectations), shown))
        return asked

    def _is_written(self, contract: Contract, kind: str) -> bool:
        built = self.tables.get(self._name(contract, kind))
        return built is not None and built.is_new

    def _has_rows_of_run(self, contract: Contract, kind: str) -> bool:
        name = self._name(contract, kind)
        # A run with deletes only has written the table, but no row of it.
        return self._is_written(contract, kind) and scans.has_rows(
            name, self.ctx.id, self._snapshot(name), _WINDOW[kind]
        )

    def _name(self, contract: Contract, kind: str) -> str:
        name: str = getattr(self.ctx.names[contract.table], kind)
        return name

    def _query(self, contract: Contract, kind: str, scope: str) -> str:
        """Returns a query of the table as the run has built it."""
        name = self._name(contract, kind)
        touched = f" WHERE {_WINDOW[kind]} = '{self.ctx.id}'" if scope == "touched" else ""
        return f"SELECT * FROM {name} VERSION AS OF {self._snapshot(name)}{touched}"  # noqa: S608 - our names

    def _snapshot(self, name: str) -> int:
        assert self.ctx.snapshots is not None, "the audit judges snapshots"
        return self.ctx.snapshots[name]

    def _frame(self, contract: Contract, kind: str, scope: str) -> DataFrame:
        self._prepare(contract, [kind])
        return self.ctx.spark.sql(self._query(contract, kind, scope))

    def _prepare(self, contract: Contract, kinds: Iterable[str]) -> None:
        """Prepares the session for the size of these tables: a small window may belong to a large table."""
        sizes = [self.tables[self._name(contract, kind)].now for kind in kinds]
        is_small = all(size is not None and size <= MOST_ROWS for size in sizes)
        for_small_data(self.ctx.spark, small=is_small)

    def _returned(self, contract: Contract, expectation: ExpectationConfig) -> DataFrame:
        """Returns the rows of the user's SQL as JSON."""
        self._prepare(contract, _WINDOW)
        tables = {kind: self._query(contract, kind, expectation.scope) for kind in _WINDOW}
        rows = self.ctx.spark.sql(with_tables(expectation.sql, tables))
        kept = self.ctx.workers.kept(rows.select(F.to_json(F.struct("*")).alias(ROW)))
        # Great Expectations would ask again and again of rows that cannot be computed.
        kept.count()
        return kept
