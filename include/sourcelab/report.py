"""The demo's report: the disposition of the records, what was published, and whether it equals the log."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model import change
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from changeledger.spark.lake_catalog import is_on_s3
from sourcelab.airflow_home import TaskRun
from sourcelab.log import Log
from sourcelab.tables import Key, Row, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DISPOSITIONS = (
    change.CHANGE, change.PAIRED, change.DUPLICATE, change.TOMBSTONE, change.CONTROL, change.PENDING,
    change.QUARANTINED,
)  # fmt: skip
_OPERATIONS = (change.INSERT, change.UPDATE, change.DELETE, change.SNAPSHOT, change.TRUNCATE)
# The outcome in `changeledger.stages.verify`, which takes seconds to import.
PROVEN = "proven"
# Records that belong to no table, such as heartbeats.
NO_TABLE = "(no table)"


@dataclass
class TableReport:
    """One source table in one feed. `is_truth`: its current rows are those of the log."""

    records: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    current: int = 0
    history: int = 0
    ledger: int = 0
    is_truth: bool = False


@dataclass
class FeedReport:
    """One feed. `records`: the number of records read. `broken`: the rules that failed."""

    feed: str
    records: int
    tables: dict[str, TableReport]
    rules: int
    broken: list[str]
    docs: PagePath
    # The outcome of each table's comparison with the source.
    proofs: Mapping[str, str]

    @property
    def accounted(self) -> int:
        return sum(table.records.total() for table in self.tables.values())


@dataclass
class Report:
    """All feeds. `equal`: for each table, whether all feeds published the same current rows."""

    feeds: list[FeedReport]
    missing: list[str]
    equal: dict[str, bool]

    @property
    def holds(self) -> bool:
        return (
            not self.missing
            and all(self.equal.values())
            and all(f.rules and not f.broken and f.accounted == f.records for f in self.feeds)
            and all(f.tables[table].is_truth for f in self.feeds for table in self.equal)
            and all(f.proofs.get(table) == PROVEN for f in self.feeds for table in self.equal)
        )


def gather(settings: Settings, feeds: Sequence[Feed], window: Window, log: Log) -> Report:
    """Reads what the window published. A feed without a release is listed as missing."""
    from changeledger.spark.session import spark_session  # noqa: PLC0415 - takes seconds to import

    control = ControlStore(settings.control_url)
    released = [feed for feed in feeds if control.releases.of_window(feed.feed, window) is not None]
    missing = [feed.feed for feed in feeds if feed not in released]
    if not released:
        return Report([], missing, {table.full_name: False for table in log.tables})
    spark = spark_session("changeledger demo")
    with ThreadPoolExecutor() as pool:
        readings = list(
            pool.map(lambda feed: _Reader(spark, control, feed, window, log).read(settings), released)
        )
    rows = [read for _, read in readings]
    equal = {t.full_name: all(r[t.full_name] == rows[0][t.full_name] for r in rows) for t in log.tables}
    return Report([report for report, _ in readings], missing, equal)


@dataclass
class _Reader:
    """Reads one feed's release from the lake and the control store."""

    spark: SparkSession
    control: ControlStore
    feed: Feed
    window: Window
    log: Log

    def read(self, settings: Settings) -> tuple[FeedReport, dict[str, dict[Key, Row]]]:
        """Returns the report, and the current rows by table and key."""
        from changeledger.audit.gate import docs_index  # noqa: PLC0415 - imports Spark

        names = self.feed.names
        tables = {table: TableReport() for table in names}
        self._count_ledgers(names, tables)
        self._count_others(tables)
        self._count_published(names, tables)
        rows = {
            table.full_name: self._current_rows(names[table.full_name], table) for table in self.log.tables
        }
        for table in self.log.tables:
            tables[table.full_name].is_truth = rows[table.full_name] == self.log.final_rows(table)
        audits = self.control.audits.of_window(self.feed.feed, self.window.id)
        release = self.control.releases.of_window(self.feed.feed, self.window)
        assert release is not None, "looked up before"
        broken = [f"{audit.table}: {audit.rule}" for audit in audits if not audit.success]
        docs = docs_index(settings.data_docs, self.feed.feed, self.window)
        counts = release.counts["records"]
        proofs = self.control.proofs.last(self.feed.database).get(self.feed.feed, [])
        outcomes = {row.table: row.outcome for row in proofs}
        return FeedReport(self.feed.feed, counts, tables, len(audits), broken, docs, outcomes), rows

    def _count_ledgers(self, names: Mapping[str, TableNames], tables: dict[str, TableReport]) -> None:
        each = (
            f"SELECT '{table}' AS t, operation, count(*) AS n, count(paired_source_position) AS paired "  # noqa: S608
            f"FROM {name.changes} WHERE window_id = '{self.window.id}' GROUP BY operation"
            for table, name in names.items()
        )
        for row in self.spark.sql(" UNION ALL ".join(each)).collect():
            tables[row["t"]].operations[row["operation"]] += row["n"]
            tables[row["t"]].records[change.CHANGE] += row["n"]
            tables[row["t"]].records[change.PAIRED] += row["paired"]

    def _count_others(self, tables: dict[str, TableReport]) -> None:
        """Counts the records that are in no ledger."""
        query = (
            f"SELECT table, disposition, count(*) AS n FROM {self.feed.lake.dispositions} "  # noqa: S608
            f"WHERE window_id = '{self.window.id}' GROUP BY table, disposition"
        )
        for row in self.spark.sql(query).collect():
            tables.setdefault(row["table"] or NO_TABLE, TableReport()).records[row["disposition"]] += row["n"]

    def _count_published(self, names: Mapping[str, TableNames], tables: dict[str, TableReport]) -> None:
        each = (
            f"SELECT '{table}' AS t, '{kind}' AS kind, count(*) AS n FROM {name}"  # noqa: S608
            for table, group in names.items()
            for kind, name in zip(("current", "history", "ledger"), group, strict=True)
        )
        for row in self.spark.sql(" UNION ALL ".join(each)).collect():
            setattr(tables[row["t"]], row["kind"], row["n"])

    def _current_rows(self, names: TableNames, table: Table) -> dict[Key, Row]:
        rows = [
            {name: _plain(row[name]) for name in table.names}
            for row in self.spark.table(names.current).select(*table.names).collect()
        ]
        return {table.key_of(row): row for row in rows}


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def show(
    console: Console, report: Report, stages: Mapping[str, Sequence[TaskRun]], settings: Settings
) -> None:
    for feed in report.feeds:
        summary = f"{feed.records} records read, {feed.accounted} accounted for"
        console.print(f"\n[bold]{feed.feed}: {summary}[/]", highlight=False)
        console.print(_records(feed))
        console.print(_published(feed, report.equal))
        passed = feed.rules - len(feed.broken)
        console.print(f"  Audit: {passed} of {feed.rules} rules passed", *feed.broken, sep="\n    failed: ")
        wrong = [f"{table}: {outcome}" for table, outcome in feed.proofs.items() if outcome != PROVEN]
        count = f"{len(feed.proofs) - len(wrong)} of {len(report.equal)}"
        console.print(f"  Proof: {count} tables match the source", *wrong, sep="\n    not proven: ")
    for name in report.missing:
        console.print(f"\n{name}: nothing was published", style="bold red")
    console.print("\n[bold]Seconds per Airflow task[/]")
    console.print(_seconds(stages))
    if report.feeds:
        _where_next(console, report, settings)


def _records(feed: FeedReport) -> Grid:
    seen = [d for d in _DISPOSITIONS if any(t.records[d] for t in feed.tables.values())]
    grid = _grid("table", "records", *seen)
    for name, table in feed.tables.items():
        cells = [table.records.total(), *(table.records[d] for d in seen)]
        grid.add_row(name, *map(_number, cells))
    return grid


def _published(feed: FeedReport, equal: Mapping[str, bool]) -> Grid:
    operations = [o for o in _OPERATIONS if any(t.operations[o] for t in feed.tables.values())]
    columns = ("current", "history", "ledger", "=log", "=feeds")
    grid = _grid("published", *operations, *columns)
    grid.caption = "=log: the current rows are the source's; =feeds: and equal in all feeds"
    for name, table in feed.tables.items():
        if name in equal:
            counts = [*(table.operations[o] for o in operations), table.current, table.history, table.ledger]
            grid.add_row(name, *map(_number, counts), _yes(table.is_truth), _yes(equal[name]))
    return grid


def _seconds(stages: Mapping[str, Sequence[TaskRun]]) -> Grid:
    tasks = list(dict.fromkeys(run.task for runs in stages.values() for run in runs))
    grid = _grid("DAG", *tasks, "total")
    for dag, runs in stages.items():
        shown = {r.task: f"{r.seconds:.1f}" if r.state == "success" else f"[red]{r.state}[/]" for r in runs}
        total = sum(run.seconds for run in runs)
        grid.add_row(dag, *(shown.get(task, "-") for task in tasks), f"{total:.1f}")
    return grid


def _where_next(console: Console, report: Report, settings: Settings) -> None:
    console.print("\n[bold]Where to look next[/]")
    for feed in report.feeds:
        console.print(f"  Data Docs of {feed.feed}: {feed.docs}", soft_wrap=True, highlight=False)
    docs = settings.data_docs
    folders: list[PagePath] = sorted(docs.iterdir(), key=str) if docs.is_dir() else []
    for folder in folders:
        if folder.name.startswith("verify_"):
            console.print(f"  The proof: {folder / 'index.html'}", soft_wrap=True, highlight=False)
    if is_on_s3(settings.catalog):
        console.print("  The lake was on S3, and has ended with its servers.", highlight=False)
        return
    namespace = report.feeds[0].feed
    query = (
        "SELECT id, credit, _operation, _valid_from, _valid_to "  # noqa: S608 - for a person to type
        f"FROM lake.{namespace}.dbo_customers_history ORDER BY id, _valid_from LIMIT 10"
    )
    console.print(f"  The lake stays in {settings.home}. Ask it:", soft_wrap=True, highlight=False)
    command = f'  CHANGELEDGER_HOME={shlex.quote(str(settings.home))} .venv/bin/changeledger query "{query}"'
    console.print(command, soft_wrap=True, highlight=False, markup=False)


def _grid(first: str, *numbers: str) -> Grid:
    """Returns a narrow grid, so that all columns fit in a terminal of 80 characters."""
    grid = Grid(
        caption_justify="left",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    grid.add_column(first, no_wrap=True)
    for name in numbers:
        grid.add_column(name, justify="right")
    return grid


def _number(count: int) -> str:
    return f"{count:,}" if count else "[dim]·[/]"


def _yes(holds: bool) -> str:
    return "[green]yes[/]" if holds else "[bold red]NO[/]"
